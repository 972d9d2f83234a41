"""Memory of batches: taken again once nothing of a batch is left, and kept out of the heap.

A batch of 32 photographs is 6 MB, which the heap hands out among the references of samples. Some of these settle in the
hole that a batch leaves, and outlive the next one, which then needs a place of its own: with a thousand sources a
process of 0.4 GB grew to 2 GB. Memory fresh from the system would cost a page fault for every 4 KB of every batch.
"""

from __future__ import annotations

import mmap
from collections import deque
from math import prod
from threading import Lock
from typing import TYPE_CHECKING
from weakref import finalize

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 1 << 20  # bytes: the heap keeps what is smaller together well enough
KEPT = 256 << 20  # bytes that may wait to be taken again, and always the block that came back last


class Blocks:
    """Blocks of memory by their size. Any thread may ask for one."""

    def __init__(self) -> None:
        self._lock = Lock()
        # The collector may run in the middle of anything: what it gives back goes where that takes no lock.
        self._returned: deque[mmap.mmap] = deque()
        self._free: list[mmap.mmap] = []

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A contiguous tensor of this shape in memory that nobody else has, as `torch.empty` gives one."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST:
            return torch.empty(tuple(shape), dtype=dtype)
        block = self._taken(size)
        array = np.frombuffer(block, np.uint8)
        # All tensors over the memory share a storage, which holds the array until the last of them is gone.
        finalize(array, self._returned.append, block).atexit = False
        return torch.from_numpy(array).view(dtype).view(tuple(shape))

    def _taken(self, size: int) -> mmap.mmap:
        with self._lock:
            while self._returned:
                self._free.append(self._returned.popleft())
            for i in reversed(range(len(self._free))):
                if len(self._free[i]) == size:
                    return self._free.pop(i)
            while len(self._free) > 1 and sum(map(len, self._free)) > KEPT:
                del self._free[0]
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


BLOCKS = Blocks()
