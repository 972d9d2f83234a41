"""Lanes over ranks. The stream of the whole job is a fixed list of lanes, and the world draws from them in turn.

World batch g comes from lane (g - base) mod L, where `base` is how many batches the world had drawn when this geometry
began. Ranks and workers only decide who runs a lane, so that every number of ranks that divides L sees the same stream
of global batches. Where it does not divide L, `split` makes more lanes of the same stream: nothing comes twice and
nothing is missed, though from there on the batches are others.

A lane is where it comes from: one of the lanes that the job began with (its root), and how it was cut since. What that
means in the order of each source follows from it (`legs.py`), so a job has one geometry, whatever its sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from wdsctl.core.errors import UsageError


class Cut(NamedTuple):
    """A lane was cut into so many `children` when it had taken `picks` references; this is the way of one `child`.

    Child 0 keeps what is open and goes on counting; the others begin with nothing, and count their picks from 0.
    """

    picks: int
    children: int
    child: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of the job's beginning, and the cuts that lead from it to this one."""

    root: int
    cuts: tuple[Cut, ...] = ()

    def name(self) -> tuple[int, ...]:
        """What tells this lane from all others of its job, past ones too: its keys are derived from it.

        The root, then number (from 0) and child of each cut that it was not child 0 of: child 0 keeps its parent's
        name, because it goes on with what its parent began.
        """
        branches = ((number, cut.child) for number, cut in enumerate(self.cuts) if cut.child)
        return (self.root, *(part for branch in branches for part in branch))


@dataclass(frozen=True, slots=True)
class Geometry:
    """`lanes` in the order of their turns; the first had its turn at world batch `base`."""

    base: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """The geometry that follows, and where its lanes come from.

    New lane i is a child of old lane `parents[i]`. The first `heirs` of them (as many as there were lanes) are the
    children 0, which take over whatever the old lane holds: its picks, open packs, leftovers. The rest begin with
    nothing.
    """

    geometry: Geometry
    parents: tuple[int, ...]
    heirs: int


def start(lanes: int) -> Geometry:
    """The geometry of a new job. Raises UsageError without lanes."""
    if lanes < 1:
        raise UsageError(f"a job has at least one lane, not {lanes}", hint="leave `lanes` out: 8 a rank by default")
    return Geometry(base=0, lanes=tuple(Lane(root) for root in range(lanes)))


def turns(geometry: Geometry, drawn: int, rank: int, world: int) -> tuple[int, ...]:
    """The lanes (indices into `geometry.lanes`) of a rank, in the order it draws from them, over and over.

    `drawn`: batches the world has drawn; this rank's next one is world batch `drawn + rank`. Raises UsageError for a
    rank outside the world, for a step before the geometry began, and where `world` does not divide the lanes: `split`
    first.
    """
    count = len(geometry.lanes)
    if not 0 <= rank < world:
        raise UsageError(f"there is no rank {rank} among {world}", hint="ranks count from 0; check rank and world size")
    if count % world:
        raise UsageError(
            f"{count} lanes cannot be dealt evenly to {world} ranks",
            hint=f"split them first, or start the job with lanes={count * _children(count, world)}",
        )
    turn = _turn(geometry, drawn) + rank
    return tuple((turn + step) % count for step in range(0, count, world))


def split(geometry: Geometry, picks: Sequence[int], drawn: int, world: int) -> Split:
    """Lanes enough for `world` ranks to run equally many, from where the job stands.

    Each lane is cut into k = world / gcd(world, lanes); where k is 1, lanes stay what they are. Turns begin anew: first
    all children 0, in their parents' turns from the one whose turn it is, then all children 1, and so on. `picks[i]`:
    how many references lane i has taken after `drawn` batches of the world. Raises UsageError unless there is one
    count a lane, and for a world without ranks.
    """
    count = len(geometry.lanes)
    if world < 1:
        raise UsageError(f"a world has at least one rank, not {world}", hint="check the world size")
    if len(picks) != count:
        raise UsageError(
            f"a split needs the picks of all {count} lanes, not of {len(picks)}",
            hint="merge the states of all ranks first",
        )
    children = _children(count, world)
    turn = _turn(geometry, drawn)
    order = tuple((turn + step) % count for step in range(count))
    lanes = tuple(_child(geometry.lanes[i], picks[i], child, children) for child in range(children) for i in order)
    return Split(geometry=Geometry(base=drawn, lanes=lanes), parents=order * children, heirs=count)


def _children(lanes: int, world: int) -> int:
    return world // gcd(world, lanes)


def _turn(geometry: Geometry, drawn: int) -> int:
    if drawn < geometry.base:
        raise UsageError(
            f"these lanes began at batch {geometry.base} of the world; {drawn} is before that",
            hint="take geometry and step from the same state",
        )
    return (drawn - geometry.base) % len(geometry.lanes)


def _child(lane: Lane, picks: int, child: int, children: int) -> Lane:
    return Lane(lane.root, (*lane.cuts, Cut(picks, children, child))) if children > 1 else lane
