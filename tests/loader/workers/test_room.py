"""What is made in a worker's ring arrives without a copy, and whatever else becomes of it, nothing is lost or mixed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.workers.test_ring import mapped_bytes
from tests.loader.workers.works import Consumer, a_pool
from wdsctl.loader.workers import reserve

MB = 1 << 20


class Rooms:
    """Results in rooms, filled with the number of the task."""

    def __init__(self, index: int, begin: int) -> None:
        self.index, self.at = index, begin

    def run_task(self, task: Any) -> Any:
        number = self.at
        self.at += 1
        kind, size, *rest = task
        memory = reserve(size)
        if memory is None:
            return None
        memory[:] = number % 251
        return getattr(self, f"_{kind}")(memory, *rest)

    def close(self) -> None:
        pass

    def _whole(self, memory: Any, *beside: Any) -> Any:
        return memory, *beside

    def _half(self, memory: Any) -> Any:
        return memory[: len(memory) // 2]

    def _second(self, memory: Any, first: Any) -> Any:
        return first, memory

    def _nothing(self, memory: Any) -> Any:
        return "nothing"

    def _array(self, memory: Any) -> Any:
        return np.full(len(memory), 7, np.uint8)

    def _again(self, memory: Any) -> Any:
        return reserve(len(memory)) is None

    def _fails(self, memory: Any) -> Any:
        raise ValueError(f"after {len(memory)} bytes")


@contextmanager
def rooms(**options: Any) -> Iterator[Consumer]:
    with a_pool(Rooms, **options) as consumer:
        yield consumer


def one(consumer: Consumer, *task: Any) -> Any:
    consumer.submit(task)
    return consumer.collect()


def test_there_are_no_rooms_outside_of_a_worker() -> None:
    assert reserve(MB) is None


@pytest.mark.parametrize("size", [1, 63, 1000, 5000, 8192, MB, MB + 1])
def test_what_is_made_in_a_room_arrives(size: int) -> None:
    with rooms(begin=3) as consumer:
        (memory,) = one(consumer, "whole", size)

        assert memory.tobytes() == b"\3" * size


def test_what_lies_beside_the_room_arrives_with_it() -> None:
    beside = np.arange(100_000)
    with rooms(begin=3) as consumer:
        for number in (3, 4, 5):
            memory, *others = one(consumer, "whole", MB, "text", beside, bytes(5000))

            assert bool((memory == number).all())
            assert others[0] == "text"
            np.testing.assert_array_equal(others[1], beside)
            assert others[2] == bytes(5000)


@pytest.mark.parametrize(("kind", "length"), [("half", MB // 2), ("array", MB)])
def test_a_result_that_is_not_the_room_arrives_as_well(kind: str, length: int) -> None:
    with rooms(begin=7) as consumer:
        for number in (7, 8):
            got = one(consumer, kind, MB)

            assert len(got) == length
            assert int(got[-1]) == (number if kind == "half" else 7)


def test_a_room_that_comes_second_arrives_as_well() -> None:
    with rooms(begin=7) as consumer:
        first, memory = one(consumer, "second", MB, np.zeros(MB, np.uint8))

        assert (int(first.sum()), int(memory.min()), int(memory.max())) == (0, 7, 7)


def test_results_that_are_kept_are_not_written_to() -> None:
    with rooms(ring_bytes=4 * MB) as consumer:
        consumer.submit(*[("whole", MB // 2)] * 40)
        kept = [consumer.collect() for _ in range(40)]

    for number, got in enumerate(kept):
        assert got is None or bool((got[0] == number).all())
    assert sum(got is not None for got in kept) > 4


def test_rooms_are_used_again_whatever_became_of_them() -> None:
    inherited = set(Path("/proc/self/maps").read_text().splitlines())
    with rooms() as consumer:
        for _ in range(20):
            for kind in ("whole", "nothing", "half", "array"):
                one(consumer, kind, MB)

        assert mapped_bytes(consumer, inherited) < 6 * MB


def test_a_task_that_fails_leaves_its_room_to_the_next() -> None:
    with rooms(ring_bytes=3 * MB // 2) as consumer:
        for number in range(5):
            consumer.submit(("fails", MB))
            with pytest.raises(ValueError, match="after"):
                consumer.collect()
            consumer.accept()
            consumer.pool.restart(0)
            (memory,) = one(consumer, "whole", MB)

            assert int(memory[0]) == consumer.counts[0] - 1 == number
            del memory


def test_a_task_has_one_room() -> None:
    with rooms() as consumer:
        assert one(consumer, "again", MB) is True


@pytest.mark.parametrize("size", [0, 20 * MB])
def test_there_is_no_room_for_nothing_and_none_beyond_the_ring(size: int) -> None:
    with rooms(ring_bytes=MB) as consumer:
        assert one(consumer, "whole", size) is None
