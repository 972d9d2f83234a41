"""Histograms whose bins are the same everywhere, so that those of pieces add up to that of the whole.

Bins are quarters of an octave: [2^(i/4), 2^((i+1)/4)). A percentile of many numbers is therefore told within 9.1
percent of itself (half a bin), whatever the distribution; that of few is exact, as count, least, greatest and sum are.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_OCTAVE = 4
LOWEST, HIGHEST = -10, 54  # octaves: from a thousandth (of a second) to more bytes than a disk has
FEW = 4_096  # numbers that are kept as they are
_BINS = 1 + (HIGHEST - LOWEST) * PER_OCTAVE  # the first one is of zero, and of what is less than a thousandth


@dataclass(frozen=True, slots=True)
class Bin:
    low: float  # included
    high: float  # not included
    n: int


def _zeros() -> NDArray[np.int64]:
    return np.zeros(_BINS, np.int64)


@dataclass(slots=True)
class Histogram:
    """Of numbers from zero up. Memory: 2 KB, and 32 KB for the numbers as long as they are few."""

    counts: NDArray[np.int64] = field(default_factory=_zeros)
    count: int = 0
    total: float = 0.0
    min: float | None = None
    max: float | None = None
    few: array[float] = field(default_factory=lambda: array("d"))  # all of them, or nothing where they are many

    def add(self, values: NDArray[Any]) -> None:
        """Cost: some 30 ns a value."""
        if not len(values):
            return
        numbers = values.astype(np.float64)
        self.counts += np.bincount(_bins(numbers), minlength=_BINS)
        self.count += len(numbers)
        self.total += float(numbers.sum())
        self._widen(float(numbers.min()), float(numbers.max()))
        self._keep(numbers)

    def add_one(self, value: float) -> None:
        self.add(np.array([value]))

    def merge(self, other: Histogram) -> None:
        """Take in what another one has counted."""
        self.counts += other.counts
        self.count += other.count
        self.total += other.total
        if other.min is not None and other.max is not None:
            self._widen(other.min, other.max)
        self._keep(other.few)

    @property
    def is_exact(self) -> bool:
        """Whether percentiles are."""
        return len(self.few) == self.count

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def percentile(self, share: float) -> float | None:
        """The least number with this share of the numbers at or below it; of many, the middle of its bin."""
        if self.min is None or self.max is None:
            return None
        rank = max(1, math.ceil(share * self.count))
        if self.is_exact:
            return sorted(self.few)[rank - 1]
        low, high = edges(int(np.searchsorted(np.cumsum(self.counts), rank)))
        return min(max(math.sqrt(low * high), self.min), self.max)

    def bins(self) -> tuple[Bin, ...]:
        """Those that are not empty, ascending."""
        return tuple(Bin(*edges(i), int(self.counts[i])) for i in np.flatnonzero(self.counts).tolist())

    def _keep(self, numbers: Iterable[Any]) -> None:
        """`count` has them already."""
        if self.count > FEW:
            self.few = array("d")
        else:
            self.few.extend(numbers)

    def _widen(self, low: float, high: float) -> None:
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)


def edges(i: int) -> tuple[float, float]:
    """Where the i-th bin begins and ends."""
    if i == 0:
        return 0.0, 2.0**LOWEST
    return 2 ** (LOWEST + (i - 1) / PER_OCTAVE), 2 ** (LOWEST + i / PER_OCTAVE)


#: Compared with instead of taking logarithms: 2^(k/4) must be in its own bin, whatever a logarithm rounds to.
_EDGES = np.array([edges(i)[0] for i in range(1, _BINS)])


def _bins(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.searchsorted(_EDGES, numbers, side="right")
