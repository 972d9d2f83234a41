"""Interrupting, closing and deleting a pool leave no process and no descriptor behind."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pytest

from tests.loader.workers.interrupts import interrupt_within
from tests.loader.workers.task_runners import Stream, a_pool, wait_until_gone
from wdsctl.loader import workers
from wdsctl.loader.workers.pool import WorkerPool, _wait_for_exits


def test_interrupt_in_collect_loses_no_result(tmp_path: Path) -> None:
    with a_pool() as consumer:
        consumer.submit(("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")), "next")
        _wait_for_file(tmp_path / "begun")
        with interrupt_within(WorkerPool.peek, workers), pytest.raises(KeyboardInterrupt):
            consumer.collect()
        (tmp_path / "mark").touch()

        assert [consumer.collect(), consumer.collect()] == [0, (0, 1)]


# A socket created just before the interrupt is closed by its finalizer, which emits a ResourceWarning.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_of_peek_lose_no_result() -> None:
    """The signal arrives at random times, also between two bytecodes of a read."""
    actual: list[int] = []
    interrupts = 0
    with a_pool(log=lambda _: None) as consumer, interrupt_within(WorkerPool.peek, workers):
        while len(actual) < 2000 or interrupts <= 10:
            if consumer.pool.submitted_count == len(actual):
                consumer.submit(*([("blob", 200_000)] * 20))
            try:
                value = consumer.pool.peek(0)
            except KeyboardInterrupt:
                interrupts += 1
                continue
            consumer.accept()
            actual.append(value[0])
            consumer.counts[0] = len(actual)

    assert actual == [number % 251 for number in range(len(actual))]


def test_workers_ignore_ctrl_c() -> None:
    with a_pool() as consumer:
        os.kill(consumer.pool.pids[0], signal.SIGINT)
        consumer.submit("next")

        assert consumer.collect() == (0, 0)


def test_deleted_pool_ends_its_workers() -> None:
    pool = WorkerPool(Stream, lambda _: 0, worker_count=2)
    pids = [*pool.pids, pool.fork_server_pid or 0]

    del pool

    assert wait_until_gone(pids)


def test_close_does_not_wait_for_long_task(tmp_path: Path) -> None:
    """The task of this test would never end."""
    with a_pool() as consumer:
        consumer.submit(("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")))
        _wait_for_file(tmp_path / "begun")
        pid = consumer.pool.pids[0]

    assert wait_until_gone([pid])


def test_interrupt_in_close_leaves_no_process(tmp_path: Path) -> None:
    pool = WorkerPool(Stream, lambda _: 0, worker_count=1)
    pids = [*pool.pids, pool.fork_server_pid or 0]
    pool.submit(0, ("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")))
    pool.send()
    _wait_for_file(tmp_path / "begun")

    with interrupt_within(_wait_for_exits, workers), pytest.raises(KeyboardInterrupt):
        pool.close()

    assert wait_until_gone(pids)


def test_close_closes_work(tmp_path: Path) -> None:
    mark = tmp_path / "closed"

    class MarksClose(Stream):
        def close(self) -> None:
            mark.touch()

    with a_pool(MarksClose) as consumer:
        consumer.submit("next")
        consumer.collect()

    assert mark.exists()


def test_close_closes_work_when_later_pool_inherited_descriptors(tmp_path: Path) -> None:
    class MarksClose(Stream):
        def close(self) -> None:
            (tmp_path / f"closed-{self.index}").touch()

    first = WorkerPool(MarksClose, lambda _: 0, worker_count=2)
    with a_pool():
        first.close()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["closed-0", "closed-1"]


def test_pools_leave_no_descriptor_and_no_process() -> None:
    pids: list[int] = []
    before: int | None = None
    for _ in range(8):
        with a_pool(workers=2) as consumer:
            for worker in range(2):
                consumer.submit(("tensor", 100_000), worker=worker)
                consumer.collect(worker)
            pids += [*consumer.pool.pids, consumer.pool.fork_server_pid or 0]
        if before is None:
            gc.collect()
            before = len(os.listdir("/proc/self/fd"))

    gc.collect()
    assert before is not None
    assert len(os.listdir("/proc/self/fd")) <= before
    assert wait_until_gone(pids)


def test_worker_deaths_leak_no_descriptor(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        counts = []
        for i in range(6):
            consumer.submit(("once", str(tmp_path / str(i)), "kill"), ("tensor", 100_000))
            consumer.collect()
            consumer.collect()
            counts.append(len(os.listdir("/proc/self/fd")))

    assert counts[-1] <= counts[1]


def _wait_for_file(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
