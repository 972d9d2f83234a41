"""What the numbers of a column are like: least, greatest, total and percentiles. Exact, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

CHUNK = 1 << 20  # values looked at together
BINS = 1 << 16


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one or more numbers. A percentile is a number that is there: the least with so many percent at or below it."""

    min: int
    p50: int
    p99: int
    max: int
    total: int  # may be more than 64 bits hold


def summary_of(values: Ints) -> Summary | None:
    """The summary of numbers from 0 to 2^63 - 1; None where there are none. Cost: a few passes over them."""
    if not len(values):
        return None
    least, most = int(values.min()), int(values.max())
    p50, p99 = (_at_rank(values, -(-len(values) * share // 100) - 1, least, most) for share in (50, 99))
    return Summary(min=least, p50=p50, p99=p99, max=most, total=_total(values))


def _at_rank(values: Ints, rank: int, low: int, high: int) -> int:
    """The number at place `rank` of the sorted ones, found by counting ever narrower ranges: 4 passes at most."""
    while low < high:
        width = (high - low) // BINS + 1
        counts = np.zeros(BINS, np.int64)
        for chunk in _chunks(values):
            inside = chunk[(chunk >= low) & (chunk <= high)]
            counts += np.bincount((inside - low) // width, minlength=BINS)
        reached = np.cumsum(counts)
        which = int(np.searchsorted(reached, rank, side="right"))
        rank -= int(reached[which]) - int(counts[which])
        low, high = low + which * width, min(high, low + (which + 1) * width - 1)
    return low


def _total(values: Ints) -> int:
    """Half words apart, so that nothing overflows."""
    return sum(
        (int((chunk >> 32).sum(dtype=np.int64)) << 32) + int((chunk & 0xFFFFFFFF).sum(dtype=np.int64))
        for chunk in _chunks(values)
    )


def _chunks(values: Ints) -> Iterator[Ints]:
    return (values[at : at + CHUNK] for at in range(0, len(values), CHUNK))
