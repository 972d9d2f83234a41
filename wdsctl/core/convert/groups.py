"""Takes a dataset apart: which of the datasets below DEST a sample goes to, by its split, its key, or its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from wdsctl.core.convert.source import Detailed, Known, Source
from wdsctl.core.errors import StorageDown, UsageError, WdsctlError

MOST_GROUPS = 10_000
_LONGEST = 200  # bytes of a folder's name


class Group:
    """Gives out numbers to values as they come. `split`, `key-prefix`, or `json:FIELD` (`json:meta.source`, of the
    part `json`; `json[cls.json]` is not needed: `json:FIELD@cls.json` names another part).
    """

    def __init__(self, by: str, split_names: Sequence[Sequence[str]] = ()) -> None:
        kind, _, rest = by.partition(":")
        if kind not in ("split", "key-prefix", "json") or (kind == "json") != bool(rest):
            raise UsageError(f"--apart: there is no way {by!r}", hint="write split, key-prefix or json:FIELD")
        self._kind = kind
        field, _, part = rest.partition("@")
        self._part = part or "json"
        self._steps = tuple(field.split(".")) if field else ()
        self._split_names = split_names
        self._numbers: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The folders, by number."""
        return list(self._numbers)

    def of(self, source: Source, number: int, known: Known) -> int | None:
        """The number of a sample's group; None where it has nothing to be told by. Reads the sample for `json:`."""
        value = self._value(source, number, known)
        if value is None or value == "":
            return None
        name = folder_name(value)
        if name not in self._numbers:
            if len(self._numbers) == MOST_GROUPS:
                raise UsageError(
                    f"it would be taken apart into more than {MOST_GROUPS:,} datasets",
                    where="--apart",
                    hint="divide by something that fewer samples differ in",
                )
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def _value(self, source: Source, number: int, known: Known) -> str | None:
        if self._kind == "key-prefix":
            prefix, slash, _ = known.key.partition("/")
            return prefix if slash else None
        if self._kind == "split":
            names = self._split_names[number] if number < len(self._split_names) else ()
            # One of the default set comes before those of other sets: these have a slash.
            mine = [name for b, name in enumerate(names) if known.splits >> b & 1]
            return min(mine, key=lambda name: "/" in name) if mine else None
        return self._field(source, known.place)

    def _field(self, source: Source, place: int) -> str | None:
        try:
            if isinstance(source, Detailed):
                parts = source.read_some(place, lambda name: name == self._part)
            else:
                parts = tuple(part for part in source.read(place) if part.name == self._part)
            value: Any = json.loads(parts[0].data) if parts else None
            for step in self._steps:
                value = value[step] if isinstance(value, dict) else None
        except StorageDown:
            raise
        except (WdsctlError, ValueError, KeyError, RecursionError):
            return None
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, str | int | float) else None


def folder_name(value: str) -> str:
    """A folder for a value, whatever is in it: what is no plain letter is written as %XX."""
    name = quote(value, safe=" +=,@()[]{}!~'", errors="backslashreplace")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{blake2b(name.encode(), digest_size=4).hexdigest()}"
