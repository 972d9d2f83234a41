"""Ready batches from two worker processes to one consumer that reads every byte: one JSON line with the samples.

    python -m benchmarks.contenders.transport --how pool|ring|pipe --mode raw|decoded --seconds 3

`pool` is wdsctl's. `ring` has nothing on it: four slots of one size a worker, given back by a byte through a pipe, no
replacement, no ownership. `pipe` is multiprocessing's, one a worker, with pickles of bytes or numpy arrays.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from wdsctl.loader.workers.pool import WorkerPool

_WORKERS = 2
_SLOTS = 4
_AHEAD = 4
_RAW_SAMPLES, _RAW_BYTES = 64, 16 << 10
_IMAGES = (32, 3, 256, 256)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=sorted(_WAYS), required=True)
    parser.add_argument("--mode", choices=("raw", "decoded"), required=True)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    batch = _batch(given.mode)
    with _WAYS[given.how](batch) as take:
        expected = _read(batch)
        for turn in range(4 * _SLOTS * _WORKERS):
            if _read(take(turn % _WORKERS)) != expected:
                raise SystemExit("the batch changed on its way")
        samples, start, turn = 0, time.perf_counter(), 0
        while (seconds := time.perf_counter() - start) < given.seconds:
            got = take(turn % _WORKERS)
            _read(got)
            samples += len(got)
            turn += 1
            del got
        print(json.dumps({"samples": samples, "seconds": seconds}))


def _batch(mode: str) -> Any:
    random = np.random.default_rng(0)
    if mode == "raw":
        return [random.bytes(_RAW_BYTES) for _ in range(_RAW_SAMPLES)]
    return torch.from_numpy(random.integers(0, 256, _IMAGES, dtype=np.uint8))


def _read(batch: Any) -> int:
    """A sum over every byte, eight at a time."""
    parts = batch if isinstance(batch, list) else [batch if isinstance(batch, np.ndarray) else batch.numpy()]
    return sum(int(_words(part).sum(dtype=np.uint64)) for part in parts) % (1 << 64)


def _words(part: Any) -> Any:
    return part.reshape(-1).view(np.uint64) if isinstance(part, np.ndarray) else np.frombuffer(part, dtype=np.uint64)


class _Same:
    """Work that always has the same batch ready."""

    def __init__(self, batch: Any, _index: int, _begin: Any) -> None:
        self._batch = batch

    def run_task(self, _task: Any) -> Any:
        return self._batch

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def _pool(batch: Any) -> Iterator[Callable[[int], Any]]:
    with WorkerPool(partial(_Same, batch), lambda _: None, worker_count=_WORKERS) as pool:
        for turn in range(_AHEAD * _WORKERS):
            pool.submit(turn % _WORKERS, None)

        def take(worker: int) -> Any:
            pool.submit(worker, None)
            pool.send()
            batch = pool.peek(worker)
            pool.accept(worker, pool.accepted_count(worker))
            return batch

        yield take


@contextmanager
def _pipe(batch: Any) -> Iterator[Callable[[int], Any]]:
    value = batch if isinstance(batch, list) else batch.numpy()
    context = multiprocessing.get_context("fork")
    ends = [context.Pipe(duplex=False) for _ in range(_WORKERS)]
    processes = [context.Process(target=_send_for_ever, args=(end[1], value), daemon=True) for end in ends]
    for process in processes:
        process.start()
    yield lambda worker: ends[worker][0].recv()
    for process in processes:
        process.kill()
        process.join()


def _send_for_ever(end: Any, value: Any) -> None:
    while True:
        end.send(value)


@contextmanager
def _ring(batch: Any) -> Iterator[Callable[[int], Any]]:
    """Each slot is given back when the worker is asked again: what was taken is the consumer's until then."""
    context = multiprocessing.get_context("fork")
    size = _RAW_SAMPLES * _RAW_BYTES if isinstance(batch, list) else batch.nbytes
    maps = [mmap.mmap(-1, _SLOTS * size) for _ in range(_WORKERS)]
    free, full = ([os.pipe() for _ in range(_WORKERS)] for _ in range(2))
    processes = []
    for worker in range(_WORKERS):
        ends = (free[worker][0], full[worker][1])
        processes.append(context.Process(target=_fill_for_ever, args=(*ends, maps[worker], batch), daemon=True))
        processes[-1].start()
        os.write(free[worker][1], bytes(range(1, _SLOTS)))
    held = [0] * _WORKERS

    def take(worker: int) -> Any:
        os.write(free[worker][1], bytes([held[worker]]))
        slot = held[worker] = os.read(full[worker][0], 1)[0]
        memory = memoryview(maps[worker])[slot * size : (slot + 1) * size]
        if isinstance(batch, list):
            return [bytes(memory[at : at + _RAW_BYTES]) for at in range(0, size, _RAW_BYTES)]
        return torch.frombuffer(memory, dtype=torch.uint8).view(_IMAGES)

    yield take
    for process in processes:
        process.kill()
        process.join()


def _fill_for_ever(free: int, full: int, memory: mmap.mmap, batch: Any) -> None:
    parts = batch if isinstance(batch, list) else [batch.numpy().reshape(-1).data]
    size = sum(map(len, parts))
    while True:
        slot = os.read(free, 1)[0]
        at = slot * size
        for part in parts:
            memory[at : at + len(part)] = part
            at += len(part)
        os.write(full, bytes([slot]))


_WAYS = {"pool": _pool, "ring": _ring, "pipe": _pipe}

if __name__ == "__main__":
    main()
