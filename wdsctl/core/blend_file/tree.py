"""A blend file as the tree that is written in it, for people: nodes with lines, leaves in the order of the plan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from wdsctl.core.blend_file import shapes
from wdsctl.core.blend_file.amounts import amount
from wdsctl.core.blend_file.around import Around, text, within
from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.paths import folder_of, is_blend_file, meant
from wdsctl.core.blend_file.problems import Place
from wdsctl.core.blend_file.texts import Texts
from wdsctl.core.urls import shown

_AMOUNTS = {"blend": "weight", "datasets": "weight", "blend_epochized": "repetitions"}


@dataclass(frozen=True, slots=True)
class Branch:
    """`kind`: dataset, file, blend, blend_epochized, concat or join. `path`: of a dataset or a file.

    `amount`: its weight or repetitions where it stands. `name`: what a schedule or a joiner calls it.
    """

    kind: str
    where: str  # file:line
    path: str = ""
    split_part: str = ""
    amount: Fraction | None = None
    name: str = ""
    children: tuple[Branch, ...] = ()

    def leaves(self) -> Iterator[Branch]:
        """The datasets, as `BlendPlan.leaves` has them: of a join its primary alone."""
        if self.kind == "dataset":
            yield self
        for child in self.children[:1] if self.kind == "join" else self.children:
            yield from child.leaves()


def tree_of(path: str, split_part: str) -> Branch:
    """The tree of one split of a blend file that `read_blend` has read without an error. Opens no dataset."""
    place = Place(path)
    root = Node({"path": Node(path, place)}, place, {"path": place})
    return _branch(root, Around(os.getcwd(), split_part, 1), Texts(), "")


def splits_of(path: str) -> list[str]:
    """The splits that a blend file names; none where it is one node for every split. Raises as `read_blend` does."""
    node = Texts().node(meant(path, os.getcwd()), Place(path))
    splits = node.value.get("splits") if isinstance(node.value, dict) else None
    return list(splits.value) if splits is not None and isinstance(splits.value, dict) else []


def _branch(node: Node, around: Around, texts: Texts, entry_of: str) -> Branch:
    kind = shapes.kind_of(node, entry_of)
    inner = within(around, node)
    made = _reference(node, inner, texts) if kind == "path" else _group(node, inner, texts, kind)
    key = _AMOUNTS.get(entry_of)
    said = Fraction(1) if key is not None else None
    if key is not None and key in node.value:
        said = amount(node.value[key], key, node.at(key))
    return replace(made, amount=said, name=text(node, "name") if "name" in node.value else "")


def _group(node: Node, around: Around, texts: Texts, kind: str) -> Branch:
    listed = node.value[kind].value
    names = list(listed) if isinstance(listed, dict) else [""] * len(listed)
    entries = list(listed.values()) if isinstance(listed, dict) else listed
    children = [_branch(entry, around, texts, kind) for entry in entries]
    return Branch(
        "blend" if kind == "datasets" else kind,
        str(node.at(kind)),
        children=tuple(replace(child, name=child.name or name) for child, name in zip(children, names, strict=True)),
    )


def _reference(node: Node, around: Around, texts: Texts) -> Branch:
    path, place = node.value["path"], node.at("path")
    if isinstance(path.value, dict):
        return _file(path, around, texts)
    target = meant(text(node, "path"), around.folder)
    if not is_blend_file(target):
        return Branch("dataset", str(place), target, around.split_part)
    opened = _file(texts.node(target, place), replace(around, folder=folder_of(target)), texts)
    return Branch("file", str(place), shown(target), around.split_part, children=(opened,))


def _file(node: Node, around: Around, texts: Texts) -> Branch:
    part, name = shapes.part_of_file(node, around.split_part)
    return _branch(part, replace(around, split_part=name), texts, "")
