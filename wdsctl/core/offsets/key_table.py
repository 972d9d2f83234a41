"""Looks up millions of keys: hashes them with numpy, and compares keys byte by byte if their hashes are equal.

A hash only selects candidates, so different keys are never confused. Keys are processed in blocks. Memory: 16 bytes per
key for the tables, and about 100 MB for any number of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array, Uint64Array

BLOCK_KEYS = 1 << 18  # keys that are processed together
MAX_BLOCK_BYTES = 1 << 24  # of the keys that are processed together

# Odd numbers without a pattern: those of splitmix64.
_SPREAD, _MIX, _END = (np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_HALF, _SOME = np.uint64(32), np.uint64(29)


class KeyColumns(Protocol):
    """Anything that has keys by row: an index of shards, or a list."""

    @property
    def key_start(self) -> Int64Array:
        """(rows + 1,): where each key begins in `key_text`."""

    @property
    def key_text(self) -> memoryview:
        """All keys, UTF-8."""


class DuplicateKey(Exception):  # noqa: N818 - the caller, which knows the dataset, raises the error
    """Two rows of a table have the same key. `count`: the number of repeated keys, at least."""

    def __init__(self, first: int, second: int, count: int) -> None:
        super().__init__(first, second, count)
        self.first, self.second, self.count = first, second, count


class KeyTable:
    """The rows of some samples by key. Raises DuplicateKey. About 0.4 s per million keys."""

    def __init__(self, keys: KeyColumns, rows: Int64Array) -> None:
        self._keys = keys
        hashes = hash_keys(keys, rows)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._rows = rows[order]
        self._collisions = self._find_collisions()

    def find(self, keys: KeyColumns, rows: Int64Array) -> Int64Array:
        """For each of these samples of any index, the row of this table with the same key, or -1."""
        found = np.full(len(rows), -1, np.int64)
        if not len(self._rows):
            return found
        for start in range(0, len(rows), BLOCK_KEYS):
            found[start : start + BLOCK_KEYS] = self._find_block(keys, rows[start : start + BLOCK_KEYS])
        return found

    def _find_block(self, index: KeyColumns, rows: Int64Array) -> Int64Array:
        hashes = hash_keys(index, rows)
        # In the order of the hashes, consecutive lookups access nearby memory.
        order = np.argsort(hashes)
        at = np.empty(len(rows), np.int64)
        at[order] = self._hashes.searchsorted(hashes[order])
        at[at == len(self._rows)] = 0
        hits = np.flatnonzero(self._hashes[at] == hashes)
        there = self._rows[at[hits]]
        equal = are_equal(index, rows[hits], self._keys, there)
        found = np.full(len(rows), -1, np.int64)
        found[hits[equal]] = there[equal]
        if self._collisions:
            for i in hits[~equal].tolist():
                found[i] = self._collisions.get(_key(index, int(rows[i])), -1)
        return found

    def _find_collisions(self) -> dict[bytes, int]:
        """Key -> row for different keys with the same hash, which are very rare. Raises DuplicateKey."""
        before = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        first, second = self._rows[before], self._rows[before + 1]
        twice = np.flatnonzero(are_equal(self._keys, first, self._keys, second))
        if len(twice):
            i = twice[np.argmin(first[twice])]
            raise DuplicateKey(int(first[i]), int(second[i]), len(twice))
        row_by_key: dict[bytes, int] = {}
        for row in np.unique(np.concatenate((first, second))).tolist():
            known = row_by_key.setdefault(_key(self._keys, row), row)
            if known != row:
                raise DuplicateKey(known, row, 1)
        return row_by_key


def hash_keys(keys: KeyColumns, rows: Int64Array) -> Uint64Array:
    """(rows,): 64 bits of each key, the same on every machine and in every version of a file."""
    hashes = np.empty(len(rows), np.uint64)
    text = np.frombuffer(keys.key_text, np.uint8)
    for start in range(0, len(rows), BLOCK_KEYS):
        block = rows[start : start + BLOCK_KEYS]
        starts = keys.key_start.take(block)
        for size, same_size in _by_size(keys.key_start.take(block + 1) - starts):
            hashes[start + same_size] = _hash_chunks(_key_chunks(text, starts[same_size], size), size)
    return hashes


def are_equal(one: KeyColumns, rows: Int64Array, other: KeyColumns, others: Int64Array) -> NDArray[np.bool_]:
    """(rows,): whether the keys of two indexes are equal."""
    equal = np.zeros(len(rows), np.bool_)
    text, other_text = np.frombuffer(one.key_text, np.uint8), np.frombuffer(other.key_text, np.uint8)
    for start in range(0, len(rows), BLOCK_KEYS):
        block, other_block = rows[start : start + BLOCK_KEYS], others[start : start + BLOCK_KEYS]
        starts, other_starts = one.key_start.take(block), other.key_start.take(other_block)
        sizes = one.key_start.take(block + 1) - starts
        sizes[other.key_start.take(other_block + 1) - other_starts != sizes] = -1
        for size, same_size in _by_size(sizes):
            if size >= 0:
                here, there = (
                    _key_chunks(text, starts[same_size], size),
                    _key_chunks(other_text, other_starts[same_size], size),
                )
                equal[start + same_size] = (here == there).all(axis=1)
    return equal


def _by_size(sizes: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """(size, indices of that size), in pieces of a limited number of bytes."""
    order = np.argsort(sizes, kind="stable") if len(sizes) and (sizes != sizes[0]).any() else np.arange(len(sizes))
    ordered = sizes[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    for same_size in np.split(order, edges) if len(sizes) else ():
        size = int(sizes[same_size[0]])
        most = max(1, MAX_BLOCK_BYTES // max(size, 1))
        for start in range(0, len(same_size), most):
            yield size, same_size[start : start + most]


def _key_chunks(text: NDArray[np.uint8], starts: Int64Array, size: int) -> Uint64Array:
    """(keys, chunks): keys of one size as 64-bit numbers, padded with zeros."""
    padded = np.zeros((len(starts), size + -size % 8), np.uint8)
    if size:
        padded[:, :size] = sliding_window_view(text, size)[starts]
    return padded.view("<u8").astype(np.uint64, copy=False) if size else np.zeros((len(starts), 0), np.uint64)


def _hash_chunks(chunks: Uint64Array, size: int) -> Uint64Array:
    hashes = np.full(len(chunks), size, np.uint64)
    for i in range(chunks.shape[1]):
        hashes ^= chunks[:, i]
        hashes *= _SPREAD
        hashes ^= hashes >> _HALF
        hashes *= _MIX
        hashes ^= hashes >> _SOME
    hashes *= _END
    hashes ^= hashes >> _HALF
    return hashes


def _key(index: KeyColumns, row: int) -> bytes:
    start, end = index.key_start[row : row + 2].tolist()
    return bytes(index.key_text[start:end])
