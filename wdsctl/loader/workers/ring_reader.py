"""The consumer's side of a ring: results stay in shared memory, lent out until nothing refers to them."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wdsctl.loader.workers.options import ring_limit_bytes
from wdsctl.loader.workers.status_page import MAX_RING_BLOCKS, StatusPage, align_up

ByteArray = npt.NDArray[np.uint8]


class RingReader:
    """The blocks of one worker process. The memory of a block lives until its last result is freed."""

    def __init__(self, status_page: StatusPage, ring_bytes: int | None) -> None:
        self._status_page = status_page
        self._ring_bytes = ring_bytes
        self._blocks: dict[int, mmap.mmap] = {}
        self._lent_bytes: dict[int, int] = {}
        self._forked_blocks: set[int] = set()  # blocks that were lent out when this process was forked
        self._largest = 0
        _READERS.add(self)

    def add(self, block: int, descriptor: int, size: int) -> None:
        """Map a block that the worker created. Takes the descriptor."""
        for gone in [each for each in self._blocks if self._status_page.is_block_dropped(each)]:
            del self._blocks[gone]
        self._forked_blocks.discard(block)
        self._blocks[block] = mmap.mmap(descriptor, size)
        os.close(descriptor)

    def lend(self, block: int, size: int) -> ByteArray:
        """The block's first bytes. The worker writes there again when the array and all views of it are gone."""
        self._largest = max(self._largest, size)
        memory = np.frombuffer(self._blocks[block], dtype=np.uint8, count=size)
        self._lent_bytes[block] = len(self._blocks[block])
        ending = weakref.finalize(
            memory, _return_block, self._status_page, self._lent_bytes, self._forked_blocks, block, os.getpid()
        )
        ending.atexit = False
        return memory

    def mark_lent_as_forked(self) -> None:
        """Prepare a fork of this process: the child shares the memory that is lent out."""
        self._forked_blocks.update(list(self._lent_bytes))

    def own_or_copy(self, memory: ByteArray) -> ByteArray:
        """The memory itself, or a copy of it if more than half of the ring would be lent out.

        The other half remains for further results, so a consumer that keeps all results never blocks the worker.
        """
        is_scarce = sum(self._lent_bytes.values()) > ring_limit_bytes(self._ring_bytes, self._largest) // 2
        if is_scarce or len(self._lent_bytes) > MAX_RING_BLOCKS // 2:
            copy = new_aligned_array(memory.size)
            copy[:] = memory
            return copy
        return memory


def new_aligned_array(size: int) -> ByteArray:
    """Private memory that begins at a multiple of 64."""
    memory = np.empty(size + 64, dtype=np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size]


def split_segments(memory: ByteArray, sizes: Sequence[int]) -> list[memoryview]:
    view = memory.data
    segments, at = [], 0
    for size in sizes:
        segments.append(view[at : at + size])
        at += align_up(size)
    return segments


def _return_block(status_page: StatusPage, lent: dict[int, Any], forked: set[int], block: int, owner_pid: int) -> None:
    # A process forked from the consumer also has its results. If the child releases them first, they stay lent here; if
    # this process releases them first, the worker must not overwrite them.
    if os.getpid() == owner_pid:
        lent.pop(block, None)
        if block in forked:
            status_page.retire_block(block)
        else:
            status_page.release_block(block)


def _before_fork() -> None:
    for reader in list(_READERS):
        reader.mark_lent_as_forked()


#: The readers of this process.
_READERS: weakref.WeakSet[RingReader] = weakref.WeakSet()
os.register_at_fork(before=_before_fork)
