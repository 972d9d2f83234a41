"""What draws batches: in this process, or in a worker. It knows lanes, and no rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wdsctl.loader.failure_rates import Counts, Tally
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.pipeline import LaneCursor, Pipeline, State
from wdsctl.loader.stats import Stats

Origins = list[tuple[Any, ...]]  # restore keys


class Drawn(NamedTuple):
    """A batch and what travels with it: where its lane stands after it, what was counted, whose samples it has, the
    task that it was made for, and what was tried and failed on the way to it."""

    batch: Any
    state: Any
    stats: Stats
    origins: Origins
    task: Any
    counts: Counts = Counts()


class Task(NamedTuple):
    """Batch `number` of the whole job, from this lane."""

    lane: int
    number: int


class LaneWork:
    """Lanes under way. `states`: where they stand; a lane that is not among them begins.

    A lane that was stopped half way, by an error or an interrupt, is opened again from its last state.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        geometry: Geometry,
        states: Mapping[int, State],
        *,
        traced: bool = False,
        telling: Callable[[str], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._geometry = geometry
        self._states = dict(states)
        self._cursors: dict[int, LaneCursor] = {}
        self._stats = Stats()
        self._tally = Tally()
        self._traced = traced
        self._telling = telling

    def do(self, task: Task) -> Drawn:
        lane, number = task
        # Out of the table until the batch is there: what was stopped half way is thrown away.
        self._tally.take()  # what an error or an interrupt has left
        cursor = self._cursors.pop(lane, None) or self._opened(lane)
        before = self._stats.copy()
        batch = cursor.draw(number)
        state = cursor.state()
        origins = cursor.origins(batch) if self._traced else []
        self._cursors[lane] = cursor
        self._states[lane] = state
        return Drawn(batch, state, self._stats.minus(before), origins, task, self._tally.take())

    def stands(self, lane: int, state: State | None) -> None:
        """Make sure that a lane stands where the caller says, whose word counts."""
        if self._states.get(lane) is not state:
            self._cursors.pop(lane, None)
            if state is None:
                self._states.pop(lane, None)
            else:
                self._states[lane] = state

    def fresh(self) -> State:
        """The state of a lane that has not been drawn from."""
        return self._pipeline.open(self._geometry.lanes[0], self._stats).state()

    def close(self) -> None:
        self._cursors.clear()

    def _opened(self, lane: int) -> LaneCursor:
        cursor = self._pipeline.open(self._geometry.lanes[lane], self._stats, self._states.get(lane), self._tally)
        if self._telling is not None:
            cursor.tell(self._telling)
        return cursor
