"""How far workers are ahead of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from wdsctl.loader.engine import Ahead
from wdsctl.loader.workers import PoolOptions

MB = 1 << 20
WORKERS = 2


class Blob:
    """Work whose results are so many bytes."""

    def __init__(self, size: int, _worker: int, _resumed: Any) -> None:
        self.size = size

    def do(self, _task: Any) -> bytes:
        return bytes(self.size)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def ahead(size: int, depth: int | None, last: int | None = None) -> Iterator[tuple[Ahead, list[int]]]:
    """The engine, and the turns that it has submitted so far."""
    submitted: list[int] = []

    def task_of(turn: int) -> int:
        submitted.append(turn)
        return turn

    engine = Ahead(
        partial(Blob, size),
        lambda _: None,
        task_of,
        lambda turn: turn % WORKERS,
        lambda *_: None,
        workers=WORKERS,
        depth=depth,
        last=last,
        arrived=lambda _turn, result: len(result),
        options=PoolOptions(),
    )
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
            assert engine.again(5)
    assert submitted == [*range(5)] * 3


def test_a_turn_after_the_last_is_submitted_when_it_is_asked_for() -> None:
    """Of a pass that is cut at so many batches, where a run of positions gave none."""
    with ahead(100, 2, last=5) as (engine, submitted):
        assert [engine.draw(turn) for turn in range(7)] == [100] * 7
    assert submitted == [*range(7)]


def test_turns_do_not_begin_again_while_others_are_under_way() -> None:
    with ahead(100, 2) as (engine, _):
        engine.draw(0)
        assert not engine.again(None)


def test_turns_do_not_begin_again_after_the_end_of_the_workers() -> None:
    """An interrupt right after it, say, where there was more under way than was asked for."""
    with ahead(100, 2) as (engine, _):
        engine.draw(0)
        engine.close()
        assert not engine.again(None)
