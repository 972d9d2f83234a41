"""Weights over a job, as texts: what was written is read, and what has begun keeps its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.blend_history import Edits, Schedule, continued, edits_of, read, segments, to_facts, written

weights = st.lists(st.integers(0, 2**30), min_size=1, max_size=12).map(tuple)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    begins = [0, *sorted(draw(st.sets(st.integers(1, 50), max_size=3)))]
    return tuple((begin, draw(weights)) for begin in begins)


def test_a_schedule_is_a_line_that_people_can_read() -> None:
    schedule = ((0, (5, 3, 1, 1, 1, 1)), (400, (1, 1, 0, 0, 0, 0)))

    assert written(schedule) == "0: 5 3 1x4 | 400: 1 1 0x4"
    assert read("0: 5 3 1x4 | 400: 1 1 0x4") == schedule


@given(schedules())
def test_what_was_written_is_read(schedule: Schedule) -> None:
    assert read(written(schedule)) == schedule


@pytest.mark.parametrize("text", ["", "0:1", "0: x", "0: 1 | ", "a: 1"])
def test_damaged_weights_are_told(text: str) -> None:
    with pytest.raises(StateMismatch, match="no weights of a blend"):
        read(text)


def test_a_plan_without_weights_or_with_a_digest_of_them_knows_none() -> None:
    assert edits_of(None) == edits_of({}) == edits_of({"weights": ""}) == edits_of({"weights": "0123abcd"}) == []


@given(schedules(), st.lists(st.tuples(st.integers(0, 20), schedules()), max_size=4))
def test_each_batch_has_the_weights_that_were_in_force_when_it_was_drawn_for_ever(
    first: Schedule, later: list[tuple[int, Schedule]]
) -> None:
    edits: Edits = [(0, first)]
    drawn = 0
    truth: list[tuple[int, ...]] = []
    places: list[int] = []

    def in_force(batch: int) -> int:
        return max(i for i, (begin, _) in enumerate(segments(edits)) if begin <= batch)

    for more, schedule in later:
        for batch in range(drawn, drawn + more):
            places.append(in_force(batch))
            truth.append(segments(edits)[places[-1]][1])
        drawn += more
        edits = continued(edits, schedule, drawn)
        assert edits_of(to_facts(edits)) == edits
        now = next(each for begin, each in reversed(schedule) if begin <= drawn)
        assert segments(edits)[in_force(drawn)][1] == now
    assert [in_force(batch) for batch in range(drawn)] == places
    assert [segments(edits)[place][1] for place in places] == truth


def test_the_same_weights_again_are_no_edit_and_without_a_batch_there_is_none() -> None:
    edits: Edits = [(0, ((0, (1, 2)),))]

    assert continued(edits, edits[0][1], 9) is edits
    assert continued(edits, ((0, (3, 4)),), None) == [(0, ((0, (3, 4)),))]
