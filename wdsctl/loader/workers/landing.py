"""The consumer's side of a ring: results where they lie, lent out until nothing made from them is left."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wdsctl.loader.workers.memory import aligned
from wdsctl.loader.workers.options import ring_limit
from wdsctl.loader.workers.page import BLOCKS, Page

Memory = npt.NDArray[np.uint8]


class Landing:
    """The blocks of one worker process. Its memory lives until the last result that lies in it is gone."""

    def __init__(self, page: Page, ring_bytes: int | None) -> None:
        self._page = page
        self._ring_bytes = ring_bytes
        self._blocks: dict[int, mmap.mmap] = {}
        self._lent: dict[int, int] = {}
        self._forked: set[int] = set()  # blocks that were lent out when this process was forked
        self._largest = 0
        _LANDINGS.add(self)

    def add(self, block: int, descriptor: int, size: int) -> None:
        """A block that the worker made. Takes the descriptor."""
        for gone in [each for each in self._blocks if self._page.is_dropped(each)]:
            del self._blocks[gone]
        self._forked.discard(block)
        self._blocks[block] = mmap.mmap(descriptor, size)
        os.close(descriptor)

    def lend(self, block: int, size: int) -> Memory:
        """The block's first bytes. The worker writes there again when the array and all views of it are gone."""
        self._largest = max(self._largest, size)
        memory = np.frombuffer(self._blocks[block], dtype=np.uint8, count=size)
        self._lent[block] = len(self._blocks[block])
        ending = weakref.finalize(memory, _returned, self._page, self._lent, self._forked, block, os.getpid())
        ending.atexit = False
        return memory

    def forks(self) -> None:
        """This process is about to be forked: what is lent out, the child has too, in the same memory."""
        self._forked.update(list(self._lent))

    def owned(self, memory: Memory) -> Memory:
        """The memory itself, or a copy of it where more than half of the ring would be lent out.

        The other half is for what the worker makes meanwhile: a consumer that keeps everything is never in its way.
        """
        is_scarce = sum(self._lent.values()) > ring_limit(self._ring_bytes, self._largest) // 2
        if is_scarce or len(self._lent) > BLOCKS // 2:
            copy = fresh(memory.size)
            copy[:] = memory
            return copy
        return memory


def fresh(size: int) -> Memory:
    """Private memory that begins at a multiple of 64."""
    memory = np.empty(size + 64, dtype=np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size]


def segments_of(memory: Memory, sizes: Sequence[int]) -> list[memoryview]:
    view = memory.data
    segments, at = [], 0
    for size in sizes:
        segments.append(view[at : at + size])
        at += aligned(size)
    return segments


def _returned(page: Page, lent: dict[int, Any], forked: set[int], block: int, owner: int) -> None:
    # A process forked from the consumer has its results too. Those that end there sooner than here are not given back,
    # and those that end here sooner than there must not be written over.
    if os.getpid() == owner:
        lent.pop(block, None)
        if block in forked:
            page.retire(block)
        else:
            page.release(block)


def _before_fork() -> None:
    for landing in list(_LANDINGS):
        landing.forks()


#: Those of this process.
_LANDINGS: weakref.WeakSet[Landing] = weakref.WeakSet()
os.register_at_fork(before=_before_fork)
