"""Compare the members of a shard with the indexed ones, so that a repair reports every missing member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from wdsctl.core.offsets.read import ShardColumns, open_cached_offsets
from wdsctl.core.shards.shard_scan import ShardScan, split_texts


class ShardMember(NamedTuple):
    """A file of a tar. `data_offset`: the offset of its first byte in the shard; `size` in bytes."""

    key: str
    part: str
    data_offset: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.key}.{self.part}"


def read_indexed_members(offsets: str, shard_id: int) -> list[ShardMember]:
    """Read the indexed members of a shard, in tar order; empty if the offsets file lacks the shard.

    Memory: 200 bytes per member. Raises the errors of opening the file.
    """
    known = open_cached_offsets(offsets)
    i = next((i for i, shard in enumerate(known.shards) if shard.id == shard_id), -1)
    if i < 0:
        return []
    rows = known.shard_columns(i, {name: number for number, name in enumerate(known.extensions)})
    return _to_members(rows, known.extensions)


def members_of_scan(scan: ShardScan) -> list[ShardMember]:
    """Return the members that a scan found, in tar order."""
    return _to_members(scan, scan.extensions)


def _to_members(rows: ShardColumns | ShardScan, extensions: Sequence[str]) -> list[ShardMember]:
    keys = split_texts(rows.keys, np.append(0, np.cumsum(rows.key_sizes, dtype=np.int64)))
    member_keys = chain.from_iterable(map(repeat, keys, rows.counts.tolist()))
    parts = (extensions[i] for i in rows.part_names.tolist())
    return [*map(ShardMember, member_keys, parts, rows.part_offsets.tolist(), rows.part_sizes.tolist())]


def is_same_shard(known_members: Sequence[ShardMember], found_members: Sequence[ShardMember]) -> bool:
    """Whether the indexed members belong to this shard, not to another one that had its path.

    True if the two have half of the members of the smaller one in common, at any offset: members may have moved.
    """
    known = Counter((each.key, each.part, each.size) for each in known_members)
    found = Counter((each.key, each.part, each.size) for each in found_members)
    common = (known & found).total()
    return common > 0 and min(known.total(), found.total()) <= 2 * common


def find_missing(known_members: Sequence[ShardMember], kept_members: Sequence[ShardMember]) -> list[ShardMember]:
    """Return the indexed members that are not among the kept ones, by name and size."""
    remaining = Counter((each.key, each.part, each.size) for each in kept_members)
    missing = []
    for member in known_members:
        name = (member.key, member.part, member.size)
        remaining[name] -= 1
        if remaining[name] < 0:
            missing.append(member)
    return missing


def find_misnamed(known_members: Sequence[ShardMember], kept_members: Sequence[ShardMember]) -> set[int]:
    """Return the data offsets of members whose offset was indexed under another name."""
    names = {(each.key, each.part) for each in known_members}
    ranges = {(each.data_offset, each.size) for each in known_members}
    return {
        each.data_offset
        for each in kept_members
        if (each.data_offset, each.size) in ranges and (each.key, each.part) not in names
    }
