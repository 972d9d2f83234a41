"""Field maps: field -> path, as dataset.yaml and `--field-map` have them; whether a map fits a sample type."""

from __future__ import annotations

import json
import re
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING

from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.samples.field_path import QUOTED, FieldPath, PartAccess, parse_field_path
from wdsctl.core.samples.fields import did_you_mean, find_parts, is_collecting, list_first_names
from wdsctl.core.samples.types import CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES, is_custom_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from wdsctl.core.samples.types import FieldKind

_OPTION_ENTRY = re.compile(
    r"""(?: "(?:[^"\\]|\\.)*"                     # quoted text
          | \[ (?: "(?:[^"\\]|\\.)*" | [^\]"] )* \] # a step
          | [^,] )+""",
    re.VERBOSE,
)

_EMPTY_ENTRY = re.compile(r"^\s*,|,\s*(?:,|$)")


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
    if _EMPTY_ENTRY.search(QUOTED.sub('""', text)):
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


def type_text(sample_type: str, field_map: Mapping[str, str]) -> str:
    """`CaptioningSample: image=jpg,caption=txt`."""
    return ": ".join(filter(None, (sample_type, format_field_map_text(field_map) if field_map else "")))


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


def merge_field_maps(
    sample_type: str, sources: Sequence[tuple[Mapping[str, str], Collection[str]]]
) -> dict[str, str] | None:
    """The field map of a dataset with the samples of several ones, whose field maps and part names are `sources`.

    Each field gets the alternatives of all sources, in an order in which every source's own alternatives come before
    others that name one of its parts: its samples keep their values. None if there is no such order, the sources map
    different fields, or a field that collects parts has different paths.
    """
    kinds = {field.name: field.kind for field in SAMPLE_TYPES.get(sample_type, ())}
    maps = [(parse_field_map(field_map), parts) for field_map, parts in sources]
    names = list(maps[0][0])
    if any(field_map.keys() != set(names) for field_map, _ in maps):
        return None
    paths = [
        _merge_paths([(field_map[name], parts) for field_map, parts in maps], kinds.get(name, "any")) for name in names
    ]
    found = [str(path) for path in paths if path is not None]
    return dict(zip(names, found, strict=True)) if len(found) == len(names) else None


def _merge_paths(sources: Sequence[tuple[FieldPath, Collection[str]]], kind: FieldKind) -> FieldPath | None:
    first = sources[0][0]
    if all(path == first for path, _ in sources):
        return first
    if any(is_collecting(path, kind) for path, _ in sources):
        return None
    every = dict.fromkeys(access for path, _ in sources for access in path.alternatives)
    order = TopologicalSorter[PartAccess](dict.fromkeys(every, ()))
    for path, parts in sources:
        for before, after in pairwise(path.alternatives):
            order.add(after, before)
        for access in every:
            if access not in path.alternatives and access.part in parts:
                order.add(access, path.alternatives[-1])
    try:
        return FieldPath(tuple(order.static_order()))
    except CycleError:
        return None


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
        if not field or field.startswith("__"):
            raise _field_map_error(f"a field of {CRUDE} cannot have the name {field!r}", "give it another name", where)
        return
    fields = SAMPLE_TYPES[sample_type]
    if field not in {known.name for known in fields}:
        # A name that JSON often uses for a field (text for caption) is as good a clue as a similar spelling.
        alias = next((f"did you mean {known.name}?" for known in fields if field.lower() in known.json_names), "")
        hint = did_you_mean(field, [known.name for known in fields]) or alias
        raise _field_map_error(
            f"{sample_type} has no field {field!r}", f"{hint} {_describe_fields(sample_type)}".strip(), where
        )


def _check_collected(
    sample_type: str, paths: Mapping[str, FieldPath], kinds: Mapping[str, FieldKind], where: str
) -> None:
    """Refuse patterns for fields that take one part, and keys of JSON for lists of media."""
    lists = [name for name, kind in kinds.items() if kind in MEDIA_LIST_KINDS]
    for field, path in paths.items():
        kind = kinds.get(field, "any")
        pattern = next((access.part for access in path.alternatives if access.is_pattern), "")
        if pattern and kind not in MEDIA_LIST_KINDS and sample_type != CRUDE and not is_custom_type(sample_type):
            hint = "write the name of one part"
            hint += f"; {' and '.join(lists)} take all parts that match" if lists else ""
            message = f"{field}: the pattern {pattern} may match several parts, but {field} needs one part"
            raise _field_map_error(message, hint, where)
        inside = next((access for access in path.alternatives if access.steps), None)
        if inside and sample_type == CRUDE:
            message = f"{field}: a field of {CRUDE} is a whole part, and {inside} is a value inside a part"
            raise _field_map_error(message, "write parts or patterns of parts, such as a.jpg,a.png or a.*.jpg", where)
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
            have = f"samples have {list_first_names(part_names)}" if part_names else "samples have no parts"
            raise _field_map_error(
                f"{field}: no sample has a part {' or '.join(mapped_parts)}", f"{clue} {have}".strip(), where
            )


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
