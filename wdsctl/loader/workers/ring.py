"""The worker's side of the ring: blocks of shared memory that results are written into, one per result.

`reserve` gives the current task memory of a block, so that what is made there need not be copied.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wdsctl.loader.workers.options import ring_limit_bytes
from wdsctl.loader.workers.pickling import ByteSegment, segment_bytes
from wdsctl.loader.workers.status_page import MAX_RING_BLOCKS, StatusPage, align_up, new_shared_memory
from wdsctl.loader.workers.wire import total_aligned_bytes

ByteArray = npt.NDArray[np.uint8]

_BLOCK_GRANULARITY_BYTES = 64 << 10


@dataclass(slots=True)
class BlockPlacement:
    """The block of a result."""

    block: int
    #: Size and descriptor of a new block. The sender closes the descriptor after sending it.
    new_bytes: int = 0
    descriptors: list[int] = field(default_factory=list)


class _Reservation(NamedTuple):
    block: int
    size: int
    address: int


class RingWriter:
    """Blocks are created on demand, within the limit, and reused once the consumer has released them."""

    def __init__(self, status_page: StatusPage, ring_bytes: int | None) -> None:
        self._status_page = status_page
        self._ring_bytes = ring_bytes
        self._largest = 0
        self._blocks: dict[int, mmap.mmap] = {}
        self._unsent_descriptors: dict[int, int] = {}  # descriptors of blocks that the consumer does not have yet
        self._reservation: _Reservation | None = None
        self._extra_bytes = 0  # maximum size of the segments that followed reserved memory

    def reserve(self, size: int) -> ByteArray | None:
        """`size` bytes of a free block, for the next result; None if there are none, or they are reserved already.

        A result whose first segment is exactly this memory is placed without a copy. The memory stays reserved until
        then, or until `cancel_reservation`.
        """
        if self._reservation is not None or size <= 0:
            return None
        block = self._take_block(align_up(size) + align_up(self._extra_bytes))
        if block is None:
            return None
        self._status_page.use_block(block)
        memory = np.frombuffer(self._blocks[block], np.uint8, size)
        self._reservation = _Reservation(block, size, _address(memory))
        return memory

    def cancel_reservation(self) -> None:
        """Release the reserved block without sending it."""
        room, self._reservation = self._reservation, None
        if room is not None:
            self._status_page.release_block(room.block)

    def write_result(self, segments: Sequence[ByteSegment], sizes: Sequence[int]) -> BlockPlacement | None:
        """Write the segments into a block; None if the ring is full and they must go through the socket."""
        size = total_aligned_bytes(sizes)
        if self._is_reserved(segments[0]):
            self._extra_bytes = max(self._extra_bytes, size - align_up(sizes[0]))
            if (placement := self._complete_reservation(segments, size)) is not None:
                return placement
        block = self._take_block(size)
        if block is not None:
            self._status_page.use_block(block)
            _write_segments(self._blocks[block], 0, segments)
        # Only now: the segments may lie in the reserved block.
        self.cancel_reservation()
        return None if block is None else self._placement_of(block)

    def _is_reserved(self, segment: ByteSegment) -> bool:
        room = self._reservation
        if room is None or len(segment) != 1 or len(segment[0]) != room.size:
            return False
        return _address(segment[0]) == room.address

    def _complete_reservation(self, segments: Sequence[ByteSegment], size: int) -> BlockPlacement | None:
        """The reserved block with the other segments behind it; None if they do not fit."""
        room = self._reservation
        if room is None or size > len(self._blocks[room.block]):
            return None
        self._reservation = None
        _write_segments(self._blocks[room.block], align_up(room.size), segments[1:])
        return self._placement_of(room.block)

    def _placement_of(self, block: int) -> BlockPlacement:
        descriptor = self._unsent_descriptors.pop(block, None)
        return (
            BlockPlacement(block)
            if descriptor is None
            else BlockPlacement(block, len(self._blocks[block]), [descriptor])
        )

    def _take_block(self, size: int) -> int | None:
        """The number of an unused block of at least `size` bytes; None if the ring is full."""
        self._largest = max(self._largest, size)
        for retired in [each for each in self._blocks if self._status_page.is_block_retired(each)]:
            self._drop_block(retired)
        block = self._find_free_block(size)
        return self._new_block(size) if block is None else block

    def _find_free_block(self, size: int) -> int | None:
        """The smallest free block that is large enough."""
        fits = [
            (len(memory), block)
            for block, memory in self._blocks.items()
            if len(memory) >= size and self._status_page.is_block_free(block)
        ]
        return min(fits)[1] if fits else None

    def _new_block(self, size: int) -> int | None:
        # Up to an eighth more: results of similar size share blocks.
        block_bytes = align_up(size, max(_BLOCK_GRANULARITY_BYTES, 1 << max(0, size.bit_length() - 4)))
        room = ring_limit_bytes(self._ring_bytes, self._largest) - block_bytes
        held = sum(map(len, self._blocks.values()))
        # Free blocks are too small: they are dropped, largest first. Their numbers are reused.
        spare = sorted(
            (b for b in self._blocks if self._status_page.is_block_free(b)), key=lambda b: len(self._blocks[b])
        )
        if room < 0 or held - sum(len(self._blocks[block]) for block in spare) > room:
            return None
        block = next((b for b in range(MAX_RING_BLOCKS) if b not in self._blocks), None)
        while spare and (held > room or block is None):
            block = spare.pop()
            held -= len(self._blocks[block])
            self._drop_block(block)
        if block is None:
            return None
        descriptor = new_shared_memory(block_bytes)
        self._blocks[block] = mmap.mmap(descriptor, block_bytes)
        self._unsent_descriptors[block] = descriptor
        return block

    def _drop_block(self, block: int) -> None:
        # The map is not closed explicitly: the code that made a result in the block may still refer to it.
        del self._blocks[block]
        self._status_page.drop_block(block)
        descriptor = self._unsent_descriptors.pop(block, None)
        if descriptor is not None:
            os.close(descriptor)


def close_sent_descriptors(placement: BlockPlacement) -> None:
    for descriptor in placement.descriptors:
        os.close(descriptor)


def _address(memory: Any) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def _write_segments(memory: mmap.mmap, at: int, segments: Sequence[ByteSegment]) -> None:
    for segment in segments:
        end = at
        for piece in segment:
            memory[end : end + len(piece)] = piece
            end += len(piece)
        at += align_up(segment_bytes(segment))


#: The ring of the worker that this process is.
_own_rings: list[RingWriter] = []


def set_own_ring(ring: RingWriter) -> None:
    """Make this process the worker of this ring."""
    _own_rings[:] = [ring]


def reserve(size: int) -> ByteArray | None:
    """`size` bytes with arbitrary values, for the current result; None outside of a worker, or if none are free.

    A result that contains this array itself, as the first of its arrays and tensors, is sent without copying it. The
    memory belongs to the task until it ends, and one task gets it once.
    """
    return _own_rings[0].reserve(size) if _own_rings else None
