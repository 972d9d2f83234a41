"""The outline of a blend file, for people: its nodes with lines, leaves in the order of the plan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from wdsctl.core.blend import parse
from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.read import root_node
from wdsctl.core.blend.scope import Scope, child_scope, text_value
from wdsctl.core.blend.yaml_tree import Node, NodeLocation, folder_of, is_blend_file, parse_amount, resolve_blend_path
from wdsctl.core.urls import redact_secrets

_AMOUNT_KEYS = {"blend": "weight", "datasets": "weight", "blend_epochized": "repetitions"}


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """`kind`: dataset, file, blend, blend_epochized, concat or join. `path`: of a dataset or a file.

    `amount`: weight or repetitions of this entry. `name`: in schedules and joins.
    """

    kind: str
    where: str  # file:line
    path: str = ""
    split_part: str = ""
    amount: Fraction | None = None
    name: str = ""
    children: tuple[OutlineNode, ...] = ()

    def leaves(self) -> Iterator[OutlineNode]:
        """The datasets, as in `BlendPlan.leaves`: a join is represented by its primary."""
        if self.kind == "dataset":
            yield self
        for child in self.children[:1] if self.kind == "join" else self.children:
            yield from child.leaves()


def read_outline(path: str, split_part: str) -> OutlineNode:
    """The outline of one split of a blend file that `wdsctl.core.blend.read_blend` accepts. Opens no dataset."""
    return _outline_node(root_node(path), Scope(os.getcwd(), split_part, 1), BlendFileCache(), "")


def list_split_names(path: str) -> list[str]:
    """The splits that a blend file names; none if it has one node for all splits. Raises what
    `wdsctl.core.blend.read_blend` raises."""
    node = BlendFileCache().read_node(resolve_blend_path(path, os.getcwd()), NodeLocation(path))
    splits = node.value.get("splits") if isinstance(node.value, dict) else None
    return list(splits.value) if splits is not None and isinstance(splits.value, dict) else []


def _outline_node(node: Node, scope: Scope, file_cache: BlendFileCache, entry_of: str) -> OutlineNode:
    kind = parse.node_kind(node, entry_of)
    inner = child_scope(scope, node)
    outline = (
        _outline_reference(node, inner, file_cache) if kind == "path" else _outline_group(node, inner, file_cache, kind)
    )
    key = _AMOUNT_KEYS.get(entry_of)
    amount = Fraction(1) if key is not None else None
    if key is not None and key in node.value:
        amount = parse_amount(node.value[key], key, node.location_of(key))
    return replace(outline, amount=amount, name=text_value(node, "name") if "name" in node.value else "")


def _outline_group(node: Node, scope: Scope, file_cache: BlendFileCache, kind: str) -> OutlineNode:
    listed = node.value[kind].value
    names = list(listed) if isinstance(listed, dict) else [""] * len(listed)
    entries = list(listed.values()) if isinstance(listed, dict) else listed
    children = [_outline_node(entry, scope, file_cache, kind) for entry in entries]
    return OutlineNode(
        "blend" if kind == "datasets" else kind,
        str(node.location_of(kind)),
        children=tuple(replace(child, name=child.name or name) for child, name in zip(children, names, strict=True)),
    )


def _outline_reference(node: Node, scope: Scope, file_cache: BlendFileCache) -> OutlineNode:
    path, location = node.value["path"], node.location_of("path")
    if isinstance(path.value, dict):
        return _outline_file(path, scope, file_cache)
    target = resolve_blend_path(text_value(node, "path"), scope.folder)
    if not is_blend_file(target):
        return OutlineNode("dataset", str(location), target, scope.split_part)
    opened = _outline_file(file_cache.read_node(target, location), replace(scope, folder=folder_of(target)), file_cache)
    return OutlineNode("file", str(location), redact_secrets(target), scope.split_part, children=(opened,))


def _outline_file(node: Node, scope: Scope, file_cache: BlendFileCache) -> OutlineNode:
    part, name = parse.select_split_node(node, scope.split_part)
    return _outline_node(part, replace(scope, split_part=name), file_cache, "")
