"""Field maps: which part fills each field of a sample type, whether the map fits, and reading fields from samples.

The text of a field's path:

    path         = alternative *("," alternative)         the first one that a sample has wins
    alternative  = part *("[" step "]")
    part, step   = plain text | a JSON string             quotes for text that would be ambiguous

`jpg` is a part. `jpg,png` is the first of the two that the sample has. `json[caption]` is a key of a part that holds
JSON, and `json[a][0][b]` goes deeper. A step that is a whole number is an index of a list (from its end if negative) or
a key. `json["0"]` is always a key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.types import CRUDE, SAMPLE_TYPES, is_custom_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


PathStep = str | int

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_PART = re.compile(r'[^\[\],"]+')
_PLAIN_STEP = re.compile(r'[^\[\]"]+')
_INDEX = re.compile(r"0|-?[1-9][0-9]{0,17}")
_GRAMMAR_HINT = "write a part (jpg), alternatives (jpg,png), or a key of a JSON part (json[caption], json[answers][0])"


class PartAccess(NamedTuple):
    """One alternative: a part, and the steps inside it (none: the part itself)."""

    part: str
    steps: tuple[PathStep, ...] = ()

    def __str__(self) -> str:
        return _quoted_part(self.part) + "".join(f"[{_quoted_step(step)}]" for step in self.steps)


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
        part, _, at = _read_token(text, at, _PLAIN_PART, "a part such as jpg", where)
        steps: list[PathStep] = []
        while text.startswith("[", at):
            step, is_quoted, at = _read_token(text, at + 1, _PLAIN_STEP, "a key or an index", where)
            steps.append(int(step) if _INDEX.fullmatch(step) and not is_quoted else step)
            at = _expect(text, at, "]", "']'", where)
        alternatives.append(PartAccess(part, tuple(steps)))
        if not text[at:].strip():
            return FieldPath(tuple(alternatives))
        at = _expect(text, at, ",", "',' or '['", where)


def _read_token(text: str, at: int, plain: re.Pattern[str], expected: str, where: str) -> tuple[str, bool, int]:
    """Return the name at `at`, whether it was quoted, and where it ends, including blanks around it."""
    at += len(text[at:]) - len(text[at:].lstrip())
    quoted = _QUOTED.match(text, at)
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
    is_plain = _PLAIN_PART.fullmatch(part) and part == part.strip()
    return part if is_plain else json.dumps(part, ensure_ascii=False)


def _quoted_step(step: PathStep) -> str:
    if isinstance(step, int):
        return str(step)
    is_plain = _PLAIN_STEP.fullmatch(step) and step == step.strip() and not _INDEX.fullmatch(step)
    return step if is_plain else json.dumps(step, ensure_ascii=False)


def _syntax_error(text: str, at: int, expected: str, where: str) -> DatasetError:
    found = repr(text[at]) if at < len(text) else "the end"
    message = f"{text!r} is no path of a field: expected {expected} at column {at + 1}, found {found}"
    return DatasetError(message, hint=_GRAMMAR_HINT, where=where, code="WDS220")


__all__ = [
    "FieldMissing",
    "FieldPath",
    "PartAccess",
    "check_field",
    "check_sample_type",
    "did_you_mean",
    "extract_field",
    "format_field_map_text",
    "parse_field_map",
    "parse_field_map_text",
    "parse_field_path",
    "validate_field_map",
]


class FieldMissing(DatasetError, KeyError):  # noqa: N818 - the name says what is missing
    """A sample has none of the alternatives of a field."""

    code = "WDS220"


_NO_DEFAULT: Any = object()
_OPTION_ENTRY = re.compile(
    r"""(?: "(?:[^"\\]|\\.)*"                     # quoted text
          | \[ (?: "(?:[^"\\]|\\.)*" | [^\]"] )* \] # a step
          | [^,] )+""",
    re.VERBOSE,
)

_EMPTY_ENTRY = re.compile(r"^\s*,|,\s*(?:,|$)")


def extract_field(
    path: FieldPath, parts: Mapping[str, Any], decoded: dict[str, Any] | None = None, *, default: Any = _NO_DEFAULT
) -> Any:
    """Return the value of a field in one sample, from the first alternative that the sample has.

    A part that a path enters is a dict or list, or bytes or text, which are parsed as JSON. `decoded` keeps parsed
    parts: pass the same dict for all fields of one sample, so that each part is parsed once. A null in the JSON is a
    value. Without `default`, raises FieldMissing, whose message lists what the sample has. Raises DatasetError WDS220
    if a part is not JSON.
    """
    for part, steps in path.alternatives:
        if part not in parts:
            continue
        if not steps:
            return parts[part]
        try:
            return _follow_steps(_part_as_json(part, parts[part], {} if decoded is None else decoded), steps)
        except LookupError:
            continue
    if default is not _NO_DEFAULT:
        return default
    raise _missing_field_error(path, parts)


def parse_field_map(field_map: Mapping[str, str], *, where: str = "") -> dict[str, FieldPath]:
    """Parse the path of every field. Raises DatasetError WDS220, which names the field."""
    return {
        field: parse_field_path(text, where=f"{where}: {field}" if where else field)
        for field, text in field_map.items()
    }


def parse_field_map_text(text: str) -> dict[str, str]:
    """Parse the value of `--field-map`: `image=jpg,png,caption=json[caption]`, or a JSON object.

    After a comma comes another alternative of the same field, or `name=` and a new field. Raises UsageError WDS220.
    """
    if text.lstrip().startswith("{"):
        return _parse_json_option(text)
    if _EMPTY_ENTRY.search(_QUOTED.sub('""', text)):
        raise _option_error(text, "nothing stands beside a comma")
    field_map: dict[str, str] = {}
    field = ""
    for piece in _top_level(text):
        name, equals, rest = piece.partition("=")
        if equals and name.strip().isidentifier():
            field = name.strip()
            if field in field_map:
                raise _option_error(text, f"{field} is mapped twice")
            field_map[field] = rest.strip()
        elif field:
            field_map[field] += f",{piece.strip()}"
        else:
            raise _option_error(text, f"{piece.strip()!r} names no field")
    return _check_option(text, field_map)


def format_field_map_text(field_map: Mapping[str, str]) -> str:
    """Format a field map as text for `parse_field_map_text`, as JSON only if the short form cannot express it."""
    text = ",".join(f"{name}={path}" for name, path in field_map.items())
    try:
        is_plain = parse_field_map_text(text) == field_map
    except UsageError:
        is_plain = False
    return text if is_plain else json.dumps(dict(field_map), ensure_ascii=False)


def validate_field_map(
    sample_type: str, field_map: Mapping[str, str], part_names: Iterable[str] | None = None, *, where: str = ""
) -> dict[str, FieldPath]:
    """Return the parsed map if it fits the sample type and the part names of the dataset (None: names unknown).

    Raises DatasetError WDS220: unknown type or field, a required field without a path, a path that does not parse, a
    field none of whose parts any sample has.
    """
    for field in field_map:
        check_field(sample_type, field, where=where)
    check_sample_type(sample_type, where=where)
    missing = [
        field.name for field in SAMPLE_TYPES.get(sample_type, ()) if field.required and field.name not in field_map
    ]
    if missing:
        raise _field_map_error(
            f"{sample_type} needs {' and '.join(missing)}, which the field map lacks",
            _describe_fields(sample_type),
            where,
        )
    paths = parse_field_map(field_map, where=where)
    if part_names is not None:
        _check_parts(paths, tuple(part_names), where)
    return paths


def check_sample_type(sample_type: str, *, where: str = "") -> None:
    if sample_type != CRUDE and sample_type not in SAMPLE_TYPES and not is_custom_type(sample_type):
        known = (*SAMPLE_TYPES, CRUDE)
        hint = did_you_mean(sample_type, known)
        hint = hint or f"the sample types are {', '.join(known)}, and module:Class of your own"
        raise _field_map_error(f"there is no sample type {sample_type!r}", hint, where)


def check_field(sample_type: str, field: str, *, where: str = "") -> None:
    check_sample_type(sample_type, where=where)
    if is_custom_type(sample_type):
        return
    if sample_type == CRUDE:
        raise _field_map_error(
            f"{CRUDE} has no field {field!r}: it hands out every part as it is", "leave field_map empty", where
        )
    fields = SAMPLE_TYPES[sample_type]
    if field not in {known.name for known in fields}:
        # A name that JSON often uses for a field (text for caption) is as good a clue as a similar spelling.
        alias = next((f"did you mean {known.name}?" for known in fields if field.lower() in known.json_names), "")
        hint = did_you_mean(field, [known.name for known in fields]) or alias
        raise _field_map_error(
            f"{sample_type} has no field {field!r}", f"{hint} {_describe_fields(sample_type)}".strip(), where
        )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean caption?`, or an empty string if no known word is similar."""
    import difflib

    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean {by_lower[close[0]]}?" if close else ""


def _check_parts(paths: Mapping[str, FieldPath], part_names: tuple[str, ...], where: str) -> None:
    for field, path in paths.items():
        mapped_parts = [access.part for access in path.alternatives]
        if set(mapped_parts).isdisjoint(part_names):
            clue = did_you_mean(mapped_parts[0], part_names)
            have = f"samples have {_list_first_names(part_names)}" if part_names else "samples have no parts"
            raise _field_map_error(
                f"{field}: no sample has a part {' or '.join(mapped_parts)}", f"{clue} {have}".strip(), where
            )


def _follow_steps(value: Any, steps: tuple[PathStep, ...]) -> Any:
    for step in steps:
        match value:
            case dict():
                value = value[str(step)]
            case list() if isinstance(step, int):
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def _part_as_json(part: str, value: Any, decoded: dict[str, Any]) -> Any:
    if isinstance(value, dict | list):
        return value
    if part not in decoded:
        text = bytes(value) if isinstance(value, memoryview) else value
        try:
            decoded[part] = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise _field_map_error(
                f"part {part} is not JSON: {error}", "map the part itself, without [...], or mend it", ""
            ) from error
    return decoded[part]


def _missing_field_error(path: FieldPath, parts: Mapping[str, Any]) -> FieldMissing:
    facts = dict.fromkeys(_why_not(access, parts) for access in path.alternatives)
    return FieldMissing(
        f"the sample has no {path}: {'; '.join(facts)}",
        hint="correct the field map in dataset.yaml, or add an alternative after a comma",
    )


def _why_not(access: PartAccess, parts: Mapping[str, Any]) -> str:
    if access.part not in parts:
        return f"no part {access.part} (there are {_list_first_names(parts)})"
    value = _part_as_json(access.part, parts[access.part], {})
    for depth, step in enumerate(access.steps):
        try:
            value = _follow_steps(value, (step,))
        except LookupError:
            return f"no [{step}] in {PartAccess(access.part, access.steps[:depth])} ({_describe_contents(value)})"
    return f"{access} is there"


def _describe_contents(value: Any) -> str:
    if isinstance(value, dict):
        return f"it has the keys {_list_first_names(value)}" if value else "the object is empty"
    return f"it has {len(value)} items" if isinstance(value, list) else f"there is a {type(value).__name__}"


def _list_first_names(names: Iterable[str]) -> str:
    first = [str(name) for name in names]
    return ", ".join(first[:12]) + (f" and {len(first) - 12} more" if len(first) > 12 else "")


def _top_level(text: str) -> list[str]:
    """Split the text at commas outside brackets and quotes."""
    return [piece[0] for piece in _OPTION_ENTRY.finditer(text) if piece[0].strip()]


def _parse_json_option(text: str) -> dict[str, str]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise _option_error(text, f"it is not JSON: {error}") from error
    if not all(isinstance(path, str) for path in value.values()):
        raise _option_error(text, "every field's value is a text such as jpg or json[caption]")
    return _check_option(text, value)


def _check_option(text: str, field_map: dict[str, str]) -> dict[str, str]:
    try:
        parse_field_map(field_map)
    except DatasetError as error:
        raise _option_error(text, f"{error.where}: {error.message}") from error
    return field_map


def _option_error(text: str, why: str) -> UsageError:
    return UsageError(f"cannot read the field map {text!r}: {why}", hint="write image=jpg,caption=txt", code="WDS220")


def _describe_fields(sample_type: str) -> str:
    fields = [field.name if field.required else f"{field.name} (optional)" for field in SAMPLE_TYPES[sample_type]]
    return f"its fields are {', '.join(fields)}"


def _field_map_error(message: str, hint: str, where: str) -> DatasetError:
    return DatasetError(message, hint=hint, where=where, code="WDS220")
