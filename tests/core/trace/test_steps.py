from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.trace.read import StepNumbering, StepSegment


def test_step_is_one_batch_of_every_rank() -> None:
    steps = StepNumbering([StepSegment(0, 4)])
    assert list(steps.batch_numbers(0)) == [0, 1, 2, 3]
    assert list(steps.batch_numbers(250)) == [1000, 1001, 1002, 1003]
    assert [steps.step_of(number) for number in (0, 3, 4, 1003)] == [0, 0, 1, 250]


def test_steps_continue_when_world_size_changes() -> None:
    steps = StepNumbering([StepSegment(0, 4), StepSegment(400, 2), StepSegment(420, 6)])
    assert [list(steps.batch_numbers(step)) for step in (99, 100, 109, 110)] == [
        [396, 397, 398, 399],
        [400, 401],
        [418, 419],
        [420, 421, 422, 423, 424, 425],
    ]


def test_run_that_restarts_earlier_continues_step_numbers_from_there() -> None:
    steps = StepNumbering([StepSegment(0, 4), StepSegment(400, 2), StepSegment(200, 8)])
    assert list(steps.batch_numbers(50)) == list(range(200, 208))
    assert steps.step_of(400) == 75


def test_steps_of_late_trace_assume_its_own_world_size() -> None:
    steps = StepNumbering([StepSegment(40, 4)])
    assert list(steps.batch_numbers(10)) == [40, 41, 42, 43]
    assert list(steps.batch_numbers(9)) == [36, 37, 38, 39]


def test_step_numbering_is_empty_without_trace() -> None:
    assert list(StepNumbering([]).batch_numbers(0)) == []
    assert list(StepNumbering([StepSegment(0, 4)]).batch_numbers(-1)) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 7)), min_size=1, max_size=6))
def test_step_of_agrees_with_batch_numbers(runs: list[tuple[int, int]]) -> None:
    """Every run continues from a step of the previous run, at the batch number that a checkpoint stores."""
    segments, steps = [StepSegment(0, runs[0][1])], 0
    for length, world in runs:
        segments.append(StepSegment(segments[-1].base + length * segments[-1].world, world))
        steps += length
    numbering = StepNumbering(segments)
    numbers = [number for step in range(steps + 3) for number in numbering.batch_numbers(step)]
    assert numbers == list(range(len(numbers)))
    assert all(number in numbering.batch_numbers(numbering.step_of(number)) for number in numbers)
    assert numbering.step_of(segments[-1].base) == steps
