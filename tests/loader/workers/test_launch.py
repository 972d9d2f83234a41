from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.loader.workers.task_runners import Stream, a_pool, wait_until_gone
from wdsctl.core.errors import LoaderError
from wdsctl.loader.workers.options import PoolOptions, StartMethod
from wdsctl.loader.workers.pool import WorkerPool

_NOTEBOOK = """
from wdsctl.loader.workers.options import PoolOptions
from wdsctl.loader.workers.pool import WorkerPool
class Mine:
    def __init__(self, index, begin): pass
    def run_task(self, task): return Answer(task)
    def close(self): pass
class Answer:
    def __init__(self, task): self.task = task
with WorkerPool(Mine, lambda worker: 0, worker_count=1, options=PoolOptions(start_method="START")) as pool:
    pool.submit(0, 42)
    print(pool.peek(0).task)
"""


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_workers_of_other_start_methods_give_same_results(start: StartMethod, tmp_path: Path) -> None:
    workers = 1 if start == "spawn" else 2  # each spawned worker imports torch
    with a_pool(workers=workers, start_method=start, log=lambda _: None) as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "kill"), ("tensor", 100_000))
        for worker in range(1, workers):
            consumer.submit("next", worker=worker)
            assert consumer.collect(worker) == (worker, 0)

        assert [consumer.collect(), consumer.collect()] == [(0, 0), 1]
        assert int(consumer.collect()[0]) == 2
        pids = consumer.pool.pids

    assert wait_until_gone(pids)


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_unpicklable_work_is_refused_with_attribute_name(start: StartMethod) -> None:
    holder = _Holder()
    holder.transform = lambda number: number
    work: Any = partial(_open, encoder=holder)

    with pytest.raises(LoaderError, match=r"open_work\.encoder\.transform") as caught:
        WorkerPool(work, lambda _: 0, worker_count=1, options=PoolOptions(start_method=start))

    assert caught.value.code == "WDS531"


def test_fork_runs_notebook_classes_without_pickling() -> None:
    result = _run(_NOTEBOOK.replace("START", "fork"))

    assert result.stdout == "42\n", result.stderr


def test_spawn_with_notebook_classes_suggests_fork() -> None:
    result = _run(_NOTEBOOK.replace("START", "spawn"))

    assert "WDS531" in result.stderr
    assert 'start_method="fork"' in result.stderr


def test_spawn_without_main_guard_reports_error(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_NOTEBOOK.replace("START", "spawn"))

    result = children.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60, parent="training"
    )

    assert "WDS534" in result.stderr


def test_workers_survive_fork_server_and_new_one_replaces_them(tmp_path: Path) -> None:
    lines: list[str] = []
    with a_pool(workers=2, log=lines.append) as consumer:
        first = consumer.pool.fork_server_pid or 0
        consumer.submit("next")
        consumer.collect()
        os.kill(first, signal.SIGKILL)
        consumer.submit("next", ("once", str(tmp_path / "mark"), "kill"), "next")
        consumer.submit("next", worker=1)

        assert [consumer.collect() for _ in range(3)] == [(0, 1), 2, (0, 3)]
        assert consumer.collect(1) == (1, 0)
        assert consumer.pool.fork_server_pid != first
    assert any("fork server" in line for line in lines)


def test_replacement_workers_are_forked_by_fork_server(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("once", str(tmp_path / "mark"), "kill"), ("call", os.getppid))
        consumer.collect()

        assert consumer.collect() == consumer.pool.fork_server_pid


def test_worker_has_one_thread_and_no_stdin() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", threading.active_count), ("call", _stdin))

        assert [consumer.collect(), consumer.collect()] == [1, ""]


def test_signal_handlers_of_training_do_not_run_in_workers() -> None:
    handler = signal.signal(signal.SIGUSR1, lambda *_: os._exit(9))
    try:
        with a_pool() as consumer:
            os.kill(consumer.pool.pids[0], signal.SIGUSR1)
            consumer.submit("next")
            pid = consumer.pool.pids[0]

            assert consumer.collect() == (0, 0)
            assert consumer.pool.pids == [pid]
    finally:
        signal.signal(signal.SIGUSR1, handler)


class _Holder:
    transform: Any


def _open(index: int, begin: int, *, encoder: Any) -> Stream:
    raise NotImplementedError(encoder)


def _stdin() -> str:
    return sys.stdin.read()


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return children.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60, parent="training"
    )
