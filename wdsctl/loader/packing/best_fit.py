"""Best fit, decreasing, over a table of what packs have left: packs with as much left are dealt with together.

After the histogram packing of Krell et al., "Efficient Sequence Packing without Cross-contamination" (2021); the result
is that of best fit sample by sample (Johnson, "Near-optimal bin packing algorithms", 1973). Of packs that are equally
full, the one that has been so for longest comes first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def best_fit(lengths: Ints, capacity: int) -> Ints:
    """The pack of each sample, (n,). Lengths lie in [1, capacity]. A step a distinct length and distinct remainder."""
    values, counts = np.unique(lengths, return_counts=True)
    table = _Table(capacity)
    for length, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
        table.place(length, count)
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = table.placed
    return pack


class _Table:
    """Packs by what they have left. `placed`: the pack of each sample, in the order they were placed."""

    def __init__(self, capacity: int) -> None:
        self.placed: list[int] = []
        self._capacity = capacity
        self._opened = 0
        self._left: list[int] = []  # ascending
        self._packs: dict[int, list[int]] = {}  # by what is left

    def place(self, length: int, count: int) -> None:
        """Put in `count` samples of one length, none of them longer than those before."""
        while count:
            at = bisect_left(self._left, length)
            if at == len(self._left):
                self._open(length, count)
                return
            left = self._left[at]
            packs, each = self._packs[left], left // length
            if count < len(packs) * each:
                needed = -(-count // each)
                self._fill(packs[:needed], left, length, count)
                del packs[:needed]
                return
            del self._left[at], self._packs[left]
            self._fill(packs, left, length, len(packs) * each)
            count -= len(packs) * each

    def _open(self, length: int, count: int) -> None:
        needed = -(-count // (self._capacity // length))
        new = range(self._opened, self._opened + needed)
        self._opened += needed
        self._fill(new, self._capacity, length, count)

    def _fill(self, packs: Sequence[int], left: int, length: int, count: int) -> None:
        """Fill packs with as many as each can take; the last one takes what is left of `count`."""
        each = left // length
        full, odd = divmod(count, each)
        if each == 1:
            self.placed += packs
        else:
            self.placed += [pack for pack in packs[:full] for _ in range(each)] + [*packs[full:]] * odd
        self._keep(left - each * length, packs[:full])
        if odd:
            self._keep(left - odd * length, packs[full:])

    def _keep(self, left: int, packs: Sequence[int]) -> None:
        if not left or not packs:
            return
        if left in self._packs:
            self._packs[left] += packs
        else:
            self._packs[left] = [*packs]
            insort(self._left, left)
