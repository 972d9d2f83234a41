"""Memory of batches: taken again once nothing of a batch is left, and kept out of the heap.

A batch of 32 photographs is 6 MB, which the heap hands out among the references of samples. Some of these settle in the
hole that a batch leaves, and outlive the next one, which then needs a place of its own: with a thousand sources a
process of 0.4 GB grew to 2 GB. Memory fresh from the system would cost a page fault for every 4 KB of every batch.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 1 << 20  # bytes: the heap keeps what is smaller together well enough
KEPT = 256 << 20  # bytes of blocks of one size that may wait to be taken again, and always one block


class Blocks:
    """Blocks of memory that wait to be taken again.

    Any thread may ask for one. There is no lock: the collector gives blocks back in the middle of anything.
    """

    def __init__(self) -> None:
        self._waiting: deque[mmap.mmap] = deque()  # the one that came back last is the last

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A contiguous tensor of this shape in memory that nobody else has, as `torch.empty` gives one. Its storage
        cannot be made larger."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST:
            return torch.empty(tuple(shape), dtype=dtype)
        block = self._taken(size)
        array = np.frombuffer(block, np.uint8)
        # All tensors over the memory share a storage, which holds the array until the last of them is gone.
        finalize(array, self._come_back, block).atexit = False
        return torch.from_numpy(array).view(dtype).view(tuple(shape))

    def forget(self) -> None:
        """Let go of all that waits."""
        self._waiting = deque()

    def _taken(self, size: int) -> mmap.mmap:
        others = []
        block = None
        with suppress(IndexError):  # nothing waits any more
            while block is None:
                last = self._waiting.pop()
                if len(last) == size:
                    block = last
                else:
                    others.append(last)
        for other in reversed(others):
            self._come_back(other)
        return block or mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def _come_back(self, block: mmap.mmap) -> None:
        self._waiting.append(block)
        most = max(1, KEPT // len(block))
        with suppress(IndexError):
            while len(self._waiting) > most:
                self._waiting.popleft()


BLOCKS = Blocks()
# A child of a fork would copy what it writes into, and had better begin anew.
os.register_at_fork(after_in_child=BLOCKS.forget)
