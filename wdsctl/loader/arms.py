"""The arms of a blend, opened: an order over the samples of one dataset, or of several laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.order.geometry import Lane
from wdsctl.loader.order.legs import Leg, Order, legs, place
from wdsctl.loader.order.shuffle import Window
from wdsctl.loader.references import Block, Run
from wdsctl.loader.source import Ref, Source

Ints = NDArray[np.int64]

AHEAD = 64 << 20  # bytes of a window that the system is asked to fetch when the window is opened
TOGETHER = 64  # samples of an arm of a blend that are worked out at once: small windows are opened several at a time
REFERENCES = 4096  # at most so many are kept ready over all arms of a lane: each is some 300 bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """`n` positions of a source from `first` on, `repetitions` times over (the last time perhaps not to the end)."""

    source: Source
    first: int
    n: int
    samples: int

    @property
    def repetitions(self) -> int:
        """How often a sample of it comes in a pass, at most."""
        return -(-self.samples // self.n)


class Arm:
    """`pieces` laid end to end, in the order `order`, whose n is the sum of their samples."""

    def __init__(self, order: Order, pieces: Sequence[Piece]) -> None:
        self.order = order
        self.pieces = tuple(pieces)
        self._starts: Ints = np.cumsum([0, *(piece.samples for piece in pieces)], dtype=np.int64)
        self._simple = len(pieces) == 1 and pieces[0].samples <= pieces[0].n

    @property
    def source(self) -> Source | None:
        """The only source of the arm, where it has one and repeats nothing: its references come in runs."""
        return self.pieces[0].source if self._simple else None

    def block(self, positions: Ints, passes: Ints) -> Block:
        """References to these positions of an arm that has one `source`."""
        piece = self.pieces[0]
        return piece.source.block(positions + piece.first if piece.first else positions, passes)

    def refs(self, positions: Ints, passes: Ints) -> list[Ref]:
        """A reference for each position, in their order."""
        if self._simple:
            source, block = self.pieces[0].source, self.block(positions, passes)
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
        if self._simple:
            piece = self.pieces[0]
            piece.source.will_need(window.slices + piece.first, AHEAD)


class ArmCursor:
    """One lane's place in one arm. `arms`: how many there are, which share the references that are kept ready. `epoch`:
    the one that the lane begins with."""

    def __init__(self, arm: Arm, lane: Lane, lanes: int, taken: Sequence[int], arms: int, epoch: int = 0) -> None:
        self._arm = arm
        self._source = arm.source
        self._epoch = epoch
        self._legs: tuple[Leg, ...] = legs(arm.order, lane, lanes, taken, epoch * arm.order.epoch_slices)
        self._chunk = max(16, REFERENCES // arms) if arms > 1 else 1 << 62
        self._least = -(-TOGETHER // arm.order.size) if arms > 1 else 1
        self._leg = self._left = 0
        self._window: Window | None = None  # or several, one after the other
        self._size = 0  # samples of it that are this leg's
        self._at = 0
        self._block: Block | None = None
        self._refs: list[Ref] = []
        self._begin = self._end = 0  # of the references that are ready, in the window

    def seek(self, taken: int) -> None:
        """Go to where so many samples of the arm have been taken in this lane."""
        self._leg, start, at = place(self._arm.order, self._legs, taken)
        # What of the leg is not in windows before this one.
        samples = self._legs[self._leg].samples
        before = self._arm.order.samples_before(self._legs[self._leg].strand, start)
        self._left = -1 if samples is None else samples - before
        self._open(start, at)

    def one(self) -> Ref:
        """The next reference: what a blend asks for, pick by pick."""
        source = self._source
        if source is None:
            return self.take(1)[0]
        if self._at >= self._end or self._block is None:
            self._block = self._arm.block(*self._ready())
        self._at += 1
        return source, self._block, self._at - self._begin - 1

    def take(self, count: int) -> list[Ref]:
        """The next references."""
        source = self._source
        if source is not None:
            return [(source, block, i) for block, start, stop in self.runs(count) for i in range(start, stop)]
        refs: list[Ref] = []
        while len(refs) < count:
            if self._at >= self._end:
                self._refs = self._arm.refs(*self._ready())
            stop = min(self._end, self._at + count - len(refs))
            refs += self._refs[self._at - self._begin : stop - self._begin]
            self._at = stop
        return refs

    def runs(self, count: int) -> list[Run]:
        """The next references of an arm with one source, as runs of neighbours in blocks."""
        runs: list[Run] = []
        while count:
            if self._block is None or self._at >= self._end:
                self._block = self._arm.block(*self._ready())
            stop = min(self._end, self._at + count)
            runs.append((self._block, self._at - self._begin, stop - self._begin))
            count -= stop - self._at
            self._at = stop
        return runs

    def at(self, taken: int) -> Ref:
        """One sample, by its number among the arm's in this lane; moves nothing. Some 100 us."""
        leg, start, at = place(self._arm.order, self._legs, taken)
        window = self._arm.order.window(self._legs[leg].strand, start)
        return self._arm.refs(window.positions[at : at + 1], window.passes[at : at + 1])[0]

    def at_all(self, taken: Sequence[int]) -> list[Ref]:
        """The same for numbers that ascend, in one block a source. Some 100 us a window, and 1 a sample."""
        order, window, begin = self._arm.order, None, 0
        found: list[tuple[int, int]] = []
        for number in taken:
            if window is None or number - begin >= len(window.positions):
                leg, start, at = place(order, self._legs, number)
                window, begin = order.window(self._legs[leg].strand, start), number - at
            found.append((window.positions[number - begin], window.passes[number - begin]))
        positions, passes = np.array(found, np.int64).reshape(-1, 2).T
        return self._arm.refs(positions, passes)

    def samples_of_a_pass(self) -> int:
        """How many samples this lane has of the epoch that it begins with."""
        order, strand = self._arm.order, self._legs[-1].strand
        end = (self._epoch + 1) * order.epoch_slices
        slices = max(0, -((strand.first - end) // strand.step))
        return order.samples_before(strand, slices) + sum(leg.samples or 0 for leg in self._legs)

    def _ready(self) -> tuple[Ints, Ints]:
        """The next positions and their passes, of the next window where this one is used up."""
        while self._window is None or self._at >= self._size:
            self._advance()
        self._begin, self._end = self._at, min(self._at + self._chunk, self._size)
        rows = slice(self._begin, self._end)
        return self._window.positions[rows], self._window.passes[rows]

    def _advance(self) -> None:
        if self._window is None:
            self.seek(0)
            return
        start = self._window.stop
        if self._left >= 0:
            self._left -= self._size
            if not self._left:
                self._next_leg()
                return
        self._open(start, 0)

    def _next_leg(self) -> None:
        self._leg += 1
        samples = self._legs[self._leg].samples
        self._left = -1 if samples is None else samples
        self._open(0, 0)

    def _open(self, start: int, at: int) -> None:
        window = self._arm.order.window(self._legs[self._leg].strand, start, self._least)
        self._arm.will_need(window)
        size = len(window.positions)
        self._size = size if self._left < 0 else min(size, self._left)
        self._window, self._at, self._end, self._block = window, at, 0, None
