"""Ctrl-C, closing and forgetting a pool leave nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import pytest

from tests.loader.workers.interrupts import interrupted_within
from tests.loader.workers.works import Stream, a_pool, gone
from wdsctl.loader import workers
from wdsctl.loader.workers import WorkerPool
from wdsctl.loader.workers.pool import _wait_for_exits


def test_an_interrupt_in_collect_loses_nothing(tmp_path: Path) -> None:
    with a_pool() as consumer:
        consumer.submit(("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")), "next")
        _until_there(tmp_path / "begun")
        with interrupted_within(WorkerPool.peek, workers), pytest.raises(KeyboardInterrupt):
            consumer.collect()
        (tmp_path / "mark").touch()

        assert [consumer.collect(), consumer.collect()] == [0, (0, 1)]


# A socket that was made a moment before the interrupt is closed by its own end, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_of_collect_lose_nothing() -> None:
    """The signal comes at odd times, also between two bytecodes of a read."""
    got: list[int] = []
    interrupts = 0
    with a_pool(log=lambda _: None) as consumer, interrupted_within(WorkerPool.peek, workers):
        while len(got) < 2000 or interrupts <= 10:
            if consumer.pool.submitted_count == len(got):
                consumer.submit(*([("blob", 200_000)] * 20))
            try:
                value = consumer.pool.peek(0)
            except KeyboardInterrupt:
                interrupts += 1
                continue
            consumer.accept()
            got.append(value[0])
            consumer.counts[0] = len(got)

    assert got == [number % 251 for number in range(len(got))]


def test_workers_leave_ctrl_c_to_the_consumer() -> None:
    with a_pool() as consumer:
        os.kill(consumer.pool.pids[0], signal.SIGINT)
        consumer.submit("next")

        assert consumer.collect() == (0, 0)


def test_a_pool_that_is_forgotten_ends_its_workers() -> None:
    pool = WorkerPool(Stream, lambda _: 0, worker_count=2)
    pids = [*pool.pids, pool.fork_server_pid or 0]

    del pool

    assert gone(pids)


def test_closing_does_not_wait_for_a_long_task(tmp_path: Path) -> None:
    """This one would never end."""
    with a_pool() as consumer:
        consumer.submit(("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")))
        _until_there(tmp_path / "begun")
        pid = consumer.pool.pids[0]

    assert gone([pid])


def test_an_interrupt_while_it_closes_leaves_no_process(tmp_path: Path) -> None:
    pool = WorkerPool(Stream, lambda _: 0, worker_count=1)
    pids = [*pool.pids, pool.fork_server_pid or 0]
    pool.submit(0, ("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")))
    pool.send()
    _until_there(tmp_path / "begun")

    with interrupted_within(_wait_for_exits, workers), pytest.raises(KeyboardInterrupt):
        pool.close()

    assert gone(pids)


def test_closing_lets_work_close(tmp_path: Path) -> None:
    mark = tmp_path / "closed"

    class Closes(Stream):
        def close(self) -> None:
            mark.touch()

    with a_pool(Closes) as consumer:
        consumer.submit("next")
        consumer.collect()

    assert mark.exists()


def test_closing_lets_work_close_though_a_later_pool_was_forked_with_its_descriptors(tmp_path: Path) -> None:
    class Closes(Stream):
        def close(self) -> None:
            (tmp_path / f"closed-{self.index}").touch()

    first = WorkerPool(Closes, lambda _: 0, worker_count=2)
    with a_pool():
        first.close()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["closed-0", "closed-1"]


def test_fifty_pools_leave_no_descriptor_and_no_process() -> None:
    pids: list[int] = []
    before: int | None = None
    for _ in range(50):
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
    assert gone(pids)


def test_deaths_leave_no_descriptor(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        counts = []
        for i in range(6):
            consumer.submit(("once", str(tmp_path / str(i)), "kill"), ("tensor", 100_000))
            consumer.collect()
            consumer.collect()
            counts.append(len(os.listdir("/proc/self/fd")))

    assert counts[-1] <= counts[1]


def _until_there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)
