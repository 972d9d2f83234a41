"""Memory of batches: images are decoded next to each other into one block, which is the batch without a copy.

Blocks are reused once a batch is freed, and lie outside the heap. A batch of 32 photographs takes 6 MB; on the heap,
small objects settle in the hole that a freed batch leaves and outlive the next batch, which then needs new memory: with
a thousand sources, a process of 0.4 GB grew to 2 GB. New memory from the system would cost a page fault per 4 KB.

Images are channels last in memory, as decoders write them; tensors are views of them, channels first.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MIN_BLOCK_BYTES = 1 << 20  # smaller tensors come from the heap
MAX_IDLE_BYTES = 256 << 20  # of free blocks of one size; at least one block is kept


class BlockPool:
    """Free blocks of memory. Thread-safe without a lock: the garbage collector may return blocks at any time."""

    def __init__(self) -> None:
        self._free: deque[mmap.mmap] = deque()  # the latest last

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised contiguous tensor, as `torch.empty`. Its storage cannot be resized."""
        size = prod(shape) * dtype.itemsize
        if size < MIN_BLOCK_BYTES:
            return torch.empty(tuple(shape), dtype=dtype)
        block = self._take(size)
        array = np.frombuffer(block, np.uint8)
        # All tensors over the memory share a storage, which keeps the array alive until the last one is freed.
        finalize(array, self._give_back, block).atexit = False
        return torch.from_numpy(array).view(dtype).view(tuple(shape))

    def clear(self) -> None:
        """Drop all free blocks."""
        self._free = deque()

    def _take(self, size: int) -> mmap.mmap:
        others = []
        block = None
        with suppress(IndexError):  # no block is left
            while block is None:
                last = self._free.pop()
                if len(last) == size:
                    block = last
                else:
                    others.append(last)
        for other in reversed(others):
            self._give_back(other)
        return block or mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def _give_back(self, block: mmap.mmap) -> None:
        self._free.append(block)
        max_blocks = max(1, MAX_IDLE_BYTES // len(block))
        with suppress(IndexError):
            while len(self._free) > max_blocks:
                self._free.popleft()


BLOCK_POOL = BlockPool()
# A forked child would copy every page that it writes, so it starts with an empty pool.
os.register_at_fork(after_in_child=BLOCK_POOL.clear)


def channels_first(pixels: torch.Tensor, image_dims: int) -> torch.Tensor:
    """(..., height, width, channels) as (..., channels, height, width), no copy; gray images have no channels."""
    return pixels.movedim(-1, -3) if image_dims == 3 else pixels


class BatchMemory:
    """Memory for the images of one part in one batch.

    `begin(n)` starts a batch of at most n samples, `take` returns memory for the next image, and `batch_tensor` is the
    stack of all images if they have one size. The batch shares memory with its images, which is not reused before all
    of them are freed. Stacking 32 images of 256 x 256 takes 40 us, and 600 us with a copy.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._samples = 0
        self._taken = 0
        self._shape: tuple[int, ...] = ()
        self._pixels: torch.Tensor | None = None
        self._images: tuple[torch.Tensor, ...] = ()
        self._arrays: NDArray[Any] | None = None

    def begin(self, samples: int) -> None:
        """Start a new batch of at most `samples` images, in other memory."""
        self._samples = samples
        self._taken = 0
        self._pixels = self._arrays = None
        self._images = ()

    def take(self, shape: tuple[int, ...]) -> tuple[NDArray[Any], torch.Tensor]:
        """An array of this shape to fill, and the image: a tensor over the same memory, channels first."""
        i = self._taken
        self._taken = i + 1
        if i == 0 and shape == self._shape:
            # Only if the previous image had this size too: if sizes vary, a block would serve one image.
            self._pixels = BLOCK_POOL.empty((self._samples, *shape), self._dtype)
            self._arrays = self._pixels.numpy()
            self._images = channels_first(self._pixels, len(shape)).unbind(0)
        self._shape = shape
        if self._arrays is None or i >= len(self._images) or shape != self._arrays.shape[1:]:
            pixels = torch.empty(shape, dtype=self._dtype)
            return pixels.numpy(), channels_first(pixels, len(shape))
        return self._arrays[i], self._images[i]

    def batch_tensor(self, images: Sequence[Any]) -> torch.Tensor | None:
        """The batch, if `images` are the images taken since `begin`, all of them, in order and of one size."""
        if self._pixels is None or len(images) != self._taken or self._taken > len(self._images):
            return None
        batch = channels_first(self._pixels[: len(images)], len(self._shape))
        # Compared with new views: a hook may have reshaped its images in place.
        return batch if all(map(_is_unchanged, images, batch.unbind(0))) else None


def _is_unchanged(image: torch.Tensor, view: torch.Tensor) -> bool:
    """Whether `image` is still this view of the batch. A hook may have changed its pixels in place."""
    return (
        image.dtype is view.dtype and image.device == view.device and not image.requires_grad and image.is_set_to(view)
    )
