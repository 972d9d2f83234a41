"""Lanes over ranks. The stream of the whole job is a fixed list of lanes, and the world draws from them in turn.

Batch n of lane l is batch base + n L + l of the world, where `base` is how many batches the world had drawn when this
geometry began. A rank always draws, of the batches that its lanes still have, the one with the lowest number. Ranks and
workers only decide who runs a lane, so that every number of ranks that divides L sees the same stream of global
batches. Where it does not divide L, `split` makes more lanes of the same stream: nothing comes twice and nothing is
missed, though from there on the batches are others.

In a finite pass lanes end one after another. The numbers that an ended lane would have had are not given to others: the
batches of a pass and their order, by number, do not depend on who runs which lane.

A lane is where it comes from: one of the lanes that the job began with (its root), and how it was cut since. What that
means in the order of each source follows from it (`legs.py`), so a job has one geometry, whatever its sources.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
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


class Turn(NamedTuple):
    """`lane`: an index into the geometry's lanes. `number`: of the batch that it draws, in the whole job."""

    lane: int
    number: int


class Level(NamedTuple):
    """From turn `first` on, `lanes` draw one after the other, beginning with batch `round` of each."""

    first: int
    round: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a rank's lanes, without end: whoever has had fewest comes next, of several the first.

    `lanes`: in the order in which they have their first turns here. `taken`: turns that each has had before.
    """

    lanes: tuple[int, ...]
    taken: Mapping[int, int]
    levels: tuple[Level, ...]
    base: int
    count: int  # lanes of the whole job

    @property
    def before(self) -> int:
        """Turns that the lanes have had before, together."""
        return sum(self.taken.values())

    def at(self, turn: int) -> Turn:
        """Turn number `turn`, counted from 0 where these begin."""
        level = self.levels[bisect_right(self.levels, turn, key=_first) - 1]
        rounds, place = divmod(turn - level.first, len(level.lanes))
        lane = level.lanes[place]
        return Turn(lane, self.base + (level.round + rounds) * self.count + lane)


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


def turns(geometry: Geometry, drawn: int, rank: int, world: int) -> Turns:
    """The turns of a rank in a stream without end.

    `drawn`: batches the world has drawn; this rank's next one is world batch `drawn + rank`. Raises UsageError for a
    rank outside the world, for a step before the geometry began, and where `world` does not divide the lanes: `split`
    first.
    """
    count = len(geometry.lanes)
    _check_rank(rank, world)
    if count % world:
        raise UsageError(
            f"{count} lanes cannot be dealt evenly to {world} ranks",
            hint=f"split them first, or start the job with lanes={count * _children(count, world)}",
        )
    _turn(geometry, drawn)
    first = drawn - geometry.base + rank
    return _turns_of(geometry, {number % count: number // count for number in range(first, first + count, world)})


def turns_of_pass(geometry: Geometry, taken: Mapping[int, int], rank: int, world: int) -> Turns:
    """The turns of a rank in a finite pass: of lanes rank, rank + world, and so on, each of them whole, which may be
    fewer than another rank has, or none.

    `taken`: turns that lanes have had; those that are not named have had none. Raises UsageError for a rank outside
    the world.
    """
    _check_rank(rank, world)
    return _turns_of(geometry, {lane: taken.get(lane, 0) for lane in range(rank, len(geometry.lanes), world)})


def next_number(geometry: Geometry, taken: Mapping[int, int]) -> int:
    """The number after that of the last turn that any lane of a finite pass has had."""
    count = len(geometry.lanes)
    last = max(((turn - 1) * count + lane for lane, turn in taken.items() if turn), default=-1)
    return geometry.base + last + 1


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


def _first(level: Level) -> int:
    return level.first


def _turns_of(geometry: Geometry, taken: Mapping[int, int]) -> Turns:
    """All lanes that have had equally few turns take them, round after round, until others are no further."""
    levels: list[Level] = []
    first = 0
    for number in sorted({*taken.values()}):
        if levels:
            first += (number - levels[-1].round) * len(levels[-1].lanes)
        levels.append(Level(first, number, tuple(sorted(lane for lane, turn in taken.items() if turn <= number))))
    lanes = tuple(sorted(taken, key=lambda lane: (taken[lane], lane)))
    return Turns(lanes, taken, tuple(levels), geometry.base, len(geometry.lanes))


def _check_rank(rank: int, world: int) -> None:
    if not 0 <= rank < world:
        raise UsageError(f"there is no rank {rank} among {world}", hint="ranks count from 0; check rank and world size")


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
