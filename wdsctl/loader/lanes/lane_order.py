"""The samples that a lane draws from one order.

The draws of the whole job are numbered 0, 1, 2, ... Lanes take turns of `turn_samples` draws: lane 0 first, then lane
1, and after the last lane again lane 0. Draw x belongs to epoch x // n, so the first n draws of the job are the n
samples, for any number of lanes.

The turns determine how many of an epoch's draws belong to a lane (`_draws_of_turn`). The lane gets that many
neighbouring offsets of the epoch, its *segment*, which it reads in separate windows:

```
7 samples, 3 lanes, turns of 1        draw    0  1  2  3  4  5  6 | 7  8  9 10 11 12 13 | 14
                                      lane    0  1  2  0  1  2  0 | 1  2  0  1  2  0  1 | 2
offsets of epoch 0    lane 0: 0 1 2   lane 1: 3 4   lane 2: 5 6
offsets of epoch 1    lane 0: 0 1     lane 1: 2 3 4 lane 2: 5 6
```

If a lane is split into k children, they alternate in taking its turns. A segment that is not begun is divided among
them in the same way. In a begun segment, the children share the open window, from which each draws its own turns, and
divide the rest. So exactly one lane draws each sample of an epoch, before and after a split.

If no batch may contain a sample twice, the first window of a lane's epoch moves the samples that the lane drew last in
the previous epoch behind the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.growth import SourceOrder, VersionOrder, version_orders
from wdsctl.loader.order.permutation import MAX_ELEMENTS
from wdsctl.loader.order.shuffle import SamplePositions

Number = TypeVar("Number", int, Int64Array)

DRAW_CHUNK = 64  # draws that are computed together in an order without windows


@dataclass(frozen=True, slots=True, eq=False)
class SampleWindow:
    """Samples of a lane, in order. `first_number`: the number of the first sample in the lane.

    `positions`, `passes`: int64, of the same length. A sample's pass is the number of the pass over the source, counted
    from 0 over the whole job; with replacement, the number of its slot.
    """

    first_number: int
    positions: Int64Array
    passes: Int64Array

    def position_ranges(self) -> Int64Array:
        """The ranges to read: int64 (m, 2), rows [start, stop) of positions, ascending, without overlaps."""
        ordered = np.sort(self.positions)
        edges = np.flatnonzero(ordered[1:] - ordered[:-1] > 1)
        rows = np.empty((edges.size + 1, 2), np.int64)
        rows[0, 0], rows[-1, 1] = ordered[0], ordered[-1] + 1
        rows[1:, 0], rows[:-1, 1] = ordered[edges + 1], ordered[edges] + 1
        return rows


class WindowShare(NamedTuple):
    """A child's share of a window: its turns from sample `begin` on. Child 0 also has all samples before `begin`."""

    begin: int
    children: int
    child: int


class LaneSegment(NamedTuple):
    """`size` samples of a lane in an epoch: the lane's samples from number `first_number` on, at offsets from `start`
    on, in windows.

    `first_window_samples`: size of the first window. `seam_level`: if the first window follows another epoch of the
    lane, the number of splits before that window, else None. `shares`: not empty if the segment is a part of one window
    (of `first_window_samples` samples) that was open when the lane was split.
    """

    first_number: int
    size: int
    start: int
    first_window_samples: int
    seam_level: int | None = None
    shares: tuple[WindowShare, ...] = ()


class OrderLaneSplit(NamedTuple):
    """A split of a lane that had taken `taken` samples of the order, in its own count. See
    `wdsctl.loader.lanes.rank_lanes.LaneSplit`."""

    taken: int
    children: int
    child: int


class LaneOrder:
    """The samples of a lane in an order, by their numbers in the lane, from 0.

    `taken[i]`: the number of samples of this order that the lane had taken at split i, in its own count. `epoch`: the
    epoch with which the job begins. Raises ValueError unless `taken` has one count per split.
    """

    def __init__(self, order: SourceOrder, lane: Lane, taken: Sequence[int] = (), epoch: int = 0) -> None:
        self._versions = version_orders(order)
        self._root, self._lanes, self._turn_samples = lane.root, order.lanes, order.turn_samples
        self._first_draw = epoch * order.epoch_samples
        self._lane_splits = tuple(
            OrderLaneSplit(count, split.children, split.child) for split, count in zip(lane.splits, taken, strict=True)
        )

    def window(self, number: int) -> SampleWindow:
        """The window that contains sample `number` of the lane. Some 70 to 150 us for 1000 samples, at any number.

        Raises IndexError before the first sample and past draw 2^62 of the job.
        """
        version, epoch = self._locate(number)
        if version.order.is_direct:
            return self._draw_chunk(version, number)
        for segment in self._segments(len(self._lane_splits), version, epoch):
            if segment.first_number <= number < segment.first_number + segment.size:
                start, stop = _window_bounds(number - segment.first_number, segment, version.order.window_size)
                samples = self._samples(version, epoch, segment, start, stop)
                return _to_job_window(version, segment.first_number + start, samples)
        raise IndexError(f"no segment of epoch {epoch} has sample {number} of the lane")  # pragma: no cover

    def window_starts(self, epoch: int) -> list[tuple[Int64Array, Int64Array, Int64Array]]:
        """The windows of this lane in an epoch of a source that has not grown, for each of its segments: the offsets at
        which they begin and end, and the draws of the job at which the lane takes their first samples."""
        version = self._versions[-1]
        found = []
        for segment in self._segments(len(self._lane_splits), version, epoch):
            if segment.shares:  # children share one window: each reads samples anywhere in it
                starts = np.zeros(1, np.int64)
                stops = np.array([segment.first_window_samples])
            else:
                rest = np.arange(segment.first_window_samples, segment.size, version.order.window_size)
                starts = np.concatenate((np.zeros(1, np.int64), rest))
                stops = np.append(starts[1:], segment.size)
            numbers = segment.first_number + np.minimum(starts, segment.size - 1)
            found.append((segment.start + starts, segment.start + stops, self._job_draws(numbers)))
        return found

    def draw_of(self, number: int) -> int:
        """The draw of the job at which this lane takes its sample `number`."""
        return int(self._job_draws(number))

    def end_of_begun_epoch(self, taken: int) -> int:
        """The draw of the job at which this lane's current epoch ends, after `taken` samples; 0 without samples."""
        if not taken:
            return 0
        version, epoch = self._locate(taken - 1)
        return version.begin + (epoch + 1) * version.order.epoch_samples

    def first_epoch_samples(self) -> int:
        """The number of samples of this lane in the epoch with which the job begins."""
        count = self._root_lane_count(self._versions[0].order.epoch_samples)
        for split in self._lane_splits:
            count = self._child_count(count, split)
        return count

    def _locate(self, number: int) -> tuple[VersionOrder, int]:
        """The version of a sample of this lane, and its epoch in that version."""
        if number < 0:
            raise IndexError(f"a lane has no sample {number}: samples count from 0")
        draw = int(self._job_draws(number))
        if draw > MAX_ELEMENTS:
            raise IndexError(f"draw {draw} is too far: a job has 2^62")
        version = next(each for each in self._versions if each.end is None or draw < each.end)
        return version, (draw - version.begin) // version.order.epoch_samples

    def _job_draws(self, numbers: Number) -> Number:
        """The draws of the job at which this lane takes these samples."""
        turn = self._turn_samples
        for taken, children, child in reversed(self._lane_splits):
            if child:
                numbers = taken + (numbers // turn * children + child) * turn + numbers % turn
            elif isinstance(numbers, int):
                later = numbers - taken
                numbers = numbers if later < 0 else taken + later // turn * children * turn + later % turn
            else:
                later = np.maximum(numbers - taken, 0)
                numbers = np.minimum(numbers, taken) + later // turn * children * turn + later % turn
        return self._first_draw + (numbers // turn * self._lanes + self._root) * turn + numbers % turn

    def _draw_chunk(self, version: VersionOrder, number: int) -> SampleWindow:
        """`DRAW_CHUNK` samples from this number on, in an order without windows; fewer at the end of a version."""
        draws = self._job_draws(np.arange(number, number + DRAW_CHUNK))
        if version.end is not None:
            draws = draws[draws < version.end]
        epochs, offsets = np.divmod(draws - version.begin, version.order.epoch_samples)
        samples = version.order.direct_samples(epochs, offsets, version.begin - self._first_draw)
        return _to_job_window(version, number, samples)

    # How many draws each lane makes

    def _root_lane_count(self, draws: int) -> int:
        """How many of the job's first `draws` draws the root lane makes."""
        return _draws_of_turn(draws, self._lanes, self._root, self._turn_samples)

    def _child_count(self, count: int, lane_split: OrderLaneSplit) -> int:
        """How many of the first `count` samples of a lane belong to the child of this split."""
        taken, children, child = lane_split
        later = max(0, count - taken)
        return (0 if child else min(count, taken)) + _draws_of_turn(later, children, child, self._turn_samples)

    def _earlier_siblings_count(self, count: int, lane_split: OrderLaneSplit) -> int:
        """How many of the first `count` samples of a lane belong, from the split on, to children before this one."""
        return _draws_before_turn(count - lane_split.taken, lane_split.children, lane_split.child, self._turn_samples)

    # The segments of a lane in an epoch

    def _segments(self, level: int, version: VersionOrder, epoch: int) -> list[LaneSegment]:
        """The segments of the lane in an epoch after `level` of its splits, in order."""
        if level:
            segments = self._segments(level - 1, version, epoch)
            return [piece for each in segments for piece in self._split_segment(each, level, version) if piece.size]
        begin = version.begin + epoch * version.order.epoch_samples - self._first_draw
        end = begin + version.order.epoch_samples
        first, start = self._root_lane_count(begin), self._earlier_lanes_count(end) - self._earlier_lanes_count(begin)
        segment = LaneSegment(first, self._root_lane_count(end) - first, start, version.order.window_size)
        if version.order.avoids_repeats and epoch and begin:
            segment = segment._replace(first_window_samples=_first_window_samples(version), seam_level=0)
        return [segment] if segment.size else []

    def _split_segment(self, segment: LaneSegment, level: int, version: VersionOrder) -> list[LaneSegment]:
        """The pieces of a segment that the lane keeps after split `level`; pieces may be empty."""
        split = self._lane_splits[level - 1]
        begin = split.taken - segment.first_number  # of the split, in the segment
        if begin >= segment.size:
            return [] if split.child else [segment]
        if segment.shares:
            return [self._share_of_window(segment, split)]
        if begin <= 0:
            return [self._share_of_unopened(segment, 0, level, version)]
        start, stop = _window_bounds(begin, segment, version.order.window_size)
        pieces = [] if split.child else [segment._replace(size=start)]
        if start < begin:
            level_of_it = None if start else segment.seam_level
            size = stop - start
            opened = LaneSegment(segment.first_number + start, size, segment.start + start, size, level_of_it)
            pieces.append(self._share_of_window(opened, split))
            start = stop
        return [*pieces, self._share_of_unopened(segment, start, level, version)]

    def _share_of_window(self, segment: LaneSegment, lane_split: OrderLaneSplit) -> LaneSegment:
        """A child's part of a window."""
        first = self._child_count(segment.first_number, lane_split)
        size = self._child_count(segment.first_number + segment.size, lane_split) - first
        share = WindowShare(lane_split.taken - segment.first_number, lane_split.children, lane_split.child)
        return segment._replace(first_number=first, size=size, shares=(*segment.shares, share))

    def _share_of_unopened(self, segment: LaneSegment, start: int, level: int, version: VersionOrder) -> LaneSegment:
        """A child's part of a segment from sample `start` on, where no window was open before the split."""
        split = self._lane_splits[level - 1]
        begin, end = segment.first_number + start, segment.first_number + segment.size
        first = self._child_count(begin, split)
        skipped = self._earlier_siblings_count(end, split) - self._earlier_siblings_count(begin, split)
        piece = LaneSegment(
            first, self._child_count(end, split) - first, segment.start + start + skipped, version.order.window_size
        )
        is_lead = segment.seam_level is not None and not start
        return (
            piece._replace(first_window_samples=_first_window_samples(version), seam_level=level) if is_lead else piece
        )

    # Samples

    def _samples(
        self,
        version: VersionOrder,
        epoch: int,
        segment: LaneSegment,
        start: int,
        stop: int,
        *,
        ignores_previous_epoch: bool = False,
    ) -> SamplePositions:
        """Samples [start, stop) of a segment, which are one of its windows.

        `ignores_previous_epoch`: keep samples in front that the lane drew last in the previous epoch.
        """
        low, high = (0, segment.first_window_samples) if segment.shares else (start, stop)
        positions, passes = version.order.window(epoch, segment.start + low, segment.start + high)
        if segment.seam_level is not None and not start and not ignores_previous_epoch:
            front = positions[: 2 * version.order.max_batch_samples]
            is_late = np.isin(front, self._last_samples(segment.seam_level, version, epoch - 1))
            front[:] = np.concatenate([front[~is_late], front[is_late]])
        for begin, children, child in segment.shares:
            later = np.arange(positions.size) - begin
            is_own = (later >= 0) & (later // self._turn_samples % children == child)
            if not child:
                is_own |= later < 0
            positions, passes = positions[is_own], passes[is_own]
        return SamplePositions(positions, passes)

    def _last_samples(self, level: int, version: VersionOrder, epoch: int) -> Int64Array:
        """The last samples that the lane, after `level` splits, draws in an epoch: as many as fit in a batch."""
        found: list[Int64Array] = []
        missing = version.order.max_batch_samples
        for segment in reversed(self._segments(level, version, epoch)):
            stop = segment.size
            while stop and missing > 0:
                start, _ = _window_bounds(stop - 1, segment, version.order.window_size)
                found.append(
                    self._samples(version, epoch, segment, start, stop, ignores_previous_epoch=True).positions[
                        -missing:
                    ]
                )
                missing -= stop - start
                stop = start
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _earlier_lanes_count(self, draws: int) -> int:
        """How many of the job's first `draws` draws root lanes before this one make."""
        return _draws_before_turn(draws, self._lanes, self._root, self._turn_samples)


def _draws_of_turn(draws: int, count: int, index: int, turn_samples: int) -> int:
    """How many of the first `draws` draws lane `index` makes, if `count` lanes take turns of `turn_samples` draws."""
    rounds, rest = divmod(draws, count * turn_samples)
    return rounds * turn_samples + min(max(rest - index * turn_samples, 0), turn_samples)


def _draws_before_turn(draws: int, count: int, index: int, turn_samples: int) -> int:
    """How many of the first `draws` draws the lanes before lane `index` make, if `count` lanes take turns."""
    rounds, rest = divmod(draws, count * turn_samples)
    return rounds * turn_samples * index + min(rest, index * turn_samples)


def _first_window_samples(version: VersionOrder) -> int:
    """Samples of the first window of a lane's epoch: at least two batches, rounded up to whole windows.

    So the window has samples for a batch without those that the lane drew last in the previous epoch.
    """
    return -(-2 * version.order.max_batch_samples // version.order.window_size) * version.order.window_size


def _window_bounds(index: int, segment: LaneSegment, window_size: int) -> tuple[int, int]:
    """(start, stop) in the segment of the window that contains its sample `index`."""
    if segment.shares or index < segment.first_window_samples:
        return 0, min(segment.first_window_samples, segment.size)
    start = segment.first_window_samples + (index - segment.first_window_samples) // window_size * window_size
    return start, min(start + window_size, segment.size)


def _to_job_window(version: VersionOrder, first_number: int, samples: SamplePositions) -> SampleWindow:
    """The window with positions and passes counted over the whole job, earlier versions included."""
    positions, passes = samples
    if version.positions_before or version.passes_before:
        positions, passes = positions + version.positions_before, passes + version.passes_before
    return SampleWindow(first_number, positions, passes)
