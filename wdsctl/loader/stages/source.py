"""The first stage: references to samples in the order of the plan, window by window. Its state is three numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.order.geometry import START, Lane
from wdsctl.loader.order.shuffle import Window
from wdsctl.loader.references import Block, Run
from wdsctl.loader.source import Ref, Source
from wdsctl.loader.stages.cursor import State

AHEAD = 64 << 20  # bytes of a window that the system is asked to fetch when the window is opened


class Order(Protocol):
    """Where the windows of a lane are: arithmetic, and nothing else."""

    def window(self, lane: int, number: int) -> Window: ...

    def slices_of(self, lane: int, number: int) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class SourceStage:
    source: Source
    order: Order

    def open(self, lane: Lane) -> SourceCursor:
        return SourceCursor(self, lane)


class SourceCursor:
    """The references of one lane, without end."""

    def __init__(self, stage: SourceStage, lane: Lane) -> None:
        self._stage = stage
        self._lane = lane
        self._window = START.window
        self._at = START.at
        self._next = START.next
        self._block: Block | None = None

    def take(self, count: int) -> list[Ref]:
        source = self._stage.source
        return [(source, block, i) for block, start, stop in self.runs(count) for i in range(start, stop)]

    def runs(self, count: int) -> list[Run]:
        """The next `count` references as runs of neighbours."""
        runs: list[Run] = []
        while count:
            block = self._opened()
            start, stop = self._at, min(len(block), self._at + count)
            runs.append((block, start, stop))
            count -= stop - start
            self._at = stop
        return runs

    def state_dict(self) -> State:
        return {"window": -1 if self._window is None else self._window, "at": self._at, "next": self._next}

    def load_state_dict(self, state: State) -> None:
        self._window = None if state["window"] < 0 else state["window"]
        self._at, self._next = state["at"], state["next"]
        self._block = None

    def _opened(self) -> Block:
        """The block of the open window, or of the next one where that is used up."""
        if self._block is None and self._window is not None:
            self._block = self._references(self._window)
        while self._block is None or self._at >= len(self._block):
            self._window = self._lane.window(self._next)
            self._next += 1
            self._at = 0
            self._block = self._references(self._window)
        return self._block

    def _references(self, number: int) -> Block:
        source, order = self._stage.source, self._stage.order
        source.will_need(order.slices_of(self._lane.root, number), AHEAD)
        window = order.window(self._lane.root, number)
        return source.block(window.positions, window.epoch)
