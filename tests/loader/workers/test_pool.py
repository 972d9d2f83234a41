from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.loader.workers.interrupts import interrupted_within
from tests.loader.workers.works import Stream, a_pool, gone
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.loader import workers
from wdsctl.loader.workers import Pool, status
from wdsctl.loader.workers.pool import _wait_for_the_end

FAST = 1.0  # seconds of silence: where nothing hangs, none is so long on a machine that is busy
PATIENT: dict[str, Any] = {"log": lambda _: None, "timeout_seconds": FAST, "first_timeout_seconds": 60}


def test_each_worker_gives_its_results_in_order() -> None:
    with a_pool(workers=3) as consumer:
        for _ in range(10):
            for worker in range(3):
                consumer.submit("next", worker=worker)

        got = [consumer.collect(worker) for _ in range(10) for worker in range(3)]

    assert got == [(worker, number) for number in range(10) for worker in range(3)]


def test_a_worker_begins_where_resume_says() -> None:
    with a_pool(begin=100) as consumer:
        consumer.submit("next", "next")

        assert [consumer.collect(), consumer.collect()] == [(0, 100), (0, 101)]


def test_a_worker_without_tasks_cannot_be_collected_from() -> None:
    with a_pool() as consumer, pytest.raises(UsageError, match="nothing to do"):
        consumer.collect()


def test_a_closed_pool_says_so() -> None:
    with a_pool() as consumer:
        pass
    with pytest.raises(UsageError, match="closed"):
        consumer.submit("next")


def test_no_workers_are_no_pool() -> None:
    with pytest.raises(UsageError, match="0 workers"):
        Pool(Stream, lambda _: 0, workers=0)


@pytest.mark.parametrize("how", ["kill", "segfault", "_exit"])
def test_a_worker_that_dies_is_replaced_and_the_stream_does_not_change(how: str, tmp_path: Path) -> None:
    said: list[str] = []
    with a_pool(log=said.append) as consumer:
        consumer.submit("next", "next", ("once", str(tmp_path / "mark"), how), "next", "next")

        got = [consumer.collect() for _ in range(5)]

    assert got == [(0, 0), (0, 1), 2, (0, 3), (0, 4)]
    assert len(said) == 1
    assert "sample 2" in said[0]


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
        (seat,) = consumer.pool._seats
        for number in range(300):
            consumer.submit("next")
            assert consumer.collect() == (0, number)
            assert (seat.pending, seat.at) == (0, number + 1)


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


def test_exit_in_a_hook_is_an_error_not_a_death() -> None:
    with a_pool() as consumer:
        pid = consumer.pool.pids[0]
        consumer.submit(("always", "exit"))
        with pytest.raises(LoaderError, match="asked the process to exit") as caught:
            consumer.collect()
        assert consumer.pool.pids == [pid]

    assert caught.value.code == "WDS532"


def test_what_a_task_raises_is_raised_with_its_traceback() -> None:
    with a_pool() as consumer:
        consumer.submit(("raise", KeyError("jpg")))
        with pytest.raises(KeyError, match="jpg") as caught:
            consumer.collect()

    assert "in _raise" in str(caught.value.__cause__)


def test_an_error_of_ours_keeps_its_place_and_code() -> None:
    error = LoaderError("no", hint="try", where="shard 3", code="WDS503")
    with a_pool() as consumer:
        consumer.submit(("raise", error))
        with pytest.raises(LoaderError) as caught:
            consumer.collect()

    assert (caught.value.where, caught.value.code) == ("shard 3", "WDS503")


def test_work_that_cannot_be_opened_raises_at_collect() -> None:
    def opens(_index: int, _begin: int) -> Stream:
        raise FileNotFoundError("no shard")

    with a_pool(opens) as consumer:
        consumer.submit("next")
        with pytest.raises(FileNotFoundError, match="no shard"):
            consumer.collect()


def test_a_result_that_does_not_pickle_is_the_tasks_error() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", _generator))
        with pytest.raises(TypeError, match="generator"):
            consumer.collect()


def test_after_an_error_nothing_is_done_until_restart() -> None:
    with a_pool() as consumer:
        consumer.submit("next", ("raise", KeyError("jpg")), "next", "next")
        assert consumer.collect() == (0, 0)
        for _ in range(2):
            with pytest.raises(KeyError):
                consumer.collect()

        consumer.accept()
        consumer.pool.restart(0)

        assert [consumer.collect(), consumer.collect()] == [(0, 1), (0, 2)]


def test_restart_does_the_uncollected_tasks_again(tmp_path: Path) -> None:
    with a_pool() as consumer:
        consumer.submit("next", ("once", str(tmp_path / "mark"), "exit"), "next")
        consumer.collect()
        with pytest.raises(LoaderError):
            consumer.collect()

        consumer.pool.restart(0)

        assert [consumer.collect(), consumer.collect()] == [1, (0, 2)]


def test_restart_without_an_error_begins_elsewhere() -> None:
    with a_pool() as consumer:
        consumer.submit("next", "next", "next")
        consumer.collect()
        consumer.counts[0] = 50

        consumer.pool.accept(0, consumer.pool.submitted - 1)
        consumer.pool.restart(0)
        consumer.submit("next")

        assert consumer.collect() == (0, 50)


def test_restart_after_two_deaths_gives_the_task_another_chance(tmp_path: Path) -> None:
    with a_pool(log=lambda _: None) as consumer:
        consumer.submit(("always", "kill"), "next")
        with pytest.raises(LoaderError):
            consumer.collect()

        consumer.accept()
        consumer.pool.restart(0)

        assert consumer.collect() == (0, 0)


def test_an_interrupt_in_collect_loses_nothing(tmp_path: Path) -> None:
    with a_pool() as consumer:
        consumer.submit(("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")), "next")
        _until_there(tmp_path / "begun")
        with interrupted_within(Pool.look, workers), pytest.raises(KeyboardInterrupt):
            consumer.collect()
        (tmp_path / "mark").touch()

        assert [consumer.collect(), consumer.collect()] == [0, (0, 1)]


# A socket that was made a moment before the interrupt is closed by its own end, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_of_collect_lose_nothing() -> None:
    """The signal comes at odd times, also between two bytecodes of a read."""
    got: list[int] = []
    interrupts = 0
    with a_pool(log=lambda _: None) as consumer, interrupted_within(Pool.look, workers):
        while len(got) < 2000 or interrupts <= 10:
            if consumer.pool.submitted == len(got):
                consumer.submit(*([("blob", 200_000)] * 20))
            try:
                value = consumer.pool.look(0)
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
    pool = Pool(Stream, lambda _: 0, workers=2)
    pids = [*pool.pids, pool.nursery_pid or 0]

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
    pool = Pool(Stream, lambda _: 0, workers=1)
    pids = [*pool.pids, pool.nursery_pid or 0]
    pool.submit(0, ("wait_for", str(tmp_path / "begun"), str(tmp_path / "mark")))
    pool.send()
    _until_there(tmp_path / "begun")

    with interrupted_within(_wait_for_the_end, workers), pytest.raises(KeyboardInterrupt):
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

    first = Pool(Closes, lambda _: 0, workers=2)
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
            pids += [*consumer.pool.pids, consumer.pool.nursery_pid or 0]
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


def test_workers_run_torch_on_one_thread_and_never_touch_cuda() -> None:
    with a_pool() as consumer:
        consumer.submit(("call", torch.get_num_threads), ("call", torch.cuda.is_initialized))

        assert [consumer.collect(), consumer.collect()] == [1, False]


def test_a_pool_can_be_made_while_threads_are_alive() -> None:
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


def test_many_large_tasks_never_block_submit() -> None:
    with a_pool() as consumer:
        for _ in range(20):
            consumer.submit(("call", _Big(b"x" * 200_000)))

        assert [consumer.collect() for _ in range(20)] == [200_000] * 20


def test_status_outside_of_a_worker_does_nothing() -> None:
    status("sample 3")


def test_two_pools_live_side_by_side() -> None:
    with a_pool(workers=2) as first, a_pool(workers=2) as second:
        for consumer in (first, second):
            consumer.submit("next", worker=1)
        assert first.collect(1) == second.collect(1) == (1, 0)


def test_a_pool_inherited_by_a_forked_child_is_not_closed_by_it() -> None:
    with a_pool() as consumer:
        pid = os.fork()
        if not pid:
            consumer.pool.close()
            os._exit(0)
        os.waitpid(pid, 0)
        consumer.submit("next")

        assert consumer.collect() == (0, 0)


def _until_there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


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
