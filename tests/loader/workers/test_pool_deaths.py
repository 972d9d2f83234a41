"""Workers that die, hang or are stopped are replaced, and the results do not change."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loader.workers.task_runners import Stream, a_pool
from wdsctl.core.errors import LoaderError

TIMEOUT = 1.0  # seconds without a heartbeat: longer than any pause without a hang, even on a busy machine
SHORT_TIMEOUTS: dict[str, Any] = {"log": lambda _: None, "timeout_seconds": TIMEOUT, "first_timeout_seconds": 60}


@pytest.mark.parametrize("failure", ["kill", "segfault", "_exit"])
def test_dead_worker_is_replaced_without_changing_results(failure: str, tmp_path: Path) -> None:
    lines: list[str] = []
    with a_pool(log=lines.append) as consumer:
        consumer.submit("next", "next", ("once", str(tmp_path / "mark"), failure), "next", "next")

        actual = [consumer.collect() for _ in range(5)]

    assert actual == [(0, 0), (0, 1), 2, (0, 3), (0, 4)]
    assert len(lines) == 1
    assert "sample 2" in lines[0]


def test_results_taken_by_other_process_are_computed_again() -> None:
    lines: list[str] = []
    with a_pool(log=lines.append) as consumer:
        consumer.submit(*["next"] * 8)
        actual = [consumer.collect()]
        pid = os.fork()
        if not pid:
            for _ in range(3):
                consumer.collect()
            os._exit(0)
        os.waitpid(pid, 0)
        actual += [consumer.collect() for _ in range(7)]

    assert actual == [(0, number) for number in range(8)]
    assert [line for line in lines if "expected task" in line]


@pytest.mark.parametrize(
    ("failure", "message"),
    [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("_exit", "exit code 3"), ("truncated map", "SIGBUS .*mapped file")],
)
def test_second_death_at_same_task_reports_cause_and_sample(failure: str, message: str) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit("next", "next", ("always", failure), "next")

        assert [consumer.collect(), consumer.collect()] == [(0, 0), (0, 1)]
        with pytest.raises(LoaderError, match=message) as caught:
            consumer.collect()
        with pytest.raises(LoaderError, match=message):
            consumer.collect()

    assert caught.value.code == "WDS530"
    assert caught.value.where == "sample 2"


def test_error_message_includes_stack_of_crash() -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("always", "segfault"))
        with pytest.raises(LoaderError, match="in fail"):
            consumer.collect()


def test_deaths_at_different_tasks_raise_no_error(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(*(("once", str(tmp_path / f"mark{i}"), "kill") for i in range(4)))

        assert [consumer.collect() for _ in range(4)] == [0, 1, 2, 3]


def test_idle_worker_that_is_killed_is_replaced() -> None:
    with a_pool(log=lambda _: None) as consumer:
        for number in range(3):
            consumer.submit("next")
            assert consumer.collect() == (0, number)
            os.kill(consumer.pool.pids[0], signal.SIGKILL)


def test_slot_has_no_pending_task_once_result_is_collected() -> None:
    """If it were killed then, the next task would otherwise count as having ended one worker already."""
    with a_pool() as consumer:
        (slot,) = consumer.pool._slots
        for number in range(300):
            consumer.submit("next")
            assert consumer.collect() == (0, number)
            assert (slot.pending_count, slot.current_task) == (0, number + 1)


def test_hung_worker_is_replaced_and_its_stack_is_logged(tmp_path: Path) -> None:
    lines: list[str] = []
    with a_pool(**{**SHORT_TIMEOUTS, "log": lines.append}) as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "hang"), "next")

        assert [consumer.collect() for _ in range(3)] == [(0, 0), 1, (0, 2)]

    (logged,) = (line for line in lines if "hung" in line)
    assert "in hang_here" in logged
    assert logged.endswith(" in run_worker"), "the frames of the process that forked the worker say nothing"


def test_second_hang_at_same_task_raises_error_with_stack() -> None:
    with a_pool(**SHORT_TIMEOUTS) as consumer:
        consumer.submit(("always", "hang"))
        with pytest.raises(LoaderError, match=r"(?s)hung.*in hang_here") as caught:
            consumer.collect()

    assert caught.value.where == "sample 0"


def test_stopped_worker_is_replaced() -> None:
    with a_pool(**SHORT_TIMEOUTS) as consumer:
        consumer.submit("next")
        consumer.collect()
        os.kill(consumer.pool.pids[0], signal.SIGSTOP)
        consumer.submit("next")

        assert consumer.collect() == (0, 1)


def test_many_short_tasks_do_not_count_as_hang() -> None:
    with a_pool(**SHORT_TIMEOUTS) as consumer:
        consumer.submit(*([("sleep", TIMEOUT / 4)] * 6))
        time.sleep(TIMEOUT / 4)

        assert [consumer.collect() for _ in range(6)] == list(range(6))


def test_work_that_hangs_while_opening_has_its_own_timeout() -> None:
    def hang_while_opening(_index: int, _begin: int) -> Stream:
        time.sleep(60)
        raise NotImplementedError

    with a_pool(hang_while_opening, log=lambda _: None, first_timeout_seconds=TIMEOUT) as consumer:
        consumer.submit("next")
        with pytest.raises(LoaderError, match="hung"):
            consumer.collect()
