"""RefCursor: the references of a lane of a blend, found from a draw number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.loader.plan.test_components import ONE, TWO, describe_refs, make_component, source_of
from wdsctl.loader.lanes.mixture import Mixture
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.pipeline import references
from wdsctl.loader.pipeline.references import RefCursor, RefStage
from wdsctl.loader.plan.components import Component, SourceRange

LANES = [Lane(0), Lane(1, (LaneSplit(9, 2, 0),)), Lane(1, (LaneSplit(9, 2, 1),))]


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> list[Component]:
    root = tmp_path_factory.mktemp("data")
    one, two = source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)
    return [make_component(SourceRange(one, 0, ONE, ONE)), make_component(SourceRange(two, 0, TWO, 10))]


def cursor_of(components: list[Component], lane: Lane = LANES[0], *histories: Any, **options: Any) -> RefCursor:
    blends = [Mixture((2, 1)), Mixture((0, 1))] if len(components) > 1 else [Mixture((1,))]
    return RefStage(components, blends, 5, **options).open(lane, histories)


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("count", [1, 2], ids=["one dataset", "a blend"])
def test_ref_cursor_finds_any_draw_by_number(lane: Lane, count: int, components: list[Component]) -> None:
    expected = describe_refs(cursor_of(components[:count], lane).take(100))

    cursor = cursor_of(components[:count], lane)
    for place in range(0, 90, 7):
        assert describe_refs([cursor.lookup(place)]) == expected[place : place + 1]
        cursor.seek(place)
        assert describe_refs(cursor.take(10)) == expected[place : place + 10]
        assert cursor.draws == place + 10


@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("max_cached", [4, 4096], ids=["a few at a time", "all at once"])
def test_prefetched_draws_equal_other_draws(
    lane: Lane, max_cached: int, components: list[Component], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "MAX_CACHED_REFERENCES", max_cached)
    expected = describe_refs(cursor_of(components, lane).take(100))
    cursor = cursor_of(components, lane)
    picks = [70, 3, 4, 5, 90, 6, 41, 3]

    cursor.prefetch(picks)

    assert describe_refs([cursor.lookup(pick) for pick in [*picks, 17]]) == [expected[pick] for pick in [*picks, 17]]
    assert describe_refs(cursor.take(9)) == expected[:9]


def test_take_in_pieces_equals_take_at_once(components: list[Component]) -> None:
    pieces, whole = cursor_of(components), cursor_of(components)

    assert describe_refs([ref for count in (3, 1, 1, 40, 7) for ref in pieces.take(count)]) == describe_refs(
        whole.take(52)
    )


def test_weight_history_changes_weights_at_draw(components: list[Component]) -> None:
    cursor, uninterrupted = cursor_of(components), cursor_of(components)
    first = describe_refs(cursor.take(30))

    cursor.set_weight_histories([[(0, 0), (1, 30)]])
    second = describe_refs(cursor.take(20))

    assert first == describe_refs(uninterrupted.take(30))
    assert {number for number, _, _ in second} == {1}
    restored = cursor_of(components, LANES[0], [(0, 0), (1, 30)])
    restored.seek(25)
    assert describe_refs(restored.take(25)) == (first + second)[25:]


def test_lanes_together_have_every_sample_once_per_pass(components: list[Component]) -> None:
    lanes = [Lane(0), Lane(1, (LaneSplit(9, 2, 0),)), Lane(1, (LaneSplit(9, 2, 1),))]
    refs = describe_refs(cursor_of(components, Lane(1)).take(9))
    for lane in lanes:
        cursor = cursor_of(components, lane)
        cursor.seek(9 if lane.splits and not lane.splits[0].child else 0)
        refs += describe_refs(cursor.take(200))

    counts = Counter(refs)

    assert set(counts.values()) == {1}
    assert Counter(number for number, _, _ in counts if number == 0)[0] >= 2 * ONE


@pytest.mark.parametrize("lane", LANES)
def test_finite_lane_ends_after_its_part_of_pass(lane: Lane, components: list[Component]) -> None:
    cursor = cursor_of(components[:1], lane, is_finite=True)

    refs = cursor.take(1000)

    assert len(refs) == cursor.draws
    assert {block.passes[i] for _, block, i in refs} <= {0}
    assert cursor.take(5) == []


@pytest.mark.parametrize("count", [1, 2])
def test_take_ranges_equals_take_and_is_contiguous_for_one_dataset(count: int, components: list[Component]) -> None:
    pieces, refs = cursor_of(components[:count]), cursor_of(components[:count])

    ranges = pieces.take_ranges(33)

    assert describe_refs([(source, block, i) for source, block, a, b in ranges for i in range(a, b)]) == describe_refs(
        refs.take(33)
    )
    assert pieces.draws == refs.draws == 33
    assert (len(ranges) == 33) == (count > 1)
