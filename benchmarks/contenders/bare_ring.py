"""The bare loop with workers: slots of shared memory, filled by turns, a byte through a pipe to say that one is full.

The least that brings batches over: no resume, no replacement, no hooks, and slots of one size that hold any batch.
What the consumer gets of a decoded batch lies in its slot, which is filled again when the next one is asked for.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.contenders.protocol import Batch

_SLOTS = 4
_SLOT_BYTES = 8 << 20
_END = 255
_NUMBERS = struct.Struct("<65Q")  # samples, and where each part ends: images, then captions
Parts = tuple[list[bytes], list[bytes]]
Fill = Callable[[list[bytes], npt.NDArray[np.uint8]], None]


def shared(
    batches: Callable[[int], Iterator[Parts]], workers: int, shape: Sequence[int], fill: Fill | None
) -> Iterator[Batch]:
    """Batches by turns from so many workers, until one has none. `batches(w)`: parts that worker w makes batches of.

    `fill` decodes images into the first rows of an array (batch, *shape); None: parts go over as bytes.
    """
    crew = [_Worker(batches, number, shape, fill) for number in range(workers)]
    try:
        while True:
            for worker in crew:
                batch = worker.take()
                if batch is None:
                    return
                yield batch
    finally:
        for worker in crew:
            worker.end()


class _Worker:
    def __init__(
        self, batches: Callable[[int], Iterator[Parts]], number: int, shape: Sequence[int], fill: Fill | None
    ) -> None:
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)
        self._shape, self._fill = tuple(shape), fill
        free, self._free = os.pipe()
        self._full, full = os.pipe()
        os.write(self._free, bytes(range(_SLOTS)))
        self._held: int | None = None
        self._pid = os.fork()
        if not self._pid:
            with suppress(BrokenPipeError):
                self._work(batches(number), free, full)
            os._exit(0)
        os.close(free)
        os.close(full)

    def take(self) -> Batch | None:
        """The next batch; the one before it is given up."""
        if self._held is not None:
            # A worker that has come to the end of its batches is gone: nobody fills the slot again.
            with suppress(BrokenPipeError):
                os.write(self._free, bytes((self._held,)))
        (slot,) = os.read(self._full, 1)
        self._held = None if slot == _END else slot
        if slot == _END:
            return None
        memory = memoryview(self._memory)[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES]
        count, *ends = _NUMBERS.unpack_from(memory)
        at = [_NUMBERS.size, *ends]
        if self._fill is None:
            parts = [bytes(memory[at[i] : at[i + 1]]) for i in range(2 * count)]
            return parts[:count], parts[count:]
        captions = [bytes(memory[at[i] : at[i + 1]]) for i in range(count)]
        first = -(-at[count] // 64) * 64
        pixels = torch.frombuffer(memory, dtype=torch.uint8, offset=first, count=count * int(np.prod(self._shape)))
        return pixels.view(count, *self._shape), captions

    def end(self) -> None:
        # It waits for a free slot, and would for ever: a later worker has the other end of its pipe as well.
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._free)
        os.close(self._full)

    def _work(self, batches: Iterator[Parts], free: int, full: int) -> None:
        os.close(self._free)
        os.close(self._full)
        for images, captions in batches:
            given = os.read(free, 1)
            if not given:
                return
            at = given[0] * _SLOT_BYTES
            parts = captions if self._fill is not None else [*images, *captions]
            ends, end = [], _NUMBERS.size
            for part in parts:
                self._memory[at + end : at + end + len(part)] = part
                end += len(part)
                ends.append(end)
            if self._fill is not None:
                size, first = len(images) * int(np.prod(self._shape)), at + -(-end // 64) * 64
                pixels = np.frombuffer(self._memory, np.uint8, size, first).reshape(len(images), *self._shape)
                self._fill(images, pixels)
            _NUMBERS.pack_into(self._memory, at, len(captions), *ends, *[0] * (64 - len(ends)))
            os.write(full, given)
        os.write(full, bytes((_END,)))
