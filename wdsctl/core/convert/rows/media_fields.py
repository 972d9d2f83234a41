"""Which fields of a table refer to files: told from the first rows, or said by the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.extensions import MEDIA, of_name
from wdsctl.core.convert.source import Options
from wdsctl.core.errors import UsageError
from wdsctl.core.fields import did_you_mean
from wdsctl.core.urls import is_url

LOOKED_AT = 100  # rows


def media_fields(form: str, options: Options, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The fields that `-O files=` names, or those of which at least half of the values look like paths of media.

    Raises UsageError for a field that no row has, in `files`, `text` or `key`.
    """
    fields = tuple(dict.fromkeys(name for row in rows for name in row))
    said = given.names(options, "files")
    key = options.get("key", ":row")
    for name in (*said, *filter(None, [options.get("text", "")]), *([key] if not key.startswith(":") else [])):
        if name not in fields:
            raise UsageError(
                f"{form}: no row has a field {name!r}",
                hint=f"{did_you_mean(name, fields)} the fields are {', '.join(fields)}".strip(),
            )
    if key.startswith(":") and key not in (":row", ":stem"):
        raise UsageError(f"{form} does not know key={key}", hint="a field, :row (numbers) or :stem (names of files)")
    return said or tuple(name for name in fields if _is_of_files([row[name] for row in rows if row.get(name)]))


def references(rows: Iterable[Mapping[str, Any]], fields: Iterable[str]) -> list[str]:
    """What the rows refer to in these fields."""
    wanted = tuple(fields)
    return [each for row in rows for name in wanted for each in _texts(row.get(name))]


def _is_of_files(values: Sequence[Any]) -> bool:
    return bool(values) and 2 * sum(map(_is_path, values)) >= len(values)


def _is_path(value: Any) -> bool:
    texts = list(_texts(value))
    return bool(texts) and all(of_name(text) in MEDIA and not is_url(text) and "\n" not in text for text in texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        yield from value
