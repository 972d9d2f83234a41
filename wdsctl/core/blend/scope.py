"""The scope of a node: what outer nodes set and inner ones extend.

`subset: {range: [a, b]}`: a contiguous range of the samples, as a share or by position; ranges of ranges.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import floor
from typing import Any

from wdsctl.core.blend.yaml_tree import (
    Node,
    NodeLocation,
    blend_error,
    check_keys,
    describe_node_value,
    node_value,
)
from wdsctl.core.errors import DatasetError
from wdsctl.core.yaml_files.limits import MAX_YAML_DEPTH

Bound = int | Fraction

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,18})?) ?%")
_HINT = 'write [0, 500], [500, end], ["0%", "25%"] or ["25%", end]'


@dataclass(frozen=True, slots=True)
class Subset:
    """A half-open range of samples. An int is a position, a Fraction a share; without `stop` it extends to the end."""

    start: Bound
    stop: Bound | None
    where: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"[{_format_bound(self.start)}, {'end' if self.stop is None else _format_bound(self.stop)}]"


def resolve(subsets: Iterable[Subset], n: int) -> tuple[int, int]:
    """(start, stop) of the n positions that remain; each subset takes its range of what the previous one left.

    Shares are exact and round down, so that adjacent ranges share no sample and leave none out. Raises DatasetError
    WDS603 if positions lie past the end.
    """
    start, stop = 0, n
    for subset in subsets:
        count = stop - start
        first, last = _resolve_range(subset, count, n)
        start, stop = start + first, start + last
    return start, stop


def parse_subset(node: Node, location: NodeLocation) -> Subset:
    """The subset of a node. Raises DatasetError WDS603 for an invalid range."""
    if isinstance(node.value, dict):
        check_keys(node, ["range"])
    if not isinstance(node.value, dict) or "range" not in node.value:
        raise _subset_error(f"subset: expected {{range: [a, b]}}, found {describe_node_value(node.value)}", location)
    return _parse_range(node.value["range"], node.location_of("range"))


def _parse_range(node: Node, location: NodeLocation) -> Subset:
    if not isinstance(node.value, list) or len(node.value) != 2:
        raise _subset_error(f"range: expected two bounds, found {describe_node_value(node.value)}", location)
    first, last = (each.value for each in node.value)
    start = _bound(first, location)
    stop = None if last == "end" else _bound(last, location)
    if stop is not None and type(start) is not type(stop):
        raise _subset_error(f"range: {first!r} and {last!r} mix positions and percent", location)
    is_empty = isinstance(start, Fraction) and start == 1
    if is_empty if stop is None else stop <= start:
        raise _subset_error(f"range: [{first}, {last}] is empty", location)
    return Subset(start, stop, str(location))


def _bound(value: object, location: NodeLocation) -> Bound:
    if type(value) is int and value >= 0:
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent and Fraction(percent[1]) <= 100:
        return Fraction(percent[1]) / 100
    raise _subset_error(
        f"range: expected a position, percent from 0% to 100%, or end, found {describe_node_value(value)}", location
    )


def _resolve_range(subset: Subset, count: int, n: int) -> tuple[int, int]:
    start = _position(subset.start, count)
    stop = count if subset.stop is None else _position(subset.stop, count)
    if stop > count or start > stop or (isinstance(subset.start, int) and start == count > 0):
        there = f"{n:,} samples here" if count == n else f"{count:,} of {n:,} samples left by the inner ranges"
        raise DatasetError(
            f"range: {subset} goes past the end, found {there}",
            hint="write a smaller range, or percentages",
            where=subset.where,
            code="WDS603",
        )
    return start, stop


def _position(bound: Bound, count: int) -> int:
    return floor(bound * count) if isinstance(bound, Fraction) else bound


def _format_bound(bound: Bound) -> str:
    return f"{float(bound * 100):g}%" if isinstance(bound, Fraction) else str(bound)


def _subset_error(message: str, location: NodeLocation) -> DatasetError:
    return blend_error(message, location, hint=_HINT, code="WDS603")


#: The keys that any node may have.
COMMON_NODE_KEYS = ("split_part", "subflavors", "tags", "shuffle_over_epochs_multiplier", "subset")


@dataclass(frozen=True, slots=True)
class Scope:
    """The settings that a node inherits."""

    folder: str  # where relative paths begin
    split_part: str
    multiplier: int | None
    subflavors: dict[str, Any] = field(default_factory=dict)
    subsets: tuple[Subset, ...] = ()  # inner first
    files: tuple[tuple[str, str], ...] = ()  # (path, split) of the files that are being read, outermost first
    is_outermost: bool = True  # only plain references are further out
    depth: int = 0


def child_scope(scope: Scope, node: Node) -> Scope:
    """The scope with the keys of `node`: outer subflavors override, multipliers multiply, inner ranges come first."""
    if scope.depth > MAX_YAML_DEPTH:
        raise blend_error(
            f"nodes are nested more than {MAX_YAML_DEPTH} levels deep", node.location, hint="use fewer levels"
        )
    keys = node.value
    subset = (parse_subset(keys["subset"], node.location_of("subset")),) if "subset" in keys else ()
    return replace(
        scope,
        split_part=text_value(node, "split_part") if "split_part" in keys else scope.split_part,
        multiplier=_scoped_multiplier(scope.multiplier, node),
        subflavors=_subflavors(node) | scope.subflavors,
        subsets=subset + scope.subsets,
        depth=scope.depth + 1,
    )


def combine_multipliers(outer: int | None, inner: int | None) -> int | None:
    """The product of two numbers of passes. None (no shuffling) overrides everything, then -1 (replacement)."""
    if outer is None or inner is None:
        return None
    return -1 if -1 in (outer, inner) else outer * inner


def is_multiplier(value: object) -> bool:
    return value is None or (type(value) is int and (value == -1 or value >= 1))


def text_value(node: Node, key: str) -> str:
    """The text at a key. Raises DatasetError WDS600 for an empty one, and for anything else."""
    value = node.value[key].value
    if not isinstance(value, str) or not _can_be_path(value):
        hint = "write text, in quotes if YAML does not read it as text"
        raise blend_error(f"{key}: expected text, found {describe_node_value(value)}", node.location_of(key), hint=hint)
    return value


def mapping_value(node: Node, key: str) -> dict[str, Node]:
    value = node.value[key].value
    if not isinstance(value, dict):
        hint = "write `name: value` lines below it"
        raise blend_error(
            f"{key}: expected a mapping, found {describe_node_value(value)}", node.location_of(key), hint=hint
        )
    return value


def format_multiplier(multiplier: int | None) -> str:
    return "null" if multiplier is None else str(multiplier)


def _can_be_path(text: str) -> bool:
    """Whether a text is a possible path: YAML's escapes can express text that no system call accepts."""
    try:
        return bool(text) and 0 not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _scoped_multiplier(outer: int | None, node: Node) -> int | None:
    key = "shuffle_over_epochs_multiplier"
    if key not in node.value:
        return outer
    own = node.value[key].value
    if not is_multiplier(own):
        hint = "write 1 or more epochs, null for no shuffling, or -1 for drawing with replacement"
        raise blend_error(
            f"{key}: expected a whole number, found {describe_node_value(own)}", node.location_of(key), hint=hint
        )
    return combine_multipliers(outer, own)


def _subflavors(node: Node) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if "subflavor" in node.value:  # of V1
        own["__subflavor__"] = text_value(node, "subflavor")
    if "subflavors" in node.value and "tags" in node.value:
        raise blend_error(
            "subflavors and tags are two names of the same key",
            node.location_of("tags"),
            hint="write all of them under subflavors; Energon 8 names them tags",
        )
    for name in ("subflavors", "tags"):
        if name in node.value:
            own |= {key: node_value(value) for key, value in mapping_value(node, name).items()}
    return own
