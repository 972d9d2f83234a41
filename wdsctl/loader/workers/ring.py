"""The worker's side of the ring: blocks of shared memory that results are written into, one a result."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from wdsctl.loader.workers.memory import aligned, new_memory
from wdsctl.loader.workers.options import ring_limit
from wdsctl.loader.workers.page import BLOCKS, Page
from wdsctl.loader.workers.pickling import Segment, size_of
from wdsctl.loader.workers.wire import total_bytes

_GRAIN = 64 << 10


@dataclass(slots=True)
class Placed:
    block: int
    #: Bytes and descriptor of a block that is new; the descriptor is to be closed when it was sent.
    new_bytes: int = 0
    descriptors: list[int] = field(default_factory=list)


class Ring:
    """Blocks are made when they are needed, within the limit, and used again once the consumer let go of them."""

    def __init__(self, page: Page, ring_bytes: int | None) -> None:
        self._page = page
        self._ring_bytes = ring_bytes
        self._largest = 0
        self._blocks: dict[int, mmap.mmap] = {}

    def place(self, segments: Sequence[Segment], sizes: Sequence[int]) -> Placed | None:
        """Writes the segments into a block; None where there is no room and they must go another way."""
        size = total_bytes(sizes)
        self._largest = max(self._largest, size)
        placed = self._free(size) or self._new(size)
        if placed:
            self._page.use(placed.block)
            _write(self._blocks[placed.block], segments)
        return placed

    def _free(self, size: int) -> Placed | None:
        """The smallest free block that is large enough."""
        fits = [
            (len(memory), block)
            for block, memory in self._blocks.items()
            if len(memory) >= size and self._page.is_free(block)
        ]
        return Placed(min(fits)[1]) if fits else None

    def _new(self, size: int) -> Placed | None:
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
            self._blocks.pop(block).close()
            self._page.drop(block)
        return None if block is None else self._mapped(block, wanted)

    def _mapped(self, block: int, size: int) -> Placed:
        descriptor = new_memory(size)
        self._blocks[block] = mmap.mmap(descriptor, size)
        return Placed(block, size, [descriptor])


def sent(placed: Placed) -> None:
    for descriptor in placed.descriptors:
        os.close(descriptor)


def _write(memory: mmap.mmap, segments: Sequence[Segment]) -> None:
    at = 0
    for segment in segments:
        end = at
        for piece in segment:
            memory[end : end + len(piece)] = piece
            end += len(piece)
        at += aligned(size_of(segment))


def _rounded(size: int) -> int:
    """Up to an eighth more: results of nearly one size share blocks."""
    return aligned(size, max(_GRAIN, 1 << max(0, size.bit_length() - 4)))
