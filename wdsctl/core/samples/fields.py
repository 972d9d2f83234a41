"""Field maps: which part fills each field of a sample type, whether the map fits, and reading fields from samples.

The text of a field's path:

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
from typing import TYPE_CHECKING, Any, NamedTuple

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.types import CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES, is_custom_type
from wdsctl.core.text import natural_sort_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from wdsctl.core.samples.types import FieldKind


#: A key of an object, an index of a list, or EVERY_ITEM.
PathStep = str | int | None

#: The step `[*]`: what follows applies to every item of a list, and gives a list.
EVERY_ITEM = None

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
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
    is_plain = _PLAIN_PART.fullmatch(part) and part == part.strip() and "*" not in part
    return part if is_plain else json.dumps(part, ensure_ascii=False)


def _quoted_step(step: PathStep) -> str:
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


__all__ = [
    "EVERY_ITEM",
    "FieldMissing",
    "FieldPath",
    "PartAccess",
    "PathStep",
    "check_field",
    "check_sample_type",
    "did_you_mean",
    "extract_field",
    "find_parts",
    "follow_steps",
    "format_field_map_text",
    "is_collecting",
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


def is_collecting(path: FieldPath, kind: FieldKind) -> bool:
    """Whether a field of this kind is the list of all parts that its path matches."""
    return kind in MEDIA_LIST_KINDS or any(access.is_pattern for access in path.alternatives)


def find_parts(path: FieldPath, names: Collection[str], kind: FieldKind = "any") -> tuple[str, ...]:
    """The parts among `names` that fill a field of this kind, in the order of the alternatives; of a field that
    collects parts, in natural order: by the name without its last extension, numbers by their value.
    """
    found: dict[str, None] = {}
    for access in path.alternatives:
        if access.is_pattern:
            found.update((name, None) for name in names if _matches_pattern(name, access.part, kind))
        elif access.part in names:
            found[access.part] = None
    return tuple(sorted(found, key=_part_order) if is_collecting(path, kind) else found)


def _matches_pattern(name: str, pattern: str, kind: FieldKind) -> bool:
    """Whether a name fits a pattern, and names a medium of the kind that the field collects. Linear in the name."""
    if kind in MEDIA_LIST_KINDS:
        media_format = FORMAT_BY_EXTENSION.get(name.rpartition(".")[2].lower())
        if media_format is None or media_format.media_type != MEDIA_LIST_KINDS[kind]:
            return False
    first, *middle, last = pattern.split("*")
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    at = len(first)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _part_order(name: str) -> tuple[object, ...]:
    stem, _, extension = name.rpartition(".")
    return natural_sort_key(stem), natural_sort_key(extension), name


def extract_field(
    path: FieldPath,
    parts: Mapping[str, Any],
    decoded: dict[str, Any] | None = None,
    *,
    kind: FieldKind = "any",
    default: Any = _NO_DEFAULT,
) -> Any:
    """Return the value of a field in one sample, from the first alternative that the sample has; the list of all parts
    that match if the field collects parts.

    A part that a path enters is a dict or list, or bytes or text, which are parsed as JSON. `decoded` keeps parsed
    parts: pass the same dict for all fields of one sample, so that each part is parsed once. A null in the JSON is a
    value. Without `default`, raises FieldMissing, whose message lists what the sample has. Raises DatasetError WDS220
    if a part is not JSON.
    """
    is_optional = default is not _NO_DEFAULT
    if is_collecting(path, kind):
        names = find_parts(path, parts, kind)
        if names:
            return [parts[name] for name in names]
    for access in path.alternatives:
        if access.part not in parts or access.is_pattern:
            continue
        if not access.steps:
            return parts[access.part]
        value = _part_as_json(access.part, parts[access.part], {} if decoded is None else decoded)
        try:
            return follow_steps(value, access.steps, allows_gaps=is_optional)
        except LookupError:
            continue
    if is_optional:
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
        raise _option_error(text, "an entry beside a comma is empty")
    field_map: dict[str, str] = {}
    field = ""
    for piece in _top_level(text):
        name, equals, rest = piece.partition("=")
        if equals and name.strip().isidentifier():
            field = name.strip()
            if field in field_map:
                raise _option_error(text, f"the field {field} is repeated")
            field_map[field] = rest.strip()
        elif field:
            field_map[field] += f",{piece.strip()}"
        else:
            raise _option_error(text, f"{piece.strip()!r} is not of the form FIELD=PART")
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
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(sample_type, ())}
    _check_collected(sample_type, paths, kinds, where)
    if part_names is not None:
        _check_parts(paths, kinds, tuple(part_names), where)
    return paths


def check_sample_type(sample_type: str, *, where: str = "") -> None:
    if sample_type != CRUDE and sample_type not in SAMPLE_TYPES and not is_custom_type(sample_type):
        known = (*SAMPLE_TYPES, CRUDE)
        hint = did_you_mean(sample_type, known)
        hint = hint or f"use one of {', '.join(known)}, or your own class as module:Class"
        raise _field_map_error(f"unknown sample type {sample_type!r}", hint, where)


def check_field(sample_type: str, field: str, *, where: str = "") -> None:
    check_sample_type(sample_type, where=where)
    if is_custom_type(sample_type):
        return
    if sample_type == CRUDE:
        raise _field_map_error(
            f"{CRUDE} has no field {field!r}: its samples contain all parts",
            "remove the entries of field_map",
            where,
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


def _check_collected(
    sample_type: str, paths: Mapping[str, FieldPath], kinds: Mapping[str, FieldKind], where: str
) -> None:
    """Refuse patterns for fields that take one part, and keys of JSON for lists of media."""
    lists = [name for name, kind in kinds.items() if kind in MEDIA_LIST_KINDS]
    for field, path in paths.items():
        kind = kinds.get(field, "any")
        pattern = next((access.part for access in path.alternatives if access.is_pattern), "")
        if pattern and kind not in MEDIA_LIST_KINDS and not is_custom_type(sample_type):
            hint = "write the name of one part"
            hint += f"; {' and '.join(lists)} take all parts that match" if lists else ""
            message = f"{field}: the pattern {pattern} may match several parts, but {field} needs one part"
            raise _field_map_error(message, hint, where)
        inside = next((access for access in path.alternatives if access.steps), None)
        if inside and is_collecting(path, kind):
            message = f"{field} is a list of parts, and {inside} is a value inside a part"
            raise _field_map_error(message, "write parts or patterns of parts, such as jpg,*.jpg", where)


def _check_parts(
    paths: Mapping[str, FieldPath], kinds: Mapping[str, FieldKind], part_names: tuple[str, ...], where: str
) -> None:
    for field, path in paths.items():
        if not find_parts(path, part_names, kinds.get(field, "any")):
            mapped_parts = [access.part for access in path.alternatives]
            clue = did_you_mean(mapped_parts[0], part_names)
            have = f"samples have {_list_first_names(part_names)}" if part_names else "samples have no parts"
            raise _field_map_error(
                f"{field}: no sample has a part {' or '.join(mapped_parts)}", f"{clue} {have}".strip(), where
            )


def follow_steps(value: Any, steps: tuple[PathStep, ...], *, allows_gaps: bool = False) -> Any:
    """The value that the steps lead to. Raises LookupError if there is none.

    `allows_gaps`: after `[*]`, items without the value give None, unless all items lack it.
    """
    for depth, step in enumerate(steps):
        match value:
            case list() if step is EVERY_ITEM:
                return _follow_in_items(value, steps[depth + 1 :], allows_gaps=allows_gaps)
            case dict() if step is not EVERY_ITEM:
                value = value[str(step)]
            case list() if isinstance(step, int):
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def _follow_in_items(items: list[Any], steps: tuple[PathStep, ...], *, allows_gaps: bool) -> list[Any]:
    if not allows_gaps:
        return [follow_steps(item, steps) for item in items]
    values, found = [], 0
    for item in items:
        try:
            values.append(follow_steps(item, steps, allows_gaps=True))
            found += 1
        except LookupError:
            values.append(None)
    if items and not found:
        raise LookupError(steps)
    return values


def _part_as_json(part: str, value: Any, decoded: dict[str, Any]) -> Any:
    if isinstance(value, dict | list):
        return value
    if part not in decoded:
        text = bytes(value) if isinstance(value, memoryview) else value
        try:
            decoded[part] = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise _field_map_error(
                f"part {part} is not JSON: {error}", "map the whole part, without [...], or correct the part", ""
            ) from error
    return decoded[part]


def _missing_field_error(path: FieldPath, parts: Mapping[str, Any]) -> FieldMissing:
    facts = dict.fromkeys(_why_not(access, parts) for access in path.alternatives)
    return FieldMissing(
        f"the sample has no {path}: {'; '.join(facts)}",
        hint="correct the field map in dataset.yaml, or add an alternative after a comma",
    )


def _why_not(access: PartAccess, parts: Mapping[str, Any]) -> str:
    if access.is_pattern or access.part not in parts:
        return f"no part {access.part} (there are {_list_first_names(parts)})"
    value = _part_as_json(access.part, parts[access.part], {})
    return _find_gap(value, PartAccess(access.part), access.steps) or f"{access} exists"


def _find_gap(value: Any, reached: PartAccess, steps: tuple[PathStep, ...]) -> str:
    """Describe where the steps end without a value, with the number of the first such item of a list; empty if they do
    not.
    """
    for depth, step in enumerate(steps):
        if step is EVERY_ITEM and isinstance(value, list):
            items = (
                _find_gap(item, reached._replace(steps=(*reached.steps, i)), steps[depth + 1 :])
                for i, item in enumerate(value)
            )
            return next(filter(None, items), "")
        try:
            value = follow_steps(value, (step,))
        except LookupError:
            return f"no [{_quoted_step(step)}] in {reached} ({_describe_contents(value)})"
        reached = reached._replace(steps=(*reached.steps, step))
    return ""


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
        raise _option_error(text, "every field needs text such as jpg or json[caption]")
    return _check_option(text, value)


def _check_option(text: str, field_map: dict[str, str]) -> dict[str, str]:
    try:
        parse_field_map(field_map)
    except DatasetError as error:
        raise _option_error(text, f"{error.where}: {error.message}") from error
    return field_map


def _option_error(text: str, why: str) -> UsageError:
    return UsageError(
        f"cannot read the field map {text!r}: {why}",
        hint="write FIELD=PART pairs such as image=jpg,caption=txt",
        code="WDS220",
    )


def _describe_fields(sample_type: str) -> str:
    fields = [field.name if field.required else f"{field.name} (optional)" for field in SAMPLE_TYPES[sample_type]]
    return f"use one of its fields {', '.join(fields)}"


def _field_map_error(message: str, hint: str, where: str) -> DatasetError:
    return DatasetError(message, hint=hint, where=where, code="WDS220")
