"""The worker's side of the ring: blocks of shared memory that results are written into, one a result."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wdsctl.loader.workers.memory import aligned, new_memory
from wdsctl.loader.workers.options import ring_limit
from wdsctl.loader.workers.page import BLOCKS, Page
from wdsctl.loader.workers.pickling import Segment, size_of
from wdsctl.loader.workers.wire import total_bytes

Memory = npt.NDArray[np.uint8]

_GRAIN = 64 << 10


@dataclass(slots=True)
class Placed:
    block: int
    #: Bytes and descriptor of a block that is new; the descriptor is to be closed when it was sent.
    new_bytes: int = 0
    descriptors: list[int] = field(default_factory=list)


class _Room(NamedTuple):
    block: int
    size: int
    address: int


class Ring:
    """Blocks are made when they are needed, within the limit, and used again once the consumer let go of them."""

    def __init__(self, page: Page, ring_bytes: int | None) -> None:
        self._page = page
        self._ring_bytes = ring_bytes
        self._largest = 0
        self._blocks: dict[int, mmap.mmap] = {}
        self._unsent: dict[int, int] = {}  # blocks that the consumer has not got yet: their descriptors
        self._room: _Room | None = None
        self._beside = 0  # the most bytes that came with a result that was made in its room

    def room(self, size: int) -> Memory | None:
        """So many bytes of a free block, for the next result; None where there are none, or they are taken.

        A result whose first segment is this memory, as a whole, is placed without writing it again. Until then, or
        until `leave_room`, nobody else gets it.
        """
        if self._room is not None or size <= 0:
            return None
        block = self._taken(aligned(size) + aligned(self._beside))
        if block is None:
            return None
        self._page.use(block)
        memory = np.frombuffer(self._blocks[block], np.uint8, size)
        self._room = _Room(block, size, _address(memory))
        return memory

    def leave_room(self) -> None:
        """Whatever was made in the room is not sent."""
        room, self._room = self._room, None
        if room is not None:
            self._page.release(room.block)

    def place(self, segments: Sequence[Segment], sizes: Sequence[int]) -> Placed | None:
        """Writes the segments into a block; None where there is no room and they must go another way."""
        size = total_bytes(sizes)
        if self._is_in_room(segments[0]):
            self._beside = max(self._beside, size - aligned(sizes[0]))
            if (placed := self._furnished(segments, size)) is not None:
                return placed
        block = self._taken(size)
        if block is not None:
            self._page.use(block)
            _write(self._blocks[block], 0, segments)
        # What was written may have come from there.
        self.leave_room()
        return None if block is None else self._placed(block)

    def _is_in_room(self, segment: Segment) -> bool:
        room = self._room
        if room is None or len(segment) != 1 or len(segment[0]) != room.size:
            return False
        return _address(segment[0]) == room.address

    def _furnished(self, segments: Sequence[Segment], size: int) -> Placed | None:
        """The block of the room with the other segments behind it; None where they do not fit."""
        room = self._room
        if room is None or size > len(self._blocks[room.block]):
            return None
        self._room = None
        _write(self._blocks[room.block], aligned(room.size), segments[1:])
        return self._placed(room.block)

    def _placed(self, block: int) -> Placed:
        descriptor = self._unsent.pop(block, None)
        return Placed(block) if descriptor is None else Placed(block, len(self._blocks[block]), [descriptor])

    def _taken(self, size: int) -> int | None:
        """A block of so many bytes that nobody uses."""
        self._largest = max(self._largest, size)
        for retired in [each for each in self._blocks if self._page.is_retired(each)]:
            self._drop(retired)
        block = self._free(size)
        return self._new(size) if block is None else block

    def _free(self, size: int) -> int | None:
        """The smallest free block that is large enough."""
        fits = [
            (len(memory), block)
            for block, memory in self._blocks.items()
            if len(memory) >= size and self._page.is_free(block)
        ]
        return min(fits)[1] if fits else None

    def _new(self, size: int) -> int | None:
        wanted = _rounded(size)
        room = ring_limit(self._ring_bytes, self._largest) - wanted
        held = sum(map(len, self._blocks.values()))
        # A free block is too small, or `_free` had taken it: it makes room, largest first. Its number comes again.
        spare = sorted((b for b in self._blocks if self._page.is_free(b)), key=lambda b: len(self._blocks[b]))
        if room < 0 or held - sum(len(self._blocks[block]) for block in spare) > room:
            return None
        block = next((b for b in range(BLOCKS) if b not in self._blocks), None)
        while spare and (held > room or block is None):
            block = spare.pop()
            held -= len(self._blocks[block])
            self._drop(block)
        return None if block is None else self._mapped(block, wanted)

    def _drop(self, block: int) -> None:
        # Unmapped, not closed: whoever made a result in it may not have forgotten it yet.
        del self._blocks[block]
        self._page.drop(block)
        descriptor = self._unsent.pop(block, None)
        if descriptor is not None:
            os.close(descriptor)

    def _mapped(self, block: int, size: int) -> int:
        descriptor = new_memory(size)
        self._blocks[block] = mmap.mmap(descriptor, size)
        self._unsent[block] = descriptor
        return block


def sent(placed: Placed) -> None:
    for descriptor in placed.descriptors:
        os.close(descriptor)


def _address(memory: Any) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def _write(memory: mmap.mmap, at: int, segments: Sequence[Segment]) -> None:
    for segment in segments:
        end = at
        for piece in segment:
            memory[end : end + len(piece)] = piece
            end += len(piece)
        at += aligned(size_of(segment))


def _rounded(size: int) -> int:
    """Up to an eighth more: results of nearly one size share blocks."""
    return aligned(size, max(_GRAIN, 1 << max(0, size.bit_length() - 4)))
