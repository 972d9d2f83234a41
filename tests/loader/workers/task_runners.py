"""Work for pools under test: it counts, fails on request, and leaves marker files."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from wdsctl.loader.workers.options import PoolOptions, TaskRunnerFactory
from wdsctl.loader.workers.pool import WorkerPool
from wdsctl.loader.workers.status_page import report_activity


class Stream:
    """A stream of integers from `begin`; a task says what to do with the next one."""

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

    def _wait_for(self, number: int, started: str, mark: str) -> Any:
        """Touches `started`, then waits until `mark` exists."""
        Path(started).touch()
        while not Path(mark).exists():
            time.sleep(0.01)
        return number

    def _once(self, number: int, mark: str, failure: str) -> Any:
        """Fails the first time, and leaves a marker file."""
        if not Path(mark).exists():
            Path(mark).touch()
            fail(failure)
        return number

    def _always(self, number: int, failure: str) -> Any:
        fail(failure)
        return number

    def _raise(self, number: int, error: BaseException) -> Any:
        raise error

    def _call(self, number: int, fn: Callable[[], Any]) -> Any:
        return fn()


def fail(failure: str) -> None:
    if failure == "truncated map":
        read_truncated_map()
    if failure == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif failure == "segfault":
        ctypes.string_at(0)
    elif failure == "_exit":
        os._exit(3)
    elif failure == "exit":
        sys.exit(3)
    elif failure == "hang":
        hang_here()


def read_truncated_map() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ) as mapped:
            file.truncate(0)
            mapped.read(1)


def hang_here() -> None:
    while True:
        time.sleep(0.01)


@contextmanager
def a_pool(
    open_work: TaskRunnerFactory = Stream, *, workers: int = 1, begin: int = 0, **options: Any
) -> Iterator[Consumer]:
    """Open a pool with a consumer that counts the results it collected and resumes from there."""
    consumer = Consumer([begin] * workers)
    with WorkerPool(open_work, consumer.resume, worker_count=workers, options=PoolOptions(**options)) as pool:
        consumer.pool = pool
        yield consumer


class Consumer:
    """Submits and collects tasks; `counts[w]` is the position at which worker w begins."""

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
        """Mark the oldest result as collected, even if it was an error."""
        self.pool.accept(worker, self.pool.accepted_count(worker))


def is_alive(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids: list[int], seconds: float = 60.0) -> bool:
    """Return whether all processes have ended within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(is_alive, pids)):
        time.sleep(0.01)
    return not any(map(is_alive, pids))
