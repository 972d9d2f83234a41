"""What a lane takes from each arm is arithmetic, also where weights change and after it was cut."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.loader.order.mixture import LaneMixture, Mixture, SegmentHistory, integer_weights
from wdsctl.loader.order.rank_lanes import Lane, LaneSplit

BLENDS = (Mixture((3, 2, 1)), Mixture((0, 1, 4)), Mixture((1, 0, 0)))
MANY = 400


def mixing(lane: Lane = Lane(0), *histories: SegmentHistory, blends: tuple[Mixture, ...] = BLENDS) -> LaneMixture:  # noqa: B008
    return LaneMixture(blends, 7, lane, histories)


def histories() -> st.SearchStrategy[list[tuple[int, int]]]:
    """Segments that begin at pick 0 and then at rising ones."""
    changes = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 120)), max_size=4)
    return changes.map(
        lambda each: [(0, 0), *((s, sum(gap for _, gap in each[: i + 1])) for i, (s, _) in enumerate(each))]
    )


@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_picks_counts_and_places_agree(history: list[tuple[int, int]]) -> None:
    lane = mixing(Lane(0), history)
    which, nth = lane.draws(0, MANY)
    seen: Counter[int] = Counter()

    for pick, (arm, number) in enumerate(zip(which.tolist(), nth.tolist(), strict=True)):
        assert number == seen[arm], "the numbers of an arm go on over all segments"
        if pick % 29 == 0:
            assert lane.component_at(pick) == (arm, number)
            assert [lane.count_component(each, pick) for each in range(3)] == [seen[each] for each in range(3)]
        seen[arm] += 1


@settings(max_examples=60, deadline=None)
@given(history=histories(), start=st.integers(0, MANY), length=st.integers(1, 90))
def test_any_stretch_is_a_part_of_the_whole(history: list[tuple[int, int]], start: int, length: int) -> None:
    lane = mixing(Lane(0), history)
    whole = [column.tolist()[start : start + length] for column in lane.draws(0, start + length)]

    assert [column.tolist() for column in lane.draws(start, start + length)] == whole


def test_each_segment_is_mixed_by_its_own_weights() -> None:
    which, _ = mixing(Lane(0), [(0, 0), (1, 60), (2, 110)]).draws(0, 150)

    assert Counter(which.tolist()[:60]) == {0: 30, 1: 20, 2: 10}
    assert Counter(which.tolist()[60:110]) == {1: 10, 2: 40}
    assert Counter(which.tolist()[110:]) == {0: 40}


def test_the_picks_before_a_change_are_what_they_were() -> None:
    before, after = mixing(Lane(0), [(0, 0)]), mixing(Lane(0), [(0, 0), (1, 83)])

    assert [each.tolist() for each in after.draws(0, 83)] == [each.tolist() for each in before.draws(0, 83)]


def test_lanes_are_not_in_step() -> None:
    blends = (Mixture((301, 203, 107)),)
    lanes = [mixing(Lane(root), blends=blends).draws(0, 40)[0].tolist() for root in range(8)]

    assert len({tuple(lane) for lane in lanes}) == 8


def test_child_0_goes_on_and_the_others_begin_anew_and_apart() -> None:
    blends = (Mixture((301, 203, 107)),)
    parent = mixing(Lane(0), blends=blends).draws(0, 200)
    children = [mixing(Lane(0, (LaneSplit(75, 3, child),)), blends=blends) for child in range(3)]

    assert [each.tolist() for each in children[0].draws(0, 200)] == [each.tolist() for each in parent]
    assert len({tuple(each.draws(0, 60)[0].tolist()) for each in children}) == 3


@pytest.mark.parametrize("child", [0, 1, 2])
def test_what_was_taken_at_a_cut_is_the_parents_count(child: int) -> None:
    parent = mixing(Lane(1))

    lane = mixing(Lane(1, (LaneSplit(75, 3, child),)))

    assert [lane.taken_at_splits(arm) for arm in range(3)] == [(parent.count_component(arm, 75),) for arm in range(3)]


def test_what_was_taken_follows_a_lane_through_all_its_cuts_and_segments() -> None:
    cuts = (LaneSplit(50, 2, 1), LaneSplit(30, 3, 0), LaneSplit(44, 2, 1))
    first = mixing(Lane(2), [(0, 0), (1, 20)])
    second = mixing(Lane(2, cuts[:1]), [(0, 0), (1, 20)], [(1, 0), (0, 40)])

    lane = mixing(Lane(2, cuts), [(0, 0), (1, 20)], [(1, 0), (0, 40)], [(0, 0)])

    for arm in range(3):
        assert lane.taken_at_splits(arm) == (
            first.count_component(arm, 50),
            second.count_component(arm, 30),
            second.count_component(arm, 44),
        )


def test_a_thousand_arms_are_all_drawn_from_by_their_weights() -> None:
    blend = Mixture(integer_weights([Fraction(1 + i % 5) for i in range(1000)]))
    total = sum(blend.weights)

    which, nth = mixing(Lane(0), blends=(blend,)).draws(0, total)

    assert Counter(which.tolist()) == dict(enumerate(blend.weights))
    assert max(nth.tolist()) == 4
