"""Lanes over ranks. The stream of the whole job is a fixed list of lanes, and the world draws from them in turn.

World batch g comes from lane (g - base) mod L, where `base` is how many batches the world had drawn when this geometry
began. Ranks and workers only decide who runs a lane, so that every number of ranks that divides L sees the same stream
of global batches. Where it does not divide L, `split` makes more lanes of the same stream: nothing comes twice and
nothing is missed, though from there on the batches are others.

A lane opens windows of one of the lanes that the job began with (its root), every stride-th of them. Where a job has
several sources, each has cursors and hence a geometry of its own; turns depend on no cursor, so the geometries of all
sources have the same turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from wdsctl.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Lane:
    """Opens windows first, first + stride, first + 2 * stride, ... of lane `root` of the order."""

    root: int
    first: int
    stride: int

    def window(self, opened: int) -> int:
        """The number, in the root's count, of the window that this lane opens when it has opened so many."""
        return self.first + opened * self.stride


@dataclass(frozen=True, slots=True)
class Position:
    """Where a lane's cursor is in its order.

    `window`: the open window's number in the root's count, None before the first. `at`: how many of its samples are
    taken. `next`: how many windows this lane has opened; the next one is `lane.window(next)`.
    """

    window: int | None = None
    at: int = 0
    next: int = 0


START = Position()


@dataclass(frozen=True, slots=True)
class Geometry:
    """`lanes` in the order of their turns; the first had its turn at world batch `base`."""

    base: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """The geometry that follows, and where its lanes come from.

    New lane i is a child of old lane `parents[i]`. The first `heirs` of them (as many as there were lanes) are the
    children 0, which take over whatever the old lane's cursors hold: the open window, open packs, leftovers. The rest
    begin with nothing. `positions[i]` is where new lane i stands.
    """

    geometry: Geometry
    parents: tuple[int, ...]
    heirs: int
    positions: tuple[Position, ...]


def start(lanes: int) -> Geometry:
    """The geometry of a new job. Raises UsageError without lanes."""
    if lanes < 1:
        raise UsageError(f"a job has at least one lane, not {lanes}", hint="Leave `lanes` out: 8 a rank by default.")
    return Geometry(base=0, lanes=tuple(Lane(root, 0, 1) for root in range(lanes)))


def turns(geometry: Geometry, drawn: int, rank: int, world: int) -> tuple[int, ...]:
    """The lanes (indices into `geometry.lanes`) of a rank, in the order it draws from them, over and over.

    `drawn`: batches the world has drawn; this rank's next one is world batch `drawn + rank`. Raises UsageError for a
    rank outside the world, for a step before the geometry began, and where `world` does not divide the lanes: `split`
    first.
    """
    count = len(geometry.lanes)
    if not 0 <= rank < world:
        raise UsageError(
            f"there is no rank {rank} among {world}", hint="Ranks count from 0; check rank and world size."
        )
    if count % world:
        raise UsageError(
            f"{count} lanes cannot be dealt evenly to {world} ranks",
            hint=f"Split them first, or start the job with lanes={count * _children(count, world)}.",
        )
    turn = _turn(geometry, drawn) + rank
    return tuple((turn + step) % count for step in range(0, count, world))


def split(geometry: Geometry, cursors: Sequence[Position], drawn: int, world: int) -> Split:
    """Lanes enough for `world` ranks to run equally many, from where the job stands.

    Each lane is split by k = world / gcd(world, lanes); k may be 1. Child c takes windows c, c + k, c + 2k, ... of
    those that its parent has not opened. Turns begin anew: first all children 0, in their parents' turns from the one
    whose turn it is, then all children 1, and so on. `cursors[i]`: where lane i stands after `drawn` batches of the
    world. Raises UsageError unless there is one cursor a lane, and for a world without ranks.
    """
    count = len(geometry.lanes)
    if world < 1:
        raise UsageError(f"a world has at least one rank, not {world}", hint="Check the world size.")
    if len(cursors) != count:
        raise UsageError(
            f"a split needs the cursors of all {count} lanes, not of {len(cursors)}",
            hint="Merge the states of all ranks first.",
        )
    children = _children(count, world)
    turn = _turn(geometry, drawn)
    order = tuple((turn + step) % count for step in range(count))
    lanes = tuple(_child(geometry.lanes[i], cursors[i], c, children) for c in range(children) for i in order)
    heirs = tuple(Position(cursors[i].window, cursors[i].at) for i in order)
    return Split(
        geometry=Geometry(base=drawn, lanes=lanes),
        parents=order * children,
        heirs=count,
        positions=heirs + (START,) * (count * (children - 1)),
    )


def _children(lanes: int, world: int) -> int:
    return world // gcd(world, lanes)


def _turn(geometry: Geometry, drawn: int) -> int:
    if drawn < geometry.base:
        raise UsageError(
            f"these lanes began at batch {geometry.base} of the world; {drawn} is before that",
            hint="Take geometry and step from the same state.",
        )
    return (drawn - geometry.base) % len(geometry.lanes)


def _child(lane: Lane, cursor: Position, child: int, children: int) -> Lane:
    return Lane(lane.root, lane.window(cursor.next + child), lane.stride * children)
