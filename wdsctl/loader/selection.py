"""Which samples a split has, as positions 0 to n - 1: whole shards as ranges of rows, parts of shards as bits.

Opening costs a few numbers a shard. Bits are looked into shard by shard, when the first sample of one is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.split_digest import split_digest
from wdsctl.core.splitting import SplitShard

Ints = NDArray[np.int64]

UNPACKED = 256  # shards whose bits are kept as row numbers: 8 bytes a sample


class Selection:
    """The samples of a split in an offsets file. `n`: how many."""

    def __init__(self, offsets: ShardIndex, parts: Sequence[SplitShard]) -> None:
        at = {shard.id: i for i, shard in enumerate(offsets.shards)}
        self._parts = [part for part in parts if part.shard in at]
        places = np.array([at[part.shard] for part in self._parts], np.int64)
        self._first_row: Ints = offsets.shard_row[places]
        self._ends: Ints = np.cumsum([part.samples for part in self._parts], dtype=np.int64)
        self._starts = self._ends - np.array([part.samples for part in self._parts], np.int64)
        self._has_bits = any(part.bits is not None for part in self._parts)
        self._unpacked: OrderedDict[int, Ints] = OrderedDict()

    @property
    def n(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, positions: Ints) -> Ints:
        """The rows of the offsets file at these positions, in the order of the positions."""
        which = self._ends.searchsorted(positions, side="right")
        local = positions - self._starts.take(which)
        if self._has_bits:
            for i in np.unique(which).tolist():
                if self._parts[i].bits is not None:
                    mine = which == i
                    local[mine] = self._chosen(i)[local[mine]]
        rows: Ints = self._first_row.take(which) + local
        return rows

    def by_shard(self, slices: Ints) -> Ints:
        """These slices of positions [start, stop), (slices, 2), cut where one shard of the split ends."""
        if self.shards == 1:
            return slices
        starts, stops = slices.T
        straddles = self._ends.searchsorted(starts, side="right") != self._ends.searchsorted(stops - 1, side="right")
        return np.concatenate([slices[~straddles], *(self._cut(*each) for each in slices[straddles].tolist())])

    def up_to(self, offsets: ShardIndex, shard: int) -> Selection:
        """The same without the shards that were added after this one."""
        return Selection(offsets, [part for part in self._parts if part.shard <= shard])

    def only(self, offsets: ShardIndex, kept: NDArray[np.bool_]) -> Selection:
        """The same without the samples that are not `kept`: (rows,). Cost: a byte a row."""
        bounds = offsets.shard_row.tolist()
        rows = {shard.id: slice(*bounds[i : i + 2]) for i, shard in enumerate(offsets.shards)}
        found = (_cut_to(part, kept[rows[part.shard]]) for part in self._parts)
        return Selection(offsets, [part for part in found if part.samples])

    def samples_of(self, shards: set[int]) -> int:
        """How many samples of these shards, by id, are in the split."""
        return sum(part.samples for part in self._parts if part.shard in shards)

    @property
    def shards(self) -> int:
        return len(self._parts)

    def digest(self, offsets: ShardIndex) -> str:
        """Names the data: see `split_digest`."""
        return split_digest(offsets, self._parts)

    def _cut(self, start: int, stop: int) -> Ints:
        edges = np.unique(self._ends[(self._ends > start) & (self._ends < stop)])
        return np.stack((np.append(start, edges), np.append(edges, stop)), axis=1)

    def _chosen(self, i: int) -> Ints:
        """The samples of the i-th shard that are in the split, by their index in it."""
        rows = self._unpacked.get(i)
        if rows is None:
            bits = np.frombuffer(self._parts[i].bits or b"", np.uint8)
            rows = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            self._unpacked[i] = rows
            if len(self._unpacked) > UNPACKED:
                self._unpacked.popitem(last=False)
        else:
            self._unpacked.move_to_end(i)
        return rows


def _cut_to(part: SplitShard, kept: NDArray[np.bool_]) -> SplitShard:
    """What is kept of a part: (samples of the shard,)."""
    mine = kept
    if part.bits is not None:
        mine = mine & np.unpackbits(np.frombuffer(part.bits, np.uint8), count=len(kept), bitorder="little").view(bool)
    samples = int(np.count_nonzero(mine))
    if samples == part.samples:
        return part
    return SplitShard(part.shard, samples, np.packbits(mine, bitorder="little").tobytes())
