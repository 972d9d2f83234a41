"""Field maps: what the fields of a sample type are filled with, whether that fits, and the filling itself."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.field_path import Access, FieldPath, Step, parse_field_path
from wdsctl.core.json_text import read_json
from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Access",
    "FieldMissing",
    "FieldPath",
    "check_field",
    "check_sample_type",
    "did_you_mean",
    "extract",
    "option_text",
    "parse_field_map",
    "parse_field_path",
    "parse_option",
    "validate_field_map",
]


class FieldMissing(DatasetError, KeyError):  # noqa: N818 - the fact is the name
    """A sample has none of the alternatives of a field."""

    code = "WDS220"


_REQUIRED: Any = object()
_PIECE = re.compile(
    r"""(?: "(?:[^"\\]|\\.)*"                     # quoted text
          | \[ (?: "(?:[^"\\]|\\.)*" | [^\]"] )* \] # a step
          | [^,] )+""",
    re.VERBOSE,
)

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_EMPTY = re.compile(r"^\s*,|,\s*(?:,|$)")


def extract(
    path: FieldPath, parts: Mapping[str, Any], decoded: dict[str, Any] | None = None, *, default: Any = _REQUIRED
) -> Any:
    """The value of a field in one sample, from the first alternative that the sample has.

    Parts that are looked into are dicts and lists already, or bytes and text, which are parsed as JSON. `decoded` keeps
    what was parsed: give the same dict for all fields of one sample, and each part is parsed once. A null in the JSON
    is a value. Without `default`, raises FieldMissing that says what there is; DatasetError WDS220 if JSON is broken.
    """
    for part, steps in path.alternatives:
        if part not in parts:
            continue
        if not steps:
            return parts[part]
        try:
            return _descend(_as_json(part, parts[part], {} if decoded is None else decoded), steps)
        except LookupError:
            continue
    if default is not _REQUIRED:
        return default
    raise _missing(path, parts)


def parse_field_map(field_map: Mapping[str, str], *, where: str = "") -> dict[str, FieldPath]:
    """Every field's path. Raises DatasetError WDS220 that names the field."""
    return {
        field: parse_field_path(text, where=f"{where}: {field}" if where else field)
        for field, text in field_map.items()
    }


def parse_option(text: str) -> dict[str, str]:
    """What `--field-map` takes: `image=jpg,png,caption=json[caption]`, or a JSON object. Raises UsageError WDS220.

    A comma goes on with the alternatives of a field unless a new `name=` follows.
    """
    if text.lstrip().startswith("{"):
        return _json_option(text)
    if _EMPTY.search(_QUOTED.sub('""', text)):
        raise _bad_option(text, "nothing stands beside a comma")
    field_map: dict[str, str] = {}
    field = ""
    for piece in _top_level(text):
        name, equals, rest = piece.partition("=")
        if equals and name.strip().isidentifier():
            field = name.strip()
            if field in field_map:
                raise _bad_option(text, f"{field} is mapped twice")
            field_map[field] = rest.strip()
        elif field:
            field_map[field] += f",{piece.strip()}"
        else:
            raise _bad_option(text, f"{piece.strip()!r} names no field")
    return _checked_option(text, field_map)


def option_text(field_map: Mapping[str, str]) -> str:
    """What `parse_option` reads back as this field map, as plainly as it can be said."""
    text = ",".join(f"{name}={path}" for name, path in field_map.items())
    try:
        is_plain = parse_option(text) == field_map
    except UsageError:
        is_plain = False
    return text if is_plain else json.dumps(dict(field_map), ensure_ascii=False)


def validate_field_map(
    sample_type: str, field_map: Mapping[str, str], part_names: Iterable[str] | None = None, *, where: str = ""
) -> dict[str, FieldPath]:
    """The parsed map, if it fits the sample type and the parts that samples have (None: not known, not checked).

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
        raise _misfit(
            f"{sample_type} needs {' and '.join(missing)}, which the field map lacks", _fields_of(sample_type), where
        )
    paths = parse_field_map(field_map, where=where)
    if part_names is not None:
        _check_parts(paths, tuple(part_names), where)
    return paths


def check_sample_type(sample_type: str, *, where: str = "") -> None:
    if sample_type != CRUDE and sample_type not in SAMPLE_TYPES and not is_own(sample_type):
        known = (*SAMPLE_TYPES, CRUDE)
        hint = did_you_mean(sample_type, known)
        hint = hint or f"the sample types are {', '.join(known)}, and module:Class of your own"
        raise _misfit(f"there is no sample type {sample_type!r}", hint, where)


def check_field(sample_type: str, field: str, *, where: str = "") -> None:
    check_sample_type(sample_type, where=where)
    if is_own(sample_type):
        return
    if sample_type == CRUDE:
        raise _misfit(
            f"{CRUDE} has no field {field!r}: it hands out every part as it is", "leave field_map empty", where
        )
    fields = SAMPLE_TYPES[sample_type]
    if field not in {known.name for known in fields}:
        # A name that JSON often has for a field (text for caption) is as good a clue as a likeness of letters.
        alias = next((f"did you mean {known.name}?" for known in fields if field.lower() in known.names), "")
        hint = did_you_mean(field, [known.name for known in fields]) or alias
        raise _misfit(f"{sample_type} has no field {field!r}", f"{hint} {_fields_of(sample_type)}".strip(), where)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean caption?`, or nothing if no known word is like this one."""
    import difflib

    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean {by_lower[close[0]]}?" if close else ""


def _check_parts(paths: Mapping[str, FieldPath], part_names: tuple[str, ...], where: str) -> None:
    for field, path in paths.items():
        wanted = [access.part for access in path.alternatives]
        if set(wanted).isdisjoint(part_names):
            clue = did_you_mean(wanted[0], part_names)
            have = f"samples have {_listed(part_names)}" if part_names else "samples have no parts"
            raise _misfit(f"{field}: no sample has a part {' or '.join(wanted)}", f"{clue} {have}".strip(), where)


def _descend(value: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        match value:
            case dict():
                value = value[str(step)]
            case list() if isinstance(step, int):
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def _as_json(part: str, value: Any, decoded: dict[str, Any]) -> Any:
    if isinstance(value, dict | list):
        return value
    if part not in decoded:
        text = bytes(value) if isinstance(value, memoryview) else value
        try:
            decoded[part] = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise _misfit(
                f"part {part} is not JSON: {error}", "map the part itself, without [...], or mend it", ""
            ) from error
    return decoded[part]


def _missing(path: FieldPath, parts: Mapping[str, Any]) -> FieldMissing:
    facts = dict.fromkeys(_why_not(access, parts) for access in path.alternatives)
    return FieldMissing(
        f"the sample has no {path}: {'; '.join(facts)}",
        hint="correct the field map in dataset.yaml, or add an alternative after a comma",
    )


def _why_not(access: Access, parts: Mapping[str, Any]) -> str:
    if access.part not in parts:
        return f"no part {access.part} (there are {_listed(parts)})"
    value = _as_json(access.part, parts[access.part], {})
    for depth, step in enumerate(access.steps):
        try:
            value = _descend(value, (step,))
        except LookupError:
            return f"no [{step}] in {Access(access.part, access.steps[:depth])} ({_holds(value)})"
    return f"{access} is there"


def _holds(value: Any) -> str:
    if isinstance(value, dict):
        return f"it has the keys {_listed(value)}" if value else "the object is empty"
    return f"it has {len(value)} items" if isinstance(value, list) else f"there is a {type(value).__name__}"


def _listed(names: Iterable[str]) -> str:
    first = [str(name) for name in names]
    return ", ".join(first[:12]) + (f" and {len(first) - 12} more" if len(first) > 12 else "")


def _top_level(text: str) -> list[str]:
    """The pieces between commas that stand neither in brackets nor in quotes."""
    return [piece[0] for piece in _PIECE.finditer(text) if piece[0].strip()]


def _json_option(text: str) -> dict[str, str]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise _bad_option(text, f"it is not JSON: {error}") from error
    if not all(isinstance(path, str) for path in value.values()):
        raise _bad_option(text, "every field's value is a text such as jpg or json[caption]")
    return _checked_option(text, value)


def _checked_option(text: str, field_map: dict[str, str]) -> dict[str, str]:
    try:
        parse_field_map(field_map)
    except DatasetError as error:
        raise _bad_option(text, f"{error.where}: {error.message}") from error
    return field_map


def _bad_option(text: str, why: str) -> UsageError:
    return UsageError(f"cannot read the field map {text!r}: {why}", hint="write image=jpg,caption=txt", code="WDS220")


def _fields_of(sample_type: str) -> str:
    fields = [field.name if field.required else f"{field.name} (optional)" for field in SAMPLE_TYPES[sample_type]]
    return f"its fields are {', '.join(fields)}"


def _misfit(message: str, hint: str, where: str) -> DatasetError:
    return DatasetError(message, hint=hint, where=where, code="WDS220")
