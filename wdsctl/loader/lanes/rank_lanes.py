"""Distributes lanes over ranks. The stream of a job is a fixed list of L lanes, and the world draws from them in turn.

Batch n of lane l is batch `first_batch` + n L + l of the world, where `first_batch` is the number of batches that the
world had drawn when this layout began. A rank always draws the remaining batch of its lanes with the lowest number.
Ranks and workers only determine which process runs a lane, so every number of ranks that divides L sees the same stream
of global batches. For other numbers of ranks, `split_lanes` divides the stream into more lanes: no sample is repeated
or lost, but later batches differ.

In a finite pass, lanes end at different times. The batch numbers of an ended lane stay unused, so the batches of a pass
and their order, by number, do not depend on the distribution of lanes.

A lane is defined by its origin: one of the lanes with which the job began (its root), and the splits since then. Its
samples in the order of each source follow from the origin (`lane_order.py`), so a job has one layout for all sources.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.errors import UsageError
from wdsctl.core.lanes import children_per_lane, fits_ranks, lanes_of_rank, pass_lanes_of_rank


class LaneSplit(NamedTuple):
    """A split of a lane into `children` lanes after `draws` references, seen from child `child`.

    Child 0 keeps what the lane had buffered, and continues its count of draws. The other children begin empty, and
    count their draws from 0.
    """

    draws: int
    children: int
    child: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A root lane of the job, and the splits that lead from it to this one."""

    root: int
    splits: tuple[LaneSplit, ...] = ()

    def identity(self) -> tuple[int, ...]:
        """The identity of this lane among all present and past lanes of its job, from which its seeds are derived.

        The root, then number (from 0) and child of each split in which the lane was not child 0: child 0 keeps its
        parent's identity, because it continues its parent's stream.
        """
        branches = ((number, split.child) for number, split in enumerate(self.splits) if split.child)
        return (self.root, *(part for branch in branches for part in branch))


UNKNOWN_LANE = Lane(-1)  # of another rank, in a job that was resumed from the state of one rank


@dataclass(frozen=True, slots=True)
class LaneLayout:
    """`lanes` in the order of their turns. The first lane has its first turn at world batch `first_batch`."""

    first_batch: int
    lanes: tuple[Lane, ...]


class LaneTurn(NamedTuple):
    """`lane`: an index into the layout's lanes. `batch`: the number, in the whole job, of the batch that it draws."""

    lane: int
    batch: int


class LaneRotation(NamedTuple):
    """From turn `first_turn` on, `lanes` alternate, beginning with batch `first_round` of each."""

    first_turn: int
    first_round: int
    lanes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankTurns:
    """The endless turns of a rank's lanes: the lane with the fewest turns is next, and the first of several such lanes.

    `lanes`: in the order of their first turns here. `taken`: lane -> number of its earlier turns.
    """

    lanes: tuple[int, ...]
    taken: Mapping[int, int]
    rotations: tuple[LaneRotation, ...]
    first_batch: int
    lane_count: int  # lanes of the whole job

    @property
    def taken_before(self) -> int:
        """The number of earlier turns of all lanes together."""
        return sum(self.taken.values())

    def at(self, turn: int) -> LaneTurn:
        """Turn number `turn`, counted from 0 at the beginning of these turns."""
        level = self.rotations[bisect_right(self.rotations, turn, key=lambda rotation: rotation.first_turn) - 1]
        rounds, index = divmod(turn - level.first_turn, len(level.lanes))
        lane = level.lanes[index]
        return LaneTurn(lane, self.first_batch + (level.first_round + rounds) * self.lane_count + lane)


@dataclass(frozen=True, slots=True)
class NextLaneLayout:
    """The layout after a split, and the parents of its lanes.

    New lane i is a child of old lane `parents[i]`. The first `continuing` new lanes (as many as there were old lanes)
    are the children 0, which take over the state of their parents: draws, open packs, leftovers. The others begin
    empty.
    """

    layout: LaneLayout
    parents: tuple[int, ...]
    continuing: int


def new_layout(lanes: int) -> LaneLayout:
    """The layout of a new job. Raises UsageError without lanes."""
    if lanes < 1:
        raise UsageError(f"lanes={lanes}: expected 1 or more", hint="omit `lanes` for the default of 8 per rank")
    return LaneLayout(first_batch=0, lanes=tuple(Lane(root) for root in range(lanes)))


def rank_turns(layout: LaneLayout, batches_drawn: int, rank: int, world: int) -> RankTurns:
    """The turns of a rank in an endless stream.

    `batches_drawn`: by the world; the next batch of this rank is world batch `batches_drawn + rank`. Raises UsageError
    for a rank outside the world, for a step before the layout began, and if `world` does not divide the number of
    lanes: call `split_lanes` first.
    """
    count = len(layout.lanes)
    _check_rank(rank, world)
    if not fits_ranks(count, world):
        raise UsageError(
            f"{count} lanes cannot be divided evenly among {world} ranks",
            hint=f"split the lanes first, or start the job with lanes={count * children_per_lane(count, world)}",
        )
    _current_turn(layout, batches_drawn)
    drawn = batches_drawn - layout.first_batch
    # Batch turn * count + lane is the first one of a lane that is not before batch drawn + rank.
    taken = {lane: -((lane - drawn - rank) // count) for lane in lanes_of_rank(count, drawn, rank, world)}
    return _build_turns(layout, taken)


def pass_turns(layout: LaneLayout, taken: Mapping[int, int], rank: int, world: int) -> RankTurns:
    """The turns of a rank in a finite pass. The rank reads all of lanes rank, rank + world, and so on; it may have
    fewer lanes than another rank, or none.

    `taken`: lane -> number of its earlier turns, 0 for lanes without an entry. Raises UsageError for a rank outside the
    world.
    """
    _check_rank(rank, world)
    own = pass_lanes_of_rank(len(layout.lanes), rank, world)
    return _build_turns(layout, {lane: taken.get(lane, 0) for lane in own})


def next_batch_number(layout: LaneLayout, taken: Mapping[int, int]) -> int:
    """The number of the batch after the last turn of all lanes of a finite pass."""
    count = len(layout.lanes)
    last = max(((turn - 1) * count + lane for lane, turn in taken.items() if turn), default=-1)
    return layout.first_batch + last + 1


def split_lanes(layout: LaneLayout, draws: Sequence[int], batches_drawn: int, world: int) -> NextLaneLayout:
    """Split lanes at the job's current step, so that `world` ranks run equally many lanes.

    Splits each lane into k = world / gcd(world, lanes) children; if k is 1, lanes do not change. Turns begin again:
    first all children 0, in the order of their parents' turns from the current one on, then all children 1, and so on.
    `draws[i]`: the number of references that lane i has drawn after `batches_drawn` batches of the world. Raises
    UsageError unless there is one count per lane, and for a world without ranks.
    """
    count = len(layout.lanes)
    if world < 1:
        raise UsageError(f"world size {world}: expected 1 or more", hint="pass the number of ranks as world size")
    if len(draws) != count:
        raise UsageError(
            f"a lane split needs the draws of all {count} lanes, found {len(draws)}",
            hint="merge the states of all ranks first",
        )
    children = children_per_lane(count, world)
    turn = _current_turn(layout, batches_drawn)
    order = tuple((turn + step) % count for step in range(count))
    lanes = tuple(_child_lane(layout.lanes[i], draws[i], child, children) for child in range(children) for i in order)
    return NextLaneLayout(
        layout=LaneLayout(first_batch=batches_drawn, lanes=lanes), parents=order * children, continuing=count
    )


def _build_turns(layout: LaneLayout, taken: Mapping[int, int]) -> RankTurns:
    """The turns of these lanes: the lanes with the fewest turns alternate until they have as many as the next ones."""
    levels: list[LaneRotation] = []
    first = 0
    for number in sorted({*taken.values()}):
        if levels:
            first += (number - levels[-1].first_round) * len(levels[-1].lanes)
        levels.append(
            LaneRotation(first, number, tuple(sorted(lane for lane, turn in taken.items() if turn <= number)))
        )
    lanes = tuple(sorted(taken, key=lambda lane: (taken[lane], lane)))
    return RankTurns(lanes, taken, tuple(levels), layout.first_batch, len(layout.lanes))


def _check_rank(rank: int, world: int) -> None:
    if not 0 <= rank < world:
        raise UsageError(
            f"rank {rank} is out of range for world size {world}", hint="pass a rank from 0 to world size - 1"
        )


def _current_turn(layout: LaneLayout, batches_drawn: int) -> int:
    if batches_drawn < layout.first_batch:
        raise UsageError(
            f"these lanes begin at batch {layout.first_batch} of the job, but the position is batch {batches_drawn}",
            hint="take the lanes and the number of batches from the same state",
        )
    return (batches_drawn - layout.first_batch) % len(layout.lanes)


def _child_lane(lane: Lane, draws: int, child: int, children: int) -> Lane:
    return Lane(lane.root, (*lane.splits, LaneSplit(draws, children, child))) if children > 1 else lane
