"""Workers that die, hang or are stopped are replaced, and the stream does not change."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.loader.workers.works import Stream, a_pool
from wdsctl.core.errors import LoaderError

FAST = 1.0  # seconds of silence: where nothing hangs, none is so long on a machine that is busy
PATIENT: dict[str, Any] = {"log": lambda _: None, "timeout_seconds": FAST, "first_timeout_seconds": 60}


@pytest.mark.parametrize("how", ["kill", "segfault", "_exit"])
def test_a_worker_that_dies_is_replaced_and_the_stream_does_not_change(how: str, tmp_path: Path) -> None:
    said: list[str] = []
    with a_pool(log=said.append) as consumer:
        consumer.submit("next", "next", ("once", str(tmp_path / "mark"), how), "next", "next")

        got = [consumer.collect() for _ in range(5)]

    assert got == [(0, 0), (0, 1), 2, (0, 3), (0, 4)]
    assert len(said) == 1
    assert "sample 2" in said[0]


def test_answers_that_another_process_took_are_made_again_and_none_is_given_in_their_place() -> None:
    said: list[str] = []
    with a_pool(log=said.append) as consumer:
        consumer.submit(*["next"] * 8)
        got = [consumer.collect()]
        pid = os.fork()
        if not pid:
            for _ in range(3):
                consumer.collect()
            os._exit(0)
        os.waitpid(pid, 0)
        got += [consumer.collect() for _ in range(7)]

    assert got == [(0, number) for number in range(8)]
    assert [line for line in said if "expected task" in line]


@pytest.mark.parametrize(
    ("how", "words"),
    [("kill", "SIGKILL"), ("segfault", "SIGSEGV"), ("_exit", "exit code 3")],
)
def test_a_second_death_at_the_same_task_names_the_death_and_the_sample(how: str, words: str) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit("next", "next", ("always", how), "next")

        assert [consumer.collect(), consumer.collect()] == [(0, 0), (0, 1)]
        with pytest.raises(LoaderError, match=words) as caught:
            consumer.collect()
        with pytest.raises(LoaderError, match=words):
            consumer.collect()

    assert caught.value.code == "WDS530"
    assert caught.value.where == "sample 2"


def test_the_stack_of_a_crash_is_in_the_message() -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("always", "segfault"))
        with pytest.raises(LoaderError, match="in fail"):
            consumer.collect()


def test_deaths_at_different_tasks_are_no_failure(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(*(("once", str(tmp_path / f"mark{i}"), "kill") for i in range(4)))

        assert [consumer.collect() for _ in range(4)] == [0, 1, 2, 3]


def test_a_worker_killed_while_it_has_nothing_to_do_is_replaced() -> None:
    with a_pool(log=lambda _: None) as consumer:
        for number in range(3):
            consumer.submit("next")
            assert consumer.collect() == (0, number)
            os.kill(consumer.pool.pids[0], signal.SIGKILL)


def test_a_worker_whose_answer_is_there_is_at_no_task_any_more() -> None:
    """Where it was killed then, the next task would be told to have ended one worker already."""
    with a_pool() as consumer:
        (seat,) = consumer.pool._slots
        for number in range(300):
            consumer.submit("next")
            assert consumer.collect() == (0, number)
            assert (seat.pending_count, seat.current_task) == (0, number + 1)


def test_a_worker_that_hangs_is_replaced_and_tells_its_stack(tmp_path: Path) -> None:
    said: list[str] = []
    with a_pool(**{**PATIENT, "log": said.append}) as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "hang"), "next")

        assert [consumer.collect() for _ in range(3)] == [(0, 0), 1, (0, 2)]

    assert any("hung" in line and "in hang_here" in line for line in said)


def test_a_second_hang_at_the_same_task_is_an_error_with_the_stack() -> None:
    with a_pool(**PATIENT) as consumer:
        consumer.submit(("always", "hang"))
        with pytest.raises(LoaderError, match=r"(?s)hung.*in hang_here") as caught:
            consumer.collect()

    assert caught.value.where == "sample 0"


def test_a_worker_that_was_stopped_is_replaced() -> None:
    with a_pool(**PATIENT) as consumer:
        consumer.submit("next")
        consumer.collect()
        os.kill(consumer.pool.pids[0], signal.SIGSTOP)
        consumer.submit("next")

        assert consumer.collect() == (0, 1)


def test_a_slow_stream_of_quick_tasks_is_no_hang() -> None:
    with a_pool(**PATIENT) as consumer:
        consumer.submit(*([("sleep", FAST / 4)] * 6))
        time.sleep(FAST / 4)

        assert [consumer.collect() for _ in range(6)] == list(range(6))


def test_work_that_hangs_while_it_opens_has_a_patience_of_its_own() -> None:
    def opens_for_ever(_index: int, _begin: int) -> Stream:
        time.sleep(60)
        raise NotImplementedError

    with a_pool(opens_for_ever, log=lambda _: None, first_timeout_seconds=FAST) as consumer:
        consumer.submit("next")
        with pytest.raises(LoaderError, match="hung"):
            consumer.collect()
