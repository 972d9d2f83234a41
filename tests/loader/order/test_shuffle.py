"""Every sample once an epoch, any window at once, well mixed, and the same for ever."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive
from wdsctl.loader.order.permutation import permute
from wdsctl.loader.order.shuffle import ORDER_VERSION, Shuffled, slice_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def an_order(
    n: int, lanes: int = 1, slice_samples: int = 16, window_samples: int = 1000, *, seed: int = 0, shuffle: bool = True
) -> Shuffled:
    return Shuffled(
        n=n, lanes=lanes, slice_samples=slice_samples, window_samples=window_samples, seed=seed, shuffle=shuffle
    )


ORDERS = st.builds(
    an_order,
    st.integers(1, 200),
    st.integers(1, 12),
    st.integers(1, 20),
    st.integers(1, 60),
    seed=st.integers(0, 2**64 - 1),
    shuffle=st.booleans(),
)


def epoch_of_lane(order: Shuffled, lane: int, epoch: int) -> list[list[int]]:
    numbers = range(order.windows_before(lane, epoch), order.windows_before(lane, epoch + 1))
    return [order.window(lane, number).positions.tolist() for number in numbers]


def whole_epoch(order: Shuffled, epoch: int) -> list[int]:
    windows = [window for lane in range(order.lanes) for window in epoch_of_lane(order, lane, epoch)]
    return [position for window in windows for position in window]


def samples(order: Shuffled, lane: int) -> Iterator[int]:
    for number in count():
        yield from order.window(lane, number).positions.tolist()


def windows_by_definition(order: Shuffled, lane: int, epochs: int) -> list[tuple[int, list[int]]]:
    """(epoch, slices as they come) of each window, by dealing slice after slice."""
    slices = -(-order.n // order.slice_samples)
    width = max(1, order.window_samples // order.slice_samples)
    windows: list[tuple[int, list[int]]] = []
    for epoch in range(epochs):
        turns = [t - epoch * slices for t in range(lane, (epoch + 1) * slices, order.lanes) if t >= epoch * slices]
        if order.shuffle:
            turns = permute(np.array(turns, dtype=np.int64), slices, derive("slices", order.seed, epoch)).tolist()
        windows += [(epoch, turns[start : start + width]) for start in range(0, len(turns), width)]
    return windows


@pytest.mark.parametrize("n", [1, 7, 500, 20_000])
@pytest.mark.parametrize("lanes", [1, 8, 64])
@pytest.mark.parametrize(("slice_samples", "window_samples"), [(1, 1), (1, 100), (3, 10), (16, 1000), (128, 1000)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_sample_comes_once_an_epoch(
    n: int, lanes: int, slice_samples: int, window_samples: int, *, shuffle: bool
) -> None:
    # Windows of one sample each are tried where they are few.
    order = an_order(n, lanes, slice_samples, max(window_samples, n // 500), shuffle=shuffle)

    for epoch in (0, 1, 2, 10**9):
        assert sorted(whole_epoch(order, epoch)) == list(range(n))


@settings(deadline=None)
@given(ORDERS, st.data())
def test_windows_are_what_dealing_slice_by_slice_gives(order: Shuffled, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, order.lanes - 1))

    expected = windows_by_definition(order, lane, epochs=6)

    assert order.windows_before(lane, 6) == len(expected)
    for number, (epoch, slices) in enumerate(expected):
        starts = sorted(j * order.slice_samples for j in slices)
        ranges = [[start, min(start + order.slice_samples, order.n)] for start in starts]
        assert order.epoch_of(lane, number) == order.window(lane, number).epoch == epoch
        assert order.slices_of(lane, number).tolist() == ranges


@settings(deadline=None)
@given(ORDERS, st.data())
def test_a_window_holds_the_samples_of_its_slices(order: Shuffled, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, order.lanes - 1))
    number = data.draw(st.integers(0, 10**12))

    window, slices = order.window(lane, number), order.slices_of(lane, number)

    assert window.positions.dtype == slices.dtype == np.int64
    assert sorted(window.positions.tolist()) == [i for start, stop in slices.tolist() for i in range(start, stop)]
    assert 1 <= len(slices) <= order.window_slices


@settings(deadline=None)
@given(ORDERS, st.data())
def test_a_window_is_in_one_epoch_however_far(order: Shuffled, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, order.lanes - 1))
    number = data.draw(st.integers(0, 10**30))

    epoch = order.epoch_of(lane, number)

    assert order.windows_before(lane, epoch) <= number < order.windows_before(lane, epoch + 1)


@settings(deadline=None)
@given(ORDERS, st.data())
def test_windows_come_out_the_same_in_any_sequence(order: Shuffled, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, order.lanes - 1))
    in_turn = [order.window(lane, number).positions.tolist() for number in range(8)]
    again = an_order(
        order.n, order.lanes, order.slice_samples, order.window_samples, seed=order.seed, shuffle=order.shuffle
    )

    for number in data.draw(st.permutations(range(8))):
        assert again.window(lane, number).positions.tolist() == in_turn[number]


def test_lanes_without_a_slice_in_an_epoch_skip_it() -> None:
    order = an_order(3, lanes=8, slice_samples=1)

    epochs = [order.window(lane, 0).epoch for lane in range(8)]

    assert epochs == [0, 0, 0, 1, 1, 1, 2, 2]
    assert epoch_of_lane(order, 3, 0) == []
    assert [len(whole_epoch(order, epoch)) for epoch in range(20)] == [3] * 20


def test_lanes_are_level_over_time() -> None:
    order = an_order(1000, lanes=7, slice_samples=16, window_samples=16)

    before = [order.windows_before(lane, 10**6) for lane in range(7)]

    assert max(before) - min(before) <= 1


def test_epochs_differ_and_so_do_seeds() -> None:
    epochs = [tuple(whole_epoch(an_order(500, seed=seed), epoch)) for seed in range(4) for epoch in range(4)]

    assert len(set(epochs)) == 16


def test_one_seed_in_its_second_epoch_is_not_the_next_seed_in_its_first() -> None:
    assert whole_epoch(an_order(500, seed=1), 2) != whole_epoch(an_order(500, seed=2), 1)
    assert whole_epoch(an_order(500, seed=1), 1) != whole_epoch(an_order(500, seed=2), 0)


def test_windows_of_lanes_are_shuffled_unlike_each_other() -> None:
    order = an_order(64 * 16, lanes=2, slice_samples=512, window_samples=512)

    ways = {tuple((order.window(lane, number).positions % 512).tolist()) for lane in range(2) for number in range(10)}

    assert len(ways) == 20


def test_without_shuffling_positions_come_as_they_lie() -> None:
    one = an_order(10, slice_samples=3, window_samples=6, shuffle=False)
    two = an_order(10, lanes=2, slice_samples=3, window_samples=6, shuffle=False)

    assert list(islice(samples(one, 0), 20)) == [*range(10), *range(10)]
    assert list(islice(samples(two, 0), 10)) == [0, 1, 2, 6, 7, 8, 0, 1, 2, 6]
    assert list(islice(samples(two, 1), 8)) == [3, 4, 5, 9, 3, 4, 5, 9]


@pytest.mark.parametrize(
    ("n", "lanes", "wanted", "size"),
    [(10**6, 8, 16, 16), (1024, 8, 16, 16), (1023, 8, 16, 15), (500, 64, 16, 1), (1, 1, 16, 1), (10**6, 8, 1, 1)],
)
def test_slices_shrink_so_that_every_lane_has_eight(n: int, lanes: int, wanted: int, size: int) -> None:
    assert slice_size(n, lanes, wanted) == size


@pytest.mark.parametrize(
    ("n", "lanes", "slice_samples", "window_samples"),
    [(0, 1, 1, 1), (-1, 1, 1, 1), (2**62 + 1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)],
)
def test_an_order_that_cannot_be_is_refused(n: int, lanes: int, slice_samples: int, window_samples: int) -> None:
    with pytest.raises(UsageError) as caught:
        an_order(n, lanes, slice_samples, window_samples)

    assert caught.value.hint


@pytest.mark.parametrize(("lane", "number"), [(-1, 0), (2, 0), (0, -1)])
def test_there_are_no_windows_outside(lane: int, number: int) -> None:
    order = an_order(100, lanes=2)

    with pytest.raises(IndexError, match="there is no"):
        order.window(lane, number)
    with pytest.raises(IndexError, match="there is no"):
        order.slices_of(lane, number)
    with pytest.raises(IndexError, match="there is no"):
        order.epoch_of(lane, number)
    with pytest.raises(IndexError, match="there is no"):
        order.windows_before(lane, number)


GOLDEN = [
    (an_order(7, 1, 1, 4, seed=0), (0, 0), "6 2 5 4"),
    (
        an_order(500, 8, 7, 70, seed=1),
        (3, 0),
        "261 121 260 465 99 148 473 151 263 468 102 353 119 373 466 125 354 264 149 265",
    ),
    (
        an_order(500, 8, 7, 70, seed=1),
        (3, 5),
        "13 405 5 400 64 179 356 373 175 67 10 69 376 9 352 176 402 8 351 181",
    ),
    (
        an_order(20_000, 8, 16, 1000, seed=42),
        (0, 0),
        "18162 7901 9468 16793 5663 16145 18170 18110 15824 15324 12349 4836 335 7701 13433 7157 4107 7164 16127 11462",
    ),
    (
        an_order(20_000, 64, 16, 1000, seed=42),
        (63, 10**12),
        "19434 7498 4961 16239 16224 8146 15567 15706 16238 5229 4969 3525 14638 8149 4965 8680 8153 5222 17641 3682",
    ),
    (
        an_order(10**9, 8, 128, 1000, seed=2**64 - 1),
        (7, 123_456),
        (
            "966178854 177571968 511117876 511117835 57546206 433729649 57546162 536750438 177572008 57546205 "
            "210519785 433729562 210519771 210519743 433729631 966178911 433729588 177572031 57546216 57546239"
        ),
    ),
]


@pytest.mark.parametrize(("order", "place", "first"), GOLDEN)
def test_orders_never_change(order: Shuffled, place: tuple[int, int], first: str) -> None:
    assert ORDER_VERSION == 1
    assert " ".join(map(str, order.window(*place).positions[:20])) == first


# How well it mixes: 100 shards of 1000 samples each, as most users have them.

SHARD = 1000
MIXED = an_order(100_000, lanes=8, slice_samples=16, window_samples=1000, seed=derive("quality"))


def stream(lane: int, length: int) -> NDArray[np.int64]:
    return np.array(list(islice(samples(MIXED, lane), length)))


def test_consecutive_samples_are_as_far_apart_as_random_ones() -> None:
    steps = np.concatenate([np.abs(np.diff(stream(lane, 5000))) for lane in range(8)])

    assert 0.95 < steps.mean() / (MIXED.n / 3) < 1.05
    # Of the 15 others in its slice, one follows a sample by chance once in 66 times (62 slices a window).
    assert 0.5 / 66 < np.mean(steps < 16) < 2 / 66


def test_a_batch_holds_samples_of_nearly_as_many_shards_as_its_window_has_slices() -> None:
    batches = np.concatenate([stream(lane, 256 * 12).reshape(12, 256) for lane in range(8)])

    shards = [len(set((batch // SHARD).tolist())) for batch in batches]

    # 62 slices drawn from 100 shards are in 46 of them on average; 256 independent samples would be in 92.
    assert np.mean(shards) > 43
    assert min(shards) > 30


def test_a_round_of_all_lanes_covers_the_shards() -> None:
    together = np.concatenate([stream(lane, 32) for lane in range(8)])

    assert len(set((together // SHARD).tolist())) > 80


def test_first_samples_of_epochs_are_spread_over_the_source() -> None:
    order = an_order(100_000, slice_samples=1, window_samples=1)

    firsts = [int(order.window(0, epoch * 100_000).positions[0]) for epoch in range(400)]

    counts = np.bincount(np.array(firsts) // 10_000, minlength=10)
    assert ((counts - 40) ** 2 / 40).sum() < 9 + 5 * np.sqrt(18)


# Cost, by counting: work and memory of a window, not seconds.


def calls_and_bytes(order: Shuffled, lane: int, number: int) -> tuple[int, int]:
    """Calls made and bytes held at the peak while a window is made for the first time."""
    calls = 0

    def on_event(_frame: object, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    tracemalloc.start()
    sys.setprofile(on_event)
    try:
        order.window(lane, number)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, peak


@pytest.mark.parametrize("n", [10**4, 10**6, 10**9, 10**15])
@pytest.mark.parametrize("number", [0, 10**6, 10**12])
def test_a_window_costs_the_same_in_any_source_and_at_any_place(n: int, number: int) -> None:
    calls, peak = calls_and_bytes(an_order(n, lanes=8, seed=derive("cost", n, number)), 3, number)

    assert calls < 250
    assert peak < 100_000
