"""What the nodes further out say of a node: it is handed down, and each node adds its own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from wdsctl.core.blend_file.nodes import Node, plain
from wdsctl.core.blend_file.problems import called, wrong
from wdsctl.core.blend_file.subset import Subset, subset_of
from wdsctl.core.yaml_limits import DEEPEST

#: The keys that any node may have.
COMMON = ("split_part", "subflavors", "shuffle_over_epochs_multiplier", "subset")


@dataclass(frozen=True, slots=True)
class Around:
    folder: str  # where relative paths begin
    split_part: str
    multiplier: int | None
    subflavors: dict[str, Any] = field(default_factory=dict)
    subsets: tuple[Subset, ...] = ()  # inner first
    files: tuple[tuple[str, str], ...] = ()  # (path, split) of the files that are being read, outermost first
    is_top: bool = True  # nothing but plain references stands further out
    depth: int = 0


def within(around: Around, node: Node) -> Around:
    """The same with what `node` says itself: outer subflavors win, multipliers multiply, ranges come before."""
    if around.depth > DEEPEST:
        raise wrong(f"nodes are nested more than {DEEPEST} levels deep", node.place, hint="write it flatter")
    keys = node.value
    subset = (subset_of(keys["subset"], node.at("subset")),) if "subset" in keys else ()
    return replace(
        around,
        split_part=text(node, "split_part") if "split_part" in keys else around.split_part,
        multiplier=_multiplied(around.multiplier, node),
        subflavors=_subflavors(node) | around.subflavors,
        subsets=subset + around.subsets,
        depth=around.depth + 1,
    )


def combined(outer: int | None, inner: int | None) -> int | None:
    """No shuffling (None) anywhere holds for all, then replacement (-1); else passes multiply."""
    if outer is None or inner is None:
        return None
    return -1 if -1 in (outer, inner) else outer * inner


def is_multiplier(value: object) -> bool:
    return value is None or (type(value) is int and (value == -1 or value >= 1))


def text(node: Node, key: str) -> str:
    """The text at a key. Raises DatasetError WDS600 for an empty one, and for anything else."""
    value = node.value[key].value
    if not isinstance(value, str) or not _can_be_a_name(value):
        hint = "write a text, in quotes where YAML reads it otherwise"
        raise wrong(f"{key}: expected a text, found {called(value)}", node.at(key), hint=hint)
    return value


def mapping(node: Node, key: str) -> dict[str, Node]:
    value = node.value[key].value
    if not isinstance(value, dict):
        hint = "write `name: value` lines below it"
        raise wrong(f"{key}: expected a mapping, found {called(value)}", node.at(key), hint=hint)
    return value


def shown_multiplier(multiplier: int | None) -> str:
    return "null" if multiplier is None else str(multiplier)


def _can_be_a_name(text: str) -> bool:
    """YAML's escapes can write what no system call takes."""
    try:
        return bool(text) and 0 not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _multiplied(outer: int | None, node: Node) -> int | None:
    key = "shuffle_over_epochs_multiplier"
    if key not in node.value:
        return outer
    own = node.value[key].value
    if not is_multiplier(own):
        hint = "write 1 or more passes, null for no shuffling, or -1 for drawing with replacement"
        raise wrong(f"{key}: expected a whole number, found {called(own)}", node.at(key), hint=hint)
    return combined(outer, own)


def _subflavors(node: Node) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if "subflavor" in node.value:  # of V1
        own["__subflavor__"] = text(node, "subflavor")
    if "subflavors" in node.value:
        own |= {key: plain(value) for key, value in mapping(node, "subflavors").items()}
    return own
