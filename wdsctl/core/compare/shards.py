"""Which shards of two sides are the same: by path and layout, by layout alone, by their bytes where these are known."""

from __future__ import annotations

from collections.abc import Mapping

from wdsctl.core.compare.side import Side


def renamed(first: Side, second: Side, one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, str]:
    """Shards of the first side that the second has under another path alone, by their layouts. Empty ones never.

    `one` and `other`: the shards of each by path, as indices.
    """
    free: dict[str, list[str]] = {}
    for path in sorted(other.keys() - one.keys(), reverse=True):
        free.setdefault(second.shards[other[path]].layout_hash, []).append(path)
    found = {}
    for path in sorted(one.keys() - other.keys()):
        shard = first.shards[one[path]]
        there = free.get(shard.layout_hash)
        if there and shard.samples:
            found[path] = there.pop()
    return found


def is_alike(first: Side, second: Side, i: int, j: int) -> bool:
    """Whether two shards have the same keys and parts at the same places."""
    one, other = first.shards[i], second.shards[j]
    return (one.layout_hash, one.samples) == (other.layout_hash, other.samples)


def may_have_same_bytes(first: Side, second: Side, i: int, j: int) -> bool:
    """Unless the hashes of both are known and differ."""
    hashes = {first.hashes.get(first.shards[i].id), second.hashes.get(second.shards[j].id)} - {None}
    return len(hashes) < 2
