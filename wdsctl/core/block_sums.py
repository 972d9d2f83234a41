"""Checksums of a mapped file by block, so that a reader checks what it uses when it uses it first, and nothing else.

The file is filled up with zeros to whole blocks of 4096 bytes; behind them stands a u64, little-endian, for each block:
the sum over its 512 words of 8 bytes, each times a weight of its own, modulo 2^64. The weights are odd, so that no
change of one word goes unnoticed; of all other changes one in some 2^64 does. numpy works it out several times as fast
as zlib does CRC-32, and for many blocks in one call. It is no protection against people, who can write the sums too: so
readers check that what becomes an address is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.errors import WdsctlError
from wdsctl.core.keys import mix

BLOCK = 4096  # bytes
_WORDS = BLOCK // 8
_WEIGHTS = mix(0x626C6F636B, np.arange(_WORDS, dtype=np.uint64)) | np.uint64(1)
_AT_ONCE = 2048  # blocks that are read together: 8 MB

Ints = NDArray[np.int64]
Sums = NDArray[np.uint64]


def filled(end: int) -> int:
    """The bytes of whole blocks that hold so many bytes."""
    return end + -end % BLOCK


def size_of_sums(end: int) -> int:
    """The bytes that stand behind the blocks of a file of so many bytes."""
    return filled(end) // BLOCK * 8


def seal(file: BinaryIO) -> None:
    """Fill a file up to whole blocks, and append their sums. It is open for reading and writing, and is read once."""
    file.seek(0, 2)
    end = file.tell()
    file.write(b"\0" * (filled(end) - end))
    blocks = filled(end) // BLOCK
    sums = np.empty(blocks, "<u8")
    file.seek(0)
    for start in range(0, blocks, _AT_ONCE):
        count = min(_AT_ONCE, blocks - start)
        sums[start : start + count] = _sums(np.frombuffer(file.read(count * BLOCK), "<u8").reshape(-1, _WORDS))
    file.seek(0, 2)
    file.write(sums.data)


def _sums(words: NDArray[np.uint64]) -> Sums:
    """(blocks,) of words (blocks, 512)."""
    sums: Sums = words @ _WEIGHTS
    return sums


class BlockSums:
    """The checksums of a file that `seal` ended, mapped or in memory. `damaged` makes the error to raise.

    A block is looked at once in each process; forked processes know what their parent has looked at. Checking costs
    some 0.3 ms a megabyte, and some 5 us where everything has been looked at.
    """

    def __init__(self, data: Any, damaged: Callable[[], WdsctlError]) -> None:
        # Of n blocks the file has 4096 n + 8 n bytes.
        blocks, rest = divmod(len(data), BLOCK + 8)
        if rest:
            raise damaged()
        self._words = np.frombuffer(data, "<u8", blocks * _WORDS).reshape(-1, _WORDS)
        self._sums = np.frombuffer(data, "<u8", blocks, blocks * BLOCK)
        self._is_good = np.zeros(blocks, np.bool_)
        self._damaged = damaged

    def check(self, start: int, stop: int) -> None:
        """Raise where the bytes [start, stop) of the file are not what was written, or are not there."""
        if start < 0 or stop > len(self._is_good) * BLOCK:
            raise self._damaged()
        first, last = start // BLOCK, (stop - 1) // BLOCK
        if stop > start and not (first == last and self._is_good[first]):
            self._look_at(np.arange(first, last + 1))

    def check_all(self) -> None:
        blocks = len(self._is_good)
        for start in range(0, blocks, _AT_ONCE):
            self._look_at(np.arange(start, min(start + _AT_ONCE, blocks)))

    def check_spans(self, starts: Ints, stops: Ints) -> None:
        """The same for many spans of bytes, some of which may be empty."""
        has_any = stops > starts
        if (stops < starts).any() or starts.min(initial=0) < 0 or stops.max(initial=0) > len(self._is_good) * BLOCK:
            raise self._damaged()
        first, last = starts[has_any] // BLOCK, (stops[has_any] - 1) // BLOCK
        if self._is_good[first].all() and self._is_good[last].all() and (last - first < 2).all():
            return
        counts = last - first + 1
        inner = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        self._look_at(np.unique(np.repeat(first, counts) + inner))

    def _look_at(self, blocks: Ints) -> None:
        new = blocks[~self._is_good[blocks]]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            words = self._words[some[0] : some[-1] + 1] if some[-1] - some[0] == len(some) - 1 else self._words[some]
            if not np.array_equal(_sums(words), self._sums[some]):
                raise self._damaged()
            self._is_good[some] = True
