"""First fit, decreasing: each sample into the first pack that has room, samples of one length together.

Lengths only fall, so a pack that has no room for one length waits until the lengths have come down to what it has left
(Johnson, "Near-optimal bin packing algorithms", 1973, with a heap instead of his tree).
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def first_fit(lengths: Ints, capacity: int) -> Ints:
    """The pack of each sample, (n,). Lengths lie in [1, capacity]. A heap step a pack and distinct length in it."""
    values, counts = np.unique(lengths, return_counts=True)
    packs = _Packs(values.tolist(), capacity)
    for rank, count in zip(range(len(values) - 1, -1, -1), counts[::-1].tolist(), strict=True):
        packs.place(rank, count)
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = packs.placed
    return pack


class _Packs:
    """Packs by when there is room in them. `placed`: the pack of each sample, in the order they were placed."""

    def __init__(self, values: list[int], capacity: int) -> None:
        self.placed: list[int] = []
        self._values = values  # the distinct lengths, ascending; a length's rank is its place here
        self._capacity = capacity
        self._left: list[int] = []  # of each pack
        self._fit: list[int] = []  # a heap: the packs that have room for the present length
        self._later: list[list[int]] = [[] for _ in values]  # by the rank of the longest length they have room for

    def place(self, rank: int, count: int) -> None:
        """Put in `count` samples of the length of this rank, which are longer than all that come after."""
        length, fit, left, placed = self._values[rank], self._fit, self._left, self.placed
        for pack in self._later[rank]:
            heappush(fit, pack)
        while count and fit:
            pack = fit[0]
            room = left[pack]
            taken = room // length
            if taken > count:
                # It has room for more of this length: it stays the first.
                taken = count
            else:
                heappop(fit)
                self._wait(pack, room - taken * length)
            if taken == 1:
                placed.append(pack)
            else:
                placed += [pack] * taken
            left[pack] = room - taken * length
            count -= taken
        if count:
            self._open(length, count)

    def _open(self, length: int, count: int) -> None:
        """Put samples of one length into new packs, where none of the others has room."""
        each = self._capacity // length
        full, odd = divmod(count, each)
        first = len(self._left)
        rest = self._capacity - each * length
        self._left += [rest] * full
        self.placed += [pack for pack in range(first, first + full) for _ in range(each)]
        if rest >= self._values[0]:
            self._later[bisect_right(self._values, rest) - 1] += range(first, first + full)
        if odd:
            self._left.append(self._capacity - odd * length)
            self.placed += [first + full] * odd
            self._fit.append(first + full)  # alone: the heap is empty

    def _wait(self, pack: int, rest: int) -> None:
        if rest >= self._values[0]:
            self._later[bisect_right(self._values, rest) - 1].append(pack)
