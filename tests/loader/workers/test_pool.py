from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch

from tests.loader.workers.task_runners import Stream, a_pool
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader.workers.pool import WorkerPool
from wdsctl.loader.workers.status_page import report_activity


def test_each_worker_returns_its_results_in_order() -> None:
    with a_pool(workers=3) as consumer:
        for _ in range(10):
            for worker in range(3):
                consumer.submit("next", worker=worker)

        actual = [consumer.collect(worker) for _ in range(10) for worker in range(3)]

    assert actual == [(worker, number) for number in range(10) for worker in range(3)]


def test_worker_begins_at_resume_position() -> None:
    with a_pool(begin=100) as consumer:
        consumer.submit("next", "next")

        assert [consumer.collect(), consumer.collect()] == [(0, 100), (0, 101)]


def test_collect_without_submitted_task_is_refused() -> None:
    with a_pool() as consumer, pytest.raises(UsageError, match="no task to wait for"):
        consumer.collect()


def test_closed_pool_refuses_submit() -> None:
    with a_pool() as consumer:
        pass
    with pytest.raises(UsageError, match="closed"):
        consumer.submit("next")


def test_worker_pool_refuses_zero_workers() -> None:
    with pytest.raises(UsageError, match="worker_count is 0"):
        WorkerPool(Stream, lambda _: 0, worker_count=0)


def test_exit_in_hook_raises_error_and_keeps_worker() -> None:
    with a_pool() as consumer:
        pid = consumer.pool.pids[0]
        consumer.submit(("always", "exit"))
        with pytest.raises(LoaderError, match="asked the process to exit") as caught:
            consumer.collect()
        assert consumer.pool.pids == [pid]

    assert caught.value.code == "WDS532"


def test_exception_of_task_is_raised_with_its_traceback() -> None:
    with a_pool() as consumer:
        consumer.submit(("raise", KeyError("jpg")))
        with pytest.raises(KeyError, match="jpg") as caught:
            consumer.collect()

    assert "in _raise" in str(caught.value.__cause__)


def test_loader_error_of_task_keeps_location_and_code() -> None:
    error = LoaderError("no", hint="try", where="shard 3", code="WDS503")
    with a_pool() as consumer:
        consumer.submit(("raise", error))
        with pytest.raises(LoaderError) as caught:
            consumer.collect()

    assert (caught.value.where, caught.value.code) == ("shard 3", "WDS503")


def test_failure_to_open_work_is_raised_by_collect() -> None:
    def fail_to_open(_index: int, _begin: int) -> Stream:
        raise FileNotFoundError("no shard")

    with a_pool(fail_to_open) as consumer:
        consumer.submit("next")
        with pytest.raises(FileNotFoundError, match="no shard"):
            consumer.collect()


def test_unpicklable_result_raises_error_with_value_and_remedy() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", _generator))
        with pytest.raises(LoaderError, match=r"cannot send its batch.*generator") as raised:
            consumer.collect()

    assert raised.value.code == "WDS535"


def test_worker_stops_after_error_until_restart() -> None:
    with a_pool() as consumer:
        consumer.submit("next", ("raise", KeyError("jpg")), "next", "next")
        assert consumer.collect() == (0, 0)
        for _ in range(2):
            with pytest.raises(KeyError):
                consumer.collect()

        consumer.accept()
        consumer.pool.restart(0)

        assert [consumer.collect(), consumer.collect()] == [(0, 1), (0, 2)]


def test_restart_repeats_uncollected_tasks(tmp_path: Path) -> None:
    with a_pool() as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "exit"), "next")
        consumer.collect()
        with pytest.raises(LoaderError):
            consumer.collect()

        consumer.pool.restart(0)

        assert [consumer.collect(), consumer.collect()] == [1, (0, 2)]


def test_restart_without_error_begins_at_new_position() -> None:
    with a_pool() as consumer:
        consumer.submit("next", "next", "next")
        consumer.collect()
        consumer.counts[0] = 50

        consumer.pool.accept(0, consumer.pool.submitted_count - 1)
        consumer.pool.restart(0)
        consumer.submit("next")

        assert consumer.collect() == (0, 50)


def test_restart_after_two_deaths_runs_task_again(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("always", "kill"), "next")
        with pytest.raises(LoaderError):
            consumer.collect()

        consumer.accept()
        consumer.pool.restart(0)

        assert consumer.collect() == (0, 0)


def test_workers_run_torch_on_one_thread_without_cuda() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", torch.get_num_threads), ("call", torch.cuda.is_initialized))

        assert [consumer.collect(), consumer.collect()] == [1, False]


def test_pool_starts_while_threads_are_running() -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=_busy, args=[stop]) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with a_pool(workers=2) as consumer:
            for worker in range(2):
                consumer.submit(("tensor", 50_000), worker=worker)
                assert consumer.collect(worker).numel() == 50_000
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_submit_never_blocks_on_many_large_tasks() -> None:
    with a_pool() as consumer:
        for _ in range(20):
            consumer.submit(("call", _Big(b"x" * 200_000)))

        assert [consumer.collect() for _ in range(20)] == [200_000] * 20


def test_report_activity_outside_worker_does_nothing() -> None:
    report_activity("sample 3")


def test_two_pools_run_side_by_side() -> None:
    with a_pool(workers=2) as first, a_pool(workers=2) as second:
        for consumer in (first, second):
            consumer.submit("next", worker=1)
        assert first.collect(1) == second.collect(1) == (1, 0)


def test_forked_child_does_not_close_inherited_pool() -> None:
    with a_pool() as consumer:
        pid = os.fork()
        if not pid:
            consumer.pool.close()
            os._exit(0)
        os.waitpid(pid, 0)
        consumer.submit("next")

        assert consumer.collect() == (0, 0)


def _busy(stop: threading.Event) -> None:
    while not stop.is_set():
        torch.ones(10_000).sum()


def _generator() -> object:
    return (number for number in range(3))


class _Big:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob

    def __call__(self) -> int:
        return len(self.blob)
