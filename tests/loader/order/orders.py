"""Orders, and what lanes draw of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from wdsctl.loader.order.eras import Order
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.lane_order import LaneOrder, Window
from wdsctl.loader.order.shuffle import Shuffled

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
) -> Shuffled:
    return Shuffled(
        n=n,
        slice_samples=slice_samples,
        window_samples=window_samples,
        seed=seed,
        passes=passes,
        lanes=lanes,
        turn=turn,
        apart=apart,
    )


def windows(order: Order, lane: Lane | None = None, taken: Sequence[int] = (), first: int = 0) -> Iterator[Window]:
    """The windows of a lane from its sample `first` on, without end."""
    mine = LaneOrder(order, lane or Lane(0), taken)
    while True:
        window = mine.window(first)
        yield window
        first = window.first + len(window.positions)


def items(order: Order, lane: Lane | None = None, taken: Sequence[int] = (), first: int = 0) -> Iterator[Item]:
    """(pass, position) of the samples of a lane from its sample `first` on, without end."""
    for window in windows(order, lane, taken, first):
        found = zip(window.passes.tolist(), window.positions.tolist(), strict=True)
        yield from islice(found, max(0, first - window.first), None)


def drawn(order: Shuffled, draws: int) -> list[Item]:
    """The first draws of a job whose lanes take turns."""
    streams = [items(order, Lane(lane)) for lane in range(order.lanes)]
    found: list[Item] = []
    while len(found) < draws:
        found += islice(streams[len(found) // order.turn % order.lanes], order.turn)
    return found[:draws]
