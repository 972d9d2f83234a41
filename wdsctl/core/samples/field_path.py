"""Paths of fields: the text that says which part, or which value inside one, fills a field of a sample type.

    path         = alternative *("," alternative)         the first one that a sample has wins
    alternative  = part *("[" step "]") | pattern
    part, step   = plain text | a JSON string             quotes for text that would be ambiguous
    pattern      = plain text with at least one "*"       any characters, or none
    step         = "*"                                    every item of a list

`jpg` is a part. `jpg,png` is the first of the two that the sample has. `json[caption]` is a key of a part that holds
JSON, and `json[a][0][b]` goes deeper. A step that is a whole number is an index of a list (from its end if negative) or
a key. `json["0"]` is always a key.

`json[annotations][*][bbox]` is the list of the boxes of all annotations. If an item lacks the key, the sample lacks the
field; in an optional field, the item's place holds None, unless every item lacks the key.

A field that is a list of media (`images`) takes all parts that its alternatives match, in natural order: `jpg,*.jpg` is
`jpg`, `2.jpg`, `10.jpg`. A pattern takes only parts of the field's media type, by their extensions: `*` is every image
of the sample. Other fields of built-in types take no patterns.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.errors import DatasetError

#: A key of an object, an index of a list, or EVERY_ITEM.
PathStep = str | int | None

#: The step `[*]`: what follows applies to every item of a list, and gives a list.
EVERY_ITEM = None

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_PART = re.compile(r'[^\[\],"]+')
_PLAIN_STEP = re.compile(r'[^\[\]"]+')
_INDEX = re.compile(r"0|-?[1-9][0-9]{0,17}")
_GRAMMAR_HINT = (
    "write a part (jpg), alternatives (jpg,png), or a key of a JSON part (json[caption], json[answers][0], or "
    "json[annotations][*][bbox] for every item of a list); in a list of media also a pattern (*.jpg)"
)


class PartAccess(NamedTuple):
    """One alternative: a part, and the steps inside it (none: the part itself); or a pattern of names of parts."""

    part: str
    steps: tuple[PathStep, ...] = ()
    is_pattern: bool = False

    def __str__(self) -> str:
        if self.is_pattern:
            return self.part
        return _quoted_part(self.part) + "".join(f"[{format_step(step)}]" for step in self.steps)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The source of a field. `str()` returns a text that parses to an equal value."""

    alternatives: tuple[PartAccess, ...]

    def __str__(self) -> str:
        return ",".join(str(access) for access in self.alternatives)


def parse_field_path(text: str, *, where: str = "") -> FieldPath:
    """Parse a path. Raises DatasetError WDS220 with the column, counted from 1, and what was expected there."""
    alternatives = []
    at = 0
    while True:
        part, is_quoted, at = _read_token(text, at, _PLAIN_PART, "a part such as jpg", where)
        is_pattern = "*" in part and not is_quoted
        if is_pattern and text.startswith("[", at):
            raise _syntax_error(text, at, "',', since a pattern takes whole parts", where)
        steps: list[PathStep] = []
        while text.startswith("[", at):
            step, is_quoted, at = _read_token(text, at + 1, _PLAIN_STEP, "a key or an index", where)
            if step == "*" and not is_quoted:
                steps.append(EVERY_ITEM)
            else:
                steps.append(int(step) if _INDEX.fullmatch(step) and not is_quoted else step)
            at = _expect(text, at, "]", "']'", where)
        alternatives.append(PartAccess(part, tuple(steps), is_pattern))
        if not text[at:].strip():
            return FieldPath(tuple(alternatives))
        at = _expect(text, at, ",", "',' or '['", where)


def _read_token(text: str, at: int, plain: re.Pattern[str], expected: str, where: str) -> tuple[str, bool, int]:
    """Return the name at `at`, whether it was quoted, and where it ends, including blanks around it."""
    at += len(text[at:]) - len(text[at:].lstrip())
    quoted = QUOTED.match(text, at)
    if quoted:
        try:
            name = json.loads(quoted[0])
        except ValueError as error:
            raise _syntax_error(text, at, "a JSON string", where) from error
        end = quoted.end()
        return name, True, end + len(text[end:]) - len(text[end:].lstrip())
    found = plain.match(text, at)
    if not found:
        raise _syntax_error(text, at, expected, where)
    return found[0].strip(), False, found.end()


def _expect(text: str, at: int, char: str, expected: str, where: str) -> int:
    at += len(text[at:]) - len(text[at:].lstrip())
    if not text.startswith(char, at):
        raise _syntax_error(text, at, expected, where)
    return at + 1


def _quoted_part(part: str) -> str:
    is_plain = _PLAIN_PART.fullmatch(part) and part == part.strip() and "*" not in part
    return part if is_plain else json.dumps(part, ensure_ascii=False)


def format_step(step: PathStep) -> str:
    """A step as a path has it, in quotes where it would be ambiguous."""
    if step is EVERY_ITEM:
        return "*"
    if isinstance(step, int):
        return str(step)
    is_plain = _PLAIN_STEP.fullmatch(step) and step == step.strip() and not _INDEX.fullmatch(step) and step != "*"
    return step if is_plain else json.dumps(step, ensure_ascii=False)


def _syntax_error(text: str, at: int, expected: str, where: str) -> DatasetError:
    found = repr(text[at]) if at < len(text) else "the end"
    message = f"{text!r} is not a field path: expected {expected} at column {at + 1}, found {found}"
    return DatasetError(message, hint=_GRAMMAR_HINT, where=where, code="WDS220")
