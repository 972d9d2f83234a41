"""Histograms with fixed bins, which can be merged, for the sizes of samples and parts and for other numbers.

Bins are quarters of an octave: [2^(i/4), 2^((i+1)/4)). Percentiles of many numbers are therefore within 9.1 percent
(half a bin) for any distribution. Percentiles of up to 4,096 numbers are exact; count, minimum, maximum and sum
always are. Sizes come from the offsets file, without reading shards.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.values import SplitMembers
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.progress import SILENT_PROGRESS, Progress

BINS_PER_OCTAVE = 4
MIN_OCTAVE, MAX_OCTAVE = -10, 54  # from a millisecond, in seconds, to more bytes than any disk has
MAX_EXACT_VALUES = 4_096  # more numbers are not stored one by one
SIZES_BLOCK_SAMPLES = 1 << 18  # samples per block

_BIN_COUNT = 1 + (MAX_OCTAVE - MIN_OCTAVE) * BINS_PER_OCTAVE  # the first bin has zero and everything below 2^MIN_OCTAVE


@dataclass(frozen=True, slots=True)
class Bin:
    low: float  # inclusive
    high: float  # exclusive
    n: int


@dataclass(slots=True)
class Histogram:
    """A histogram of non-negative numbers. Takes 2 KB, and up to 32 KB for `exact_values`."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_BIN_COUNT, np.int64))
    count: int = 0
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    exact_values: array[float] = field(default_factory=lambda: array("d"))  # all numbers; empty above MAX_EXACT_VALUES

    def add(self, values: NDArray[Any]) -> None:
        """Add numbers. Takes about 30 ns per number."""
        if not len(values):
            return
        numbers = values.astype(np.float64)
        self.counts += np.bincount(np.searchsorted(_BIN_EDGES, numbers, side="right"), minlength=_BIN_COUNT)
        self.count += len(numbers)
        self.total += float(numbers.sum())
        self._widen(float(numbers.min()), float(numbers.max()))
        self._keep_exact(numbers)

    def add_one(self, value: float) -> None:
        self.add(np.array([value]))

    def merge(self, other: Histogram) -> None:
        """Add the numbers of another histogram."""
        self.counts += other.counts
        self.count += other.count
        self.total += other.total
        if other.min is not None and other.max is not None:
            self._widen(other.min, other.max)
        self._keep_exact(other.exact_values)

    @property
    def is_exact(self) -> bool:
        """Whether percentiles are exact."""
        return len(self.exact_values) == self.count

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def percentile(self, share: float) -> float | None:
        """Return the smallest number with at least this share at or below it.

        If the histogram is not exact, returns the middle of that number's bin.
        """
        if self.min is None or self.max is None:
            return None
        rank = max(1, math.ceil(share * self.count))
        if self.is_exact:
            return sorted(self.exact_values)[rank - 1]
        low, high = bin_edges(int(np.searchsorted(np.cumsum(self.counts), rank)))
        return min(max(math.sqrt(low * high), self.min), self.max)

    def bins(self) -> tuple[Bin, ...]:
        """Return the non-empty bins, ascending."""
        return tuple(Bin(*bin_edges(i), int(self.counts[i])) for i in np.flatnonzero(self.counts).tolist())

    def _keep_exact(self, numbers: Iterable[Any]) -> None:
        """Store numbers that `count` already includes."""
        if self.count > MAX_EXACT_VALUES:
            self.exact_values = array("d")
        else:
            self.exact_values.extend(numbers)

    def _widen(self, low: float, high: float) -> None:
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)


def bin_edges(i: int) -> tuple[float, float]:
    """Return the bounds of the i-th bin."""
    if i == 0:
        return 0.0, 2.0**MIN_OCTAVE
    return 2 ** (MIN_OCTAVE + (i - 1) / BINS_PER_OCTAVE), 2 ** (MIN_OCTAVE + i / BINS_PER_OCTAVE)


#: A search in these edges replaces logarithms, whose rounding could put 2^(k/4) into the bin below.
_BIN_EDGES = np.array([bin_edges(i)[0] for i in range(1, _BIN_COUNT)])


@dataclass(slots=True)
class SizeStats:
    """Histograms of bytes and parts per sample, and of bytes by part name."""

    bytes: Histogram = field(default_factory=Histogram)
    parts: Histogram = field(default_factory=Histogram)
    bytes_by_part: dict[str, Histogram] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return self.bytes.count


def measure_sizes(
    offsets: Offsets, members: SplitMembers | None = None, progress: Progress = SILENT_PROGRESS
) -> SizeStats:
    """Measure all samples, or those of a split. Takes about 0.1 µs per part, in constant memory."""
    sizes = SizeStats()
    progress.phase("sizes", items=offsets.samples)
    for rows, samples in _row_blocks(offsets, members):
        _add_rows(sizes, offsets, rows)
        progress.advance(items=samples)
    return sizes


def _row_blocks(offsets: Offsets, members: SplitMembers | None) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield blocks of rows, each with the number of samples that it was selected from."""
    if members is None:
        for start in range(0, offsets.samples, SIZES_BLOCK_SAMPLES):
            stop = min(start + SIZES_BLOCK_SAMPLES, offsets.samples)
            yield np.arange(start, stop), stop - start
        return
    for i, shard in enumerate(offsets.shards):
        if shard.id in members.shards:
            selected = select_by_bits(np.arange(shard.samples), members.shards[shard.id])
            yield int(offsets.shard_row[i]) + selected, shard.samples


def select_by_bits(values: NDArray[np.int64], bits: bytes | None) -> NDArray[np.int64]:
    """Select values, one per sample of a shard, by the bits of a split; all if `bits` is None."""
    if bits is None:
        return values
    return values[np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(values)].astype(np.bool_)]


def _add_rows(sizes: SizeStats, offsets: Offsets, rows: NDArray[np.int64]) -> None:
    """Add rows of the offsets file, grouped by part layout. Most datasets have one layout."""
    columns = offsets.check_rows(rows)
    layouts = np.zeros(len(rows), np.uint32) if columns.layout is None else columns.layout[rows]
    for layout in np.unique(layouts).tolist():
        names = offsets.layouts[layout]
        layout_rows = rows[layouts == layout]
        starts = layout_rows * len(names) if columns.part_start is None else columns.part_start[layout_rows]
        totals = np.zeros(len(layout_rows), np.int64)
        for i, name in enumerate(names):
            part_sizes = columns.part_size[starts + i]
            totals += part_sizes
            sizes.bytes_by_part.setdefault(name, Histogram()).add(part_sizes)
        sizes.bytes.add(totals)
        sizes.parts.add(np.full(len(layout_rows), len(names)))
