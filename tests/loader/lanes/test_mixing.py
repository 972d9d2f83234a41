"""LaneMixture computes what a lane takes from each component, also with changed weights and after splits."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.loader.lanes.mixture import LaneMixture, Mixture, SegmentHistory, integer_weights
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit

BLENDS = (Mixture((3, 2, 1)), Mixture((0, 1, 4)), Mixture((1, 0, 0)))
MANY = 400


def lane_mixture(lane: Lane = Lane(0), *histories: SegmentHistory, blends: tuple[Mixture, ...] = BLENDS) -> LaneMixture:  # noqa: B008
    return LaneMixture(blends, 7, lane, histories)


def histories() -> st.SearchStrategy[list[tuple[int, int]]]:
    """Segments that begin at pick 0 and then at ascending picks."""
    changes = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 120)), max_size=4)
    return changes.map(
        lambda each: [(0, 0), *((s, sum(gap for _, gap in each[: i + 1])) for i, (s, _) in enumerate(each))]
    )


@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_draws_counts_and_component_at_agree(history: list[tuple[int, int]]) -> None:
    lane = lane_mixture(Lane(0), history)
    which, nth = lane.draws(0, MANY)
    counts: Counter[int] = Counter()

    for pick, (component, number) in enumerate(zip(which.tolist(), nth.tolist(), strict=True)):
        assert number == counts[component], "the numbers of an arm go on over all segments"
        if pick % 29 == 0:
            assert lane.component_at(pick) == (component, number)
            assert [lane.count_component(each, pick) for each in range(3)] == [counts[each] for each in range(3)]
        counts[component] += 1


@settings(max_examples=60, deadline=None)
@given(history=histories(), start=st.integers(0, MANY), length=st.integers(1, 90))
def test_draws_of_any_range_equal_slice_of_all_draws(history: list[tuple[int, int]], start: int, length: int) -> None:
    lane = lane_mixture(Lane(0), history)
    whole = [column.tolist()[start : start + length] for column in lane.draws(0, start + length)]

    assert [column.tolist() for column in lane.draws(start, start + length)] == whole


def test_each_weight_segment_uses_its_own_weights() -> None:
    which, _ = lane_mixture(Lane(0), [(0, 0), (1, 60), (2, 110)]).draws(0, 150)

    assert Counter(which.tolist()[:60]) == {0: 30, 1: 20, 2: 10}
    assert Counter(which.tolist()[60:110]) == {1: 10, 2: 40}
    assert Counter(which.tolist()[110:]) == {0: 40}


def test_weight_change_keeps_earlier_draws() -> None:
    before, after = lane_mixture(Lane(0), [(0, 0)]), lane_mixture(Lane(0), [(0, 0), (1, 83)])

    assert [each.tolist() for each in after.draws(0, 83)] == [each.tolist() for each in before.draws(0, 83)]


def test_lanes_draw_different_component_sequences() -> None:
    blends = (Mixture((301, 203, 107)),)
    lanes = [lane_mixture(Lane(root), blends=blends).draws(0, 40)[0].tolist() for root in range(8)]

    assert len({tuple(lane) for lane in lanes}) == 8


def test_child_0_continues_parent_and_others_differ() -> None:
    blends = (Mixture((301, 203, 107)),)
    parent = lane_mixture(Lane(0), blends=blends).draws(0, 200)
    children = [lane_mixture(Lane(0, (LaneSplit(75, 3, child),)), blends=blends) for child in range(3)]

    assert [each.tolist() for each in children[0].draws(0, 200)] == [each.tolist() for each in parent]
    assert len({tuple(each.draws(0, 60)[0].tolist()) for each in children}) == 3


@pytest.mark.parametrize("child", [0, 1, 2])
def test_taken_at_splits_equals_count_of_parent(child: int) -> None:
    parent = lane_mixture(Lane(1))

    lane = lane_mixture(Lane(1, (LaneSplit(75, 3, child),)))

    assert [lane.taken_at_splits(component) for component in range(3)] == [
        (parent.count_component(component, 75),) for component in range(3)
    ]


def test_taken_at_splits_covers_all_splits_and_segments() -> None:
    cuts = (LaneSplit(50, 2, 1), LaneSplit(30, 3, 0), LaneSplit(44, 2, 1))
    first = lane_mixture(Lane(2), [(0, 0), (1, 20)])
    second = lane_mixture(Lane(2, cuts[:1]), [(0, 0), (1, 20)], [(1, 0), (0, 40)])

    lane = lane_mixture(Lane(2, cuts), [(0, 0), (1, 20)], [(1, 0), (0, 40)], [(0, 0)])

    for component in range(3):
        assert lane.taken_at_splits(component) == (
            first.count_component(component, 50),
            second.count_component(component, 30),
            second.count_component(component, 44),
        )


def test_thousand_components_are_drawn_by_weight() -> None:
    blend = Mixture(integer_weights([Fraction(1 + i % 5) for i in range(1000)]))
    total = sum(blend.weights)

    which, nth = lane_mixture(Lane(0), blends=(blend,)).draws(0, total)

    assert Counter(which.tolist()) == dict(enumerate(blend.weights))
    assert max(nth.tolist()) == 4
