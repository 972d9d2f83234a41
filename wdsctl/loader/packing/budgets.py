"""Several budgets at once, such as text tokens and images: a sample fits where it fits into every one of them.

Nothing can be done by the length alone: each sample is held against all packs, or each pack against all samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def greedy(sizes: Ints, room: Ints, *, is_best: bool) -> Ints:
    """The pack of each sample, (n,), for samples that come longest first: the fullest pack with room, or the first.

    `sizes`: (n, budgets). How full a pack is: what it has left of its budgets, as shares, added up.
    """
    left = np.empty((len(room), len(sizes)), np.int64)
    slack = np.empty(len(sizes), np.float64)
    whole, budgets = float(len(room)), range(len(room))
    used = _shares(sizes, room).tolist()
    pack = np.empty(len(sizes), np.int64)
    opened = 0
    for i, size in enumerate(sizes.tolist()):
        fits = left[0, :opened] >= size[0]
        for budget in budgets[1:]:
            fits &= left[budget, :opened] >= size[budget]
        at = int(fits.argmax()) if opened else 0
        if not opened or not fits[at]:
            at, opened = opened, opened + 1
            left[:, at], slack[at] = room, whole
        elif is_best:
            open_ones = np.flatnonzero(fits)
            at = int(open_ones[slack[open_ones].argmin()])
        for budget in budgets:
            left[budget, at] -= size[budget]
        slack[at] -= used[i]
        pack[i] = at
    return pack


def knapsacks(sizes: Ints, room: Ints) -> Ints:
    """The pack of each sample, (n,), for samples that come longest first: pack by pack, the first that still fits."""
    columns, numbers = sizes.T.copy(), np.arange(len(sizes))
    pack = np.full(len(sizes), -1, np.int64)
    opened, begin, placed = 0, 0, 0
    while begin < len(numbers):
        if 2 * placed > len(numbers):
            numbers = numbers[pack[numbers] < 0]
            columns, begin, placed = sizes[numbers].T.copy(), 0, 0
        elif pack[numbers[begin]] < 0:
            placed += _fill_one(columns, numbers, begin, room.tolist(), pack, opened)
            opened += 1
        else:
            begin += 1
    return pack


def _fill_one(columns: Ints, numbers: Ints, begin: int, left: list[int], pack: Ints, number: int) -> int:
    """Fill one pack, which begins with the sample at `begin`; returns how many samples it has."""
    at, placed = begin, 0
    while at >= 0:
        pack[numbers[at]] = number
        placed += 1
        for budget, column in enumerate(columns):
            left[budget] -= int(column[at])
        # What came before did not fit, and fits even less now.
        at = _next_fit(columns, numbers, at + 1, left, pack)
    return placed


def _next_fit(columns: Ints, numbers: Ints, start: int, left: list[int], pack: Ints) -> int:
    """The first sample from `start` on that is free and fits; -1 where there is none. Looks further and further."""
    step = 256
    while start < len(numbers):
        span = slice(start, start + step)
        fits = pack[numbers[span]] < 0
        for column, room in zip(columns, left, strict=True):
            fits &= column[span] <= room
        at = int(fits.argmax())
        if fits[at]:
            return start + at
        start, step = start + step, step * 4
    return -1


def _shares(sizes: Ints, room: Ints) -> NDArray[np.float64]:
    """What each sample takes of its budgets, added up in their order, so that it is the same on every machine."""
    shares = np.zeros(len(sizes), np.float64)
    for budget, capacity in enumerate(room.tolist()):
        shares += sizes[:, budget] / capacity
    return shares
