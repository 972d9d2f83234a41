"""The arms of a blend, opened: an order over the samples of one dataset, or of several laid end to end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.order.eras import Order, eras_of
from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.lane_order import LaneOrder, Window
from wdsctl.loader.references import Block
from wdsctl.loader.source import Ref, RefRange, Source

Ints = NDArray[np.int64]

AHEAD = 64 << 20  # bytes of a window that the system is asked to fetch when the window is opened
REFERENCES = 4096  # at most so many are kept ready over all arms of a lane: each is some 300 bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """`n` positions of a source from `first` on, `repetitions` times over (the last time perhaps not to the end), which
    is `samples` in all in a pass."""

    source: Source
    first: int
    n: int
    samples: int

    @property
    def repetitions(self) -> int:
        """How often a sample of it comes in a pass, at most."""
        return -(-self.samples // self.n)


class Arm:
    """`pieces` laid end to end, in the order `order`, whose n is the sum of their samples; over eras, those of each.

    `in_runs`: references come in runs, as every window is of one piece: there is one (in each era), and it repeats
    nothing.
    """

    def __init__(self, order: Order, pieces: Sequence[Piece]) -> None:
        self.order = order
        self.pieces = tuple(pieces)
        self._starts: Ints = np.cumsum([0, *(piece.samples for piece in pieces)], dtype=np.int64)
        self.in_runs = len(pieces) == len(eras_of(order)) and all(piece.samples <= piece.n for piece in pieces)

    def run(self, positions: Ints, passes: Ints) -> tuple[Source, Block]:
        """References to some positions of a window of an arm that is `in_runs`, and who loads them."""
        source, shift = self._source_of(positions[0])
        return source, source.block(positions + shift if shift else positions, passes)

    def refs(self, positions: Ints, passes: Ints) -> list[Ref]:
        """A reference for each position, in their order."""
        if self.in_runs and len(self.pieces) == 1:
            source, block = self.run(positions, passes)
            return [(source, block, i) for i in range(len(block))]
        refs: list[Ref] = [None] * len(positions)  # type: ignore[list-item]  # all are filled in below
        which = np.searchsorted(self._starts, positions, side="right") - 1
        for number in np.unique(which).tolist():
            piece, mine = self.pieces[number], np.flatnonzero(which == number)
            repetition, local = np.divmod(positions[mine] - self._starts[number], piece.n)
            block = piece.source.block(local + piece.first, passes[mine] * piece.repetitions + repetition)
            for i, at in enumerate(mine.tolist()):
                refs[at] = (piece.source, block, i)
        return refs

    def will_need(self, window: Window) -> None:
        """Ask for the window's bytes ahead, where it is a range of one source."""
        if self.in_runs:
            source, shift = self._source_of(int(window.positions[0]))
            source.will_need(window.slices() + shift, AHEAD)

    def _source_of(self, position: int) -> tuple[Source, int]:
        """The source that a position is of, and how far its positions are from those of the arm."""
        number = bisect_right(self._starts, position) - 1
        return self.pieces[number].source, self.pieces[number].first - int(self._starts[number])


class ArmCursor:
    """One lane's place in one arm. `arms`: how many there are, which share the references that are kept ready. `epoch`:
    the one that the job begins with."""

    def __init__(self, arm: Arm, lane: Lane, taken: Sequence[int], arms: int, epoch: int = 0) -> None:
        self._arm = arm
        self._order = LaneOrder(arm.order, lane, taken, epoch)
        self._is_of_many = arms > 1
        self._chunk = max(16, REFERENCES // arms) if arms > 1 else 1 << 62
        self._window: Window | None = None
        self._at = self._size = 0  # samples of it that were taken, and all of them
        self._run: tuple[Source, Block] | None = None
        self._refs: list[Ref] = []
        self._begin = self._end = 0  # of the references that are ready, in the window

    def seek(self, taken: int) -> None:
        """Go to where so many samples of the arm have been taken in this lane."""
        self._open(taken)

    def _open(self, taken: int) -> Window:
        window = self._order.window(taken)
        self._arm.will_need(window)
        self._window = window = _kept(window) if self._is_of_many else window
        self._size = len(window.positions)
        self._at, self._end, self._run = taken - window.first, 0, None
        return window

    def one(self) -> Ref:
        """The next reference: what a blend asks for, pick by pick."""
        run = self._run
        if run is None or self._at >= self._end:
            if not self._arm.in_runs:
                return self.take(1)[0]
            run = self._run = self._arm.run(*self._ready())
        self._at += 1
        return *run, self._at - self._begin - 1

    def take(self, count: int) -> list[Ref]:
        """The next references."""
        if self._arm.in_runs:
            return [(source, block, i) for source, block, start, stop in self.runs(count) for i in range(start, stop)]
        refs: list[Ref] = []
        while len(refs) < count:
            if self._at >= self._end:
                self._refs = self._arm.refs(*self._ready())
            stop = min(self._end, self._at + count - len(refs))
            refs += self._refs[self._at - self._begin : stop - self._begin]
            self._at = stop
        return refs

    def runs(self, count: int) -> list[RefRange]:
        """The next references of an arm that is `in_runs`, as runs of neighbours in blocks."""
        runs: list[RefRange] = []
        while count:
            if self._run is None or self._at >= self._end:
                self._run = self._arm.run(*self._ready())
            stop = min(self._end, self._at + count)
            runs.append((*self._run, self._at - self._begin, stop - self._begin))
            count -= stop - self._at
            self._at = stop
        return runs

    def at(self, taken: int) -> Ref:
        """One sample, by its number among the arm's in this lane; moves nothing. Some 100 us."""
        return self.at_all([taken])[0]

    def at_all(self, taken: Sequence[int]) -> list[Ref]:
        """The same for numbers that ascend, in one block a source. Some 100 us a window, and 1 a sample."""
        numbers = np.asarray(taken, np.int64)
        positions, passes = np.empty_like(numbers), np.empty_like(numbers)
        done = 0
        while done < len(numbers):
            window = self._around(int(numbers[done]))
            stop = int(np.searchsorted(numbers, window.first + len(window.positions)))
            at = numbers[done:stop] - window.first
            positions[done:stop], passes[done:stop] = window.positions[at], window.passes[at]
            done = stop
        return self._arm.refs(positions, passes)

    def samples_of_an_epoch(self) -> int:
        """How many samples this lane has of the epoch that it begins with."""
        return self._order.samples_of_an_epoch()

    def _around(self, number: int) -> Window:
        """The window that has this number: where it lies in the one that is open, that one."""
        window = self._window
        if window is not None and window.first <= number < window.first + self._size:
            return window
        return self._order.window(number)

    def _ready(self) -> tuple[Ints, Ints]:
        """The next positions and their passes, of the next window where this one is used up."""
        window = self._window
        if window is None or self._at >= self._size:
            window = self._open(0 if window is None else window.first + self._size)
        self._begin, self._end = self._at, min(self._at + self._chunk, self._size)
        rows = slice(self._begin, self._end)
        return window.positions[rows].astype(np.int64, copy=False), window.passes[rows].astype(np.int64, copy=False)


def _kept(window: Window) -> Window:
    """A window of 32 bits where its numbers allow: a blend holds one for each of its sources in each lane."""
    return Window(window.first, _halved(window.positions), _halved(window.passes))


def _halved(numbers: Ints) -> Ints:
    # One number that stands for all takes no memory at all.
    return numbers.astype(np.int32) if numbers.strides[0] and numbers.max() < 1 << 31 else numbers
