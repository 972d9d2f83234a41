"""Weight schedules of a job: their text form round-trips, and edits keep the weights of drawn batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.plan.weight_history import (
    IntegerWeightSchedule,
    ScheduleEdits,
    edits_from_facts,
    edits_to_facts,
    effective_schedule,
    extend_edits,
    format_schedule,
    parse_weight_schedule,
)

weights = st.lists(st.integers(0, 2**30), min_size=1, max_size=12).map(tuple)


@st.composite
def schedules(draw: st.DrawFn) -> IntegerWeightSchedule:
    begins = [0, *sorted(draw(st.sets(st.integers(1, 50), max_size=3)))]
    return tuple((begin, draw(weights)) for begin in begins)


def test_format_schedule_writes_one_readable_line() -> None:
    schedule = ((0, (5, 3, 1, 1, 1, 1)), (400, (1, 1, 0, 0, 0, 0)))

    assert format_schedule(schedule) == "0: 5 3 1x4 | 400: 1 1 0x4"
    assert parse_weight_schedule("0: 5 3 1x4 | 400: 1 1 0x4") == schedule


@given(schedules())
def test_parse_weight_schedule_inverts_format_schedule(schedule: IntegerWeightSchedule) -> None:
    assert parse_weight_schedule(format_schedule(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "0:1", "0: x", "0: 1 | ", "a: 1"])
def test_parse_weight_schedule_rejects_damaged_text(text: str) -> None:
    with pytest.raises(StateMismatch, match="not the weights of a blend"):
        parse_weight_schedule(text)


def test_edits_from_facts_without_weights_are_empty() -> None:
    assert edits_from_facts(None) == edits_from_facts({}) == edits_from_facts({"weights": ""}) == []


@given(schedules(), st.lists(st.tuples(st.integers(0, 20), schedules()), max_size=4))
def test_extend_edits_keeps_weights_of_batches_already_drawn(
    first: IntegerWeightSchedule, later: list[tuple[int, IntegerWeightSchedule]]
) -> None:
    edits: ScheduleEdits = [(0, first)]
    drawn = 0
    expected: list[tuple[int, ...]] = []
    places: list[int] = []

    def in_force(batch: int) -> int:
        return max(i for i, (begin, _) in enumerate(effective_schedule(edits)) if begin <= batch)

    for count, schedule in later:
        for batch in range(drawn, drawn + count):
            places.append(in_force(batch))
            expected.append(effective_schedule(edits)[places[-1]][1])
        drawn += count
        edits = extend_edits(edits, schedule, drawn)
        assert edits_from_facts(edits_to_facts(edits)) == edits
        current = next(each for begin, each in reversed(schedule) if begin <= drawn)
        assert effective_schedule(edits)[in_force(drawn)][1] == current
    assert [in_force(batch) for batch in range(drawn)] == places
    assert [effective_schedule(edits)[place][1] for place in places] == expected


def test_extend_edits_ignores_equal_weights_and_restarts_without_batch() -> None:
    edits: ScheduleEdits = [(0, ((0, (1, 2)),))]

    assert extend_edits(edits, edits[0][1], 9) is edits
    assert extend_edits(edits, ((0, (3, 4)),), None) == [(0, ((0, (3, 4)),))]
