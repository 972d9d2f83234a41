"""Work for pools under test: counts, fails when it is told to, and leaves a mark where it has been."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from wdsctl.loader.workers import PoolOptions, TaskRunnerFactory, WorkerPool, report_activity


class Stream:
    """A stream of whole numbers from where it began; a task is what to do with the next one."""

    def __init__(self, index: int, begin: int) -> None:
        self.index, self.at = index, begin

    def run_task(self, task: Any) -> Any:
        number = self.at
        self.at += 1
        report_activity(f"sample {number}")
        kind, *rest = task if isinstance(task, tuple) else (task,)
        return getattr(self, f"_{kind}")(number, *rest)

    def close(self) -> None:
        pass

    def _next(self, number: int) -> Any:
        return self.index, number

    def _tensor(self, number: int, bytes_: int) -> Any:
        return torch.full((bytes_,), number % 251, dtype=torch.uint8)

    def _blob(self, number: int, bytes_: int) -> Any:
        return bytes([number % 251]) * bytes_

    def _sleep(self, number: int, seconds: float) -> Any:
        time.sleep(seconds)
        return number

    def _wait_for(self, number: int, begun: str, mark: str) -> Any:
        """Says that it is at work, and is until there is a mark."""
        Path(begun).touch()
        while not Path(mark).exists():
            time.sleep(0.01)
        return number

    def _once(self, number: int, mark: str, how: str) -> Any:
        """Fails the first time, and leaves a mark."""
        if not Path(mark).exists():
            Path(mark).touch()
            fail(how)
        return number

    def _always(self, number: int, how: str) -> Any:
        fail(how)
        return number

    def _raise(self, number: int, error: BaseException) -> Any:
        raise error

    def _call(self, number: int, fn: Callable[[], Any]) -> Any:
        return fn()


def fail(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    elif how == "_exit":
        os._exit(3)
    elif how == "exit":
        sys.exit(3)
    elif how == "hang":
        hang_here()


def hang_here() -> None:
    while True:
        time.sleep(0.01)


@contextmanager
def a_pool(
    open_work: TaskRunnerFactory = Stream, *, workers: int = 1, begin: int = 0, **options: Any
) -> Iterator[Consumer]:
    """A pool with its consumer, who counts what he collected and resumes from there."""
    consumer = Consumer([begin] * workers)
    with WorkerPool(open_work, consumer.resume, worker_count=workers, options=PoolOptions(**options)) as pool:
        consumer.pool = pool
        yield consumer


class Consumer:
    """`counts[w]`: where worker w is to begin."""

    pool: WorkerPool

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts

    def resume(self, worker: int) -> int:
        return self.counts[worker]

    def submit(self, *tasks: Any, worker: int = 0) -> None:
        for task in tasks:
            self.pool.submit(worker, task)
        self.pool.send()

    def collect(self, worker: int = 0) -> Any:
        value = self.pool.peek(worker)
        self.accept(worker)
        self.counts[worker] += 1
        return value

    def accept(self, worker: int = 0) -> None:
        """The oldest result counts as collected, also one that was an error."""
        self.pool.accept(worker, self.pool.accepted_count(worker))


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pids: list[int], seconds: float = 60.0) -> bool:
    """Whether none of the processes is left after a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(map(is_alive, pids)):
        time.sleep(0.01)
    return not any(map(is_alive, pids))
