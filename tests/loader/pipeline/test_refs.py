"""References of a lane: a blend's picks, found again from one number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.loader.plan.test_arms import ONE, TWO, arm_of, source_of, told
from wdsctl.loader.order.mixture import Mixture
from wdsctl.loader.order.rank_lanes import Lane, LaneSplit
from wdsctl.loader.pipeline import references
from wdsctl.loader.pipeline.references import RefCursor, RefStage
from wdsctl.loader.plan.components import Component, SourceRange

LANES = [Lane(0), Lane(1, (LaneSplit(9, 2, 0),)), Lane(1, (LaneSplit(9, 2, 1),))]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> list[Component]:
    root = tmp_path_factory.mktemp("data")
    one, two = source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)
    return [arm_of(SourceRange(one, 0, ONE, ONE)), arm_of(SourceRange(two, 0, TWO, 10))]


def cursor_of(arms: list[Component], lane: Lane = LANES[0], *histories: Any, **options: Any) -> RefCursor:
    blends = [Mixture((2, 1)), Mixture((0, 1))] if len(arms) > 1 else [Mixture((1,))]
    return RefStage(arms, blends, 5, **options).open(lane, histories)


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("count", [1, 2], ids=["one dataset", "a blend"])
def test_any_pick_is_found_from_its_number(lane: Lane, count: int, arms: list[Component]) -> None:
    truth = told(cursor_of(arms[:count], lane).take(100))

    cursor = cursor_of(arms[:count], lane)
    for place in range(0, 90, 7):
        assert told([cursor.lookup(place)]) == truth[place : place + 1]
        cursor.seek(place)
        assert told(cursor.take(10)) == truth[place : place + 10]
        assert cursor.draws == place + 10


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("most", [4, 4096], ids=["a few at a time", "all at once"])
def test_picks_that_were_foreseen_are_found_like_any_others(
    lane: Lane, most: int, arms: list[Component], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "MAX_CACHED_REFERENCES", most)
    truth = told(cursor_of(arms, lane).take(100))
    cursor = cursor_of(arms, lane)
    picks = [70, 3, 4, 5, 90, 6, 41, 3]

    cursor.prefetch(picks)

    assert told([cursor.lookup(pick) for pick in [*picks, 17]]) == [truth[pick] for pick in [*picks, 17]]
    assert told(cursor.take(9)) == truth[:9]


def test_it_does_not_matter_in_how_many_pieces_they_are_taken(arms: list[Component]) -> None:
    pieces, whole = cursor_of(arms), cursor_of(arms)

    assert told([ref for count in (3, 1, 1, 40, 7) for ref in pieces.take(count)]) == told(whole.take(52))


def test_weights_may_change_at_a_pick(arms: list[Component]) -> None:
    cursor, undisturbed = cursor_of(arms), cursor_of(arms)
    first = told(cursor.take(30))

    cursor.set_weight_histories([[(0, 0), (1, 30)]])
    second = told(cursor.take(20))

    assert first == told(undisturbed.take(30))
    assert {number for number, _, _ in second} == {1}
    again = cursor_of(arms, LANES[0], [(0, 0), (1, 30)])
    again.seek(25)
    assert told(again.take(25)) == (first + second)[25:]


def test_all_lanes_together_have_every_sample_once_a_pass(arms: list[Component]) -> None:
    lanes = [Lane(0), Lane(1, (LaneSplit(9, 2, 0),)), Lane(1, (LaneSplit(9, 2, 1),))]
    found = told(cursor_of(arms, Lane(1)).take(9))
    for lane in lanes:
        cursor = cursor_of(arms, lane)
        cursor.seek(9 if lane.splits and not lane.splits[0].child else 0)
        found += told(cursor.take(200))

    counts = Counter(found)

    assert set(counts.values()) == {1}
    assert Counter(number for number, _, _ in counts if number == 0)[0] >= 2 * ONE


@pytest.mark.parametrize("lane", LANES)
def test_a_finite_lane_ends_with_its_part_of_the_pass(lane: Lane, arms: list[Component]) -> None:
    cursor = cursor_of(arms[:1], lane, is_finite=True)

    refs = cursor.take(1000)

    assert len(refs) == cursor.draws
    assert {block.passes[i] for _, block, i in refs} <= {0}
    assert cursor.take(5) == []


@pytest.mark.parametrize("count", [1, 2])
def test_pieces_are_the_references_and_one_dataset_alone_is_read_in_runs(count: int, arms: list[Component]) -> None:
    pieces, refs = cursor_of(arms[:count]), cursor_of(arms[:count])

    taken = pieces.take_ranges(33)

    assert told([(source, block, i) for source, block, a, b in taken for i in range(a, b)]) == told(refs.take(33))
    assert pieces.draws == refs.draws == 33
    assert (len(taken) == 33) == (count > 1)
