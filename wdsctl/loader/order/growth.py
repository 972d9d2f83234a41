"""The order of a dataset that has grown: one order up to a draw at which an epoch ends, and another order after it.

Draws are counted from 0 over the whole job and all versions of the dataset, so lanes, turns and splits do not change. A
version ends with an epoch, so no window extends into the next version. Positions and passes of a version follow those
of the versions before it, so a sample has one position in each pass of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsctl.loader.order.shuffle import WITH_REPLACEMENT, ShuffledOrder


class VersionOrder(NamedTuple):
    """An order for draws [begin, end); None: endless. `positions_before`, `passes_before`: of earlier versions."""

    order: ShuffledOrder
    begin: int
    end: int | None
    positions_before: int
    passes_before: int


class GrownOrder:
    """Several orders in sequence. `ends`: the draws at which they end, except for the last one.

    Raises ValueError if a version does not end with an epoch of its order.
    """

    def __init__(self, orders: Sequence[ShuffledOrder], ends: Sequence[int]) -> None:
        self.versions = tuple(_version_orders(orders, ends))
        self.latest = latest = self.versions[-1].order
        # Of the last version, which the job reads from now on.
        self.n, self.passes, self.epoch_samples = latest.n, latest.passes, latest.epoch_samples
        self.lanes, self.turn_samples = latest.lanes, latest.turn_samples


SourceOrder = ShuffledOrder | GrownOrder


def version_orders(order: SourceOrder) -> tuple[VersionOrder, ...]:
    """The versions of any order: a single endless one, if the dataset has not grown."""
    return order.versions if isinstance(order, GrownOrder) else (VersionOrder(order, 0, None, 0, 0),)


def single_lane_order(order: SourceOrder) -> SourceOrder:
    """The order for a job of one lane, which distributes ranges of positions over ranks instead of lanes."""
    each = [replace(version.order, lanes=1, turn_samples=1, max_batch_samples=1) for version in version_orders(order)]
    return (
        GrownOrder(each, [version.end for version in version_orders(order) if version.end is not None])
        if len(each) > 1
        else each[0]
    )


def _version_orders(orders: Sequence[ShuffledOrder], ends: Sequence[int]) -> Iterator[VersionOrder]:
    begin = positions = passes = 0
    for order, end in zip(orders, [*ends, None], strict=True):
        yield VersionOrder(order, begin, end, positions, passes)
        if end is None:
            return
        if order.passes == WITH_REPLACEMENT or end <= begin or (end - begin) % order.epoch_samples:
            raise ValueError(f"no epoch of the order ends at draw {end}")
        positions += order.n
        passes += (end - begin) // order.n
        begin = end
