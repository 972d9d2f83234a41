"""What every loader contender does alike: the arguments, the clock, the reading of every byte, the line it prints.

    python -m benchmarks.contenders.NAME --data DIR --mode raw|decoded --workers W --seconds S
    {"samples": ..., "seconds": ..., "cpu_seconds": ..., "first_batch_seconds": ..., "bytes": ..., "checksum": ...}

`--samples N` in place of `--seconds` reads so many. `--cache DIR` is an empty folder for what comes from a store.
With `--once` it goes through the data exactly once and prints a checksum that does not depend
on the order, so that every contender can be held to have read the same samples.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.memory import tree_cpu_seconds

BATCH_SIZE = 32
#: Samples drawn from at once where a contender shuffles through a buffer.
SHUFFLE_SAMPLES = 1000
#: Every 32nd row and column of a picture: enough to see that it was decoded, and right, at next to no cost.
_PIXEL_STEP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    data: str
    #: "raw": lists of bytes. "decoded": images as one uint8 array (batch, 3, height, width).
    mode: str
    #: Worker processes; 0 loads in this process.
    workers: int
    #: One pass over the data, each sample once, in place of an endless stream.
    once: bool
    #: A folder for copies of what comes from a store; empty if the data is on a disk.
    cache: str = ""

    @property
    def is_raw(self) -> bool:
        return self.mode == "raw"


#: (images, captions) of one batch. None is the end of a pass in a stream that restarts after each pass.
Batch = tuple[Any, Sequence[Any]]
Stream = Iterator[Batch | None]


def run(open_stream: Callable[[Request], Stream]) -> None:
    """The main function of every contender. Its imports are done: the clock starts at the opening of the stream."""
    request, seconds, samples = _arguments()
    # As torch's own workers do. With more, its threads spin while they wait for each other, and on a machine with
    # anything else to do every loader that stacks tensors loses most of its time to that.
    torch.set_num_threads(1)
    start = time.perf_counter()
    stream = open_stream(request)
    first = next(stream)
    first_batch_seconds = time.perf_counter() - start
    answer = _once(request, first, stream) if request.once else _for_seconds(request, stream, seconds, samples)
    print(json.dumps({**answer, "first_batch_seconds": first_batch_seconds}))


def passes(open_pass: Callable[[], Iterator[Batch]], *, once: bool) -> Stream:
    """A stream out of a loader that ends: pass after pass, with None between them, or only one."""
    while True:
        yield from open_pass()
        if once:
            return
        yield None


def _for_seconds(request: Request, stream: Stream, seconds: float, most_samples: float) -> dict[str, float]:
    """Samples in `seconds`, at most so many.

    From the end of a pass to the next one's first batch the clock stands still. CPU is that of this process and its
    workers, between passes too.
    """
    touch = _touch_raw if request.is_raw else _touch_decoded
    samples = bytes_read = checksum = 0
    cpu = tree_cpu_seconds(os.getpid())
    elapsed, resumed = 0.0, time.perf_counter()
    while samples < most_samples and elapsed + time.perf_counter() - resumed < seconds:
        batch = next(stream)
        if batch is None:
            elapsed += time.perf_counter() - resumed
            next(stream)
            resumed = time.perf_counter()
            continue
        size, check = touch(batch)
        samples, bytes_read, checksum = samples + len(batch[1]), bytes_read + size, checksum ^ check
    elapsed += time.perf_counter() - resumed
    cpu = tree_cpu_seconds(os.getpid()) - cpu
    return {"samples": samples, "seconds": elapsed, "cpu_seconds": cpu, "bytes": bytes_read, "checksum": checksum}


def _once(request: Request, first: Batch | None, stream: Stream) -> dict[str, float]:
    start = time.perf_counter()
    samples = bytes_read = checksum = pixels = 0
    batch = first
    while batch is not None:
        images, captions = batch
        parts = [*images, *captions] if request.is_raw else captions
        samples += len(captions)
        for part in map(_as_bytes, parts):
            bytes_read += len(part)
            checksum += zlib.adler32(part)
        if not request.is_raw:
            pixels += _pixel_sum(images)
        batch = next(stream, None)
    seconds = time.perf_counter() - start
    return {"samples": samples, "seconds": seconds, "bytes": bytes_read, "checksum": checksum, "pixels": pixels}


def _touch_raw(batch: Batch) -> tuple[int, int]:
    """Reads every byte of the batch, without a copy: an exclusive or over each image, the same for everybody."""
    images, captions = batch
    text = b"".join(captions)
    check = int(np.bitwise_xor.reduce(np.frombuffer(text, dtype=np.uint8)))
    for image in images:
        check ^= int(np.bitwise_xor.reduce(np.frombuffer(image, dtype=np.uint8)))
    return len(text) + sum(map(len, images)), check


def _touch_decoded(batch: Batch) -> tuple[int, int]:
    images, captions = batch
    return images.shape[0] * images[0].nbytes + sum(map(len, captions)), _pixel_sum(images)


def _pixel_sum(images: Any) -> int:
    return int(np.asarray(images[:, :, ::_PIXEL_STEP, ::_PIXEL_STEP]).sum(dtype=np.int64))


def _as_bytes(part: Any) -> bytes:
    return part.encode() if isinstance(part, str) else bytes(part)


def _arguments() -> tuple[Request, float, float]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--mode", choices=("raw", "decoded"), required=True)
    parser.add_argument("--workers", type=int, default=0)
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--seconds", type=float)
    length.add_argument("--samples", type=int)
    length.add_argument("--once", action="store_true")
    parser.add_argument("--cache", default="")
    given = parser.parse_args()
    request = Request(data=given.data, mode=given.mode, workers=given.workers, once=given.once, cache=given.cache)
    return request, given.seconds or math.inf, given.samples or math.inf
