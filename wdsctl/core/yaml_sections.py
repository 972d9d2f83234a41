"""Sections of dataset.yaml, looked into strictly: what is there that is not understood is an error with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import DatasetError
from wdsctl.core.fields import did_you_mean

if TYPE_CHECKING:
    from wdsctl.core.yaml_nodes import Document, Path

HINT = "`wdsctl prepare DATASET --redetect` writes the file anew"


def section(document: Document, *path: str) -> dict[str, Any]:
    """A mapping with text as keys; absent and empty are the same."""
    value: Any = document.data
    for key in path:
        value = value.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong(f"{path[-1]}: expected `name: value` lines, found {called(value)}", document.where(*path))
    for key in value:
        if not isinstance(key, str):  # YAML reads an empty key as null, too
            raise wrong(f"{path[-1]}: {called(key)} is no name; put it in quotes", document.where(*path, key))
    return value


def texts(document: Document, *path: str) -> tuple[str, ...]:
    """A list of texts, or one text; absent is an empty one."""
    value: Any = document.data
    for key in path:
        value = value.get(key)
    if value is None:
        return ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise wrong(f"{path[-1]}: expected a list of texts, found {called(value)}", document.where(*path))
    return tuple(listed)


def check_keys(document: Document, path: Path, known: tuple[str, ...]) -> None:
    """Refuse keys that nobody knows, at this place of the document."""
    value: Any = document.data
    for key in path:
        value = value[key]
    for key in value:
        where = document.where(*path, key)
        if key not in known:
            shown = [name for name in known if not name.startswith("__")] or list(known)
            hint = did_you_mean(str(key), shown) or f"the keys here are {', '.join(shown)}"
            raise wrong(f"there is no key {key!r}", where, hint=hint)


def called(value: object) -> str:
    """A value as an error shows it."""
    return "nothing" if value is None else repr(value)[:60]


def wrong(message: str, where: str, *, hint: str = HINT) -> DatasetError:
    """The error of a dataset.yaml that says something else than it may."""
    return DatasetError(message, hint=hint, where=where, code="WDS220")
