"""Where the short slice of a pass lies, and how many of them a lane meets.

Where slices of s samples do not divide a pass of n, its last slice is short. To know how many samples a lane has taken
from how many slices it has taken, and back, is to count the short ones among them, however many passes ago it began. So
the short slice is no part of the permutation: in each stretch of M slots it has a keyed place q, and the places repeat
every K stretches (K = `PERIOD`, or M where that is less; then each of the M places comes once).

Why that makes the count closed form. The short slots are c_i = iM + q_i for i < K, and these plus every multiple of
P = KM. A lane has the slots f, f + d, f + 2d, ...; with g = gcd(P, d) it meets bP + c_i for one b modulo d / g if g
divides f - c_i, and never otherwise: b = (f - c_i) / g times the inverse of P / g. So among each P / g of its slices
the lane has the same, at most K, short ones. They are found at once, and all else is division.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wdsctl.core.keys import derive
from wdsctl.loader.order.permutation import MOST, permute

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A prime, so that lanes seldom divide P, and a lane that met more short slices than others meets others next time.
PERIOD = 251


class Shorts(NamedTuple):
    """A strand has short slices at `indices` (int64 or, where they may be larger, int; ascending, from 0) of each
    `period` of its slices."""

    period: int
    indices: NDArray[np.int64]

    def before(self, count: int) -> int:
        """How many short ones there are among the strand's first `count` slices. About 2 µs."""
        rounds, rest = divmod(count, self.period)
        return rounds * self.indices.size + int(self.indices.searchsorted(rest))

    def slice_of(self, taken: int, size: int, missing: int) -> int:
        """Which slice of the strand has its sample number `taken`, where a short slice has `missing` less than `size`.
        About 4 µs."""
        rounds, rest = divmod(taken, self.period * size - self.indices.size * missing)

        def end(i: int) -> int:
            """How many samples have come when the i-th short slice is over."""
            return (int(self.indices[i]) + 1) * size - (i + 1) * missing

        over = bisect_right(range(self.indices.size), rest, key=end)
        return rounds * self.period + (rest + over * missing) // size


NO_SHORTS = Shorts(1, np.zeros(0, dtype=np.int64))


# 2 KB each, at most 8 MB: one for each of the sources that are being drawn from.
@lru_cache(maxsize=4096)
def keyed_places(slices: int, seed: int) -> NDArray[np.int64]:
    """Where in its stretch of `slices` slots the short slice is: of stretch p, entry p modulo the length."""
    places = permute(np.arange(min(PERIOD, slices)), slices, derive("short", seed))
    places.setflags(write=False)
    return places


@lru_cache(maxsize=4096)
def last_place(slices: int) -> NDArray[np.int64]:
    """The same for slices as they lie: always at the end."""
    places = np.array([slices - 1])
    places.setflags(write=False)
    return places


def shorts(first: int, step: int, slices: int, places: NDArray[np.int64]) -> Shorts:
    """The short slices among slots first, first + step, ... (first up to 2^62). About 20 µs, 150 µs
    where 64 bits are too few."""
    period = places.size * slices
    common = gcd(period, step)
    period_step = step // common
    if period_step * max(period, period_step) >= MOST:
        places = places.astype(object)
    short_slots = np.arange(places.size, dtype=places.dtype) * slices + places
    short_slots = short_slots[(first - short_slots) % common == 0]
    inverse = pow(period // common, -1, period_step)
    rounds = (first - short_slots) // common % period_step * inverse % period_step
    indices = (rounds * period + short_slots - first) // step % (period // common)
    indices.sort()
    return Shorts(period // common, indices)
