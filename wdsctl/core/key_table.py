"""Keys looked up by the million: hashed in numpy, and compared byte by byte where hashes are equal.

A hash says where to look and never what is equal, so that no two keys are taken for one. Keys are worked on in blocks:
beside the tables themselves, of 16 bytes a key, some 100 MB are used whatever the number of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wdsctl.core.shard_index import Ints

Words = NDArray[np.uint64]

BLOCK = 1 << 18  # keys that are worked on at once
BLOCK_BYTES = 1 << 24  # of them, at most so many bytes

# Odd numbers without a pattern: those of splitmix64.
_SPREAD, _MIX, _END = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF, _SOME = np.uint64(32), np.uint64(29)


class Keys(Protocol):
    """What has keys by row: an index of shards, or a list."""

    @property
    def key_start(self) -> Ints:
        """(rows + 1,): where each key begins in `key_text`."""

    @property
    def key_text(self) -> memoryview:
        """All keys, UTF-8."""


class KeyTwice(Exception):  # noqa: N818 - a finding: who knows the dataset's name makes an error of it
    """Two rows of a table have one key. `count`: of how many keys that is known, at least."""

    def __init__(self, first: int, second: int, count: int) -> None:
        super().__init__(first, second, count)
        self.first, self.second, self.count = first, second, count


class KeyTable:
    """The rows of some samples by their keys. Raises KeyTwice. About 0.4 s a million keys."""

    def __init__(self, index: Keys, rows: Ints) -> None:
        self._index = index
        hashes = hashes_of(index, rows)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._rows = rows[order]
        self._alike = self._looked_through()

    def find(self, index: Keys, rows: Ints) -> Ints:
        """For each of these samples of any index the row here that has its key, or -1."""
        found = np.full(len(rows), -1, np.int64)
        if not len(self._rows):
            return found
        for start in range(0, len(rows), BLOCK):
            found[start : start + BLOCK] = self._found(index, rows[start : start + BLOCK])
        return found

    def _found(self, index: Keys, rows: Ints) -> Ints:
        hashes = hashes_of(index, rows)
        # In the order of the hashes, neighbours are looked up in memory that is near.
        order = np.argsort(hashes)
        at = np.empty(len(rows), np.int64)
        at[order] = self._hashes.searchsorted(hashes[order])
        at[at == len(self._rows)] = 0
        hits = np.flatnonzero(self._hashes[at] == hashes)
        there = self._rows[at[hits]]
        equal = are_equal(index, rows[hits], self._index, there)
        found = np.full(len(rows), -1, np.int64)
        found[hits[equal]] = there[equal]
        if self._alike:
            for i in hits[~equal].tolist():
                found[i] = self._alike.get(_key(index, int(rows[i])), -1)
        return found

    def _looked_through(self) -> dict[bytes, int]:
        """The rows of different keys that have one hash, by key: next to none. Raises KeyTwice."""
        before = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        first, second = self._rows[before], self._rows[before + 1]
        twice = np.flatnonzero(are_equal(self._index, first, self._index, second))
        if len(twice):
            i = twice[np.argmin(first[twice])]
            raise KeyTwice(int(first[i]), int(second[i]), len(twice))
        alike: dict[bytes, int] = {}
        for row in np.unique(np.concatenate((first, second))).tolist():
            known = alike.setdefault(_key(self._index, row), row)
            if known != row:
                raise KeyTwice(known, row, 1)
        return alike


def hashes_of(index: Keys, rows: Ints) -> Words:
    """(rows,): 64 bits of each key, the same on every machine and in every version of a file."""
    hashes = np.empty(len(rows), np.uint64)
    text = np.frombuffer(index.key_text, np.uint8)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        starts = index.key_start.take(block)
        for size, mine in _by_size(index.key_start.take(block + 1) - starts):
            hashes[start + mine] = _hashed(_words(text, starts[mine], size), size)
    return hashes


def are_equal(one: Keys, rows: Ints, other: Keys, others: Ints) -> NDArray[np.bool_]:
    """(rows,): whether a key of one index is that of the other."""
    equal = np.zeros(len(rows), np.bool_)
    text, other_text = np.frombuffer(one.key_text, np.uint8), np.frombuffer(other.key_text, np.uint8)
    for start in range(0, len(rows), BLOCK):
        block, beside = rows[start : start + BLOCK], others[start : start + BLOCK]
        starts, other_starts = one.key_start.take(block), other.key_start.take(beside)
        sizes = one.key_start.take(block + 1) - starts
        sizes[other.key_start.take(beside + 1) - other_starts != sizes] = -1
        for size, mine in _by_size(sizes):
            if size >= 0:
                here, there = _words(text, starts[mine], size), _words(other_text, other_starts[mine], size)
                equal[start + mine] = (here == there).all(axis=1)
    return equal


def _by_size(sizes: Ints) -> Iterator[tuple[int, Ints]]:
    """Each size with the places that have it, in pieces of so many bytes at most."""
    order = np.argsort(sizes, kind="stable") if len(sizes) and (sizes != sizes[0]).any() else np.arange(len(sizes))
    ordered = sizes[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    for mine in np.split(order, edges) if len(sizes) else ():
        size = int(sizes[mine[0]])
        most = max(1, BLOCK_BYTES // max(size, 1))
        for start in range(0, len(mine), most):
            yield size, mine[start : start + most]


def _words(text: NDArray[np.uint8], starts: Ints, size: int) -> Words:
    """(keys, words): keys of one size, filled up with zeros."""
    padded = np.zeros((len(starts), size + -size % 8), np.uint8)
    if size:
        padded[:, :size] = sliding_window_view(text, size)[starts]
    return padded.view("<u8").astype(np.uint64, copy=False) if size else np.zeros((len(starts), 0), np.uint64)


def _hashed(words: Words, size: int) -> Words:
    hashes = np.full(len(words), size, np.uint64)
    for i in range(words.shape[1]):
        hashes ^= words[:, i]
        hashes *= _SPREAD
        hashes ^= hashes >> _HALF
        hashes *= _MIX
        hashes ^= hashes >> _SOME
    hashes *= _END
    hashes ^= hashes >> _HALF
    return hashes


def _key(index: Keys, row: int) -> bytes:
    start, end = index.key_start[row : row + 2].tolist()
    return bytes(index.key_text[start:end])
