"""The members of a shard as they were indexed: none of them may be missing from a repaired copy without being named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from wdsctl.core.offsets import ShardRows, offsets_of
from wdsctl.core.shard_scan import ShardScan, texts


class Member(NamedTuple):
    """`data`: where its bytes begin in the shard; `size`: how many they are."""

    key: str
    part: str
    data: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.key}.{self.part}"


def indexed_members(offsets: str, shard_id: int) -> list[Member]:
    """The members of a shard as they were indexed, in tar order; none where this offsets file does not know it.

    Memory: 200 bytes a member. Raises what opening the file raises.
    """
    known = offsets_of(offsets)
    i = next((i for i, shard in enumerate(known.shards) if shard.id == shard_id), -1)
    if i < 0:
        return []
    rows = known.shard_rows(i, {name: number for number, name in enumerate(known.extensions)})
    return _members(rows, known.extensions)


def scanned_members(scan: ShardScan) -> list[Member]:
    """The members that a scan has found, in tar order."""
    return _members(scan, scan.extensions)


def _members(rows: ShardRows | ShardScan, extensions: Sequence[str]) -> list[Member]:
    keys = texts(rows.keys, np.append(0, np.cumsum(rows.key_sizes, dtype=np.int64)))
    of_parts = chain.from_iterable(map(repeat, keys, rows.counts.tolist()))
    parts = (extensions[i] for i in rows.part_names.tolist())
    return [*map(Member, of_parts, parts, rows.part_offsets.tolist(), rows.part_sizes.tolist())]


def is_of_this(known: Sequence[Member], found: Sequence[Member]) -> bool:
    """Whether the catalog speaks of this shard, and not of another one of its name: half of what is in the smaller of
    the two is in the other. Wherever it lies: what stands behind damage may have moved.
    """
    ours = Counter((each.key, each.part, each.size) for each in known)
    theirs = Counter((each.key, each.part, each.size) for each in found)
    common = (ours & theirs).total()
    return common > 0 and min(ours.total(), theirs.total()) <= 2 * common


def missing(known: Sequence[Member], kept: Sequence[Member]) -> list[Member]:
    """The indexed members that are not kept as they were, by name and size."""
    left = Counter((each.key, each.part, each.size) for each in kept)
    lost = []
    for each in known:
        name = (each.key, each.part, each.size)
        left[name] -= 1
        if left[name] < 0:
            lost.append(each)
    return lost


def misnamed(known: Sequence[Member], kept: Sequence[Member]) -> set[int]:
    """Where members begin that stand in the place of indexed ones under names that nobody indexed."""
    names = {(each.key, each.part) for each in known}
    places = {(each.data, each.size) for each in known}
    return {each.data for each in kept if (each.data, each.size) in places and (each.key, each.part) not in names}
