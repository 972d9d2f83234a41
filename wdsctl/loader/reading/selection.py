"""The samples of a split as positions 0 to n - 1: complete shards as ranges of rows, incomplete ones as bits.

Opening costs some numbers per shard. The bits of a shard are unpacked when its first sample is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.splits import SplitShard, split_digest
from wdsctl.core.offsets.read import SAMPLES_PER_GROUP, ShardIndex

MAX_UNPACKED_SHARDS = 256  # kept as row numbers: 8 bytes per sample


class SampleSelection:
    """The samples of a split in an offsets file. `n`: their number."""

    def __init__(self, offsets: ShardIndex, split_shards: Sequence[SplitShard]) -> None:
        index_by_id = {shard.id: i for i, shard in enumerate(offsets.shards)}
        self._split_shards = [part for part in split_shards if part.shard in index_by_id]
        shard_indices = np.array([index_by_id[part.shard] for part in self._split_shards], np.int64)
        self._first_row: Int64Array = offsets.shard_row[shard_indices]
        self._ends: Int64Array = np.cumsum([part.samples for part in self._split_shards], dtype=np.int64)
        self._starts = self._ends - np.array([part.samples for part in self._split_shards], np.int64)
        self._has_bits = any(part.bits is not None for part in self._split_shards)
        self._unpacked: OrderedDict[int, Int64Array] = OrderedDict()

    @property
    def n(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, positions: Int64Array) -> Int64Array:
        """The rows of the offsets file at these positions, in order."""
        shard_index = self._ends.searchsorted(positions, side="right")
        local = positions - self._starts.take(shard_index)
        if self._has_bits:
            for i in np.unique(shard_index).tolist():
                if self._split_shards[i].bits is not None:
                    in_shard = shard_index == i
                    local[in_shard] = self._selected_rows(i)[local[in_shard]]
        rows: Int64Array = self._first_row.take(shard_index) + local
        return rows

    def position_of(self, row: int) -> int | None:
        """The position of a row of the offsets file; None if it is not in the split. Costs some microseconds."""
        ordinal = int(self._rows_ascending.searchsorted(row, side="right")) - 1
        if ordinal < 0:
            return None
        i = int(self._parts_by_row[ordinal])
        local = row - int(self._first_row[i])
        if self._split_shards[i].bits is not None:
            rows = self._selected_rows(i)
            row_in_shard, local = local, int(rows.searchsorted(local))
            if local == len(rows) or rows[local] != row_in_shard:
                return None
        elif local >= self._split_shards[i].samples:
            return None
        return int(self._starts[i]) + local

    @cached_property
    def _parts_by_row(self) -> Int64Array:
        return np.argsort(self._first_row)

    @cached_property
    def _rows_ascending(self) -> Int64Array:
        rows: Int64Array = self._first_row[self._parts_by_row]
        return rows

    def groups(self, offsets: ShardIndex) -> NDArray[np.bool_]:
        """Which groups of `SAMPLES_PER_GROUP` rows of the offsets file have a sample of the split: (groups,)."""
        found = np.zeros(int(offsets.shard_row[-1]) // SAMPLES_PER_GROUP + 1, np.bool_)
        for i, part in enumerate(self._split_shards):
            first = int(self._first_row[i])
            if part.bits is not None:
                found[(first + self._selected_rows(i)) // SAMPLES_PER_GROUP] = True
            elif part.samples:
                found[first // SAMPLES_PER_GROUP : (first + part.samples - 1) // SAMPLES_PER_GROUP + 1] = True
        return found

    def cut_by_shard(self, slices: Int64Array) -> Int64Array:
        """These slices of positions [start, stop), (slices, 2), divided at the ends of shards."""
        if self.shard_count == 1:
            return slices
        starts, stops = slices.T
        straddles = self._ends.searchsorted(starts, side="right") != self._ends.searchsorted(stops - 1, side="right")
        return np.concatenate([slices[~straddles], *(self._cut_slice(*each) for each in slices[straddles].tolist())])

    def up_to(self, offsets: ShardIndex, shard: int) -> SampleSelection:
        """The selection without shards that were added after this one."""
        return SampleSelection(offsets, [part for part in self._split_shards if part.shard <= shard])

    def masked(self, offsets: ShardIndex, kept: NDArray[np.bool_]) -> SampleSelection:
        """The selection without the rows that are False in `kept`: (rows,). Cost: a byte per row."""
        bounds = offsets.shard_row.tolist()
        rows = {shard.id: slice(*bounds[i : i + 2]) for i, shard in enumerate(offsets.shards)}
        found = (_mask_shard(part, kept[rows[part.shard]]) for part in self._split_shards)
        return SampleSelection(offsets, [part for part in found if part.samples])

    def count_samples(self, shards: set[int]) -> int:
        """The number of samples of these shards, by id, in the split."""
        return sum(part.samples for part in self._split_shards if part.shard in shards)

    @property
    def shard_count(self) -> int:
        return len(self._split_shards)

    def digest(self, offsets: ShardIndex) -> str:
        """A digest of the data: see `split_digest`."""
        return split_digest(offsets, self._split_shards)

    def _cut_slice(self, start: int, stop: int) -> Int64Array:
        edges = np.unique(self._ends[(self._ends > start) & (self._ends < stop)])
        return np.stack((np.append(start, edges), np.append(edges, stop)), axis=1)

    def _selected_rows(self, i: int) -> Int64Array:
        """The samples of the i-th shard in the split, by index in the shard."""
        rows = self._unpacked.get(i)
        if rows is None:
            bits = np.frombuffer(self._split_shards[i].bits or b"", np.uint8)
            rows = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            self._unpacked[i] = rows
            if len(self._unpacked) > MAX_UNPACKED_SHARDS:
                self._unpacked.popitem(last=False)
        else:
            self._unpacked.move_to_end(i)
        return rows


def _mask_shard(split_shard: SplitShard, kept: NDArray[np.bool_]) -> SplitShard:
    """The shard of a split without samples that are False in `kept`: (samples of the shard,)."""
    selected = kept
    if split_shard.bits is not None:
        selected = selected & np.unpackbits(
            np.frombuffer(split_shard.bits, np.uint8), count=len(kept), bitorder="little"
        ).view(bool)
    samples = int(np.count_nonzero(selected))
    if samples == split_shard.samples:
        return split_shard
    return SplitShard(split_shard.shard, samples, np.packbits(selected, bitorder="little").tobytes())
