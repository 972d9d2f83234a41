"""Lanes for the workers of a rank: what is opened in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wdsctl.loader.bans import Bans
from wdsctl.loader.dataset import Dataset
from wdsctl.loader.lane_work import LaneWork
from wdsctl.loader.order.geometry import Geometry
from wdsctl.loader.pipeline import Pipeline
from wdsctl.loader.recipes import pipeline_of
from wdsctl.loader.streams import Streams, reopened
from wdsctl.loader.travel import Sending, packed
from wdsctl.loader.workers import Work, status


@dataclass(frozen=True)
class LaneJob:
    """Opens the lanes of a worker. A forked worker has everything; another one opens the datasets again."""

    dataset: Dataset
    streams: Streams
    pipeline: Pipeline
    geometry: Geometry
    traced: bool

    def __call__(self, worker: int, resume: Any) -> Work:  # noqa: ARG002 - what it resumes says which lanes
        states, is_careful = resume
        # After a death, every sample is told of before it is touched: the second death names it.
        telling = status if is_careful else None
        work = LaneWork(self.pipeline, self.geometry, states, traced=self.traced, telling=telling)
        return Sending(work, packed)

    def __reduce__(self) -> tuple[Any, ...]:
        pipeline = self.pipeline
        streams = self.streams
        facts = (streams.generations, streams.order, streams.stores, self.geometry, pipeline.bans, pipeline.refs.epoch)
        return _reopened, (self.dataset, *facts, self.traced)


def _reopened(
    dataset: Dataset,
    generations: list[int],
    order: dict[str, Any],
    stores: dict[str, int],
    geometry: Geometry,
    bans: Bans,
    passes: int,
    traced: bool,
) -> LaneJob:
    streams = reopened(dataset, generations, order, stores)
    return LaneJob(dataset, streams, pipeline_of(dataset, streams, bans, passes), geometry, traced)
