"""Draws the batches of lanes, in this process or in a worker. Knows no rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wdsctl.core.errors import StateMismatch
from wdsctl.loader.lanes.rank_lanes import LaneLayout
from wdsctl.loader.pipeline.pipeline import LaneCursor, LaneState, Pipeline
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.open_blend import OpenBlend, reopen_blend
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset
from wdsctl.loader.run.build import build_pipeline
from wdsctl.loader.run.cached_units import bind_shard_cache
from wdsctl.loader.run.transport import CompactingRunner, compact_batch, compact_batches
from wdsctl.loader.runtime.failure_rates import AttemptCounts, FailureTally
from wdsctl.loader.runtime.position import within_batch
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.workers.options import TaskRunner
from wdsctl.loader.workers.status_page import report_activity

SampleOrigins = list[tuple[Any, ...]]  # restore keys


class DrawnBatch(NamedTuple):
    """The result of a task: a batch (of a range, a list of batches), the state of its lane after it, the counts of its
    work, the restore keys of its samples if the run is traced, its task, and attempts and failures."""

    batch: Any
    state: Any
    stats: Stats
    origins: SampleOrigins
    task: Any
    counts: AttemptCounts = AttemptCounts()


class LaneTask(NamedTuple):
    """Batch `number` of the whole job, from this lane. `rank_batch`: its number among those of the rank."""

    lane: int
    number: int
    rank_batch: int = 0


class LaneRunner:
    """Draws from open lanes. `lane_states`: where they continue; a lane without a state starts at its beginning.

    `batches_per_turn`: with more than one, a result has a list of batches.
    `lanes`: those that it draws from, in the order of their first turns: what they read first from stores is fetched at
    the first turn. A lane that an error or an interrupt stopped within a batch is reopened from its last state.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        lane_layout: LaneLayout,
        lane_states: Mapping[int, LaneState],
        *,
        lanes: Sequence[int] = (),
        batches_per_turn: int = 1,
        is_tracing: bool = False,
        report_sample: Callable[[str], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._lane_layout = lane_layout
        self._lane_states = dict(lane_states)
        self._cursors: dict[int, LaneCursor] = {}
        self._unopened_lanes = tuple(lanes)
        self._prefetched: dict[int, object] = {}  # of lanes before their first turn
        self._stats = Stats()
        self._tally = FailureTally()
        self._batches_per_turn = batches_per_turn
        self._is_tracing = is_tracing
        self._report_sample = report_sample

    def run_task(self, task: LaneTask) -> DrawnBatch:
        lane = task.lane
        # The cursor is not in the table until the batch is made: a cursor that was stopped within a batch is discarded.
        if self._unopened_lanes:
            lanes, self._unopened_lanes = self._unopened_lanes, ()
            self._prefetched = {each: self._prefetch_first(each) for each in lanes}
        cursor = self._cursors.pop(lane, None) or self._open_cursor(lane)
        self._tally.take()  # left by an error or an interrupt, or counted again while the lane was opened
        before = self._stats.copy()
        batch, origins = self._draw(cursor, task)
        self._pipeline.count_reads(self._stats)
        self._prefetched.pop(lane, None)
        state = cursor.state()
        self._cursors[lane] = cursor
        self._lane_states[lane] = state
        return DrawnBatch(batch, state, self._stats.minus(before), origins, task, self._tally.take())

    def set_lane_state(self, lane: int, state: LaneState | None) -> None:
        """Move a lane to the caller's state, unless it is there already."""
        if self._lane_states.get(lane) is not state:
            self._cursors.pop(lane, None)
            if state is None:
                self._lane_states.pop(lane, None)
            else:
                self._lane_states[lane] = state

    def initial_lane_state(self) -> LaneState:
        """The state of a lane that has not been drawn from."""
        return self._pipeline.open(self._lane_layout.lanes[0], self._stats).state()

    def close(self) -> None:
        self._cursors.clear()
        self._prefetched.clear()

    def _draw(self, cursor: LaneCursor, task: LaneTask) -> tuple[Any, SampleOrigins]:
        """The batch of a turn, or the list of its batches, and the restore keys of its samples if the run is traced."""
        batches, origins = [], []
        for index in range(task.rank_batch, task.rank_batch + self._batches_per_turn):
            with within_batch(index):
                batches.append(cursor.draw(task.number))
            if self._batches_per_turn > 1 and cursor.is_within_batch:
                raise StateMismatch(
                    "a hook makes several batches of one, so smaller batches cannot replace those of the saved job",
                    hint="resume with the batch_size of the job that saved the state",
                )
            origins += cursor.origins(batches[-1]) if self._is_tracing else []
        return (batches if self._batches_per_turn > 1 else batches[0]), origins

    def _prefetch_first(self, lane: int) -> object:
        return self._pipeline.prefetch_first(self._lane_layout.lanes[lane], self._lane_states.get(lane))

    def _open_cursor(self, lane: int) -> LaneCursor:
        cursor = self._pipeline.open(
            self._lane_layout.lanes[lane], self._stats, self._lane_states.get(lane), self._tally
        )
        if self._report_sample is not None:
            cursor.set_sample_reporter(self._report_sample)
        return cursor


@dataclass(frozen=True)
class LaneRunnerFactory:
    """Opens the lanes of a worker. A forked worker has inherited everything; any other reopens the datasets."""

    dataset: BaseDataset
    streams: OpenBlend
    pipeline: Pipeline
    lane_layout: LaneLayout
    lanes_by_worker: Mapping[int, Sequence[int]]  # in the order of their first turns
    batches_per_turn: int
    is_tracing: bool

    def __call__(self, worker: int, resume_state: Any) -> TaskRunner:
        states, is_careful = resume_state
        # After a death, every sample is reported before it is read: a second death names it.
        report_sample = report_activity if is_careful else None
        work = LaneRunner(
            self.pipeline,
            self.lane_layout,
            states,
            lanes=self.lanes_by_worker[worker],
            batches_per_turn=self.batches_per_turn,
            is_tracing=self.is_tracing,
            report_sample=report_sample,
        )
        return CompactingRunner(work, compact_batch if self.batches_per_turn == 1 else compact_batches)

    def __reduce__(self) -> tuple[Any, ...]:
        pipeline = self.pipeline
        streams = self.streams
        facts = (
            streams.generations,
            streams.order_facts,
            streams.store_generations,
            (self.lane_layout, self.lanes_by_worker, self.batches_per_turn),
            pipeline.bans,
            pipeline.refs.epoch,
        )
        return _reopen_factory, (self.dataset, *facts, self.is_tracing)


def _reopen_factory(
    dataset: BaseDataset,
    generations: list[int],
    order: dict[str, Any],
    stores: dict[str, int],
    lanes: tuple[LaneLayout, Mapping[int, Sequence[int]], int],
    bans: Bans,
    pass_number: int,
    is_tracing: bool,
) -> LaneRunnerFactory:
    streams = reopen_blend(dataset, generations, order, stores)
    if isinstance(dataset, TrainDataset) and dataset.repeat:
        bind_shard_cache(dataset, streams)
    return LaneRunnerFactory(
        dataset,
        streams,
        build_pipeline(dataset, streams, bans, pass_number),
        *lanes,
        is_tracing,
    )
