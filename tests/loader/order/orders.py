"""Orders and the samples that their lanes draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from wdsctl.loader.lanes.lane_order import LaneOrder, SampleWindow
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.growth import SourceOrder
from wdsctl.loader.order.shuffle import ShuffledOrder

Item = tuple[int, int]  # pass, position


def an_order(
    n: int,
    slice_samples: int = 16,
    window_samples: int = 1000,
    *,
    seed: int = 0,
    passes: int = 1,
    lanes: int = 1,
    turn: int = 1,
    apart: int = 1,
) -> ShuffledOrder:
    return ShuffledOrder(
        n=n,
        slice_samples=slice_samples,
        window_samples=window_samples,
        seed=seed,
        passes=passes,
        lanes=lanes,
        turn_samples=turn,
        max_batch_samples=apart,
    )


def windows(
    order: SourceOrder, lane: Lane | None = None, taken: Sequence[int] = (), first: int = 0
) -> Iterator[SampleWindow]:
    """The windows of a lane from its sample `first` on, endlessly."""
    lane_order = LaneOrder(order, lane or Lane(0), taken)
    while True:
        window = lane_order.window(first)
        yield window
        first = window.first_number + len(window.positions)


def items(order: SourceOrder, lane: Lane | None = None, taken: Sequence[int] = (), first: int = 0) -> Iterator[Item]:
    """(pass, position) of the samples of a lane from its sample `first` on, endlessly."""
    for window in windows(order, lane, taken, first):
        pairs = zip(window.passes.tolist(), window.positions.tolist(), strict=True)
        yield from islice(pairs, max(0, first - window.first_number), None)


def draw_items(order: ShuffledOrder, draws: int) -> list[Item]:
    """The first draws of a job, lane after lane."""
    streams = [items(order, Lane(lane)) for lane in range(order.lanes)]
    pairs: list[Item] = []
    while len(pairs) < draws:
        pairs += islice(streams[len(pairs) // order.turn_samples % order.lanes], order.turn_samples)
    return pairs[:draws]
