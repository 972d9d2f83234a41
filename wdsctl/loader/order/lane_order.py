"""What a lane draws of one order. The draws of the whole job are counted 0, 1, 2, ...: lane 0 makes `turn` of them,
then lane 1, and after the last lane it is lane 0's turn again. Draw x belongs to epoch x // n, so the first n draws of
the job are the n samples, whatever the lanes.

How many of an epoch's draws are a lane's follows (`_drawn`), and so a lane gets that many neighbouring offsets of the
epoch, its *segment*, which it reads in windows of its own:

```
7 samples, 3 lanes, turns of 1        draw    0  1  2  3  4  5  6 | 7  8  9 10 11 12 13 | 14
                                      lane    0  1  2  0  1  2  0 | 1  2  0  1  2  0  1 | 2
offsets of epoch 0    lane 0: 0 1 2   lane 1: 3 4   lane 2: 5 6
offsets of epoch 1    lane 0: 0 1     lane 1: 2 3 4 lane 2: 5 6
```

Where a lane is cut into k, its children take its turns in turn. A segment that is not begun is divided among them in
the same way. Of one that is, the window that is open is shared, each child drawing its own turns out of it, and what is
behind it is divided. So each sample is drawn by exactly one lane, before a cut and after it, in its epoch.

Where batches must not hold a sample twice, the first window of a lane's epoch has the samples that the lane drew last
in the epoch before behind the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.order.eras import Era, Order, eras_of
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.permutation import MOST
from wdsctl.loader.order.shuffle import Samples

Ints = NDArray[np.int64]
Number = TypeVar("Number", int, Ints)

CHUNK = 64  # draws that are worked out, and asked for, at once where an order has no windows


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples of a lane, in the order they come. `first`: the lane's number of the first one. `passes`: which pass over
    the source each belongs to, from 0 over all time; with replacement, its slot. Both int64, of the same length."""

    first: int
    positions: Ints
    passes: Ints

    def slices(self) -> Ints:
        """What to read: int64 (m, 2), rows [start, stop) of positions, ascending, none twice."""
        ordered = np.sort(self.positions)
        edges = np.flatnonzero(ordered[1:] - ordered[:-1] > 1)
        rows = np.empty((edges.size + 1, 2), np.int64)
        rows[0, 0], rows[-1, 1] = ordered[0], ordered[-1] + 1
        rows[1:, 0], rows[:-1, 1] = ordered[edges + 1], ordered[edges] + 1
        return rows


class Share(NamedTuple):
    """Of a window, child `child` of `children` draws its turns from `begin` on; child 0 also all that is before."""

    begin: int
    children: int
    child: int


class Segment(NamedTuple):
    """`size` samples of a lane in an epoch, from its number `first` on: offsets from `start` on, in windows.

    `lead`: samples of the first window. `level`: after how many cuts the lane was what it is in that window, where it
    begins the lane's epoch behind another one; else None. `shares`: where it is a part of one window (of `lead`
    samples) that the lane had open when it was cut.
    """

    first: int
    size: int
    start: int
    lead: int
    level: int | None = None
    shares: tuple[Share, ...] = ()


class Cutting(NamedTuple):
    """A lane had `taken` samples of the order, in its own count, when it was cut; see `geometry.Cut`."""

    taken: int
    children: int
    child: int


class LaneOrder:
    """The samples of a lane in an order, by their numbers in the lane, from 0.

    `taken[i]`: how many samples of this order had been taken at cut i by the lane that was cut, in its own count.
    `epoch`: the one that the job begins with. Raises ValueError unless there is one count a cut.
    """

    def __init__(self, order: Order, lane: Lane, taken: Sequence[int] = (), epoch: int = 0) -> None:
        self._eras = eras_of(order)
        self._root, self._lanes, self._turn = lane.root, order.lanes, order.turn
        self._origin = epoch * order.epoch_samples
        self._cuts = tuple(Cutting(count, cut.children, cut.child) for cut, count in zip(lane.cuts, taken, strict=True))

    def window(self, number: int) -> Window:
        """The window that has the lane's sample `number`. Some 70 to 150 us for 1000 samples, wherever it is.

        Raises IndexError for what is before the first or past draw 2^62 of the job.
        """
        era, epoch = self._place(number)
        if era.order.is_direct:
            return self._chunk(era, number)
        for segment in self._segments(len(self._cuts), era, epoch):
            if segment.first <= number < segment.first + segment.size:
                start, stop = _window_around(number - segment.first, segment, era.order.width)
                samples = self._samples(era, epoch, segment, start, stop)
                return _in_the_job(era, segment.first + start, samples)
        raise IndexError(f"no segment of epoch {epoch} has sample {number} of the lane")  # pragma: no cover

    def begun(self, taken: int) -> int:
        """The draw of the job with which the last epoch ends that this lane has begun, when it has taken so many."""
        if not taken:
            return 0
        era, epoch = self._place(taken - 1)
        return era.begin + (epoch + 1) * era.order.epoch_samples

    def samples_of_an_epoch(self) -> int:
        """How many samples this lane has of the epoch that the job begins with."""
        return self._own(self._drawn(self._eras[0].order.epoch_samples), len(self._cuts))

    def _place(self, number: int) -> tuple[Era, int]:
        """The era of a sample of this lane, and its epoch there."""
        if number < 0:
            raise IndexError(f"there is no sample {number} in a lane: they count from 0")
        draw = int(self._draws(number))
        if draw > MOST:
            raise IndexError(f"draw {draw} is too far: a job has 2^62")
        era = next(each for each in self._eras if each.end is None or draw < each.end)
        return era, (draw - era.begin) // era.order.epoch_samples

    def _draws(self, numbers: Number) -> Number:
        """The draws of the job that are these samples of this lane."""
        turn = self._turn
        for taken, children, child in reversed(self._cuts):
            if child:
                numbers = taken + (numbers // turn * children + child) * turn + numbers % turn
            elif isinstance(numbers, int):
                later = numbers - taken
                numbers = numbers if later < 0 else taken + later // turn * children * turn + later % turn
            else:
                later = np.maximum(numbers - taken, 0)
                numbers = np.minimum(numbers, taken) + later // turn * children * turn + later % turn
        return self._origin + (numbers // turn * self._lanes + self._root) * turn + numbers % turn

    def _chunk(self, era: Era, number: int) -> Window:
        """Some samples from this one on, of an order without windows."""
        draws = self._draws(np.arange(number, number + CHUNK))
        if era.end is not None:
            draws = draws[draws < era.end]
        epochs, offsets = np.divmod(draws - era.begin, era.order.epoch_samples)
        samples = era.order.direct(epochs, offsets, era.begin - self._origin)
        return _in_the_job(era, number, samples)

    # How many of a number of draws are whose

    def _drawn(self, draws: int) -> int:
        """How many of the job's first `draws` draws the root lane makes."""
        return _in_turns(draws, self._lanes, self._root, self._turn)

    def _own(self, count: int, level: int) -> int:
        """How many samples the lane has, as it is after `level` cuts, while its root lane draws the first `count`."""
        for cut in self._cuts[:level]:
            count = self._of_child(count, cut)
        return count

    def _of_child(self, count: int, cut: Cutting) -> int:
        """How many of the first `count` samples of a lane are those of the child that a cut made of it."""
        taken, children, child = cut
        later = max(0, count - taken)
        return (0 if child else min(count, taken)) + _in_turns(later, children, child, self._turn)

    def _of_siblings(self, count: int, cut: Cutting) -> int:
        """How many of the first `count` samples of a lane are, from the cut on, those of children before this one."""
        return _before(count - cut.taken, cut.children, cut.child, self._turn)

    # What a lane has of an epoch

    def _segments(self, level: int, era: Era, epoch: int) -> list[Segment]:
        """The segments of an epoch, in the order they come, of the lane as it is after `level` of its cuts."""
        if level:
            segments = self._segments(level - 1, era, epoch)
            return [piece for each in segments for piece in self._pieces(each, level, era) if piece.size]
        begin = era.begin + epoch * era.order.epoch_samples - self._origin
        end = begin + era.order.epoch_samples
        first, start = self._drawn(begin), self._before(end) - self._before(begin)
        segment = Segment(first, self._drawn(end) - first, start, era.order.width)
        if era.order.keeps_apart and epoch and begin:
            segment = segment._replace(lead=_lead(era), level=0)
        return [segment] if segment.size else []

    def _pieces(self, segment: Segment, level: int, era: Era) -> list[Segment]:
        """What the lane has after a cut of a segment that it had before; some of it may be empty."""
        cut = self._cuts[level - 1]
        begin = cut.taken - segment.first  # of the cut, in the segment
        if begin >= segment.size:
            return [] if cut.child else [segment]
        if segment.shares:
            return [self._shared(segment, cut)]
        if begin <= 0:
            return [self._divided(segment, 0, level, era)]
        start, stop = _window_around(begin, segment, era.order.width)
        pieces = [] if cut.child else [segment._replace(size=start)]
        if start < begin:
            level_of_it = None if start else segment.level
            size = stop - start
            opened = Segment(segment.first + start, size, segment.start + start, size, level_of_it)
            pieces.append(self._shared(opened, cut))
            start = stop
        return [*pieces, self._divided(segment, start, level, era)]

    def _shared(self, segment: Segment, cut: Cutting) -> Segment:
        """A child's part of a window."""
        first = self._of_child(segment.first, cut)
        size = self._of_child(segment.first + segment.size, cut) - first
        share = Share(cut.taken - segment.first, cut.children, cut.child)
        return segment._replace(first=first, size=size, shares=(*segment.shares, share))

    def _divided(self, segment: Segment, start: int, level: int, era: Era) -> Segment:
        """A child's part of a segment from its sample `start` on, of which nothing was opened before the cut."""
        cut = self._cuts[level - 1]
        begin, end = segment.first + start, segment.first + segment.size
        first = self._of_child(begin, cut)
        skipped = self._of_siblings(end, cut) - self._of_siblings(begin, cut)
        piece = Segment(first, self._of_child(end, cut) - first, segment.start + start + skipped, era.order.width)
        is_lead = segment.level is not None and not start
        return piece._replace(lead=_lead(era), level=level) if is_lead else piece

    # Samples

    def _samples(self, era: Era, epoch: int, segment: Segment, start: int, stop: int, *, raw: bool = False) -> Samples:
        """Samples [start, stop) of a segment, which are a window of it; `raw`: as if no epoch had been before."""
        low, high = (0, segment.lead) if segment.shares else (start, stop)
        positions, passes = era.order.window(epoch, segment.start + low, segment.start + high)
        if segment.level is not None and not start and not raw:
            front = positions[: 2 * era.order.apart]
            is_late = np.isin(front, self._last(segment.level, era, epoch - 1))
            front[:] = np.concatenate([front[~is_late], front[is_late]])
        for begin, children, child in segment.shares:
            later = np.arange(positions.size) - begin
            mine = (later >= 0) & (later // self._turn % children == child)
            if not child:
                mine |= later < 0
            positions, passes = positions[mine], passes[mine]
        return Samples(positions, passes)

    def _last(self, level: int, era: Era, epoch: int) -> Ints:
        """The last samples of an epoch that the lane drew, as it is after `level` cuts: as many as a batch may have."""
        found: list[Ints] = []
        wanted = era.order.apart
        for segment in reversed(self._segments(level, era, epoch)):
            stop = segment.size
            while stop and wanted > 0:
                start, _ = _window_around(stop - 1, segment, era.order.width)
                found.append(self._samples(era, epoch, segment, start, stop, raw=True).positions[-wanted:])
                wanted -= stop - start
                stop = start
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _before(self, draws: int) -> int:
        """How many of the job's first `draws` draws root lanes before this one's make."""
        return _before(draws, self._lanes, self._root, self._turn)


def _in_turns(draws: int, those: int, which: int, turn: int) -> int:
    """How many of the first `draws` draws number `which` of `those` makes, who take turns."""
    rounds, rest = divmod(draws, those * turn)
    return rounds * turn + min(max(rest - which * turn, 0), turn)


def _before(draws: int, those: int, which: int, turn: int) -> int:
    """How many of them those before number `which` make."""
    rounds, rest = divmod(draws, those * turn)
    return rounds * turn * which + min(rest, which * turn)


def _lead(era: Era) -> int:
    """Samples of the first window of a lane's epoch: enough to have a batch without those that came last."""
    return -(-2 * era.order.apart // era.order.width) * era.order.width


def _window_around(index: int, segment: Segment, width: int) -> tuple[int, int]:
    """Where the window begins and ends that has sample `index` of a segment."""
    if segment.shares or index < segment.lead:
        return 0, min(segment.lead, segment.size)
    start = segment.lead + (index - segment.lead) // width * width
    return start, min(start + width, segment.size)


def _in_the_job(era: Era, first: int, samples: Samples) -> Window:
    """With the positions and passes of the job, whose earlier eras had others."""
    positions, passes = samples
    if era.positions or era.passes:
        positions, passes = positions + era.positions, passes + era.passes
    return Window(first, positions, passes)
