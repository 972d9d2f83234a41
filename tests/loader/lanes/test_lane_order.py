"""Properties of a job: an epoch has every sample once, batches have no duplicates, splits lose or repeat nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.order.orders import Item, an_order, draw_items, items, windows
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.rank_lanes import Lane, LaneLayout, LaneSplit, new_layout, split_lanes
from wdsctl.loader.order.growth import GrownOrder, SourceOrder, version_orders
from wdsctl.loader.order.permutation import MAX_ELEMENTS

SIZES = st.sampled_from([1, 2, 5, 17, 48, 100, 128, 300, 1000, 3000, 6000])
SMALL_SIZES = SIZES.filter(lambda size: size <= 1000)
BATCHES = st.sampled_from([1, 2, 7, 16, 64])


def epoch_items(order: SourceOrder, number: int) -> Counter[Item]:
    """Every sample once in each pass of an epoch."""
    group = max(1, order.passes)
    return Counter((number * group + each, position) for each in range(group) for position in range(order.n))


@settings(max_examples=60, deadline=None)
@given(SIZES, BATCHES, st.sampled_from([1, 3, 8, 24]), st.sampled_from([0, 1, 2, 3]), st.integers(0, 99))
def test_draws_of_each_epoch_are_all_samples_once(n: int, batch: int, lanes: int, passes: int, seed: int) -> None:
    order = an_order(n, 3, 40, seed=seed, passes=passes, lanes=lanes, turn=batch, apart=batch)
    epochs = 3

    actual = draw_items(order, epochs * order.epoch_samples)

    for epoch in range(epochs):
        epoch_draws = actual[epoch * order.epoch_samples : (epoch + 1) * order.epoch_samples]
        assert Counter(epoch_draws) == epoch_items(order, epoch)


@settings(max_examples=60, deadline=None)
@given(SIZES, BATCHES, st.sampled_from([1, 3, 8, 24]), st.sampled_from([10, 1000]), st.integers(0, 99))
def test_batches_up_to_dataset_size_have_no_duplicates(n: int, batch: int, lanes: int, window: int, seed: int) -> None:
    order = an_order(n, 3, window, seed=seed, lanes=lanes, turn=batch, apart=batch)

    actual = [position for _, position in draw_items(order, min(4 * n, 15_000) + 3 * batch)]

    if batch <= n:
        batches = [actual[i : i + batch] for i in range(0, len(actual) - batch, batch)]
        assert [each for each in batches if len(set(each)) < batch] == []


@pytest.mark.parametrize(("n", "batch"), [(65, 64), (127, 64), (128, 64), (129, 64), (100, 99), (17, 16)])
def test_batches_near_dataset_size_have_no_duplicates(n: int, batch: int) -> None:
    order = an_order(n, lanes=8, turn=batch, apart=batch)

    actual = [position for _, position in draw_items(order, 300 * n)]

    for i in range(0, len(actual) - batch, batch):
        assert len(set(actual[i : i + batch])) == batch
    for epoch in range(300):
        assert len(set(actual[epoch * n : (epoch + 1) * n])) == n


@dataclass
class Job:
    """A training on one order, reduced to the samples that each lane takes."""

    order: SourceOrder
    geometry: LaneLayout = field(init=False)
    picks: list[int] = field(init=False)
    batches: int = 0
    drawn_items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.geometry, self.picks = new_layout(self.order.lanes), [0] * self.order.lanes

    def lane(self, number: int) -> tuple[Lane, list[int]]:
        lane = self.geometry.lanes[number]
        return lane, [cut.draws for cut in lane.splits]

    def take(self, number: int, samples: int) -> list[Item]:
        actual = list(islice(items(self.order, *self.lane(number), first=self.picks[number]), samples))
        self.drawn_items += actual
        self.picks[number] += samples
        return actual

    def to_window_end(self, number: int) -> None:
        """Take the rest of the open window."""
        window = LaneOrder(self.order, *self.lane(number)).window(self.picks[number])
        self.take(number, window.first_number + len(window.positions) - self.picks[number])

    def batch(self) -> list[Item]:
        """Take a batch from the next lane in turn."""
        number = (self.batches - self.geometry.first_batch) % len(self.geometry.lanes)
        self.batches += 1
        return self.take(number, self.order.turn_samples)

    def split(self, world: int) -> None:
        after = split_lanes(self.geometry, self.picks, self.batches, world)
        self.picks = [self.picks[parent] if i < after.continuing else 0 for i, parent in enumerate(after.parents)]
        self.geometry = after.layout

    def finish(self) -> None:
        """Read all lanes to the end of the latest begun epoch, and assert that every sample came once a pass."""
        lanes = range(len(self.geometry.lanes))
        orders = [LaneOrder(self.order, *self.lane(number)) for number in lanes]
        end = max(each.end_of_begun_epoch(taken) for each, taken in zip(orders, self.picks, strict=True))
        for number in lanes:
            for item in items(self.order, *self.lane(number), first=self.picks[number]):
                if orders[number].end_of_begun_epoch(self.picks[number] + 1) > end:
                    break
                self.drawn_items.append(item)
                self.picks[number] += 1
        expected: Counter[Item] = Counter()
        for version in version_orders(self.order):
            stop = end if version.end is None else min(end, version.end)
            expected.update(
                (version.passes_before + number, version.positions_before + position)
                for number in range(max(0, stop - version.begin) // version.order.n)
                for position in range(version.order.n)
            )
        assert Counter(self.drawn_items) == expected


@st.composite
def orders(draw: st.DrawFn) -> SourceOrder:
    turn = draw(BATCHES)
    sizes: dict[str, Any] = {
        "slice_samples": draw(st.sampled_from([1, 3, 16])),
        "window_samples": draw(st.sampled_from([1, 10, 40, 1000])),
        "passes": draw(st.sampled_from([0, 1, 3])),
        "lanes": draw(st.integers(1, 8)),
        "turn": turn,
        "apart": draw(st.sampled_from([1, turn])),
    }
    given = [an_order(n, seed=seed, **sizes) for seed, n in enumerate(draw(st.lists(SIZES, min_size=1, max_size=3)))]
    ends, end = [], 0
    for order in given[:-1]:
        end += order.epoch_samples * draw(st.integers(1, 2))
        ends.append(end)
    return GrownOrder(given, ends) if ends else given[0]


@settings(max_examples=60, deadline=None)
@given(orders(), st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12]), max_size=3), st.integers(0, 10**6))
def test_lane_splits_repeat_and_miss_no_samples(order: SourceOrder, worlds: list[int], seed: int) -> None:
    job, random = Job(order), Random(seed)

    for world in worlds:
        for lane in range(len(job.geometry.lanes)):
            # Nothing, little (inside a window that an earlier split divided), up to the window's end, or far.
            choice = random.randrange(4)
            if choice == 1:
                job.take(lane, random.randrange(1, 4))
            elif choice == 2:
                job.to_window_end(lane)
            elif choice == 3:
                job.take(lane, random.randrange(60))
        job.split(world)

    job.finish()


@settings(max_examples=20, deadline=None)
@given(
    SMALL_SIZES, BATCHES, st.lists(st.tuples(st.integers(0, 60), st.sampled_from([3, 5, 6, 8])), min_size=1, max_size=3)
)
def test_epochs_are_complete_across_rank_changes(n: int, batch: int, phases: list[tuple[int, int]]) -> None:
    order = an_order(n, 3, 40, lanes=8, turn=batch, apart=batch)
    job = Job(order)

    for batches, world in phases:
        for _ in range(batches):
            job.batch()
        job.split(world)
    for _ in range(3 * n // batch + 1):
        job.batch()

    for epoch in range(len(job.drawn_items) // n):
        assert Counter(job.drawn_items[epoch * n : (epoch + 1) * n]) == epoch_items(order, epoch)


@pytest.mark.parametrize("n", [400, 500, 1001, 6001])
def test_eight_lanes_split_for_6_then_12_then_1_then_5_ranks(n: int) -> None:
    job, random = Job(an_order(n, 3, 9, lanes=8)), Random(n)

    for world, lanes in ((6, 24), (12, 24), (1, 24), (5, 120)):
        for lane in range(len(job.geometry.lanes)):
            job.take(lane, random.randrange(40))
        job.split(world)
        assert len(job.geometry.lanes) == lanes

    job.finish()


def test_child_lanes_divide_open_window_and_rest() -> None:
    order = an_order(30_000, 10, 100, lanes=4)  # a lane has 7,500 samples per epoch
    whole = list(islice(items(order, Lane(1)), 7_500))

    first, second = (list(islice(items(order, Lane(1, (LaneSplit(130, 2, child),)), [130]), 4_000)) for child in (0, 1))

    assert first[:130] == whole[:130]
    assert [*first[130:165], *second[:35]] == [*whole[130:200:2], *whole[131:200:2]]
    remaining = set(whole[200:])
    assert set(first[165 : 165 + 3_650]) | set(second[35 : 35 + 3_650]) == remaining
    reads = [
        len(window.position_ranges())
        for window in islice(windows(order, Lane(1, (LaneSplit(130, 2, 1),)), [130]), 2, 12)
    ]
    assert max(reads) <= 12  # ten slices; the first and the last may partly belong to other windows


def test_window_is_independent_of_earlier_reads() -> None:
    order = an_order(20_000, 4, 40, lanes=8, turn=16, apart=16)
    for lane, taken in ((Lane(3), []), (Lane(3, (LaneSplit(77, 3, 2), LaneSplit(5, 2, 0))), [77, 5])):
        lane_order = LaneOrder(order, lane, taken)
        sequential = list(islice(windows(order, lane, taken), 120))

        for window in reversed(sequential):
            reread = lane_order.window(window.first_number + len(window.positions) // 2)
            assert reread.first_number == window.first_number
            assert reread.positions.tolist() == window.positions.tolist()
            assert reread.passes.tolist() == window.passes.tolist()


@settings(deadline=None)
@given(orders(), st.integers(0, 400))
def test_position_ranges_cover_window_positions_once(order: SourceOrder, first: int) -> None:
    for window in islice(windows(order, first=first), 8):
        rows = window.position_ranges().tolist()
        assert window.positions.dtype == window.passes.dtype == window.position_ranges().dtype == np.int64
        assert [i for start, stop in rows for i in range(start, stop)] == sorted(set(window.positions.tolist()))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, MAX_ELEMENTS // 8),
    st.integers(1, 300),
    st.integers(1, 3000),
    st.integers(-1, 1),
    st.integers(0, MAX_ELEMENTS // 16),
)
def test_far_windows_are_exact(n: int, slice_samples: int, window_samples: int, passes: int, taken: int) -> None:
    order = an_order(n, slice_samples, window_samples, passes=passes, lanes=8, turn=5)
    lane_order = LaneOrder(order, Lane(3))

    window = lane_order.window(taken)

    assert window.first_number <= taken < window.first_number + len(window.positions)
    after = lane_order.window(window.first_number + len(window.positions))
    if not order.is_direct:
        assert after.first_number == window.first_number + len(window.positions)
        if window.first_number:
            before = lane_order.window(window.first_number - 1)
            assert before.first_number + len(before.positions) == window.first_number


def test_unshuffled_draws_are_in_order_for_any_lanes() -> None:
    for lanes, turn in ((1, 1), (2, 3), (8, 4)):
        order = an_order(10, 3, 6, passes=0, lanes=lanes, turn=turn)
        assert [position for _, position in draw_items(order, 30)] == [*range(10)] * 3


def test_lane_order_may_start_at_epoch() -> None:
    order = an_order(2_000, 3, 30, lanes=4)
    orders = [LaneOrder(order, Lane(lane), epoch=5) for lane in range(4)]

    sizes = [each.first_epoch_samples() for each in orders]
    actual: list[Item] = []
    for each, size in zip(orders, sizes, strict=True):
        taken = 0
        while taken < size:
            window = each.window(taken)
            actual += zip(window.passes.tolist(), window.positions.tolist(), strict=True)
            taken += len(window.positions)

    assert sum(sizes) == 2_000
    assert Counter(actual) == epoch_items(order, 5)


def test_window_refuses_numbers_out_of_range() -> None:
    lane_order = LaneOrder(an_order(100, lanes=2), Lane(1))

    with pytest.raises(IndexError, match="count from 0"):
        lane_order.window(-1)
    with pytest.raises(IndexError, match="too far"):
        lane_order.window(MAX_ELEMENTS // 2 + 1)


def test_lane_order_refuses_mismatched_split_counts() -> None:
    with pytest.raises(ValueError, match="zip"):
        LaneOrder(an_order(10), Lane(0, (LaneSplit(1, 2, 0),)), [])
