"""How far workers prefetch ahead of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from wdsctl.loader.run.engine import PrefetchEngine
from wdsctl.loader.workers.options import PoolOptions

MB = 1 << 20
WORKERS = 2


class Blob:
    """Work whose results have `size` bytes."""

    def __init__(self, size: int, _worker: int, _resumed: Any) -> None:
        self.size = size

    def run_task(self, _task: Any) -> bytes:
        return bytes(self.size)

    def close(self) -> None:
        """Does nothing: no file is open."""


class RoundRobinTurns:
    """Turn n is task n, and workers take turns."""

    def task_at(self, turn: int) -> int:
        return turn

    def worker_of(self, task: int) -> int:
        return task % WORKERS

    def resume_state_of(self, _worker: int) -> None:
        """Returns None: no task needs a state."""

    def expand_result(self, result: bytes, _task: int) -> int:
        return len(result)

    def record_result(self, _result: int) -> None:
        """Does nothing: no task depends on results."""


@contextmanager
def open_engine(size: int, depth: int | None, last: int | None = None) -> Iterator[tuple[PrefetchEngine, list[int]]]:
    """Yields the engine and the list of the tasks that it has submitted."""
    submitted: list[int] = []
    engine = PrefetchEngine(
        partial(Blob, size),
        RoundRobinTurns(),
        worker_count=WORKERS,
        depth=depth,
        expected_turns=last,
        options=PoolOptions(),
    )
    submit = engine._pool.submit

    def record_submit(worker: int, task: int) -> None:
        submitted.append(task)
        submit(worker, task)

    engine._pool.submit = record_submit  # type: ignore[method-assign]
    try:
        yield engine, submitted
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("size", "depth", "least", "most"),
    [
        (100, None, 13, 16),  # small results are kept ready
        (MB, None, 7, 8),  # 8 MB of them
        (7 * MB, None, 2, 2),
        (100, 3, 3, 3),  # the requested depth
        (100, 1, 1, 1),
    ],
)
def test_prefetch_engine_limits_submitted_tasks_by_depth_or_bytes(
    size: int, depth: int | None, least: int, most: int
) -> None:
    with open_engine(size, depth) as (engine, submitted):
        for turn in range(40):
            assert engine.draw(turn) == size
        assert least * WORKERS <= len(submitted) - 39 <= most * WORKERS
    assert submitted == list(range(len(submitted)))


def test_draw_returns_same_turn_again() -> None:
    with open_engine(100, 2) as (engine, submitted):
        assert engine.draw(0) == engine.draw(0)
        assert submitted == [0, 1, 2, 3]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_engine_submits_no_turn_after_last_and_rewinds(depth: int | None) -> None:
    with open_engine(100, depth, last=5) as (engine, submitted):
        for _ in range(3):
            assert [engine.draw(turn) for turn in range(5)] == [100] * 5
            assert engine.try_rewind(5)
    assert submitted == [*range(5)] * 3


def test_engine_submits_turn_after_last_on_draw() -> None:
    """Needed for a pass with a limit of batches, in which a batch range yielded none."""
    with open_engine(100, 2, last=5) as (engine, submitted):
        assert [engine.draw(turn) for turn in range(7)] == [100] * 7
    assert submitted == [*range(7)]


def test_try_rewind_fails_while_tasks_are_pending() -> None:
    with open_engine(100, 2) as (engine, _):
        engine.draw(0)
        assert not engine.try_rewind(None)


def test_try_rewind_fails_after_close() -> None:
    """For example, an interrupt after the last turn while more tasks are pending."""
    with open_engine(100, 2) as (engine, _):
        engine.draw(0)
        engine.close()
        assert not engine.try_rewind(None)
