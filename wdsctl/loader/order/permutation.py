"""A keyed permutation of range(n), computable at any position without the others, for n up to 2^62, without storage.

Up to `MAX_TABLE_SIZE` elements, the permutation sorts the elements by keyed 64-bit hashes. This is a uniform shuffle,
which a Feistel network on so few elements would not be. For larger n, position p is a cell of a grid of a rows and b
columns, a x b >= n, and a Feistel network over Z_a x Z_b moves the cell: row += F1(column), column += F2(row), and so
on. The network is applied again to positions outside range(n), until they are inside (cycle walking); as a x b < n + a,
this concerns about one position in sqrt(n). The network adds modulo an even a: with exclusive or, or with odd a and b,
it could produce only half of all permutations (only even ones, or only odd ones).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.hashing import as_uint64_array, hash_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_ELEMENTS = 1 << 62
TABLE_SIZE_BITS = 12
MAX_TABLE_SIZE = 1 << TABLE_SIZE_BITS
FEISTEL_ROUNDS = 6
# Positions per block: its few arrays stay in the processor's caches.
BLOCK_POSITIONS = 1 << 13

_HASH_BITS = as_uint64_array(-MAX_TABLE_SIZE)
_INDEX_BITS = as_uint64_array(MAX_TABLE_SIZE - 1)
_HALF_WORD_BITS = as_uint64_array(32)
_MIX_FACTOR = as_uint64_array(0xD6E8FEB86659FD93)


def permute(positions: NDArray[np.int64] | NDArray[np.uint64], n: int, seed: int) -> NDArray[np.int64]:
    """The elements of range(n) at these positions (a one-dimensional array) of the permutation with this seed.

    Raises IndexError for a position outside range(n), where cycle walking might not end, and ValueError for n outside
    1..2^62. Costs some 30 µs per call and 25 ns per position; 3 µs per call if n <= `MAX_TABLE_SIZE`.
    """
    _check_size(n)
    elements = positions.astype(np.uint64)
    # As unsigned integers, negative positions are huge, so that one comparison checks both bounds.
    if elements.size and int(elements.max()) >= n:
        wrong = positions[elements >= np.uint64(n)][0]
        raise IndexError(f"position {wrong} is outside range({n})")
    if n <= MAX_TABLE_SIZE:
        return _cached_table(n, seed)[elements]
    network = _feistel_network(n, seed)
    for start in range(0, elements.size, BLOCK_POSITIONS):
        _cycle_walk(network, elements[start : start + BLOCK_POSITIONS])
    return elements.view(np.int64)


def permutation(n: int, seed: int) -> NDArray[np.int64]:
    """The whole permutation, in 8n bytes: `permute(arange(n), n, seed)`, without caching a table."""
    _check_size(n)
    return _table(n, seed) if n <= MAX_TABLE_SIZE else permute(np.arange(n), n, seed)


def permute_each(
    positions: NDArray[np.int64], which: NDArray[np.int64], n: int, seeds: Sequence[int]
) -> NDArray[np.int64]:
    """The elements of range(n) at these positions, each by the permutation with seed `seeds[which]`.

    Does not check that positions are in range(n). Raises ValueError as `permute` does. Up to `MAX_TABLE_SIZE` elements,
    it computes all tables at once, in some 30 µs and 20 ns per element of each table, and caches none.
    """
    if n <= MAX_TABLE_SIZE:
        _check_size(n)
        return _table(n, _seed_column(seeds))[which, positions]
    elements = np.empty_like(positions)
    for i, key in enumerate(seeds):
        is_own = which == i
        elements[is_own] = permute(positions[is_own], n, key)
    return elements


def _check_size(n: int) -> None:
    if not 1 <= n <= MAX_ELEMENTS:
        raise ValueError(f"a permutation has 1 to 2^62 elements, not {n}")


def _table(n: int, seed: int | NDArray[np.uint64]) -> NDArray[np.int64]:
    """The elements in the order of their hashes; for a column of seeds, one row per seed."""
    hashes = _tagged_hashes(seed, np.arange(n, dtype=np.uint64))
    hashes.sort()
    hashes &= _INDEX_BITS
    return hashes.view(np.int64)


def _tagged_hashes(seed: int | NDArray[np.uint64], elements: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes with their elements in the lowest bits: sorting them is several times faster than numpy's `argsort`, and
    the order of equal hashes does not depend on the algorithm."""
    hashes = hash_values(seed, elements)
    hashes &= _HASH_BITS
    hashes |= elements
    return hashes


def _seed_column(seeds: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(seeds, np.uint64)[:, np.newaxis]


# Consecutive calls request slices of one or two epochs of each source. 128 tables take 4 MB at most.
_cached_table = lru_cache(maxsize=128)(_table)


@dataclass(frozen=True, slots=True, eq=False)
class _FeistelNetwork:
    """Numbers as 0-dimensional arrays. `rounds`: (factor, summand) of each round function; row first, then column."""

    n: NDArray[np.uint64]
    rows: NDArray[np.uint64]
    columns: NDArray[np.uint64]
    rounds: tuple[tuple[NDArray[np.uint64], NDArray[np.uint64]], ...]


@lru_cache(maxsize=128)
def _feistel_network(n: int, seed: int) -> _FeistelNetwork:
    rows = isqrt(n - 1) + 1
    rows += rows & 1
    hashes = hash_values(seed, np.arange(2 * FEISTEL_ROUNDS))
    hashes[::2] |= np.uint64(1)
    rounds = tuple((hashes[i, ...], hashes[i + 1, ...]) for i in range(0, 2 * FEISTEL_ROUNDS, 2))
    return _FeistelNetwork(
        n=as_uint64_array(n), rows=as_uint64_array(rows), columns=as_uint64_array(-(-n // rows)), rounds=rounds
    )


def _cycle_walk(network: _FeistelNetwork, elements: NDArray[np.uint64]) -> None:
    """Apply the network to elements in place, and again to those outside range(n) until all are inside."""
    _apply_network(network, elements)
    outside = np.flatnonzero(elements >= network.n)
    while outside.size:
        walking = elements[outside]
        _apply_network(network, walking)
        elements[outside] = walking
        outside = outside[walking >= network.n]


def _apply_network(network: _FeistelNetwork, elements: NDArray[np.uint64]) -> None:
    """Apply the network once, in place."""
    row = elements // network.columns
    column = np.multiply(row, network.columns)
    np.subtract(elements, column, column)
    value, spare = np.empty_like(row), np.empty_like(row)
    moved, size, other, other_size = row, network.rows, column, network.columns
    for factor, summand in network.rounds:
        # The round function: 64 mixed bits of the other half, the upper 32 of them scaled to range(size).
        np.multiply(other, factor, value)
        np.add(value, summand, value)
        np.right_shift(value, _HALF_WORD_BITS, spare)
        np.bitwise_xor(value, spare, value)
        np.multiply(value, _MIX_FACTOR, value)
        np.right_shift(value, _HALF_WORD_BITS, value)
        np.multiply(value, size, value)
        np.right_shift(value, _HALF_WORD_BITS, value)
        np.add(moved, value, moved)
        # Modulo size: if the sum is below size, the unsigned difference wraps and is the larger one.
        np.subtract(moved, size, spare)
        np.minimum(moved, spare, out=moved)
        moved, size, other, other_size = other, other_size, moved, size
    np.multiply(row, network.columns, row)
    np.add(row, column, elements)
