"""The order of a dataset that has grown: one order up to a draw where an epoch ends, and from there on another.

Draws are those of the whole job, counted from 0 over all eras, so lanes, turns and cuts are what they were. Eras end
where an epoch does, so no window reaches into the next. Positions of an era come after those of the eras before, and so
do passes: a sample of a pass of the job has one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wdsctl.loader.order.shuffle import WITH_REPLACEMENT, Shuffled


class Era(NamedTuple):
    """An order from draw `begin` to `end` (None: without end). `positions`, `passes`: how many came before it."""

    order: Shuffled
    begin: int
    end: int | None
    positions: int
    passes: int


class Eras:
    """Several orders one after the other. `ends`: the draws at which all but the last one end.

    Raises ValueError where an era does not end with an epoch of its order.
    """

    def __init__(self, orders: Sequence[Shuffled], ends: Sequence[int]) -> None:
        self.eras = tuple(_eras(orders, ends))
        self.latest = latest = self.eras[-1].order
        # Of the last one, which is what the job has to do with from now on.
        self.n, self.passes, self.epoch_samples = latest.n, latest.passes, latest.epoch_samples
        self.lanes, self.turn = latest.lanes, latest.turn


Order = Shuffled | Eras


def eras_of(order: Order) -> tuple[Era, ...]:
    """The eras of any order: one without end, where the dataset has not grown."""
    return order.eras if isinstance(order, Eras) else (Era(order, 0, None, 0, 0),)


def as_one_lane(order: Order) -> Order:
    """The same samples for a job of one lane, whose runs are dealt to ranks instead."""
    each = [replace(era.order, lanes=1, turn=1, apart=1) for era in eras_of(order)]
    return Eras(each, [era.end for era in eras_of(order) if era.end is not None]) if len(each) > 1 else each[0]


def _eras(orders: Sequence[Shuffled], ends: Sequence[int]) -> Iterator[Era]:
    begin = positions = passes = 0
    for order, end in zip(orders, [*ends, None], strict=True):
        yield Era(order, begin, end, positions, passes)
        if end is None:
            return
        if order.passes == WITH_REPLACEMENT or end <= begin or (end - begin) % order.epoch_samples:
            raise ValueError(f"no epoch of the order ends at draw {end}")
        positions += order.n
        passes += (end - begin) // order.n
        begin = end
