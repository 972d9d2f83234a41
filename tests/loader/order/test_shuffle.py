"""ShuffledOrder: every sample once per epoch, direct access to any window, and stable across versions."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.order.orders import an_order, items, windows
from wdsctl.core.errors import UsageError
from wdsctl.core.hashing import MASK_64
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.rank_lanes import Lane, LaneSplit
from wdsctl.loader.order.shuffle import ORDER_VERSION, ShuffledOrder, slice_size

GOLDEN = Path(__file__).parents[2] / "golden" / "order-v1.json"
# Large enough for windows, which smaller data does not have.
ORDERS = st.builds(
    an_order,
    st.integers(64, 400),
    st.integers(1, 20),
    st.integers(1, 60),
    seed=st.integers(0, MASK_64),
    passes=st.integers(-1, 4).filter(bool),
)


def epoch_of(order: ShuffledOrder, epoch: int, edges: list[int]) -> list[tuple[int, int]]:
    """(pass, position) of an epoch, read in windows between these offsets."""
    actual: list[tuple[int, int]] = []
    for start, stop in pairwise(edges):
        window = order.window(epoch, start, stop)
        assert len(window.positions) == len(window.passes) == stop - start
        actual += zip(window.passes.tolist(), window.positions.tolist(), strict=True)
    return actual


@settings(max_examples=150, deadline=None)
@given(
    ORDERS.filter(lambda order: order.passes > 0), st.integers(0, 10**12), st.lists(st.integers(0, MASK_64), max_size=9)
)
def test_windows_partition_epoch_at_any_offsets(order: ShuffledOrder, epoch: int, cuts: list[int]) -> None:
    edges = sorted({0, order.epoch_samples, *(cut % order.epoch_samples for cut in cuts)})

    actual = Counter(epoch_of(order, epoch, edges))

    assert actual == Counter(
        (epoch * order.passes + number, position) for number in range(order.passes) for position in range(order.n)
    )


@settings(max_examples=100, deadline=None)
@given(ORDERS, st.integers(0, 10**6), st.integers(0, MASK_64), st.integers(1, 60))
def test_window_consists_of_whole_slices_except_ends(order: ShuffledOrder, epoch: int, start: int, size: int) -> None:
    start %= order.epoch_samples
    stop = min(order.epoch_samples, start + size)

    window = order.window(epoch, start, stop)

    actual = list(zip(window.passes.tolist(), (window.positions // order.size).tolist(), strict=True))
    # All slices are whole, except the first, the last and the short one.
    partial = sum(1 for count in Counter(actual).values() if count < order.size)
    assert partial <= 2 + max(1, order.passes)


def test_passes_shuffled_together_are_mixed_within_window() -> None:
    order = an_order(1000, 10, 100, passes=4)

    first = order.window(0, 0, 1000).passes

    assert (np.bincount(first, minlength=4) > 100).all()


@pytest.mark.parametrize("n", [10_000, 9_993])
def test_epoch_with_replacement_covers_expected_share_of_slices(n: int) -> None:
    order = an_order(n, 10, 100, seed=3, passes=-1)

    epochs = [set((order.window(epoch, 0, order.epoch_samples).positions // 10).tolist()) for epoch in range(20)]

    # 1 - 1/e of a thousand slices, within five standard deviations of the mean of twenty epochs.
    share = np.mean([len(each) for each in epochs]) / order.full_slices_per_pass
    assert abs(share - (1 - np.exp(-1))) < 0.011
    assert len(set().union(*epochs)) == order.full_slices_per_pass


def test_small_data_with_replacement_is_drawn_per_sample() -> None:
    actual = [position for _, position in islice(items(an_order(50, 4, 100, passes=-1)), 5_000)]

    assert set(actual) == set(range(50))
    assert max(Counter(actual).values()) < 160


def test_orders_differ_by_epoch_and_seed() -> None:
    orders = {
        tuple(an_order(500, seed=seed, passes=passes).window(epoch, 0, 400).positions.tolist())
        for seed in range(4)
        for passes in (-1, 1)
        for epoch in range(4)
    }

    assert len(orders) == 4 * 2 * 4


def test_second_epoch_differs_from_first_epoch_of_next_seed() -> None:
    one, next_one = an_order(512, seed=1), an_order(512, seed=2)

    assert one.window(1, 0, 512).positions.tolist() != next_one.window(0, 0, 512).positions.tolist()


@pytest.mark.parametrize(
    ("n", "lanes", "requested", "size"),
    [(10**6, 8, 16, 16), (1024, 8, 16, 16), (1023, 8, 16, 15), (500, 64, 16, 1), (1, 1, 16, 1), (10**6, 8, 1, 1)],
)
def test_slice_size_leaves_eight_slices_per_lane(n: int, lanes: int, requested: int, size: int) -> None:
    assert slice_size(n, lanes, requested) == size


@pytest.mark.parametrize(
    ("n", "slice_samples", "window_samples", "passes"),
    [(0, 1, 1, 1), (-1, 1, 1, 1), (2**62 + 1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, -2), (2**61, 1, 1, 3)],
)
def test_shuffled_order_refuses_invalid_arguments(n: int, slice_samples: int, window_samples: int, passes: int) -> None:
    with pytest.raises(UsageError) as caught:
        an_order(n, slice_samples, window_samples, passes=passes)

    assert caught.value.hint


def golden_windows() -> list[dict[str, Any]]:
    """The contents of the golden file. To rewrite it: `python -m tests.loader.order.test_shuffle`."""
    cut = Lane(3, (LaneSplit(100, 3, 2), LaneSplit(10, 2, 0)))
    places = [
        (an_order(7, 1, 4, turn=2, apart=2), Lane(0), 0),
        (an_order(48, lanes=8, turn=16, apart=16), Lane(5), 10**9 + 7),
        (an_order(5000, 7, 70, seed=1, lanes=8, turn=16, apart=16), Lane(3), 0),
        (an_order(5000, 7, 70, seed=1, lanes=8, turn=16, apart=16), Lane(3), 10**12 + 7),
        (an_order(5000, 7, 70, seed=1, lanes=8, turn=16, apart=16), cut, 30),
        (an_order(5000, 7, 70, seed=1, lanes=8, turn=16, apart=16), cut, 10**9),
        (an_order(5000, 7, 70, seed=1, lanes=24, passes=3), Lane(5), 1000),
        (an_order(5000, 7, 70, seed=1, lanes=8, turn=7, passes=0), Lane(3), 100),
        (an_order(5000, 7, 70, seed=1, lanes=8, passes=-1), Lane(3), 10**12),
        (an_order(20_000, 16, 1000, seed=42, lanes=64), Lane(63), 10**12),
        (an_order(10**9, 128, 1000, seed=2**64 - 1, lanes=8, turn=32, apart=32), Lane(7), 0),
        (an_order(10**9 + 1, 16, 1000, seed=5, lanes=8, turn=32, apart=32), Lane(7), 62 * 10**12),
    ]
    return [a_golden_window(*place) for place in places]


def a_golden_window(order: ShuffledOrder, lane: Lane, near: int) -> dict[str, Any]:
    taken = [cut.draws for cut in lane.splits]
    window = LaneOrder(order, lane, taken).window(near)
    return {
        "order": [
            order.n, order.slice_samples, order.window_samples, order.seed, order.passes, order.lanes,
            order.turn_samples,
            order.max_batch_samples,
        ],
        "lane": [lane.root, [list(cut) for cut in lane.splits]],
        "number": near,
        "positions": window.positions[near - window.first_number :][:12].tolist(),
        "passes": window.passes[near - window.first_number :][:12].tolist(),
    }  # fmt: skip


def test_windows_match_golden_file() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))

    assert golden["order_version"] == ORDER_VERSION
    assert golden_windows() == golden["windows"]


def test_windows_are_shuffled_differently() -> None:
    order = an_order(64 * 16, slice_samples=512, window_samples=512)

    orders = {tuple((window.positions % 512).tolist()) for window in islice(windows(order), 20)}

    assert len(orders) == 20


if __name__ == "__main__":
    text = json.dumps({"order_version": ORDER_VERSION, "windows": golden_windows()}, indent=1)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
