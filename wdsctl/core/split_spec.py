"""Where the group or the stratum of a sample is found: the text of `--group-by` and `--stratify`.

json:video_id        a field of the part `json`; json:meta.id for one inside another object
part:cls             the text of a part; part:meta.json[video][id] for a field of a part that is JSON
key:([^/]+)/         what a regular expression finds in the key: its first group, or all that it matched
column:width         a column of the dataset
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.field_path import Step, parse_field_path

_HINT = "such as json:video_id, part:cls, key:'([^/]+)/' or column:width"


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """`kind` part: `part` and `steps` into its JSON, none for its text. key: `pattern`. column: `part` is its name."""

    text: str
    kind: Literal["part", "key", "column"]
    part: str = ""
    steps: tuple[Step, ...] = ()
    pattern: re.Pattern[str] | None = None

    @property
    def reads(self) -> bool:
        """Whether shards have to be read for it."""
        return self.kind == "part"

    def of_key(self, key: str) -> str | None:
        """What the pattern finds in a key."""
        found = self.pattern.search(key) if self.pattern is not None else None
        if found is None:
            return None
        return found[1] if found.re.groups else found[0]

    def of_part(self, data: bytes) -> str | None:
        """The value in a part; None where it is not there, or is null, or the part is no UTF-8 or JSON."""
        try:
            text = data.decode("utf-8-sig")
            return _texted(_inside(json.loads(text), self.steps)) if self.steps else text.strip() or None
        except (ValueError, LookupError, TypeError, RecursionError):
            return None


@lru_cache(maxsize=16)
def parse_spec(text: str) -> ValueSpec:
    """Raises UsageError where it says nothing."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest:
        raise UsageError(f"{text!r} does not say where a value is found", hint=_HINT)
    if kind == "json":
        return _field(text, rest)
    if kind == "part":
        return _part(text, rest)
    if kind == "key":
        try:
            return ValueSpec(text, "key", pattern=re.compile(rest))
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"{rest!r} is no regular expression: {error}", hint=_HINT) from error
    if kind == "column":
        return ValueSpec(text, "column", part=rest)
    raise UsageError(f"{text!r}: values are not found by {kind!r}", hint=_HINT)


def _field(text: str, rest: str) -> ValueSpec:
    if "[" in rest:
        raise UsageError(
            f"{text!r}: a field inside another is json:meta.id",
            hint=f"or part:json[{rest.replace('[', '][').replace(']]', ']')} with a name in brackets a step",
        )
    names = rest.split(".")
    if not all(names):
        raise UsageError(f"{text!r} has an empty name", hint=_HINT)
    return ValueSpec(text, "part", part="json", steps=tuple(names))


def _part(text: str, rest: str) -> ValueSpec:
    try:
        alternatives = parse_field_path(rest).alternatives
    except DatasetError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if len(alternatives) > 1:
        raise UsageError(f"{text!r} names several parts", hint=_HINT)
    return ValueSpec(text, "part", part=alternatives[0].part.lstrip("."), steps=alternatives[0].steps)


def _inside(value: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        if isinstance(value, list):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value[str(step)]
        else:
            raise LookupError(step)  # noqa: TRY004 - a field that is not there, like a key
    return value


def _texted(value: Any) -> str | None:
    """A value as text: 1 and "1" are one, so that no group falls apart over how it was written."""
    if value is None:
        return None
    if type(value) is int:
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
