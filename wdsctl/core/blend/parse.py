"""Parses the nodes of a blend file into a plan: checks the keys of each, follows references, and flattens nested
nodes into components.

A join (`join: [refs]` or `join: {name: ref}`) is one leaf: members whose samples with the same key become one sample.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import lcm
from typing import cast

from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.plan import (
    BlendComponent,
    BlendPlan,
    Join,
    Leaf,
    NonmatchMode,
    RepeatedLeaf,
    ScheduleSegment,
    WeightUnit,
)
from wdsctl.core.blend.schedule import check_any_weight, parse_schedule
from wdsctl.core.blend.scope import COMMON_NODE_KEYS, Scope, child_scope, format_multiplier, mapping_value, text_value
from wdsctl.core.blend.yaml_tree import (
    BLEND_DOC_PATH,
    Node,
    NodeLocation,
    blend_error,
    check_keys,
    describe_node_value,
    folder_of,
    is_jsonl_reference,
    parse_amount,
    real_file,
    resolve_aux_path,
    resolve_blend_path,
    suggestion,
)
from wdsctl.core.dataset.location import ENERGON_INFO_FILES, ENERGON_META_FOLDER, locate
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.errors import DatasetError
from wdsctl.core.safe_open import check_store
from wdsctl.core.urls import is_url, redact_secrets

#: The key that makes a node what it is, and the others that it may have. `datasets` is V1's word for blend.
KEYS_BY_KIND: dict[str, tuple[str, ...]] = {
    "path": ("dataset_config", "split_config", "aux", "subflavor"),
    "blend": ("weight_by", "schedule"),
    "datasets": ("weight_by", "schedule"),
    "blend_epochized": (),
    "concat": (),
    "join": ("joiner", "nonmatch"),
}

#: What an entry of a list may have besides.
ENTRY_KEYS_BY_KIND: dict[str, tuple[str, ...]] = {
    "blend": ("weight", "name"),
    "datasets": ("weight", "name"),
    "blend_epochized": ("repetitions", "name"),
    "concat": ("name",),
    "join": ("nonmatch",),
}

_CLASS_KEYS = ("__module__", "__class__")
_ENERGON_CLASSES = ("MetadatasetV2", "Metadataset", "Recipe")  # Recipe: MetadatasetV2 in version 8
_DATASET_YAML_KEYS = frozenset({"sample_type", "field_map"})
_HINT = "write one of path, blend, blend_epochized, concat, join"
_WEIGHT_UNITS: tuple[WeightUnit, ...] = ("samples", "tokens")
_ONE = Fraction(1)
_MAX_DENOMINATOR_BITS = 1024  # of the weights of one blend: sums and products of longer fractions take long
_NONMATCH_MODES = ("error", "skip", "none")
_DOTTED_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_IMPORT_PATH = re.compile(f"{_DOTTED_NAME}:{_DOTTED_NAME}")
_JOINER_HINT = "write `joiner: module:name`, or `__module__` with `__class__` or `__function__`"


def node_kind(node: Node, entry_of: str = "") -> str:
    """The node's key of KEYS_BY_KIND. Checks all other keys. `entry_of`: the kind of list that contains the node."""
    check_mapping(node)
    kinds: list[str] = [key for key in node.value if key in KEYS_BY_KIND]
    extra = ENTRY_KEYS_BY_KIND.get(entry_of, ())
    own = (key for kind in kinds or KEYS_BY_KIND for key in KEYS_BY_KIND[kind])
    check_keys(node, [*extra, *COMMON_NODE_KEYS, *(kinds or KEYS_BY_KIND), *own])
    if len(kinds) != 1:
        message = " and ".join(kinds) + " exclude each other" if kinds else "path or blend is missing"
        raise blend_error(message, node.location_of(kinds[-1]) if kinds else node.location, hint=_HINT)
    return kinds[0]


def check_mapping(node: Node) -> None:
    if not isinstance(node.value, dict):
        raise blend_error(
            f"expected a mapping with path or blend, found {describe_node_value(node.value)}", node.location, hint=_HINT
        )


def select_split_node(node: Node, split_part: str) -> tuple[Node, str]:
    """The node of a split at the top of a file, and the split's name.

    A file without `splits:` is one node for every split. Raises DatasetError WDS606 if there is no such split.
    """
    if not isinstance(node.value, dict):
        raise blend_error(
            f"expected `splits:`, found {describe_node_value(node.value)}",
            node.location,
            hint="write splits: {train: ...}",
        )
    _check_class(node)
    _check_is_blend_file(node)
    if "splits" not in node.value:
        keys = {key: value for key, value in node.value.items() if key not in _CLASS_KEYS}
        return Node(keys, node.location, node.key_locations), split_part
    check_keys(node, ("splits", *_CLASS_KEYS))
    splits = node.value["splits"]
    if not isinstance(splits.value, dict) or not splits.value:
        message = f"splits: expected a mapping of names, found {describe_node_value(splits.value or None)}"
        raise blend_error(message, node.location_of("splits"), hint="write splits: {train: ...}")
    if split_part not in splits.value:
        message = f"splits: the blend file has no split {split_part!r}{suggestion(split_part, splits.value)}"
        hint = f"use one of the splits {', '.join(splits.value)}"
        raise blend_error(message, node.location_of("splits"), hint=hint, code="WDS606")
    return splits.value[split_part], split_part


def _check_is_blend_file(node: Node) -> None:
    """Raise DatasetError WDS600 for a file without any key of a blend file: it is a file of another kind."""
    known, keys = ("splits", *KEYS_BY_KIND), [*node.value]
    is_config = not _DATASET_YAML_KEYS.isdisjoint(keys)
    if not keys or any(key in known or (key in (*COMMON_NODE_KEYS, *_CLASS_KEYS) and not is_config) for key in keys):
        return
    close = "" if is_config else next((close_name for key in keys if (close_name := suggestion(key, known))), "")
    about = f"{', '.join(map(repr, keys[:3]))}{', ...' * (len(keys) > 3)}"
    hint = f"begin a blend file with `splits:`, or path, blend, concat, join: {BLEND_DOC_PATH}"
    if is_config:
        hint = "pass the folder of the dataset: the file looks like a dataset.yaml"
    raise blend_error(f"not a blend file: its keys are {about}{close}", node.location, hint=hint)


def _check_class(node: Node) -> None:
    module = node.value["__module__"].value if "__module__" in node.value else "megatron.energon"
    name = node.value["__class__"].value if "__class__" in node.value else "Metadataset"
    hint = "write `__module__: megatron.energon` and `__class__: MetadatasetV2`, or neither"
    if str(module).split(".")[0] not in ("megatron", "wdsctl"):
        raise blend_error(
            f"__module__: {describe_node_value(module)} is not supported: blend files cannot run code",
            node.location_of("__module__"),
            hint=hint,
        )
    if name not in _ENERGON_CLASSES:
        close = suggestion(str(name), _ENERGON_CLASSES)
        raise blend_error(
            f"__class__: {describe_node_value(name)} is not a class of blend files{close}",
            node.location_of("__class__"),
            hint=hint,
        )


def expand_node(node: Node, scope: Scope, file_cache: BlendFileCache, entry_of: str = "") -> BlendComponent | BlendPlan:
    """The plan of a blend; one component, with all of the weight, for any other node. Leaves of a component may still
    have different multipliers. `entry_of`: the key of the list that the node is in."""
    kind = node_kind(node, entry_of)
    inner = child_scope(scope, node)
    match kind:
        case "path":
            return _expand_reference(node, inner, file_cache)
        case "blend" | "datasets":
            return _expand_blend(node, inner, file_cache, kind)
        case "join":
            return _expand_join(node, inner, file_cache)
        case _:
            return _expand_sequence(node, inner, file_cache, kind)


def _expand_blend(node: Node, scope: Scope, file_cache: BlendFileCache, kind: str) -> BlendPlan:
    entries = _entries(node, kind)
    location = node.location_of(kind)
    for key in ("weight_by", "schedule"):
        if key in node.value and not scope.is_outermost:
            hint = f"write {key} at the outermost blend, or move this entry to a separate blend file"
            raise blend_error(
                f"{key} applies to a whole job, but this blend is part of another node",
                node.location_of(key),
                hint=hint,
            )
    weights = [entry_amount(entry, "weight") for entry in entries]
    _check_denominators(weights, location)
    names = _names(entries)
    schedule = node.value.get("schedule")
    if schedule is None:
        check_any_weight(weights, location)
    turns = parse_schedule(schedule, node.location_of("schedule"), names, weights) if schedule else []
    for turn in turns:
        _check_denominators(turn.weights, node.location_of("schedule"))
    parts = [expand_node(entry, replace(scope, is_outermost=False), file_cache, kind) for entry in entries]
    components = [part.components if isinstance(part, BlendPlan) else (part,) for part in parts]

    def flat_weights(weights: Sequence[Fraction]) -> tuple[Fraction, ...]:
        # Whole numbers: a schedule has a weight of each entry at each step, and fractions are slow.
        common = lcm(*(weight.denominator for weight in weights))
        whole = [weight.numerator * (common // weight.denominator) for weight in weights]
        total = sum(whole)
        shares = (Fraction(number, total) for number in whole)
        return tuple(
            share if each.weight is _ONE else share * each.weight
            for share, part in zip(shares, components, strict=True)
            for each in part
        )

    flat = zip(chain.from_iterable(components), flat_weights(turns[0].weights if turns else weights), strict=True)
    return BlendPlan(
        components=tuple(replace(component, weight=weight) for component, weight in flat),
        weight_unit=_parse_weight_unit(node),
        schedule=tuple(ScheduleSegment(turn.step, flat_weights(turn.weights)) for turn in turns),
        where=str(location),
    )


def _check_denominators(weights: Sequence[Fraction], location: NodeLocation) -> None:
    """Raise DatasetError WDS602 if exact shares would have so many digits that they take minutes to compute."""
    common = 1
    for weight in weights:
        common = lcm(common, weight.denominator)
        if common.bit_length() > _MAX_DENOMINATOR_BITS:
            raise blend_error(
                f"the weights have no common denominator below 2^{_MAX_DENOMINATOR_BITS:,}",
                location,
                hint="write decimal numbers with fewer digits instead of fractions",
                code="WDS602",
            )


def _expand_sequence(node: Node, scope: Scope, file_cache: BlendFileCache, kind: str) -> BlendComponent:
    """Leaves laid end to end: repetitions multiply down."""
    repeated_leaves: list[RepeatedLeaf] = []
    entries = _entries(node, kind)
    _names(entries)
    for entry in entries:
        part = expand_node(entry, replace(scope, is_outermost=False), file_cache, kind)
        if isinstance(part, BlendPlan):
            raise blend_error(
                f"a blend (at {part.where}) inside {kind}, which is finite; a blend is endless",
                entry.location,
                hint="move the finite node into the blend, or write the inner blend as blend_epochized",
                code="WDS604",
            )
        times = entry_amount(entry, "repetitions")
        repeated_leaves += [replace(each, repetitions=times * each.repetitions) for each in part.repeated_leaves]
    if not any(each.repetitions for each in repeated_leaves):
        message = "repetitions: all are 0, so there is nothing to read"
        raise blend_error(
            message, node.location_of(kind), hint="give at least one entry repetitions above 0", code="WDS602"
        )
    multiplier = repeated_leaves[0].leaf.multiplier
    return BlendComponent(_ONE, tuple(repeated_leaves), multiplier, str(node.location_of(kind)))


def _expand_reference(node: Node, scope: Scope, file_cache: BlendFileCache) -> BlendComponent | BlendPlan:
    path, location = node.value["path"], node.location_of("path")
    if isinstance(path.value, dict):
        _forbid(node, ("dataset_config", "split_config", "aux"), "a blend")
        return _expand_file(path, scope, file_cache)
    target = resolve_blend_path(text_value(node, "path"), scope.folder)
    if is_blend_file(target):
        _forbid(node, ("dataset_config", "split_config", "aux"), "another blend file")
        opened = (*scope.files, _check_no_cycle(target, scope, location))
        return _expand_file(
            file_cache.read_node(target, location), replace(scope, folder=folder_of(target), files=opened), file_cache
        )
    if is_jsonl_reference(target):
        _forbid(node, ("dataset_config", "split_config"), "a JSONL file")
    file_cache.count_reference(location, len(scope.subflavors))
    leaf = Leaf(
        path=target,
        split_part=scope.split_part,
        subflavors=scope.subflavors,
        multiplier=scope.multiplier,
        dataset_config=_optional_text(node, "dataset_config"),
        split_config=_optional_text(node, "split_config"),
        aux=_aux(node, scope),
        subsets=scope.subsets,
        where=str(location),
    )
    return BlendComponent(_ONE, (RepeatedLeaf(leaf),), leaf.multiplier, leaf.where)


def _expand_file(node: Node, scope: Scope, file_cache: BlendFileCache) -> BlendComponent | BlendPlan:
    part, name = select_split_node(node, scope.split_part)
    return expand_node(part, replace(scope, split_part=name), file_cache)


def _check_no_cycle(path: str, scope: Scope, location: NodeLocation) -> tuple[str, str]:
    """The file and split that are about to be opened. Raises DatasetError WDS601 if they are being read already."""
    key = (real_file(path), scope.split_part)
    if key in scope.files:
        chain = [*scope.files[scope.files.index(key) :], key]
        message = "path: blend files refer to each other in a cycle: " + " -> ".join(
            f"{redact_secrets(file)} ({part})" for file, part in chain
        )
        raise blend_error(message, location, hint="remove one of these references", code="WDS601")
    return key


def _entries(node: Node, kind: str) -> list[Node]:
    entries = node.value[kind].value
    if not isinstance(entries, list) or not entries:
        hint = "write a list of entries, each with a path"
        raise blend_error(
            f"{kind}: expected a list, found {describe_node_value(entries or None)}", node.location_of(kind), hint=hint
        )
    for entry in entries:
        check_mapping(entry)
    return entries


def entry_amount(entry: Node, key: str) -> Fraction:
    """The weight or the repetitions of an entry, 1 by default."""
    return parse_amount(entry.value[key], key, entry.location_of(key)) if key in entry.value else _ONE


def _names(entries: list[Node]) -> list[str]:
    """The names of entries, empty for those without one."""
    names = [text_value(entry, "name") if "name" in entry.value else "" for entry in entries]
    seen = set()
    for name, entry in zip(names, entries, strict=True):
        if name and (name.isdecimal() or name in seen):
            why = "looks like the number of an entry" if name.isdecimal() else "is the name of another entry too"
            raise blend_error(f"name: {name!r} {why}", entry.location_of("name"), hint="give the entry another name")
        seen.add(name)
    return names


def _parse_weight_unit(node: Node) -> WeightUnit:
    if "weight_by" not in node.value:
        return "samples"
    name = text_value(node, "weight_by")
    for unit in _WEIGHT_UNITS:
        if name == unit:
            return unit
    message = f"weight_by: expected samples or tokens, found {name!r}{suggestion(name, _WEIGHT_UNITS)}"
    raise blend_error(
        message, node.location_of("weight_by"), hint="write samples or tokens, or omit weight_by for samples"
    )


def _is_dataset(store: str) -> bool:
    """Whether a store is a dataset, of wdsctl or of Energon, or can only be one. Folders of media have no dataset.yaml
    and no counts of samples."""
    if store.startswith(("filesystem://", "filesystem+")):
        return False
    if is_url(store) or is_jsonl_reference(store):
        return True
    if not os.path.isdir(store):
        return False
    counts = (os.path.join(store, ENERGON_META_FOLDER, name) for name in ENERGON_INFO_FILES)
    return any(map(os.path.isfile, (locate(store).config_path, *counts)))


def _forbid(node: Node, keys: tuple[str, ...], what: str) -> None:
    for key in keys:
        if key in node.value:
            raise blend_error(
                f"{key}: not allowed here, because the path is {what}",
                node.location_of(key),
                hint=f"write {key} at the path of a dataset",
            )


def _optional_text(node: Node, key: str) -> str | None:
    return text_value(node, key) if key in node.value else None


def _aux(node: Node, scope: Scope) -> dict[str, str]:
    """The stores by name. Datasets may be anywhere, as those of `path`. Raises PermissionDenied WDS409 if a blend file
    names a folder of other files outside of its own folder; a mapping of the user's program may name any."""
    if "aux" not in node.value:
        return {}
    stores = {
        name: resolve_aux_path(text_value(node.value["aux"], name), scope.folder) for name in mapping_value(node, "aux")
    }
    for name, store in stores.items() if scope.files else ():
        if not _is_dataset(store):
            check_store(store, scope.folder, str(node.value["aux"].location_of(name)))
    return stores


def _expand_join(node: Node, scope: Scope, file_cache: BlendFileCache) -> BlendComponent:
    """One leaf: the primary, with the other members in `join`. `scope` includes the keys of the node.

    Raises DatasetError WDS605 for an invalid join, WDS600 for unknown keys.
    """
    location = node.location_of("join")
    names, entries = _join_entries(node.value["join"], location)
    inner = replace(scope, subsets=(), is_outermost=False)
    leaves = [_expand_member(entry, inner, file_cache) for entry in entries]
    default = _parse_nonmatch(node, "error")
    nonmatch = [_parse_nonmatch(entry, default if i else "error") for i, entry in enumerate(entries)]
    if nonmatch[0] != "error":
        hint = "write nonmatch at the members that may lack samples of the first member"
        raise _join_error(
            "nonmatch: not allowed for the first member of a join", entries[0].location_of("nonmatch"), hint
        )
    join = Join(
        members=tuple(replace(leaf, aux={}) for leaf in leaves[1:]),
        nonmatch=tuple(nonmatch[1:]),
        names=names,
        joiner=_parse_joiner(node.value["joiner"], node.location_of("joiner")) if "joiner" in node.value else None,
        joiner_where=str(node.location_of("joiner")),
    )
    primary = replace(
        leaves[0], subsets=scope.subsets, where=str(location), aux=_merge_aux(leaves, location), join=join
    )
    return BlendComponent(_ONE, (RepeatedLeaf(primary),), primary.multiplier, primary.where)


def _join_entries(node: Node, location: NodeLocation) -> tuple[tuple[str, ...], list[Node]]:
    """The members' names, none if they go by position, and the members."""
    value = node.value
    names = tuple(value) if isinstance(value, dict) else ()
    entries = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(entries, list) or len(entries) < 2:
        found = "one member" if isinstance(entries, list) and entries else describe_node_value(entries or None)
        hint = "write a list of references, or a mapping of names to references; the first is the primary"
        raise _join_error(f"join: expected two members or more, found {found}", location, hint)
    odd = next((name for name in names if not name or name.startswith("__")), None)
    if odd is not None:
        raise _join_error(
            f"join: {odd!r} cannot be the name of a member", node.location_of(odd), "give it another name"
        )
    for entry in entries:
        check_mapping(entry)
    return names, entries


def _expand_member(entry: Node, scope: Scope, file_cache: BlendFileCache) -> Leaf:
    part = expand_node(entry, scope, file_cache, "join")
    if isinstance(part, BlendPlan) or len(part.repeated_leaves) != 1 or part.repeated_leaves[0].repetitions != 1:
        hint = "write a dataset as member; a blend may contain joins, but a join may not contain blends"
        raise _join_error("join: a member must be one dataset, found a blend", entry.location, hint)
    leaf = part.repeated_leaves[0].leaf
    if leaf.join is not None:
        raise _join_error("join: a member cannot be a join", entry.location, "write all members in one join")
    if leaf.subsets:
        raise _join_error(
            "subset: not allowed for a member of a join",
            entry.location,
            "write subset at the join, where it selects joined samples",
        )
    if leaf.multiplier != scope.multiplier:
        found = format_multiplier(leaf.multiplier)
        message = f"shuffle_over_epochs_multiplier: not allowed for a member of a join, found {found}"
        raise _join_error(message, entry.location, "write shuffle_over_epochs_multiplier at the join")
    return leaf


def _parse_nonmatch(node: Node, default: NonmatchMode) -> NonmatchMode:
    if "nonmatch" not in node.value:
        return default
    mode = node.value["nonmatch"].value
    mode = "none" if mode is None else mode  # YAML's null is written so, too
    if mode not in _NONMATCH_MODES:
        message = (
            "nonmatch: expected error, skip or none, found "
            f"{describe_node_value(mode)}{suggestion(str(mode), _NONMATCH_MODES)}"
        )
        raise _join_error(
            message, node.location_of("nonmatch"), "write error, skip or none, or omit nonmatch for error"
        )
    return cast("NonmatchMode", mode)


def _merge_aux(leaves: Sequence[Leaf], location: NodeLocation) -> dict[str, str]:
    """The stores of all members: cookers see the joined samples."""
    stores: dict[str, str] = {}
    for leaf in leaves:
        for name, path in leaf.aux.items():
            if stores.setdefault(name, path) != path:
                raise _join_error(
                    f"aux: {name!r} has two meanings in one join", location, "give one of them another name"
                )
    return stores


def _parse_joiner(node: Node, location: NodeLocation) -> str | Callable[..., object]:
    value: object = node.value
    if callable(value):
        return value  # given in code
    if isinstance(value, dict):
        return _joiner_path(node)
    if isinstance(value, str) and _IMPORT_PATH.fullmatch(value):
        return value
    raise _join_error(
        f"joiner: expected a class or a function by its module, found {describe_node_value(value)}",
        location,
        _JOINER_HINT,
    )


def _joiner_path(node: Node) -> str:
    known = ("__module__", "__class__", "__function__")
    check_keys(node, known)
    parts = [node.value[key].value for key in known if key in node.value]
    name = ":".join(map(str, parts))
    if len(parts) != 2 or "__module__" not in node.value or not _IMPORT_PATH.fullmatch(name):
        raise _join_error("joiner: expected a module and a class or function", node.location, _JOINER_HINT)
    return name


def _join_error(message: str, location: NodeLocation, hint: str) -> DatasetError:
    return blend_error(message, location, hint=hint, code="WDS605")
