"""How well ShuffledOrder mixes, and the cost of a window."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.loader.order.orders import an_order, windows
from wdsctl.core.hashing import derive_seed
from wdsctl.loader.lanes.lane_order import LaneOrder
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.shuffle import ShuffledOrder

# 100 shards of 1000 samples each, a common layout.
SHARD = 1000
MIXED = an_order(
    100_000, slice_samples=16, window_samples=1000, seed=derive_seed("quality"), lanes=8, turn=32, apart=32
)


def stream(lane: int, length: int) -> NDArray[np.int64]:
    parts = [window.positions for window in islice(windows(MIXED, Lane(lane)), length // 400 + 2)]
    return np.concatenate(parts)[:length]


def test_consecutive_samples_are_as_distant_as_random_ones() -> None:
    steps = np.concatenate([np.abs(np.diff(stream(lane, 5000))) for lane in range(8)])

    assert 0.95 < steps.mean() / (MIXED.n / 3) < 1.05
    # Of the 15 others in its slice, one follows a sample by chance once in 66 times (62 slices a window).
    assert 0.5 / 66 < np.mean(steps < 16) < 2 / 66


def test_batch_contains_nearly_as_many_shards_as_window_slices() -> None:
    batches = np.concatenate([stream(lane, 256 * 12).reshape(12, 256) for lane in range(8)])

    shards = [len(set((batch // SHARD).tolist())) for batch in batches]

    # 62 slices drawn from 100 shards are in 46 of them on average; 256 independent samples would be in 92.
    assert np.mean(shards) > 43
    assert min(shards) > 30


def test_one_round_of_lanes_covers_most_shards() -> None:
    round_positions = np.concatenate([stream(lane, 32) for lane in range(8)])

    assert len(set((round_positions // SHARD).tolist())) > 80


def test_first_samples_of_epochs_are_uniform_over_source() -> None:
    order = an_order(100_000, slice_samples=1, window_samples=1)

    firsts = [int(order.window(epoch, 0, 1).positions[0]) for epoch in range(400)]

    counts = np.bincount(np.array(firsts) // 10_000, minlength=10)
    assert ((counts - 40) ** 2 / 40).sum() < 9 + 5 * np.sqrt(18)


# Cost, as counted calls and memory of a window, not seconds.


def calls_and_bytes(order: ShuffledOrder, lane: Lane, taken: int) -> tuple[int, int]:
    """The number of calls and the peak memory while a window is built for the first time."""
    calls = 0

    def on_event(_frame: object, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    tracemalloc.start()
    sys.setprofile(on_event)
    try:
        LaneOrder(order, lane).window(taken)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize("n", [10**4, 10**6 + 1, 10**9, 10**15 + 1])
@pytest.mark.parametrize("taken", [1, 10**9, 10**15])
@pytest.mark.parametrize("passes", [1, 4, -1])
def test_window_cost_is_independent_of_size_and_position(n: int, taken: int, passes: int) -> None:
    order = an_order(n, seed=derive_seed("cost", n, taken), passes=passes, lanes=8, turn=32, apart=32)

    calls, peak = calls_and_bytes(order, Lane(3), taken)

    assert calls < 800
    assert peak < 120_000
