"""First fit, decreasing: each sample into the first pack that has room, samples of one length together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FEW = 4  # samples of one length are placed one by one, which saves the arrays


def first_fit(lengths: Ints, capacity: int) -> Ints:
    """The pack of each sample, (n,). Lengths lie in [1, capacity]. A pass over the packs a distinct length."""
    values, counts = np.unique(lengths, return_counts=True)
    # One pack more than there can be is always empty, so that there is always one that fits.
    left = np.full(len(lengths) + 1, capacity, np.int64)
    opened = 0
    placed: list[int] = []
    for length, count in zip(values[::-1].tolist(), counts[::-1].tolist(), strict=True):
        if count <= FEW:
            for _ in range(count):
                at = int((left[: opened + 1] >= length).argmax())
                left[at] -= length
                placed.append(at)
                opened = max(opened, at + 1)
        else:
            packs = _packs(left, opened, length, count)
            placed += _fill(packs, left, length, count).tolist()
            opened = max(opened, int(packs[-1]) + 1)
    pack = np.empty(len(lengths), np.int64)
    pack[np.argsort(-lengths, kind="stable")] = placed
    return pack


def _packs(left: Ints, opened: int, length: int, count: int) -> Ints:
    """The first packs that have room for `count` samples of this length, new ones included."""
    packs = np.flatnonzero(left[:opened] >= length)[:count]
    room = int((left[packs] // length).sum()) if len(packs) < count else count
    new = -(-max(count - room, 0) // (int(left[-1]) // length))
    return np.concatenate((packs, np.arange(opened, opened + new)))


def _fill(packs: Ints, left: Ints, length: int, count: int) -> Ints:
    """Fill these packs in order with `count` samples of one length: the pack of each."""
    each = left[packs] // length
    before = np.cumsum(each) - each
    taken = np.minimum(each, np.maximum(count - before, 0))
    left[packs] -= taken * length
    return np.repeat(packs, taken)
