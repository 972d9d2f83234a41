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

from tests.loader.workers.works import Stream, a_pool, gone
from wdsctl.core.errors import LoaderError
from wdsctl.loader.workers import PoolOptions, WorkerPool
from wdsctl.loader.workers.options import StartMethod

_NOTEBOOK = """
from wdsctl.loader.workers import PoolOptions, WorkerPool
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
def test_fresh_interpreters_do_the_same_work(start: StartMethod, tmp_path: Path) -> None:
    with a_pool(workers=2, start_method=start, log=lambda _: None) as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "kill"), ("tensor", 100_000))
        consumer.submit("next", worker=1)

        assert consumer.collect(1) == (1, 0)
        assert [consumer.collect(), consumer.collect()] == [(0, 0), 1]
        assert int(consumer.collect()[0]) == 2
        pids = consumer.pool.pids

    assert gone(pids)


@pytest.mark.parametrize("start", ["forkserver", "spawn"])
def test_work_that_does_not_pickle_names_the_attribute(start: StartMethod) -> None:
    holder = _Holder()
    holder.transform = lambda number: number
    work: Any = partial(_open, encoder=holder)

    with pytest.raises(LoaderError, match=r"open_work\.encoder\.transform") as caught:
        WorkerPool(work, lambda _: 0, worker_count=1, options=PoolOptions(start_method=start))

    assert caught.value.code == "WDS531"


def test_classes_of_a_notebook_work_without_pickling() -> None:
    done = _run(_NOTEBOOK.replace("START", "fork"))

    assert done.stdout == "42\n", done.stderr


def test_classes_of_a_notebook_under_spawn_are_an_error_with_the_way_out() -> None:
    done = _run(_NOTEBOOK.replace("START", "spawn"))

    assert "WDS531" in done.stderr
    assert 'start_method="fork"' in done.stderr


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_NOTEBOOK.replace("START", "spawn"))

    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=60)

    assert "WDS534" in done.stderr


def test_workers_outlive_their_nursery_and_are_replaced_by_a_new_one(tmp_path: Path) -> None:
    said: list[str] = []
    with a_pool(workers=2, log=said.append) as consumer:
        first = consumer.pool.fork_server_pid or 0
        consumer.submit("next")
        consumer.collect()
        os.kill(first, signal.SIGKILL)
        consumer.submit("next", ("once", str(tmp_path / "mark"), "kill"), "next")
        consumer.submit("next", worker=1)

        assert [consumer.collect() for _ in range(3)] == [(0, 1), 2, (0, 3)]
        assert consumer.collect(1) == (1, 0)
        assert consumer.pool.fork_server_pid != first
    assert any("fork server" in line for line in said)


def test_later_workers_are_forked_by_the_nursery_not_by_the_consumer(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("once", str(tmp_path / "mark"), "kill"), ("call", os.getppid))
        consumer.collect()

        assert consumer.collect() == consumer.pool.fork_server_pid


def test_a_worker_has_one_thread_and_no_stdin() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", threading.active_count), ("call", _stdin))

        assert [consumer.collect(), consumer.collect()] == [1, ""]


def test_handlers_of_the_training_do_not_run_in_workers() -> None:
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
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
