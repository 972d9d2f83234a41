"""The fields of crude samples: parts that fill one role under several names, found from the names alone.

`input.jpg` in some samples and `input.png` in others are one field; `pages.0.jpg`, `pages.1.jpg`, ... are one list, and
so are `0.jpg`, `1.jpg`, ...
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.field_path import FieldPath, PartAccess
from wdsctl.core.samples.fields import find_parts

_NUMBERED = re.compile(r"(?P<role>(?:[^\W\d](?:[\w-]*[^\W\d_])?)?)(?P<separator>[._-]?)\d+\.(?P<ending>[^\W\d]\w*)")
_TENSOR_ENDINGS = frozenset({"pt", "pth"})  # besides images


def find_crude_fields(layouts: Sequence[Sequence[str]]) -> dict[str, str]:
    """The field map that makes one field of the parts of each role. `layouts`: the sets of parts of the samples.

    Parts are alternatives if they are media of one kind, differ only in their last extension, and no sample has two of
    them. Numbered parts are a list if not all samples have the same ones. All other parts stay as they are.
    """
    names = list(dict.fromkeys(name for layout in layouts for name in layout))
    fields = {**_find_lists(names, layouts), **_find_alternatives(names, layouts)}
    return {role: str(path) for role, path in fields.items() if role not in names and not role.startswith("__")}


def complete_crude_fields(
    layouts: Sequence[Sequence[str]], field_map: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(field map, optional fields) with which all samples have the same fields and can be batched; ({}, ()) if none is
    found. `field_map`: that of the samples so far.

    A batch lists most values, so that a missing one may be None. It stacks images and tensors, so a missing one makes
    the field a list of none or one.
    """
    names = list(dict.fromkeys(name for layout in layouts for name in layout))
    fields = dict(field_map) or find_crude_fields(layouts)
    by_layout = [crude_sample_fields(layout, parse_field_map(fields)) for layout in layouts]
    parts: dict[str, list[str]] = {}
    for found in by_layout:
        for field, some in found.items():
            parts.setdefault(field, []).extend(some)
    optional = []
    for field, own in parts.items():
        if all(field in found for found in by_layout):
            continue
        if not any(part_kind(part) == "image" or part.rpartition(".")[2] in _TENSOR_ENDINGS for part in own):
            fields.setdefault(field, field)
            optional.append(field)
            continue
        stem = own[0].rpartition(".")[0]
        pattern = PartAccess(f"{stem}.*" if stem else f"*{own[0]}", is_pattern=True)
        role = field if field in fields else stem or f"{part_kind(own[0])}s"
        is_taken = role in names or (role in fields and role != field)
        if is_taken or set(find_parts(FieldPath((pattern,)), names)) != set(own):
            return {}, ()
        fields[role] = str(FieldPath((pattern,)))
    return fields, tuple(optional)


def crude_sample_fields(names: Collection[str], paths: Mapping[str, FieldPath]) -> dict[str, tuple[str, ...]]:
    """The fields of a crude sample with these parts, with the parts of each. A list may have none.

    Parts that no field takes are fields under their own names.
    """
    fields: dict[str, tuple[str, ...]] = {}
    for field, path in paths.items():
        found = find_parts(path, names)
        if is_list_of_parts(path):
            fields[field] = found
        elif found:
            fields[field] = found[:1]
    taken = {part for parts in fields.values() for part in parts}
    return {**{name: (name,) for name in names if name not in taken}, **fields}


def is_list_of_parts(path: FieldPath) -> bool:
    """Whether a field of crude samples is the list of all parts that its path matches."""
    return any(access.is_pattern for access in path.alternatives)


def _find_alternatives(names: Sequence[str], layouts: Sequence[Sequence[str]]) -> dict[str, FieldPath]:
    roles: dict[tuple[str, str], list[str]] = {}
    for name in names:
        stem, _, _ = name.rpartition(".")
        kind = part_kind(name)
        if kind in MEDIA_KINDS:
            roles.setdefault((stem or kind, kind), []).append(name)
    stems = [stem for stem, _ in roles]
    return {
        stem: FieldPath(tuple(map(PartAccess, parts)))
        for (stem, _), parts in roles.items()
        if len(parts) > 1 and stems.count(stem) == 1 and not any(_has_two(layout, parts) for layout in layouts)
    }


def _has_two(layout: Sequence[str], parts: Sequence[str]) -> bool:
    return len(set(layout).intersection(parts)) > 1


def _find_lists(names: Sequence[str], layouts: Sequence[Sequence[str]]) -> dict[str, FieldPath]:
    roles: dict[str, dict[str, list[str]]] = {}  # role -> pattern -> parts
    for name in names:
        if (found := _NUMBERED.fullmatch(name)) is not None:
            if not found["role"] and part_kind(name) not in MEDIA_KINDS:
                continue
            pattern = f"{found['role']}{found['separator']}*.{found['ending']}"
            roles.setdefault(found["role"] or f"{part_kind(name)}s", {}).setdefault(pattern, []).append(name)
    lists = {}
    for role, patterns in roles.items():
        parts = [part for found in patterns.values() for part in found]
        path = FieldPath(tuple(PartAccess(pattern, is_pattern=True) for pattern in patterns))
        is_uneven = any(not set(parts).issubset(layout) for layout in layouts)
        if is_uneven and len(set(map(part_kind, parts))) == 1 and set(find_parts(path, names)) == set(parts):
            lists[role] = path
    return lists
