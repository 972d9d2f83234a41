"""An arm is one order over datasets laid end to end: any place of it is found at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import a_dataset, numbered
from wdsctl.core.catalog.read import read_split
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.read import Offsets
from wdsctl.loader.order.growth import GrownOrder
from wdsctl.loader.order.lane_order import LaneOrder
from wdsctl.loader.order.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.shuffle import ShuffledOrder
from wdsctl.loader.plan.components import Component, ComponentCursor, SourceRange
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.source import SplitSource

ONE, TWO = 30, 7
LANES = [Lane(0), Lane(1, (LaneSplit(9, 2, 0),)), Lane(1, (LaneSplit(9, 2, 1),))]


def source_of(root: Path, samples: int, number: int) -> SplitSource:
    path = a_dataset(root, samples, shard_samples=11, parts=numbered)
    place = locate(path)
    offsets = Offsets(place.offsets_path(1))
    config = DatasetConfig(sample_type="CrudeSample")
    return SplitSource(
        path, offsets, SampleSelection(offsets, read_split(place.catalog, "train")), config, None, number=number
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[SplitSource, SplitSource]:
    root = tmp_path_factory.mktemp("data")
    return source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)


def arm_of(*pieces: SourceRange, passes: int = 1) -> Component:
    n = sum(piece.samples for piece in pieces)
    return Component(ShuffledOrder(n=n, slice_samples=2, window_samples=6, seed=3, passes=passes, lanes=2), pieces)


@pytest.fixture(scope="module")
def arms(sources: tuple[SplitSource, SplitSource]) -> dict[str, Component]:
    one, two = sources
    return {
        "one dataset": arm_of(SourceRange(one, 0, ONE, ONE)),
        "a part of one": arm_of(SourceRange(one, 4, 11, 11)),
        "one and a half times": arm_of(SourceRange(two, 0, TWO, 10)),
        "several": arm_of(SourceRange(one, 0, ONE, ONE), SourceRange(two, 1, 5, 12), SourceRange(one, 3, 2, 1)),
        "as they lie": arm_of(SourceRange(one, 0, ONE, ONE), SourceRange(two, 0, TWO, TWO), passes=0),
        "grown": grown(SourceRange(two, 1, 5, 5), SourceRange(one, 4, 11, 11)),
        "grown of several": grown(
            SourceRange(two, 0, TWO, TWO), SourceRange(one, 0, ONE, ONE), SourceRange(two, 0, TWO, 3)
        ),
    }


def grown(old: SourceRange, *new: SourceRange) -> Component:
    """For two epochs it is the old piece, then the new ones."""
    orders: list[Any] = [arm_of(old).order, arm_of(*new).order]
    return Component(GrownOrder(orders, [2 * orders[0].epoch_samples]), [old, *new])


STEADY = ["one dataset", "a part of one", "one and a half times", "several", "as they lie"]
NAMES = [*STEADY, "grown", "grown of several"]
IN_RUNS = ["one dataset", "a part of one", "grown"]


def told(refs: list[Any]) -> list[tuple[int, int, str]]:
    return [(source.number, block.passes[i], block.keys[i]) for source, block, i in refs]


def test_positions_go_through_the_pieces_and_their_repetitions(arms: dict[str, Component]) -> None:
    arm = arms["several"]
    n = arm.order.n

    found = told(arm.refs(np.arange(n), np.full(n, 2)))

    expected = [(0, 2, i) for i in range(ONE)]
    expected += [(1, 2 * 3 + i // 5, 1 + i % 5) for i in range(12)]
    expected += [(0, 2, 3)]
    assert found == [(source, number, f"{key:06}") for source, number, key in expected]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("arms_of_the_blend", [1, 500])
def test_a_cursor_may_begin_anywhere(name: str, lane: Lane, arms_of_the_blend: int, arms: dict[str, Component]) -> None:
    arm = arms[name]

    def fresh() -> ComponentCursor:
        return ComponentCursor(arm, lane, [cut.draws for cut in lane.splits], arms_of_the_blend)

    truth = told(fresh().take_refs(90))

    for place in range(0, 80, 3):
        cursor = fresh()
        cursor.seek(place)
        assert told(cursor.take_refs(10)) == truth[place : place + 10]
        assert told([fresh().lookup(place)]) == truth[place : place + 1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
def test_many_that_ascend_are_found_at_once(name: str, lane: Lane, arms: dict[str, Component]) -> None:
    def fresh() -> ComponentCursor:
        return ComponentCursor(arms[name], lane, [cut.draws for cut in lane.splits], 1)

    truth, numbers = told(fresh().take_refs(90)), [0, 1, 2, 4, 5, 8, 9, 10, 11, 40, 61, 62, 89]

    assert told(fresh().lookup_many(numbers)) == [truth[number] for number in numbers]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("arms_of_the_blend", [1, 500])
def test_a_cursor_under_way_finds_what_one_at_the_beginning_does(
    name: str, lane: Lane, arms_of_the_blend: int, arms: dict[str, Component]
) -> None:
    def fresh() -> ComponentCursor:
        return ComponentCursor(arms[name], lane, [cut.draws for cut in lane.splits], arms_of_the_blend)

    truth, cursor = told(fresh().take_refs(200)), fresh()

    for place, drawn in ((0, 3), (None, 8), (None, 60), (37, 1), (None, 30)):
        if place is not None:
            cursor.seek(place)
        cursor.take_refs(drawn)
        assert told(cursor.lookup_many(range(90))) == truth[:90]
        assert [told([cursor.lookup(number)])[0] for number in (0, 7, 38, 89)] == [truth[i] for i in (0, 7, 38, 89)]


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_is_window_after_window_of_the_order(name: str, arms: dict[str, Component]) -> None:
    arm = arms[name]
    truth: list[tuple[int, int, str]] = []
    while len(truth) < 1000:
        window = LaneOrder(arm.order, Lane(1)).window(len(truth))
        truth += told(arm.refs(window.positions, window.passes))

    for arms_of_the_blend in (1, 500):  # alone, it opens windows one by one
        assert told(ComponentCursor(arm, Lane(1), (), arms_of_the_blend).take_refs(len(truth))) == truth


def test_it_does_not_matter_in_how_many_pieces_references_are_taken(arms: dict[str, Component]) -> None:
    for arm in arms.values():
        whole = ComponentCursor(arm, Lane(0), (), 1)
        pieces = ComponentCursor(arm, Lane(0), (), 500)  # which keeps 16 references ready

        assert told([ref for count in (1, 5, 1, 13, 1, 1, 40) for ref in pieces.take_refs(count)]) == told(
            whole.take_refs(62)
        )


@pytest.mark.parametrize("name", IN_RUNS)
def test_runs_are_the_references_of_one_dataset_at_a_time(name: str, arms: dict[str, Component]) -> None:
    runs, ones = (ComponentCursor(arms[name], Lane(0), (), 1) for _ in range(2))
    truth = told([ComponentCursor(arms[name], Lane(0), (), 1).lookup(taken) for taken in range(61)])

    for count, before in ((7, 0), (1, 7), (20, 8), (33, 28)):
        found = runs.take_ranges(count)
        assert told([(source, block, i) for source, block, a, b in found for i in range(a, b)]) == told(
            [ones.next_ref() for _ in range(count)]
        )
        assert told([(source, block, a) for source, block, a, _ in found])[0] == truth[before]
    assert len(ComponentCursor(arms[name], Lane(0), (), 1).take_ranges(61)) < 61 / 2


def test_only_an_arm_of_one_dataset_in_each_era_without_repetitions_has_runs(arms: dict[str, Component]) -> None:
    assert [name for name, arm in arms.items() if arm.has_contiguous_refs] == IN_RUNS


@pytest.mark.parametrize("name", STEADY)
def test_the_samples_of_an_epoch_are_shared_out_among_the_lanes(name: str, arms: dict[str, Component]) -> None:
    arm = arms[name]
    lanes = [Lane(0), *(Lane(1, (LaneSplit(0, 3, child),)) for child in range(3))]

    cursors = [ComponentCursor(arm, lane, [cut.draws for cut in lane.splits], 1) for lane in lanes]
    refs = [ref for cursor in cursors for ref in told(cursor.take_refs(cursor.first_epoch_samples()))]

    assert sorted(refs) == sorted(told(arm.refs(np.arange(arm.order.n), np.zeros(arm.order.n, np.int64))))


class Positions:
    """An arm that hands out the positions themselves, of a dataset as large as one likes."""

    has_contiguous_refs = True
    is_remote = False

    def __init__(self, n: int, passes: int) -> None:
        self.order = ShuffledOrder(n=n, slice_samples=16, window_samples=1000, seed=3, passes=passes, lanes=2)

    def block(self, positions: Any, passes: Any) -> Any:
        return None, list(zip(positions.tolist(), passes.tolist(), strict=True))

    def will_need(self, window: Any) -> None:
        pass


@pytest.mark.parametrize("passes", [0, 1, 3, -1])
@pytest.mark.parametrize("n", [5000, 1 << 40])
def test_a_window_of_many_arms_is_kept_small_and_says_the_same(n: int, passes: int) -> None:
    arm: Any = Positions(n, passes)
    one, many = (ComponentCursor(arm, Lane(1), [], arms) for arms in (1, 500))

    def told(cursor: ComponentCursor) -> list[Any]:
        return [block[i] for _, block, i in cursor.take_refs(6000)]  # type: ignore[index]

    assert told(one) == told(many)
    kept = many._window
    assert kept is not None
    assert kept.positions.itemsize == (8 if kept.positions.max() >= 1 << 31 else 4)
    assert (kept.passes.strides == (0,)) is (passes == 1)  # of one pass, which is there once
