"""A keyed permutation of range(n) that answers for any position at once, for n up to 2^62, with nothing stored.

Up to `TABLE` elements the permutation is drawn: the elements sorted by keyed 64-bit hashes, a fair shuffle, which the
few draws that a small Feistel network makes could not be. Above, position p is a place in a grid of a rows and b
columns, a x b >= n, and a Feistel network over Z_a x Z_b moves it: row += F1(column), column += F2(row), and so on.
What lands outside range(n) walks on from there until it is back inside (cycle walking); as a x b < n + a, that happens
to about one position in sqrt(n). Sums modulo an even a, not exclusive ors of bits: with those, and with odd a and b,
half of all permutations (the odd ones, or the even ones) could never come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from wdsctl.core.keys import array_word, mix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST = 1 << 62
TABLE_BITS = 12
TABLE = 1 << TABLE_BITS
ROUNDS = 6
# Positions a block: its few arrays stay in the processor's caches.
BLOCK = 1 << 13

_HASH_BITS = array_word(-TABLE)
_INDEX_BITS = array_word(TABLE - 1)
_HALF = array_word(32)
_FACTOR = array_word(0xD6E8FEB86659FD93)


def permute(positions: NDArray[np.int64] | NDArray[np.uint64], n: int, key: int) -> NDArray[np.int64]:
    """The elements of range(n) at these positions (an array with one axis) of the permutation that `key` names.

    Raises IndexError for a position outside range(n), from where a walk might never come back, and ValueError for an
    n outside 1..2^62. Costs some 30 µs a call and 25 ns a position; 3 µs a call while n <= `TABLE`.
    """
    _guard(n)
    places = positions.astype(np.uint64)
    # As unsigned words negative positions are huge, so that one comparison guards both ends.
    if places.size and int(places.max()) >= n:
        wrong = positions[places >= np.uint64(n)][0]
        raise IndexError(f"position {wrong} is outside range({n})")
    if n <= TABLE:
        return _kept_table(n, key)[places]
    network = _network(n, key)
    for start in range(0, places.size, BLOCK):
        _walk(network, places[start : start + BLOCK])
    return places.view(np.int64)


def permutation(n: int, key: int) -> NDArray[np.int64]:
    """All of it in 8n bytes: `permute(arange(n), n, key)`, without keeping a table that nobody asks for again."""
    _guard(n)
    return _table(n, key) if n <= TABLE else permute(np.arange(n), n, key)


def permute_each(
    positions: NDArray[np.int64], which: NDArray[np.int64], n: int, keys: Sequence[int]
) -> NDArray[np.int64]:
    """The elements of range(n) at these positions, each of the permutation that `keys[which]` names.

    The positions must be inside: nobody looks. Raises ValueError as `permute`. Up to `TABLE` elements it makes all
    tables at once, in some 30 µs and 20 ns an element of each, and keeps none of them.
    """
    if n <= TABLE:
        _guard(n)
        return _table(n, _column(keys))[which, positions]
    elements = np.empty_like(positions)
    for i, key in enumerate(keys):
        mine = which == i
        elements[mine] = permute(positions[mine], n, key)
    return elements


def permutations(sizes: NDArray[np.int64], keys: Sequence[int]) -> NDArray[np.int64]:
    """`permutation(size, key)` of each size and key, laid end to end, as one permutation of all of it."""
    starts = np.cumsum(sizes) - sizes
    if int(sizes.max()) > TABLE:
        pairs = zip(starts.tolist(), sizes.tolist(), keys, strict=True)
        return np.concatenate([start + permutation(size, key) for start, size, key in pairs])
    which = np.repeat(np.arange(sizes.size), sizes)
    elements = np.arange(which.size) - starts[which]
    return np.lexsort((_marked(_column(keys)[which, 0], elements.view(np.uint64)), which))


def _guard(n: int) -> None:
    if not 1 <= n <= MOST:
        raise ValueError(f"a permutation has 1 to 2^62 elements, not {n}")


def _table(n: int, key: int | NDArray[np.uint64]) -> NDArray[np.int64]:
    """The elements in the order of their hashes; of a column of keys, a row each."""
    hashes = _marked(key, np.arange(n, dtype=np.uint64))
    hashes.sort()
    hashes &= _INDEX_BITS
    return hashes.view(np.int64)


def _marked(key: int | NDArray[np.uint64], elements: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes whose lowest bits made room for their elements: sorting plain words is several times faster than
    `argsort`, and a tie cannot depend on the algorithm."""
    hashes = mix(key, elements)
    hashes &= _HASH_BITS
    hashes |= elements
    return hashes


def _column(keys: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(keys, np.uint64)[:, np.newaxis]


# Consecutive calls ask for slices of one or two epochs of each source. 128 tables are 4 MB at most.
_kept_table = lru_cache(maxsize=128)(_table)


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """Numbers as arrays without axes. `rounds`: (factor, summand) of each round function; row first, then column."""

    n: NDArray[np.uint64]
    rows: NDArray[np.uint64]
    columns: NDArray[np.uint64]
    rounds: tuple[tuple[NDArray[np.uint64], NDArray[np.uint64]], ...]


@lru_cache(maxsize=128)
def _network(n: int, key: int) -> _Network:
    rows = isqrt(n - 1) + 1
    rows += rows & 1
    words = mix(key, np.arange(2 * ROUNDS))
    words[::2] |= np.uint64(1)
    rounds = tuple((words[i, ...], words[i + 1, ...]) for i in range(0, 2 * ROUNDS, 2))
    return _Network(n=array_word(n), rows=array_word(rows), columns=array_word(-(-n // rows)), rounds=rounds)


def _walk(network: _Network, places: NDArray[np.uint64]) -> None:
    """Moves places, all of them inside, to where they come inside again. Only those still outside walk on."""
    _move(network, places)
    outside = np.flatnonzero(places >= network.n)
    while outside.size:
        walking = places[outside]
        _move(network, walking)
        places[outside] = walking
        outside = outside[walking >= network.n]


def _move(network: _Network, places: NDArray[np.uint64]) -> None:
    """Through the network once, in place."""
    row = places // network.columns
    column = np.multiply(row, network.columns)
    np.subtract(places, column, column)
    value, spare = np.empty_like(row), np.empty_like(row)
    moved, size, other, other_size = row, network.rows, column, network.columns
    for factor, summand in network.rounds:
        # The round function: 64 mixed bits of the other half, the upper 32 of them scaled to range(size).
        np.multiply(other, factor, value)
        np.add(value, summand, value)
        np.right_shift(value, _HALF, spare)
        np.bitwise_xor(value, spare, value)
        np.multiply(value, _FACTOR, value)
        np.right_shift(value, _HALF, value)
        np.multiply(value, size, value)
        np.right_shift(value, _HALF, value)
        np.add(moved, value, moved)
        # Modulo size: below it the difference wraps and is the greater of the two.
        np.subtract(moved, size, spare)
        np.minimum(moved, spare, out=moved)
        moved, size, other, other_size = other, other_size, moved, size
    np.multiply(row, network.columns, row)
    np.add(row, column, places)
