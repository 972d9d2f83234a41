"""Reads a path, a URL, a mapping or a `Blender` into a `BlendPlan`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.parse import expand_node
from wdsctl.core.blend.plan import BlendComponent, BlendPlan, RepeatedLeaf, WeightUnit
from wdsctl.core.blend.scope import Scope, format_multiplier, is_multiplier
from wdsctl.core.blend.yaml_tree import Node, NodeLocation, from_mapping, resolve_blend_path
from wdsctl.core.errors import DatasetError, UsageError

BlendSource = str | os.PathLike[str] | Mapping[str, Any]
BlendMode = Literal["train", "val"]


def read_blend(
    source: BlendSource, *, split_part: str = "train", mode: BlendMode = "train", multiplier: int | None = 1
) -> BlendPlan:
    """The flat plan of a blend file, of a mapping with its content, or of a single dataset.

    Relative paths in a mapping start from the current folder. `mode="val"`: all leaves in order, once each, in one
    component. `multiplier`: the caller's shuffle_over_epochs_multiplier, which those in the file multiply. Raises
    DatasetError (WDS600 to WDS606) with file, line and key; InputError if a blend file is missing. No dataset is
    opened, so paths of datasets may be wrong.
    """
    if mode not in ("train", "val"):
        raise UsageError(f"mode: expected train or val, found {mode!r}", hint='pass mode="train" or mode="val"')
    if not is_multiplier(multiplier):
        hint = "pass 1 or more epochs, None for no shuffling, or -1 for drawing with replacement"
        raise UsageError(f"multiplier: expected a whole number, found {multiplier!r}", hint=hint)
    if not split_part:
        raise UsageError(
            f"split_part: expected a name, found {split_part!r}", hint='pass a name such as split_part="train"'
        )
    part = expand_node(root_node(source), Scope(os.getcwd(), split_part, multiplier), BlendFileCache())
    plan = part if isinstance(part, BlendPlan) else BlendPlan((part,), where=part.where)
    if mode == "val":
        return validation_plan(plan)
    for component in plan.components:
        _check_multipliers(component)
    return plan


def validation_plan(plan: BlendPlan) -> BlendPlan:
    """The plan of a validation: all leaves of a plan in order, once each, in one component."""
    leaves = tuple(map(RepeatedLeaf, plan.leaves))
    return BlendPlan((BlendComponent(Fraction(1), leaves, None, plan.where),), where=plan.where)


def _check_multipliers(component: BlendComponent) -> None:
    """Raise DatasetError WDS600 if the leaves of one order have different multipliers."""
    first = component.repeated_leaves[0].leaf
    for each in component.repeated_leaves:
        if each.leaf.multiplier != first.multiplier:
            one, other = (f"{format_multiplier(leaf.multiplier)} ({leaf.where})" for leaf in (first, each.leaf))
            raise DatasetError(
                f"shuffle_over_epochs_multiplier: entries with one common order need the same value, found {one} "
                f"and {other}",
                hint="write the key at the blend_epochized or concat, or the same value at each of its entries",
                where=component.where,
                code="WDS600",
            )


def root_node(source: BlendSource) -> Node:
    """A node that refers to `source`. Raises UsageError if it is no path and no mapping."""
    if isinstance(source, Mapping):
        target = from_mapping(source, "mapping")
    else:
        try:
            path = os.fspath(source)
        except TypeError as error:
            hint = "pass the path of a dataset or a blend file, or a mapping with the content of a blend file"
            raise UsageError(f"expected a path or a mapping, found {source!r:.60}", hint=hint) from error
        target = Node(path, NodeLocation(path))
    return Node({"path": target}, target.location, {"path": target.location})


def list_split_names(path: str) -> list[str]:
    """The splits that a blend file names; none if it has one node for all splits. Raises what `read_blend` raises."""
    node = BlendFileCache().read_node(resolve_blend_path(path, os.getcwd()), NodeLocation(path))
    splits = node.value.get("splits") if isinstance(node.value, dict) else None
    return list(splits.value) if splits is not None and isinstance(splits.value, dict) else []


Weight = int | float | str | Fraction


@dataclass(frozen=True, slots=True)
class Blender:
    """A blend in code: `Blender([("a", 3), ("b.yaml", 1)])` is equivalent to a blend file with these entries.

    A path may be a dataset, a blend file, a mapping with the content of one, or another Blender. `weight_by` and
    `schedule` are as in a file: `schedule=[{"step": 1000, "weights": {"0": 1}}]`.
    """

    entries: Sequence[tuple[BlendSource | Blender, Weight]]
    weight_by: WeightUnit = "samples"
    schedule: Sequence[Mapping[str, Any]] = ()

    def mapping(self) -> dict[str, Any]:
        """The content of the blend file. Raises UsageError if an entry is no pair."""
        node: dict[str, Any] = {"blend": [_entry_mapping(each) for each in self.entries]}
        if self.weight_by != "samples":
            node["weight_by"] = self.weight_by
        if self.schedule:
            node["schedule"] = list(self.schedule)
        return node

    def plan(self, *, split_part: str = "train", mode: BlendMode = "train", multiplier: int | None = 1) -> BlendPlan:
        """Raises as `read_blend` does."""
        return read_blend(self.mapping(), split_part=split_part, mode=mode, multiplier=multiplier)


def _entry_mapping(entry: object) -> dict[str, Any]:
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise UsageError(f"expected (path, weight), found {entry!r:.60}", hint='Blender([("shards", 1), ...])')
    path, weight = entry
    return {"path": path.mapping() if isinstance(path, Blender) else path, "weight": weight}
