"""In order: a new pack begins where the next sample does not fit. Neighbours stay neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def sequential(sizes: Ints, room: Ints) -> Ints:
    """The pack of each sample, (n,). `sizes` (n, budgets) fit into `room` (budgets,), each by itself."""
    ends = np.full(len(sizes), len(sizes), np.int64)  # where the pack that begins at a sample ends
    for sizes_of, capacity in zip(sizes.T, room, strict=True):
        total = np.concatenate(([0], np.cumsum(sizes_of)))
        ends = np.minimum(ends, np.searchsorted(total, total[:-1] + capacity, side="right") - 1)
    following, starts, start = ends.tolist(), np.zeros(len(sizes), np.int64), 0
    while start < len(following):
        starts[start] = 1
        start = following[start]
    return np.cumsum(starts) - 1
