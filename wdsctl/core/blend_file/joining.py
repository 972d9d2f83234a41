"""`join: [refs]` or `join: {name: ref}`: members whose samples of one key become one sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from wdsctl.core.blend_file.around import Around, shown_multiplier
from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.parts import Mix, Run
from wdsctl.core.blend_file.plan import Join, Leaf, Nonmatch, Stretch
from wdsctl.core.blend_file.problems import Place, called, suggestion, unknown_key, wrong
from wdsctl.core.blend_file.shapes import check_mapping
from wdsctl.core.errors import DatasetError

Expand = Callable[[Node, Around], Run | Mix]

_NONMATCH = ("error", "skip", "none")
_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_IMPORT = re.compile(f"{_DOTTED}:{_DOTTED}")
_JOINER = "write `joiner: module:name`, or `__module__` with `__class__` or `__function__`"


def joined(node: Node, around: Around, expand: Expand) -> Run:
    """The one leaf that a join is: its primary, with the others in `join`. `around` has in it what the node says.

    Raises DatasetError WDS605 where the join is not as it must be, WDS600 for keys that nobody knows.
    """
    place = node.at("join")
    names, entries = _entries(node.value["join"], place)
    inner = replace(around, subsets=())
    leaves = [_member(entry, inner, expand) for entry in entries]
    default = _nonmatch(node, "error")
    nonmatch = [_nonmatch(entry, default if i else "error") for i, entry in enumerate(entries)]
    if nonmatch[0] != "error":
        hint = "its samples are those that are joined; write nonmatch at the members that may lack some"
        raise _wrong("nonmatch: the first member of a join is always there", entries[0].at("nonmatch"), hint)
    join = Join(
        members=tuple(replace(leaf, aux={}) for leaf in leaves[1:]),
        nonmatch=tuple(nonmatch[1:]),
        names=names,
        joiner=_joiner(node.value["joiner"], node.at("joiner")) if "joiner" in node.value else None,
        joiner_where=str(node.at("joiner")),
    )
    primary = replace(leaves[0], subsets=around.subsets, where=str(place), aux=_aux(leaves, place), join=join)
    return Run((Stretch(primary),), place)


def _entries(node: Node, place: Place) -> tuple[tuple[str, ...], list[Node]]:
    """The members' names, none where they go by position, and the members."""
    value = node.value
    names = tuple(value) if isinstance(value, dict) else ()
    entries = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(entries, list) or len(entries) < 2:
        found = "one member" if isinstance(entries, list) and entries else called(entries or None)
        hint = "write a list of references, or a mapping of names to references; the first is the primary"
        raise _wrong(f"join: expected two members or more, found {found}", place, hint)
    odd = next((name for name in names if not name or name.startswith("__")), None)
    if odd is not None:
        raise _wrong(f"join: {odd!r} cannot be the name of a member", node.at(odd), "give it another name")
    for entry in entries:
        check_mapping(entry)
    return names, entries


def _member(entry: Node, around: Around, expand: Expand) -> Leaf:
    part = expand(entry, around)
    if isinstance(part, Mix) or len(part.stretches) != 1 or part.stretches[0].repetitions != 1:
        hint = "refer to a dataset; blends may have joins as entries, and joins no blends"
        raise _wrong("join: a member is one dataset, and this is a blend", entry.place, hint)
    leaf = part.stretches[0].leaf
    if leaf.join is not None:
        raise _wrong("join: a member is a join itself", entry.place, "write all members in one join")
    if leaf.subsets:
        raise _wrong("subset: a member of a join has none", entry.place, "write it at the join: it is of its samples")
    if leaf.multiplier != around.multiplier:
        found = shown_multiplier(leaf.multiplier)
        message = f"shuffle_over_epochs_multiplier: a member of a join has none of its own, found {found}"
        raise _wrong(message, entry.place, "write it at the join")
    return leaf


def _nonmatch(node: Node, default: Nonmatch) -> Nonmatch:
    if "nonmatch" not in node.value:
        return default
    said = node.value["nonmatch"].value
    said = "none" if said is None else said  # YAML's null is written so, too
    if said not in _NONMATCH:
        message = f"nonmatch: expected error, skip or none, found {called(said)}{suggestion(str(said), _NONMATCH)}"
        raise _wrong(message, node.at("nonmatch"), "error is what holds without this key")
    return cast("Nonmatch", said)


def _aux(leaves: Sequence[Leaf], place: Place) -> dict[str, str]:
    """The stores of all members: cookers see the joined samples."""
    stores: dict[str, str] = {}
    for leaf in leaves:
        for name, path in leaf.aux.items():
            if stores.setdefault(name, path) != path:
                raise _wrong(f"aux: {name!r} means two things in one join", place, "give one of them another name")
    return stores


def _joiner(node: Node, place: Place) -> str | Callable[..., object]:
    value: object = node.value
    if callable(value):
        return value  # given in code
    if isinstance(value, dict):
        return _of_keys(node)
    if isinstance(value, str) and _IMPORT.fullmatch(value):
        return value
    raise _wrong(f"joiner: expected a class or a function by its module, found {called(value)}", place, _JOINER)


def _of_keys(node: Node) -> str:
    known = ("__module__", "__class__", "__function__")
    for key in node.value:
        if key not in known:
            raise unknown_key(key, node.at(key), known)
    parts = [node.value[key].value for key in known if key in node.value]
    name = ":".join(map(str, parts))
    if len(parts) != 2 or "__module__" not in node.value or not _IMPORT.fullmatch(name):
        raise _wrong("joiner: it needs a module, and a class or a function in it", node.place, _JOINER)
    return name


def _wrong(message: str, place: Place, hint: str) -> DatasetError:
    return wrong(message, place, hint=hint, code="WDS605")
