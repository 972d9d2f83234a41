"""Results in memory reserved in a worker's ring are returned without a copy, and none is lost or overwritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.workers.task_runners import Consumer, a_pool
from tests.loader.workers.test_ring import mapped_bytes
from wdsctl.loader.workers.ring import reserve

MB = 1 << 20


class ReservedResults:
    """Results in reserved memory, filled with the number of the task."""

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

    def _whole(self, memory: Any, *extras: Any) -> Any:
        return memory, *extras

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
def pool_of_reservations(**options: Any) -> Iterator[Consumer]:
    with a_pool(ReservedResults, **options) as consumer:
        yield consumer


def run_one(consumer: Consumer, *task: Any) -> Any:
    consumer.submit(task)
    return consumer.collect()


def test_reserve_returns_none_outside_worker() -> None:
    assert reserve(MB) is None


@pytest.mark.parametrize("size", [1, 63, 1000, 5000, 8192, MB, MB + 1])
def test_result_in_reserved_memory_is_returned(size: int) -> None:
    with pool_of_reservations(begin=3) as consumer:
        (memory,) = run_one(consumer, "whole", size)

        assert memory.tobytes() == b"\3" * size


def test_reserved_memory_is_returned_with_other_values() -> None:
    extras = np.arange(100_000)
    with pool_of_reservations(begin=3) as consumer:
        for number in (3, 4, 5):
            memory, *others = run_one(consumer, "whole", MB, "text", extras, bytes(5000))

            assert bool((memory == number).all())
            assert others[0] == "text"
            np.testing.assert_array_equal(others[1], extras)
            assert others[2] == bytes(5000)


@pytest.mark.parametrize(("kind", "length"), [("half", MB // 2), ("array", MB)])
def test_result_other_than_reserved_memory_is_returned(kind: str, length: int) -> None:
    with pool_of_reservations(begin=7) as consumer:
        for number in (7, 8):
            result = run_one(consumer, kind, MB)

            assert len(result) == length
            assert int(result[-1]) == (number if kind == "half" else 7)


@pytest.mark.parametrize(("size", "other"), [(MB, MB), (MB - 50_000, 10_000)])  # the second block has room for both
def test_reserved_memory_after_another_array_is_returned(size: int, other: int) -> None:
    with pool_of_reservations(begin=7) as consumer:
        first, memory = run_one(consumer, "second", size, np.zeros(other, np.uint8))

        assert (int(first.sum()), int(memory.min()), int(memory.max())) == (0, 7, 7)


def test_kept_results_in_reserved_memory_are_not_overwritten() -> None:
    with pool_of_reservations(ring_bytes=4 * MB) as consumer:
        consumer.submit(*[("whole", MB // 2)] * 40)
        kept = [consumer.collect() for _ in range(40)]

    for number, result in enumerate(kept):
        assert result is None or bool((result[0] == number).all())
    assert sum(result is not None for result in kept) > 4


def test_reserved_memory_is_reused_after_any_kind_of_result() -> None:
    inherited = set(Path("/proc/self/maps").read_text().splitlines())
    with pool_of_reservations() as consumer:
        for _ in range(20):
            for kind in ("whole", "nothing", "half", "array"):
                run_one(consumer, kind, MB)

        assert mapped_bytes(consumer, inherited) < 6 * MB


def test_failed_task_releases_its_reservation() -> None:
    with pool_of_reservations(ring_bytes=3 * MB // 2) as consumer:
        for number in range(5):
            consumer.submit(("fails", MB))
            with pytest.raises(ValueError, match="after"):
                consumer.collect()
            consumer.accept()
            consumer.pool.restart(0)
            (memory,) = run_one(consumer, "whole", MB)

            assert int(memory[0]) == consumer.counts[0] - 1 == number
            del memory


def test_second_reservation_of_task_returns_none() -> None:
    with pool_of_reservations() as consumer:
        assert run_one(consumer, "again", MB) is True


@pytest.mark.parametrize("size", [0, 20 * MB])
def test_reserve_returns_none_for_zero_bytes_and_beyond_ring(size: int) -> None:
    with pool_of_reservations(ring_bytes=MB) as consumer:
        assert run_one(consumer, "whole", size) is None
