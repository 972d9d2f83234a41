"""A component is one order over concatenated datasets, with direct access to any position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.core.catalog.readers import read_split
from tests.loader.datasets import a_dataset, numbered
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import locate
from wdsctl.core.offsets.read import Offsets
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.growth import GrownOrder
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
        path, offsets, SampleSelection(offsets, read_split(place.catalog_path, "train")), config, None, number=number
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[SplitSource, SplitSource]:
    root = tmp_path_factory.mktemp("data")
    return source_of(root / "one", ONE, 0), source_of(root / "two", TWO, 1)


def make_component(*pieces: SourceRange, passes: int = 1) -> Component:
    n = sum(piece.samples for piece in pieces)
    return Component(ShuffledOrder(n=n, slice_samples=2, window_samples=6, seed=3, passes=passes, lanes=2), pieces)


@pytest.fixture(scope="module")
def components(sources: tuple[SplitSource, SplitSource]) -> dict[str, Component]:
    one, two = sources
    return {
        "one dataset": make_component(SourceRange(one, 0, ONE, ONE)),
        "a part of one": make_component(SourceRange(one, 4, 11, 11)),
        "one and a half times": make_component(SourceRange(two, 0, TWO, 10)),
        "several": make_component(SourceRange(one, 0, ONE, ONE), SourceRange(two, 1, 5, 12), SourceRange(one, 3, 2, 1)),
        "as they lie": make_component(SourceRange(one, 0, ONE, ONE), SourceRange(two, 0, TWO, TWO), passes=0),
        "grown": grown_component(SourceRange(two, 1, 5, 5), SourceRange(one, 4, 11, 11)),
        "grown of several": grown_component(
            SourceRange(two, 0, TWO, TWO), SourceRange(one, 0, ONE, ONE), SourceRange(two, 0, TWO, 3)
        ),
    }


def grown_component(old: SourceRange, *new: SourceRange) -> Component:
    """A component that has the old piece for two epochs, then the new pieces."""
    orders: list[Any] = [make_component(old).order, make_component(*new).order]
    return Component(GrownOrder(orders, [2 * orders[0].epoch_samples]), [old, *new])


STATIC = ["one dataset", "a part of one", "one and a half times", "several", "as they lie"]
NAMES = [*STATIC, "grown", "grown of several"]
CONTIGUOUS = ["one dataset", "a part of one", "grown"]


def describe_refs(refs: list[Any]) -> list[tuple[int, int, str]]:
    return [(source.number, block.passes[i], block.keys[i]) for source, block, i in refs]


def test_component_refs_follow_pieces_and_repetitions(components: dict[str, Component]) -> None:
    component = components["several"]
    n = component.order.n

    actual = describe_refs(component.refs(np.arange(n), np.full(n, 2)))

    expected = [(0, 2, i) for i in range(ONE)]
    expected += [(1, 2 * 3 + i // 5, 1 + i % 5) for i in range(12)]
    expected += [(0, 2, 3)]
    assert actual == [(source, number, f"{key:06}") for source, number, key in expected]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("component_count", [1, 500])
def test_component_cursor_seeks_to_any_draw(
    name: str, lane: Lane, component_count: int, components: dict[str, Component]
) -> None:
    component = components[name]

    def make_cursor() -> ComponentCursor:
        return ComponentCursor(component, lane, [cut.draws for cut in lane.splits], component_count)

    expected = describe_refs(make_cursor().take_refs(90))

    for place in range(0, 80, 3):
        cursor = make_cursor()
        cursor.seek(place)
        assert describe_refs(cursor.take_refs(10)) == expected[place : place + 10]
        assert describe_refs([make_cursor().lookup(place)]) == expected[place : place + 1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
def test_lookup_many_equals_take_refs_for_ascending_numbers(
    name: str, lane: Lane, components: dict[str, Component]
) -> None:
    def make_cursor() -> ComponentCursor:
        return ComponentCursor(components[name], lane, [cut.draws for cut in lane.splits], 1)

    expected, numbers = describe_refs(make_cursor().take_refs(90)), [0, 1, 2, 4, 5, 8, 9, 10, 11, 40, 61, 62, 89]

    assert describe_refs(make_cursor().lookup_many(numbers)) == [expected[number] for number in numbers]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES, ids=["a lane", "its first half", "its second half"])
@pytest.mark.parametrize("component_count", [1, 500])
def test_lookup_is_independent_of_cursor_position(
    name: str, lane: Lane, component_count: int, components: dict[str, Component]
) -> None:
    def make_cursor() -> ComponentCursor:
        return ComponentCursor(components[name], lane, [cut.draws for cut in lane.splits], component_count)

    expected, cursor = describe_refs(make_cursor().take_refs(200)), make_cursor()

    for place, draws in ((0, 3), (None, 8), (None, 60), (37, 1), (None, 30)):
        if place is not None:
            cursor.seek(place)
        cursor.take_refs(draws)
        assert describe_refs(cursor.lookup_many(range(90))) == expected[:90]
        assert [describe_refs([cursor.lookup(number)])[0] for number in (0, 7, 38, 89)] == [
            expected[i] for i in (0, 7, 38, 89)
        ]


@pytest.mark.parametrize("name", NAMES)
def test_take_refs_equals_windows_of_lane_order(name: str, components: dict[str, Component]) -> None:
    component = components[name]
    expected: list[tuple[int, int, str]] = []
    while len(expected) < 1000:
        window = LaneOrder(component.order, Lane(1)).window(len(expected))
        expected += describe_refs(component.refs(window.positions, window.passes))

    for component_count in (1, 500):  # a single component opens windows one by one
        assert (
            describe_refs(ComponentCursor(component, Lane(1), (), component_count).take_refs(len(expected))) == expected
        )


def test_take_refs_in_pieces_equals_take_at_once(components: dict[str, Component]) -> None:
    for component in components.values():
        whole = ComponentCursor(component, Lane(0), (), 1)
        pieces = ComponentCursor(component, Lane(0), (), 500)  # which keeps 16 references ready

        assert describe_refs(
            [ref for count in (1, 5, 1, 13, 1, 1, 40) for ref in pieces.take_refs(count)]
        ) == describe_refs(whole.take_refs(62))


@pytest.mark.parametrize("name", CONTIGUOUS)
def test_take_ranges_equals_single_references(name: str, components: dict[str, Component]) -> None:
    ranges, single = (ComponentCursor(components[name], Lane(0), (), 1) for _ in range(2))
    expected = describe_refs([ComponentCursor(components[name], Lane(0), (), 1).lookup(taken) for taken in range(61)])

    for count, before in ((7, 0), (1, 7), (20, 8), (33, 28)):
        actual = ranges.take_ranges(count)
        assert describe_refs(
            [(source, block, i) for source, block, a, b in actual for i in range(a, b)]
        ) == describe_refs([single.next_ref() for _ in range(count)])
        assert describe_refs([(source, block, a) for source, block, a, _ in actual])[0] == expected[before]
    assert len(ComponentCursor(components[name], Lane(0), (), 1).take_ranges(61)) < 61 / 2


def test_only_single_dataset_components_have_contiguous_refs(components: dict[str, Component]) -> None:
    assert [name for name, component in components.items() if component.has_contiguous_refs] == CONTIGUOUS


@pytest.mark.parametrize("name", STATIC)
def test_lanes_divide_samples_of_epoch(name: str, components: dict[str, Component]) -> None:
    component = components[name]
    lanes = [Lane(0), *(Lane(1, (LaneSplit(0, 3, child),)) for child in range(3))]

    cursors = [ComponentCursor(component, lane, [cut.draws for cut in lane.splits], 1) for lane in lanes]
    refs = [ref for cursor in cursors for ref in describe_refs(cursor.take_refs(cursor.first_epoch_samples()))]

    assert sorted(refs) == sorted(
        describe_refs(component.refs(np.arange(component.order.n), np.zeros(component.order.n, np.int64)))
    )


class Positions:
    """A component whose references are the positions themselves, of a dataset of any size."""

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
def test_window_of_many_components_is_compact_and_equal(n: int, passes: int) -> None:
    component: Any = Positions(n, passes)
    one, many = (ComponentCursor(component, Lane(1), [], component_count) for component_count in (1, 500))

    def describe_refs(cursor: ComponentCursor) -> list[Any]:
        return [block[i] for _, block, i in cursor.take_refs(6000)]  # type: ignore[index]

    assert describe_refs(one) == describe_refs(many)
    window = many._window
    assert window is not None
    assert window.positions.itemsize == (8 if window.positions.max() >= 1 << 31 else 4)
    assert (window.passes.strides == (0,)) is (passes == 1)  # one pass number, stored once
