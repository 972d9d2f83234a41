"""The text that says where a field of a sample comes from.

    path         = alternative *("," alternative)         the first that a sample has wins
    alternative  = part *("[" step "]")
    part, step   = plain text | a JSON string             quotes where plain text would be misread

`jpg` is a part. `jpg,png` is whichever there is. `json[caption]` looks into a part that holds JSON, `json[a][0][b]`
deeper: a whole number is an index of a list (from its end if negative) or else a key. `json["0"]` is always a key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.errors import DatasetError

Step = str | int

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_PART = re.compile(r'[^\[\],"]+')
_PLAIN_STEP = re.compile(r'[^\[\]"]+')
_INDEX = re.compile(r"0|-?[1-9][0-9]{0,17}")
_GRAMMAR_HINT = "write a part (jpg), alternatives (jpg,png), or a key of a JSON part (json[caption], json[answers][0])"


class Access(NamedTuple):
    """One alternative: a part, and the way to go inside it (empty: the part itself)."""

    part: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return _quoted_part(self.part) + "".join(f"[{_quoted_step(step)}]" for step in self.steps)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """Where a field comes from. `str()` gives the text that parses to the same value."""

    alternatives: tuple[Access, ...]

    def __str__(self) -> str:
        return ",".join(str(access) for access in self.alternatives)


def parse_field_path(text: str, *, where: str = "") -> FieldPath:
    """Raises DatasetError WDS220 with the column, counted from 1, and what was expected there."""
    alternatives = []
    at = 0
    while True:
        part, _, at = _token(text, at, _PLAIN_PART, "a part such as jpg", where)
        steps: list[Step] = []
        while text.startswith("[", at):
            step, is_quoted, at = _token(text, at + 1, _PLAIN_STEP, "a key or an index", where)
            steps.append(int(step) if _INDEX.fullmatch(step) and not is_quoted else step)
            at = _expect(text, at, "]", "']'", where)
        alternatives.append(Access(part, tuple(steps)))
        if not text[at:].strip():
            return FieldPath(tuple(alternatives))
        at = _expect(text, at, ",", "',' or '['", where)


def _token(text: str, at: int, plain: re.Pattern[str], expected: str, where: str) -> tuple[str, bool, int]:
    """The name at `at`, whether it was quoted, and where it ends, blanks around it included."""
    at += len(text[at:]) - len(text[at:].lstrip())
    quoted = _QUOTED.match(text, at)
    if quoted:
        try:
            name = json.loads(quoted[0])
        except ValueError as error:
            raise _unparsed(text, at, "a JSON string", where) from error
        end = quoted.end()
        return name, True, end + len(text[end:]) - len(text[end:].lstrip())
    found = plain.match(text, at)
    if not found:
        raise _unparsed(text, at, expected, where)
    return found[0].strip(), False, found.end()


def _expect(text: str, at: int, char: str, expected: str, where: str) -> int:
    at += len(text[at:]) - len(text[at:].lstrip())
    if not text.startswith(char, at):
        raise _unparsed(text, at, expected, where)
    return at + 1


def _quoted_part(part: str) -> str:
    is_plain = _PLAIN_PART.fullmatch(part) and part == part.strip()
    return part if is_plain else json.dumps(part, ensure_ascii=False)


def _quoted_step(step: Step) -> str:
    if isinstance(step, int):
        return str(step)
    is_plain = _PLAIN_STEP.fullmatch(step) and step == step.strip() and not _INDEX.fullmatch(step)
    return step if is_plain else json.dumps(step, ensure_ascii=False)


def _unparsed(text: str, at: int, expected: str, where: str) -> DatasetError:
    found = repr(text[at]) if at < len(text) else "the end"
    message = f"{text!r} is no path of a field: expected {expected} at column {at + 1}, found {found}"
    return DatasetError(message, hint=_GRAMMAR_HINT, where=where, code="WDS220")
