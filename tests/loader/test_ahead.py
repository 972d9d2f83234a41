"""How far workers are ahead of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from wdsctl.loader.run.engine import PrefetchEngine
from wdsctl.loader.workers import PoolOptions

MB = 1 << 20
WORKERS = 2


class Blob:
    """Work whose results are so many bytes."""

    def __init__(self, size: int, _worker: int, _resumed: Any) -> None:
        self.size = size

    def run_task(self, _task: Any) -> bytes:
        return bytes(self.size)

    def close(self) -> None:
        """Nothing is open."""


class InTurn:
    """Every turn is a task of its own number, and workers take turns."""

    def task_at(self, turn: int) -> int:
        return turn

    def worker_of(self, task: int) -> int:
        return task % WORKERS

    def resume_state_of(self, _worker: int) -> None:
        """Nothing is to be known."""

    def expand_result(self, result: bytes, _task: int) -> int:
        return len(result)

    def record_result(self, _result: int) -> None:
        """No task depends on it."""


@contextmanager
def ahead(size: int, depth: int | None, last: int | None = None) -> Iterator[tuple[PrefetchEngine, list[int]]]:
    """The engine, and the turns that it has submitted so far."""
    submitted: list[int] = []
    engine = PrefetchEngine(
        partial(Blob, size),
        InTurn(),
        worker_count=WORKERS,
        depth=depth,
        expected_turns=last,
        options=PoolOptions(),
    )
    submit = engine._pool.submit

    def noted(worker: int, task: int) -> None:
        submitted.append(task)
        submit(worker, task)

    engine._pool.submit = noted  # type: ignore[method-assign]
    try:
        yield engine, submitted
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("size", "depth", "least", "most"),
    [
        (100, None, 13, 16),  # small results lie in stock
        (MB, None, 7, 8),  # 8 MB of them
        (7 * MB, None, 2, 2),
        (100, 3, 3, 3),  # what was asked for
        (100, 1, 1, 1),
    ],
)
def test_workers_are_ahead_by_what_was_asked_or_by_so_many_bytes(
    size: int, depth: int | None, least: int, most: int
) -> None:
    with ahead(size, depth) as (engine, submitted):
        for turn in range(40):
            assert engine.draw(turn) == size
        assert least * WORKERS <= len(submitted) - 39 <= most * WORKERS
    assert submitted == list(range(len(submitted)))


def test_a_turn_that_is_asked_for_again_is_what_it_was() -> None:
    with ahead(100, 2) as (engine, submitted):
        assert engine.draw(0) == engine.draw(0)
        assert submitted == [0, 1, 2, 3]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_no_turn_after_the_last_is_submitted_and_the_turns_begin_again(depth: int | None) -> None:
    with ahead(100, depth, last=5) as (engine, submitted):
        for _ in range(3):
            assert [engine.draw(turn) for turn in range(5)] == [100] * 5
            assert engine.try_rewind(5)
    assert submitted == [*range(5)] * 3


def test_a_turn_after_the_last_is_submitted_when_it_is_asked_for() -> None:
    """Of a pass that is cut at so many batches, where a run of positions gave none."""
    with ahead(100, 2, last=5) as (engine, submitted):
        assert [engine.draw(turn) for turn in range(7)] == [100] * 7
    assert submitted == [*range(7)]


def test_turns_do_not_begin_again_while_others_are_under_way() -> None:
    with ahead(100, 2) as (engine, _):
        engine.draw(0)
        assert not engine.try_rewind(None)


def test_turns_do_not_begin_again_after_the_end_of_the_workers() -> None:
    """An interrupt right after it, say, where there was more under way than was asked for."""
    with ahead(100, 2) as (engine, _):
        engine.draw(0)
        engine.close()
        assert not engine.try_rewind(None)
