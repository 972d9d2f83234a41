"""The stages of a training, put together for one lane: order -> references -> samples -> encoded -> batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wdsctl.loader.order.geometry import Lane, Position
from wdsctl.loader.stages.batch import BatchStage
from wdsctl.loader.stages.cursor import Cursor, State
from wdsctl.loader.stages.encode import EncodeStage
from wdsctl.loader.stages.load import LoadStage
from wdsctl.loader.stages.source import SourceStage


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The recipe of every lane. `encode` is None where the hook is not overridden: it then costs nothing."""

    source: SourceStage
    load: LoadStage
    encode: EncodeStage | None
    batch: BatchStage

    def open(self, lane: Lane) -> LaneCursor:
        return LaneCursor(self, lane)


class LaneCursor:
    """One lane, under way."""

    def __init__(self, pipeline: Pipeline, lane: Lane) -> None:
        self._batch = pipeline.batch
        self._source = pipeline.source.open(lane)
        loaded = pipeline.load.open(self._source)
        self._samples: Cursor[Any] = loaded if pipeline.encode is None else pipeline.encode.open(loaded)

    def draw(self, number: int) -> Any:
        """The lane's next batch, which is batch `number` of the whole job."""
        return self._batch.draw(self._samples, number)

    def state_dict(self) -> State:
        return self._samples.state_dict()

    def load_state_dict(self, state: State) -> None:
        self._samples.load_state_dict(state)


def position_of(state: State) -> Position:
    """Where a lane's state stands in its order."""
    while "samples" in state:
        state = state["samples"]
    return Position(None if state["window"] < 0 else state["window"], state["at"], state["next"])


def moved(state: State, position: Position) -> State:
    """A lane's state for the lane's first child: the same, with windows counted anew."""
    if "samples" in state:
        return {**state, "samples": moved(state["samples"], position)}
    return {"window": -1 if position.window is None else position.window, "at": position.at, "next": position.next}
