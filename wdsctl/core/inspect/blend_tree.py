"""The tree of a blend file, drawn from its nodes. Opens no dataset: `inspect_blend` adds the figures."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from wdsctl.core.blend.files import BlendFileCache
from wdsctl.core.blend.parse import entry_amount, node_kind, select_split_node
from wdsctl.core.blend.read import root_node
from wdsctl.core.blend.scope import Scope, child_scope, text_value
from wdsctl.core.blend.yaml_tree import Node, folder_of, resolve_blend_path
from wdsctl.core.dataset.view_root import is_blend_file
from wdsctl.core.urls import redact_secrets

_AMOUNT_KEYS = {"blend": "weight", "datasets": "weight", "blend_epochized": "repetitions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendNode:
    """A node of the tree. `share`: the share of the drawn samples that comes from this node.

    `samples`: the samples of a dataset, after its split and subsets; `is_most`: a join may skip some of them.
    `epochs`: how often each sample is drawn in `BlendSplit.drawn` samples. Unknown numbers are None.
    """

    kind: str  # dataset, file, blend, blend_epochized, concat or join
    where: str  # file:line
    path: str = ""
    split: str = ""
    name: str = ""
    weight: float | None = None  # weight or repetitions, as in the file
    share: float | None = None
    subset: str = ""
    samples: int | None = None
    is_most: bool = False
    epochs: float | None = None
    children: tuple[BlendNode, ...] = ()


def read_blend_tree(path: str, split_part: str) -> BlendNode:
    """The tree of one split of a blend file that `read_blend` accepts, without figures.

    Its datasets are in the order of `BlendPlan.leaves`, where a join is represented by its first member.
    """
    return _draw(root_node(path), Scope(os.getcwd(), split_part, 1), BlendFileCache())


def _draw(node: Node, scope: Scope, file_cache: BlendFileCache, entry_of: str = "", name: str = "") -> BlendNode:
    """`name`: of an entry that does not name itself."""
    kind = node_kind(node, entry_of)
    inner = child_scope(scope, node)
    if kind == "path":
        drawn = _draw_reference(node, inner, file_cache)
    else:
        listed = node.value[kind].value
        entries = listed.items() if isinstance(listed, dict) else (("", entry) for entry in listed)
        drawn = BlendNode(
            kind="blend" if kind == "datasets" else kind,
            where=str(node.location_of(kind)),
            children=tuple(_draw(entry, inner, file_cache, kind, entry_name) for entry_name, entry in entries),
        )
    key = _AMOUNT_KEYS.get(entry_of)
    return replace(
        drawn,
        weight=None if key is None else float(entry_amount(node, key)),
        name=text_value(node, "name") if "name" in node.value else name,
    )


def _draw_reference(node: Node, scope: Scope, file_cache: BlendFileCache) -> BlendNode:
    path, location = node.value["path"], node.location_of("path")
    if isinstance(path.value, dict):
        return _draw_file(path, scope, file_cache)
    target = resolve_blend_path(text_value(node, "path"), scope.folder)
    drawn = BlendNode(kind="dataset", where=str(location), path=redact_secrets(target), split=scope.split_part)
    if not is_blend_file(target):
        return drawn
    opened = _draw_file(file_cache.read_node(target, location), replace(scope, folder=folder_of(target)), file_cache)
    return replace(drawn, kind="file", children=(opened,))


def _draw_file(node: Node, scope: Scope, file_cache: BlendFileCache) -> BlendNode:
    part, name = select_split_node(node, scope.split_part)
    return _draw(part, replace(scope, split_part=name), file_cache)
