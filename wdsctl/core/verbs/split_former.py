"""The split that an excluded sample was in: remembered when the sample is taken out, so that it goes back there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of, part_of

Sizes = Mapping[int, int]  # samples by shard


def take_out(sizes: Sizes, parts: Parts, former: Parts, excluded: Mapping[int, SplitShard]) -> set[int]:
    """Take excluded samples out of their splits, and remember these. Returns the shards of which something was."""
    changed = set()
    for name, mine in parts.items():
        for shard, gone in excluded.items():
            if shard not in mine:
                continue
            was, out = flags_of(mine[shard], sizes[shard]), flags_of(gone, sizes[shard])
            if (was & out).any():
                changed.add(shard)
                put(mine, shard, part_of(shard, was & ~out))
                add(former.setdefault(name, {}), shard, was & out)
    return changed


def put_back(sizes: Sizes, parts: Parts, former: Parts, excluded: Mapping[int, SplitShard]) -> set[int]:
    """Put what is no longer excluded back into the splits that it was in. Returns the shards of which something was."""
    changed = set()
    for name, mine in former.items():
        for shard in [shard for shard in mine if shard in sizes]:
            was, out = flags_of(mine[shard], sizes[shard]), flags_of(excluded.get(shard), sizes[shard])
            if (was & ~out).any():
                changed.add(shard)
                add(parts[name], shard, was & ~out)
                put(mine, shard, part_of(shard, was & out))
    return changed


def excluded_before(
    sizes: Sizes, parts: Parts, former: Parts, excluded: Mapping[int, SplitShard]
) -> dict[str, dict[int, Flags]]:
    """The excluded samples that were in each split of a set, or were to go back to it."""
    found: dict[str, dict[int, Flags]] = {}
    for name in dict.fromkeys((*parts, *former)):
        both = found[name] = {}
        for mine in (parts.get(name, {}), former.get(name, {})):
            for shard in sorted(mine.keys() & excluded.keys()):
                flags = flags_of(mine[shard], sizes[shard]) & flags_of(excluded[shard], sizes[shard])
                if flags.any():
                    both[shard] = both[shard] | flags if shard in both else flags
    return found


def keep_splits(former: Parts, was: Mapping[str, Mapping[int, Flags]]) -> None:
    """Let samples go back to the splits that they were in, wherever they were to go instead."""
    for shard, flags in (pair for mine in was.values() for pair in mine.items()):
        for other in former.values():
            if shard in other:
                put(other, shard, part_of(shard, flags_of(other[shard], len(flags)) & ~flags))
    for name, mine in was.items():
        for shard, flags in mine.items():
            add(former.setdefault(name, {}), shard, flags)


def without_split(sizes: Sizes, former: Parts, was: Mapping[str, Mapping[int, Flags]]) -> dict[int, Flags]:
    """The samples of `was`, by shard, that are to go back to no split as yet."""
    left: dict[int, Flags] = {}
    for shard, flags in (pair for mine in was.values() for pair in mine.items()):
        left[shard] = left.get(shard, np.zeros(len(flags), np.bool_)) | flags
    for mine in former.values():
        for shard in left.keys() & mine.keys():
            left[shard] &= ~flags_of(mine[shard], sizes[shard])
    return {shard: flags for shard, flags in left.items() if flags.any()}


def put(parts: dict[int, SplitShard], shard: int, part: SplitShard | None) -> None:
    """Let a split have this of a shard, or nothing."""
    if part is None or not part.samples:
        parts.pop(shard, None)
    else:
        parts[shard] = part


def add(parts: dict[int, SplitShard], shard: int, more: Flags) -> None:
    """Give a split these samples of a shard, beside those that it has."""
    put(parts, shard, part_of(shard, flags_of(parts.get(shard), len(more)) | more))
