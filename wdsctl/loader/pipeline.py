"""The stages of a training, put together for one lane: order -> references -> samples -> encoded -> batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wdsctl.loader.order.geometry import Lane, Position
from wdsctl.loader.stages.batch import BatchStage
from wdsctl.loader.stages.bulk import BulkStage
from wdsctl.loader.stages.cursor import Cursor, State
from wdsctl.loader.stages.encode import EncodeStage
from wdsctl.loader.stages.load import LoadStage
from wdsctl.loader.stages.source import SourceStage


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The recipe of every lane. `encode` is None where the hook is not overridden: it then costs nothing.

    With `bulk`, batches are made of references at once: where nothing is overridden and nothing decoded.
    """

    source: SourceStage
    load: LoadStage
    encode: EncodeStage | None
    batch: BatchStage
    bulk: BulkStage | None

    def open(self, lane: Lane) -> LaneCursor:
        return LaneCursor(self, lane)


class LaneCursor:
    """One lane, under way."""

    def __init__(self, pipeline: Pipeline, lane: Lane) -> None:
        self._batch = pipeline.batch
        self._bulk = pipeline.bulk
        self._encodes = pipeline.encode is not None
        self._source = pipeline.source.open(lane)
        loaded = pipeline.load.open(self._source)
        self._samples: Cursor[Any] = loaded if pipeline.encode is None else pipeline.encode.open(loaded)

    def draw(self, number: int) -> Any:
        """The lane's next batch, which is batch `number` of the whole job."""
        if self._bulk is not None:
            return self._bulk.draw(self._source, number)
        return self._batch.draw(self._samples, number)

    def state_dict(self) -> State:
        return self._samples.state_dict()

    def load_state_dict(self, state: State) -> None:
        """Also a state that was saved with `encode_sample` where there is none now, and the other way round."""
        if self._encodes == ("samples" in state):
            self._samples.load_state_dict(state)
        elif self._encodes:
            self._samples.load_state_dict({"samples": state, "left": 0})
        else:
            self._samples.load_state_dict(state["samples"])
            if state["left"]:
                # It was encoded, and some of that has left: it has come.
                self._source.take(1)


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
