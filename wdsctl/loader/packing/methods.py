"""Packing methods: assign samples to packs by lengths and capacities alone. The last lines name them.

`best_fit`, decreasing: the histogram packing of Krell et al., "Efficient Sequence Packing without Cross-contamination"
(2021), over a table of packs by remaining capacity. The result equals that of best fit sample by sample (Johnson,
"Near-optimal bin packing algorithms", 1973). Among equally full packs, the one that reached this fill first is used.

`first_fit`, decreasing: each sample goes into the first pack with room; samples of one length are assigned together.
Lengths only decrease, so a pack without room for the current length waits until a length fits (Johnson, with a heap
instead of his tree).

`knapsack`: fills pack by pack, each time with the longest sample that still fits. Equal packs are made together.

`sequential`: begins a new pack if the next sample does not fit. Neighbours stay neighbours.

With several budgets, such as text tokens and images, a sample fits if it fits every budget. Lengths alone are then not
sufficient: each sample is compared with all packs, or each pack with all samples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array

PackingMethod = Literal["best_fit", "first_fit_decreasing", "sequential", "knapsack"]

METHODS: tuple[str, ...] = get_args(PackingMethod)


def best_fit(lengths: Int64Array, capacity: int) -> Int64Array:
    """The pack of each sample, (n,). Lengths are in [1, capacity]. Cost: a step per distinct length and remainder."""
    values, counts = np.unique(lengths, return_counts=True)
    table = _PacksByRemainder(capacity)
    for length, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
        table.add(length, count)
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = table.pack_of_sample
    return pack


class _PacksByRemainder:
    """Packs by remaining capacity. `pack_of_sample`: in the order in which samples were added."""

    def __init__(self, capacity: int) -> None:
        self.pack_of_sample: list[int] = []
        self._capacity = capacity
        self._pack_count = 0
        self._remainders: list[int] = []  # ascending
        self._packs_by_remainder: dict[int, list[int]] = {}  # by remaining capacity

    def add(self, length: int, count: int) -> None:
        """Add `count` samples of one length, which is at most that of earlier samples."""
        while count:
            at = bisect_left(self._remainders, length)
            if at == len(self._remainders):
                self._open_packs(length, count)
                return
            left = self._remainders[at]
            packs, each = self._packs_by_remainder[left], left // length
            if count < len(packs) * each:
                needed = -(-count // each)
                self._fill_packs(packs[:needed], left, length, count)
                del packs[:needed]
                return
            del self._remainders[at], self._packs_by_remainder[left]
            self._fill_packs(packs, left, length, len(packs) * each)
            count -= len(packs) * each

    def _open_packs(self, length: int, count: int) -> None:
        needed = -(-count // (self._capacity // length))
        new = range(self._pack_count, self._pack_count + needed)
        self._pack_count += needed
        self._fill_packs(new, self._capacity, length, count)

    def _fill_packs(self, packs: Sequence[int], remainder: int, length: int, count: int) -> None:
        """Fill packs with as many samples as fit; the last pack gets the rest of `count`."""
        each = remainder // length
        full, odd = divmod(count, each)
        if each == 1:
            self.pack_of_sample += packs
        else:
            self.pack_of_sample += [pack for pack in packs[:full] for _ in range(each)] + [*packs[full:]] * odd
        self._store_packs(remainder - each * length, packs[:full])
        if odd:
            self._store_packs(remainder - odd * length, packs[full:])

    def _store_packs(self, remainder: int, packs: Sequence[int]) -> None:
        if not remainder or not packs:
            return
        if remainder in self._packs_by_remainder:
            self._packs_by_remainder[remainder] += packs
        else:
            self._packs_by_remainder[remainder] = [*packs]
            insort(self._remainders, remainder)


def first_fit(lengths: Int64Array, capacity: int) -> Int64Array:
    """The pack of each sample, (n,). Lengths are in [1, capacity]. Cost: a heap step per pack and distinct length in
    it."""
    values, counts = np.unique(lengths, return_counts=True)
    packs = _PacksByFit(values.tolist(), capacity)
    for rank, count in zip(range(len(values) - 1, -1, -1), counts[::-1].tolist(), strict=True):
        packs.add(rank, count)
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = packs.pack_of_sample
    return pack


class _PacksByFit:
    """Packs by the lengths that fit into them. `pack_of_sample`: in the order in which samples were added."""

    def __init__(self, distinct_lengths: list[int], capacity: int) -> None:
        self.pack_of_sample: list[int] = []
        self._distinct_lengths = distinct_lengths  # ascending; the rank of a length is its index
        self._capacity = capacity
        self._remainders: list[int] = []  # of each pack
        self._fitting_heap: list[int] = []  # the packs that have room for the current length
        self._packs_by_rank: list[list[int]] = [
            [] for _ in distinct_lengths
        ]  # by the rank of the longest length they have room for

    def add(self, rank: int, count: int) -> None:
        """Add `count` samples of the length with this rank. Later calls have lower ranks."""
        length, fit, left, pack_of_sample = (
            self._distinct_lengths[rank],
            self._fitting_heap,
            self._remainders,
            self.pack_of_sample,
        )
        for pack in self._packs_by_rank[rank]:
            heappush(fit, pack)
        while count and fit:
            pack = fit[0]
            room = left[pack]
            taken = room // length
            if taken > count:
                # The pack has room for more samples of this length, so it stays first.
                taken = count
            else:
                heappop(fit)
                remainder = room - taken * length
                if remainder >= self._distinct_lengths[0]:
                    self._packs_by_rank[bisect_right(self._distinct_lengths, remainder) - 1].append(pack)
            if taken == 1:
                pack_of_sample.append(pack)
            else:
                pack_of_sample += [pack] * taken
            left[pack] = room - taken * length
            count -= taken
        if count:
            self._open_packs(length, count)

    def _open_packs(self, length: int, count: int) -> None:
        """Put samples of one length into new packs, as no open pack has room."""
        each = self._capacity // length
        full, odd = divmod(count, each)
        first = len(self._remainders)
        rest = self._capacity - each * length
        self._remainders += [rest] * full
        self.pack_of_sample += [pack for pack in range(first, first + full) for _ in range(each)]
        if rest >= self._distinct_lengths[0]:
            self._packs_by_rank[bisect_right(self._distinct_lengths, rest) - 1] += range(first, first + full)
        if odd:
            self._remainders.append(self._capacity - odd * length)
            self.pack_of_sample += [first + full] * odd
            self._fitting_heap.append(first + full)  # the heap was empty


def knapsack(lengths: Int64Array, capacity: int) -> Int64Array:
    """The pack of each sample, (n,). Lengths are in [1, capacity]. Cost: a step per pack and distinct length in it."""
    values, counts = np.unique(lengths, return_counts=True)
    left = dict(zip(values.tolist(), counts.tolist(), strict=True))
    present: list[int] = values.tolist()
    runs: list[tuple[int, int, int, int]] = []  # (length, first pack, how many packs, samples in each)
    first = 0
    while present:
        content = _fullest_pack(present, left, capacity)
        equal_packs = min(left[length] // count for length, count in content)
        for length, count in content:
            runs.append((length, first, equal_packs, count))
            left[length] -= equal_packs * count
            if not left[length]:
                del present[bisect_right(present, length) - 1]
        first += equal_packs
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = _packs_of_samples(runs)
    return pack


def _fullest_pack(present: list[int], counts: dict[int, int], capacity: int) -> list[tuple[int, int]]:
    """The lengths in the next pack, and the number of samples of each. `present`: the remaining lengths, ascending."""
    content: list[tuple[int, int]] = []
    end = len(present)
    while end := bisect_right(present, capacity, 0, end):
        length = present[end - 1]
        count = min(counts[length], capacity // length)
        content.append((length, count))
        capacity -= count * length
        end -= 1
    return content


def _packs_of_samples(equal_packs: list[tuple[int, int, int, int]]) -> Int64Array:
    """The pack of each sample, longest first."""
    if not equal_packs:
        return np.empty(0, np.int64)
    table = np.array(equal_packs, np.int64)
    lengths, first, pack_counts, count = table[np.argsort(-table[:, 0], kind="stable")].T
    samples = pack_counts * count
    run = np.repeat(np.arange(len(lengths)), samples)
    nth = np.arange(len(run)) - (np.cumsum(samples) - samples)[run]
    packs: Int64Array = first[run] + nth // count[run]
    return packs


def sequential(sizes: Int64Array, capacities: Int64Array, ids: Int64Array | None = None) -> Int64Array:
    """The pack of each sample, (n,). Each row of `sizes`, (n, budgets), fits into `capacities`, (budgets,).

    `ids`, (n,): a new pack also begins before a sample whose id the pack already has.
    """
    ends = np.full(len(sizes), len(sizes), np.int64)  # the end of the pack that begins at each sample
    for sizes_of, capacity in zip(sizes.T, capacities, strict=True):
        total = np.concatenate(([0], np.cumsum(sizes_of)))
        ends = np.minimum(ends, np.searchsorted(total, total[:-1] + capacity, side="right") - 1)
    if ids is not None:
        ends = np.minimum(ends, np.minimum.accumulate(_next_copies(ids)[::-1])[::-1])
    following, starts, start = ends.tolist(), np.zeros(len(sizes), np.int64), 0
    while start < len(following):
        starts[start] = 1
        start = following[start]
    return np.cumsum(starts) - 1


def _next_copies(ids: Int64Array) -> Int64Array:
    """The position of the next sample with the same id, (n,); n if there is none."""
    order = np.argsort(ids, kind="stable")
    is_followed = np.flatnonzero(np.diff(ids[order]) == 0)
    following = np.full(len(ids), len(ids), np.int64)
    following[order[is_followed]] = order[is_followed + 1]
    return following


def fit_with_budgets(sizes: Int64Array, capacities: Int64Array, *, is_best: bool) -> Int64Array:
    """The pack of each sample, (n,), for samples ordered longest first: the fullest pack with room, or the first.

    `sizes`: (n, budgets). The fill of a pack is measured by the sum of its remaining shares of all budgets.
    """
    left = np.empty((len(capacities), len(sizes)), np.int64)
    slack = np.empty(len(sizes), np.float64)
    full_slack, budgets = float(len(capacities)), range(len(capacities))
    used = _budget_shares(sizes, capacities).tolist()
    pack = np.empty(len(sizes), np.int64)
    opened = 0
    for i, size in enumerate(sizes.tolist()):
        fits = left[0, :opened] >= size[0]
        for budget in budgets[1:]:
            fits &= left[budget, :opened] >= size[budget]
        at = int(fits.argmax()) if opened else 0
        if not opened or not fits[at]:
            at, opened = opened, opened + 1
            left[:, at], slack[at] = capacities, full_slack
        elif is_best:
            open_ones = np.flatnonzero(fits)
            at = int(open_ones[slack[open_ones].argmin()])
        for budget in budgets:
            left[budget, at] -= size[budget]
        slack[at] -= used[i]
        pack[i] = at
    return pack


def knapsack_with_budgets(sizes: Int64Array, capacities: Int64Array) -> Int64Array:
    """The pack of each sample, (n,), for samples ordered longest first: pack by pack, the first sample that fits."""
    columns, numbers = sizes.T.copy(), np.arange(len(sizes))
    pack = np.full(len(sizes), -1, np.int64)
    opened, begin, added_count = 0, 0, 0
    while begin < len(numbers):
        if 2 * added_count > len(numbers):
            numbers = numbers[pack[numbers] < 0]
            columns, begin, added_count = sizes[numbers].T.copy(), 0, 0
        elif pack[numbers[begin]] < 0:
            added_count += _fill_pack(columns, numbers, begin, capacities.tolist(), pack, opened)
            opened += 1
        else:
            begin += 1
    return pack


def _fill_pack(
    columns: Int64Array, numbers: Int64Array, begin: int, remainders: list[int], pack: Int64Array, pack_number: int
) -> int:
    """Fill one pack, which begins with the sample at `begin`; returns how many samples it has."""
    at, added_count = begin, 0
    while at >= 0:
        pack[numbers[at]] = pack_number
        added_count += 1
        for budget, column in enumerate(columns):
            remainders[budget] -= int(column[at])
        # Earlier samples did not fit before, and the pack has even less room now.
        at = _next_fit(columns, numbers, at + 1, remainders, pack)
    return added_count


def _next_fit(columns: Int64Array, numbers: Int64Array, start: int, remainders: list[int], pack: Int64Array) -> int:
    """The first sample from `start` on that is free and fits; -1 if there is none. Searches in growing steps."""
    step = 256
    while start < len(numbers):
        span = slice(start, start + step)
        fits = pack[numbers[span]] < 0
        for column, room in zip(columns, remainders, strict=True):
            fits &= column[span] <= room
        at = int(fits.argmax())
        if fits[at]:
            return start + at
        start, step = start + step, step * 4
    return -1


def _budget_shares(sizes: Int64Array, capacities: Int64Array) -> NDArray[np.float64]:
    """The sum of each sample's shares of the budgets, added in their order, so that it is equal on every machine."""
    shares = np.zeros(len(sizes), np.float64)
    for budget, capacity in enumerate(capacities.tolist()):
        shares += sizes[:, budget] / capacity
    return shares


class Algorithm(NamedTuple):
    """Two functions: (sizes, capacity or capacities) -> pack of each sample."""

    one_budget: Callable[[Int64Array, int], Int64Array]
    several_budgets: Callable[[Int64Array, Int64Array], Int64Array]


#: Every method beside "sequential", which does not sort the samples.
ALGORITHMS: dict[str, Algorithm] = {
    "best_fit": Algorithm(best_fit, partial(fit_with_budgets, is_best=True)),
    "first_fit_decreasing": Algorithm(first_fit, partial(fit_with_budgets, is_best=False)),
    "knapsack": Algorithm(knapsack, knapsack_with_budgets),
}
