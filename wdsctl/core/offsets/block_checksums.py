"""Checksums of a mapped file by block, so that a reader checks only what it uses, when it uses it first.

The file is padded with zeros to whole blocks of 4096 bytes. After them comes a u64, little-endian, for each block: the
sum over its 512 chunks of 8 bytes, each times a weight of its own, modulo 2^64. The weights are odd, so that a change
of one chunk is always detected, and one in 2^64 of all other changes is not. numpy computes the sum several times as
fast as zlib computes CRC-32, and for many blocks in one call. Checksums do not protect from attackers, who can compute
them too, so readers also check that addresses are possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import WdsctlError
from wdsctl.core.hashing import hash_values

CHECKSUM_BLOCK_BYTES = 4096  # bytes
_CHUNKS_PER_BLOCK = CHECKSUM_BLOCK_BYTES // 8
_WEIGHTS = hash_values(0x626C6F636B, np.arange(_CHUNKS_PER_BLOCK, dtype=np.uint64)) | np.uint64(1)
_BLOCKS_PER_READ = 2048  # blocks that are read together: 8 MB

ChecksumArray = NDArray[np.uint64]
Span = tuple[int, int]  # start and stop, in bytes


def round_up_to_blocks(data_bytes: int) -> int:
    """The size of the whole blocks that hold this many bytes."""
    return data_bytes + -data_bytes % CHECKSUM_BLOCK_BYTES


def checksums_size(data_bytes: int) -> int:
    """The size of the checksums of a file with this many bytes of data."""
    return round_up_to_blocks(data_bytes) // CHECKSUM_BLOCK_BYTES * 8


def append_checksums(file: BinaryIO) -> None:
    """Pad a file, which is open for reading and writing, to whole blocks, and append checksums. Reads the file once."""
    file.seek(0, 2)
    end = file.tell()
    file.write(b"\0" * (round_up_to_blocks(end) - end))
    blocks = round_up_to_blocks(end) // CHECKSUM_BLOCK_BYTES
    checksums = np.empty(blocks, "<u8")
    file.seek(0)
    for start in range(0, blocks, _BLOCKS_PER_READ):
        count = min(_BLOCKS_PER_READ, blocks - start)
        checksums[start : start + count] = _block_checksums(
            np.frombuffer(file.read(count * CHECKSUM_BLOCK_BYTES), "<u8").reshape(-1, _CHUNKS_PER_BLOCK)
        )
    file.seek(0, 2)
    file.write(checksums.data)


def _block_checksums(chunks: NDArray[np.uint64]) -> ChecksumArray:
    """(blocks,) of chunks (blocks, 512)."""
    checksums: ChecksumArray = chunks @ _WEIGHTS
    return checksums


class BlockChecksums:
    """The checksums of a file that `append_checksums` has completed, mapped or in memory. `make_error` returns the
    error to raise. `fetch`: of a file that is here in part, brings spans of bytes, (start, stop), before they are used.

    Each block is checked once per process; forked processes inherit the checks of their parent. Checking costs 0.3 ms
    per MB, and 5 us if all blocks are checked already.
    """

    def __init__(
        self, data: Any, make_error: Callable[[], WdsctlError], fetch: Callable[[list[Span]], None] | None = None
    ) -> None:
        # Of n blocks the file has 4096 n + 8 n bytes.
        blocks, rest = divmod(len(data), CHECKSUM_BLOCK_BYTES + 8)
        if rest:
            raise make_error()
        self._chunks = np.frombuffer(data, "<u8", blocks * _CHUNKS_PER_BLOCK).reshape(-1, _CHUNKS_PER_BLOCK)
        self._checksums = np.frombuffer(data, "<u8", blocks, blocks * CHECKSUM_BLOCK_BYTES)
        self._is_verified = np.zeros(blocks, np.bool_)
        self._make_error = make_error
        self._fetch = fetch

    def check(self, start: int, stop: int) -> None:
        """Raise if the bytes [start, stop) of the file are missing or damaged."""
        if start < 0 or stop > len(self._is_verified) * CHECKSUM_BLOCK_BYTES:
            raise self._make_error()
        first, last = start // CHECKSUM_BLOCK_BYTES, (stop - 1) // CHECKSUM_BLOCK_BYTES
        if stop > start and not (first == last and self._is_verified[first]):
            self._verify(np.arange(first, last + 1))

    def check_all(self) -> None:
        blocks = len(self._is_verified)
        for start in range(0, blocks, _BLOCKS_PER_READ):
            self._verify(np.arange(start, min(start + _BLOCKS_PER_READ, blocks)))

    def check_spans(self, starts: Int64Array, stops: Int64Array) -> None:
        """`check` for many spans of bytes, some of which may be empty."""
        has_any = stops > starts
        if (
            (stops < starts).any()
            or starts.min(initial=0) < 0
            or stops.max(initial=0) > len(self._is_verified) * CHECKSUM_BLOCK_BYTES
        ):
            raise self._make_error()
        first, last = starts[has_any] // CHECKSUM_BLOCK_BYTES, (stops[has_any] - 1) // CHECKSUM_BLOCK_BYTES
        if self._is_verified[first].all() and self._is_verified[last].all() and (last - first < 2).all():
            return
        counts = last - first + 1
        inner = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        self._verify(np.unique(np.repeat(first, counts) + inner))

    def _verify(self, blocks: Int64Array) -> None:
        new = blocks[~self._is_verified[blocks]]
        if self._fetch is not None and len(new):
            self._fetch(self._spans(new))
        for start in range(0, len(new), _BLOCKS_PER_READ):
            some = new[start : start + _BLOCKS_PER_READ]
            chunks = self._chunks[some[0] : some[-1] + 1] if some[-1] - some[0] == len(some) - 1 else self._chunks[some]
            if not np.array_equal(_block_checksums(chunks), self._checksums[some]):
                raise self._make_error()
            self._is_verified[some] = True

    def _spans(self, blocks: Int64Array) -> list[Span]:
        """The bytes of these blocks, in ascending order, and of their checksums."""
        edges = np.flatnonzero(np.diff(blocks) > 1) + 1
        first, stop = blocks[np.append(0, edges)], blocks[np.append(edges - 1, -1)] + 1
        at = len(self._is_verified) * CHECKSUM_BLOCK_BYTES
        spans = np.concatenate([np.stack((first, stop), 1) * CHECKSUM_BLOCK_BYTES, at + np.stack((first, stop), 1) * 8])
        return [(start, end) for start, end in spans.tolist()]
