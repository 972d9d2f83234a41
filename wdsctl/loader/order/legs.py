"""What a lane reads of one order: its legs. Nothing is passed on at a cut but how many samples had been taken.

A lane that was never cut has one leg without end: root l of L reads slots l, l + L, l + 2L, ... Where it is cut into k,
the window that is open stays with child 0, and the slices after it are dealt: child c gets slices j + c, j + c + k, ...
of the lane's strand, j being where the open window ends. So child 0 first finishes its leg, which ends there, and then
begins another; the other children begin with theirs. Each slot is in the legs of exactly one lane, before a cut and
after it, which is why nothing comes twice and nothing is missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wdsctl.loader.order.eras import Eras
from wdsctl.loader.order.shuffle import Shuffled, Strand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wdsctl.loader.order.geometry import Lane


Order = Shuffled | Eras


class Leg(NamedTuple):
    """A stretch of a lane: the first `samples` samples of a strand (more than 0); None is without end."""

    strand: Strand
    samples: int | None


def legs(order: Order, lane: Lane, lanes: int, taken: Sequence[int], first: int = 0) -> tuple[Leg, ...]:
    """The legs of a lane in this order, the last one without end. `lanes`: how many the job began with. `taken[i]`: how
    many samples of this order had been taken at cut i by the lane that was cut, in its own count. `first`: the slot
    where the job begins.

    Some 60 µs a cut, 10 where no slice is short. Raises ValueError unless there is one count a cut.
    """
    done: list[Leg] = []
    last = Strand(first + lane.root, lanes)
    for cut, count in zip(lane.cuts, taken, strict=True):
        before = sum(leg.samples or 0 for leg in done)
        end = _open_end(order, last, count - before)
        if end:
            done.append(Leg(last, order.samples_before(last, end)))
        last = Strand(last.first + (end + cut.child) * last.step, last.step * cut.children)
        if cut.child:
            done = []
    return (*done, Leg(last, None))


def place(order: Order, legs: Sequence[Leg], taken: int) -> tuple[int, int, int]:
    """Where the lane's sample number `taken` (from 0) of this order is: the leg, the slice of its strand where its
    window begins, and how many samples of that window come before it. Some 25 µs, 3 where no slice is short.

    Raises IndexError past the last leg, which legs without end do not have.
    """
    for index, (strand, samples) in enumerate(legs):
        if samples is None or taken < samples:
            return (index, *order.find(strand, taken))
        taken -= samples
    raise IndexError(f"these legs end {taken} samples before this one")


def _open_end(order: Order, strand: Strand, taken: int) -> int:
    """How many slices of a strand are dealt out when so many of its samples are taken: those up to the end of the open
    window. None where the lane has not come to this strand yet: then an earlier leg holds the open window."""
    if taken <= 0:
        return 0
    start, at = order.find(strand, taken)
    return order.end_of(strand, start) if at else start
