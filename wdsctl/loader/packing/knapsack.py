"""Pack by pack, the longest sample that still fits, again and again; packs that come out alike are made together."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def knapsack(lengths: Ints, capacity: int) -> Ints:
    """The pack of each sample, (n,). Lengths lie in [1, capacity]. A step a pack and distinct length in it."""
    values, counts = np.unique(lengths, return_counts=True)
    left = dict(zip(values.tolist(), counts.tolist(), strict=True))
    present: list[int] = values.tolist()
    runs: list[tuple[int, int, int, int]] = []  # (length, first pack, how many packs, samples in each)
    first = 0
    while present:
        content = _fullest(present, left, capacity)
        alike = min(left[length] // count for length, count in content)
        for length, count in content:
            runs.append((length, first, alike, count))
            left[length] -= alike * count
            if not left[length]:
                del present[bisect_right(present, length) - 1]
        first += alike
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = _placed(runs)
    return pack


def _fullest(present: list[int], left: dict[int, int], room: int) -> list[tuple[int, int]]:
    """The lengths in the next pack, and how many of each. `present`: the lengths that there are, ascending."""
    content: list[tuple[int, int]] = []
    end = len(present)
    while end := bisect_right(present, room, 0, end):
        length = present[end - 1]
        count = min(left[length], room // length)
        content.append((length, count))
        room -= count * length
        end -= 1
    return content


def _placed(runs: list[tuple[int, int, int, int]]) -> Ints:
    """The pack of each sample, longest first."""
    if not runs:
        return np.empty(0, np.int64)
    table = np.array(runs, np.int64)
    lengths, first, alike, count = table[np.argsort(-table[:, 0], kind="stable")].T
    samples = alike * count
    run = np.repeat(np.arange(len(lengths)), samples)
    nth = np.arange(len(run)) - (np.cumsum(samples) - samples)[run]
    placed: Ints = first[run] + nth // count[run]
    return placed
