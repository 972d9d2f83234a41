"""Makes the batches of finite passes, a range of positions at a time, in this process or in a worker. Knows no rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.lanes.lane_order import LaneOrder, SampleWindow
from wdsctl.loader.lanes.rank_lanes import Lane
from wdsctl.loader.order.growth import single_lane_order
from wdsctl.loader.order.passes import BatchRanges
from wdsctl.loader.order.shuffle import UNSHUFFLED
from wdsctl.loader.pipeline.batches import BatchCursor
from wdsctl.loader.pipeline.bulk import bulk_origins, count_ranges
from wdsctl.loader.pipeline.grouping import ItemBatches, PlainSampleBatches
from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.pipeline.samples import BanCheck
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.components import Component
from wdsctl.loader.plan.open_blend import OpenBlend, reopen_blend
from wdsctl.loader.reading.source import SampleRef, SampleRefRange
from wdsctl.loader.recipe.dataset import BaseDataset
from wdsctl.loader.run.build import build_pipeline
from wdsctl.loader.run.lane_runner import DrawnBatch
from wdsctl.loader.run.transport import CompactingRunner, compact_batches
from wdsctl.loader.runtime.failure_rates import FailureTally
from wdsctl.loader.runtime.failures import FailureTracker
from wdsctl.loader.runtime.position import within_batch
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.workers.options import TaskRunner
from wdsctl.loader.workers.status_page import report_activity

REFS_AT_ONCE = 512  # samples whose references are computed together: some 40 us, and 2 us a sample


class BatchRange(NamedTuple):
    """Range `number` of the pass that reads this epoch of the order.

    `ban_count`: how many entries of the bans apply; None: all. `rank_batch`: its number among those of the rank.
    """

    epoch: int
    number: int
    ban_count: int | None = None
    rank_batch: int = 0


class BatchRangeRunner:
    """Makes the batches of ranges. No range depends on another."""

    def __init__(
        self, pipeline: Pipeline, ranges: BatchRanges, *, step: int, is_tracing: bool, reports_each_sample: bool
    ) -> None:
        self.pipeline = pipeline
        self._refs = BatchRangeRefs(pipeline.refs.components[0], ranges, step)
        self._stats = Stats()
        self._tally = FailureTally()
        self._failures = FailureTracker(
            pipeline.error_handler,
            self._stats,
            tally=self._tally,
            changed_shards=pipeline.changed_shards,
        )
        self._ban_check = _new_ban_check(pipeline.bans)
        # Keeps short batches: a range that lost samples to hooks is not the end of the pass, which `BatchRanges` drops.
        self._stage = pipeline.batch
        # After a death, every sample is reported before it is read: a second death names it.
        self._report_sample = report_activity if reports_each_sample else None
        self._bulk = None if reports_each_sample else pipeline.bulk
        self._is_tracing = is_tracing

    def run_task(self, batch_range: BatchRange) -> DrawnBatch:
        """Make all batches of one range: usually one."""
        # Left by an error or an interrupt, or by a range of bytes.
        self._tally.take()
        self._failures.take_streaks()
        before = self._stats.copy()
        self._refs.go_to(BatchRange(batch_range.epoch, batch_range.number))
        batch = None if self._bulk is None else self._bulk.make_batch(self._refs.ref_ranges, self._stats)
        if batch is None:
            cursor = self._open_cursor(batch_range)
            with within_batch(batch_range.rank_batch):
                batches = cursor.draw_all()
            origins = cursor.origins() if self._is_tracing else []
        else:
            batches, origins = [batch], bulk_origins(batch) if self._is_tracing else []
            count_ranges(self._tally, self._refs.ref_ranges)
            self._failures.record_success("load")
        self.pipeline.count_reads(self._stats)
        counts = self._tally.take()._replace(streaks=self._failures.take_streaks())
        return DrawnBatch(batches, None, self._stats.minus(before), origins, batch_range, counts)

    def close(self) -> None:
        """Do nothing: ranges leave no open resources."""

    def _open_cursor(self, batch_range: BatchRange) -> BatchCursor:
        """Open new cursors for every range: after an error or an interrupt, old cursors are undefined."""
        samples = self.pipeline.samples.open(self._refs, self._failures, self._stats)
        samples.ban_check, samples.report_sample = self._ban_check, self._report_sample
        if batch_range.ban_count is not None:
            samples.ban_check = _new_ban_check(Bans(self.pipeline.bans.entries[: batch_range.ban_count]))
        item_source: Any = (
            PlainSampleBatches(
                samples, self.pipeline.batch.batch_size or 1, with_keys=self.pipeline.batch.needs_sample_keys
            )
            if self.pipeline.is_plain
            else ItemBatches(samples, 1 << 62, self._stats)
        )
        return self._stage.open(item_source, self._failures, self._stats)


class BatchRangeRefs:
    """The references of one range, as a finite stage.

    `step`: distance between the ranges that this process makes. The references of the next ones are computed together.
    """

    def __init__(self, component: Component, ranges: BatchRanges, step: int) -> None:
        self._component = component
        self._ranges = ranges
        self._step = step
        self._refs_by_range: dict[BatchRange, list[SampleRefRange]] = {}
        self._lane_order = LaneOrder(single_lane_order(component.order), Lane(0))
        self._window: SampleWindow | None = None
        self._refs: list[SampleRef] | None = None
        self._is_remote = component.is_remote
        self._prefetch_at: BatchRange | None = None  # the range at which those after the known ones are prefetched
        self._prefetched: list[object] = []  # of the known ranges, and of those after them
        self.ref_ranges: list[SampleRefRange] = []
        self.draws = 0

    def go_to(self, batch_range: BatchRange) -> None:
        """Move to the beginning of a range."""
        if batch_range not in self._refs_by_range:
            self._refs_by_range = self._make_refs(batch_range)
            if self._is_remote:
                self._prefetched = self._prefetched[-1:]
                self._prefetch_at = list(self._refs_by_range)[len(self._refs_by_range) // 2]
        elif batch_range == self._prefetch_at:
            self._prefetch_after(list(self._refs_by_range)[-1])
        self.ref_ranges, self._refs, self.draws = self._refs_by_range[batch_range], None, 0

    def lookup(self, draw: int) -> SampleRef:
        return self._list_refs()[draw]

    def seek(self, draws: int) -> None:
        self.draws = draws

    def take(self, count: int) -> list[SampleRef]:
        refs = self._list_refs()[self.draws : self.draws + count]
        self.draws += len(refs)
        return refs

    def _list_refs(self) -> list[SampleRef]:
        if self._refs is None:
            self._refs = [
                (source, block, i) for source, block, start, stop in self.ref_ranges for i in range(start, stop)
            ]
        return self._refs

    def _make_refs(self, batch_range: BatchRange) -> dict[BatchRange, list[SampleRefRange]]:
        """Compute the references of this range and of the next ones."""
        runs = self._ranges_from(batch_range)
        positions_by_range = [self._positions_of(each) for each in runs]
        positions, passes = (np.concatenate(column) for column in zip(*positions_by_range, strict=True))
        refs_by_range: dict[BatchRange, list[SampleRefRange]] = {}
        begin = 0
        block_of_all = self._component.block(positions, passes) if self._component.has_contiguous_refs else None
        refs = self._component.refs(positions, passes) if block_of_all is None else []
        for each, (own_positions, _) in zip(runs, positions_by_range, strict=True):
            end = begin + len(own_positions)
            if block_of_all is not None:
                refs_by_range[each] = [(*block_of_all, begin, end)]
            else:
                refs_by_range[each] = [(source, block, i, i + 1) for source, block, i in refs[begin:end]]
            begin = end
        return refs_by_range

    def _ranges_from(self, batch_range: BatchRange) -> list[BatchRange]:
        """This range and the next ones whose references are computed together."""
        last = batch_range.number + self._step * max(1, REFS_AT_ONCE // self._ranges.batch_size)
        return [
            BatchRange(batch_range.epoch, number)
            for number in range(batch_range.number, min(last, self._ranges.batches), self._step)
        ]

    def _prefetch_after(self, last: BatchRange) -> None:
        """Prefetch the samples of the ranges after this one."""
        following = self._ranges_from(last._replace(number=last.number + self._step))
        if following:
            positions = np.concatenate([self._positions_of(each)[0] for each in following])
            self._prefetched.append(self._component.prefetch(positions))

    def _positions_of(self, batch_range: BatchRange) -> tuple[Int64Array, Int64Array]:
        """The positions of a range, and the pass of each."""
        start, stop = self._ranges.batch_range(batch_range.number)
        order = self._component.order
        if order.passes == UNSHUFFLED:
            return np.arange(start, stop), np.full(stop - start, batch_range.epoch)
        before = batch_range.epoch * order.n * order.passes
        stretches = [*self._window_slices(before + start, before + stop)]
        return np.concatenate([a for a, _ in stretches]), np.concatenate([b for _, b in stretches])

    def _window_slices(self, start: int, stop: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Draws [start, stop) of the whole order, window by window."""
        while start < stop:
            window = self._window
            if window is None or not window.first_number <= start < window.first_number + len(window.positions):
                window = self._window = self._lane_order.window(start)
            rows = slice(start - window.first_number, stop - window.first_number)
            yield window.positions[rows], window.passes[rows]
            start = min(stop, window.first_number + len(window.positions))


@dataclass(frozen=True)
class BatchRangeRunnerFactory:
    """Opens the runner of a worker. A forked worker has inherited everything; any other reopens the datasets.

    `step`: from one range of a worker to its next.
    """

    dataset: BaseDataset
    streams: OpenBlend
    pipeline: Pipeline
    ranges: BatchRanges
    step: int
    is_tracing: bool

    def __call__(self, worker: int, resume_state: Any) -> TaskRunner:  # noqa: ARG002 - workers do not differ
        _, reports_each_sample = resume_state
        return CompactingRunner(self.open_in_process(reports_each_sample=reports_each_sample), compact_batches)

    def open_in_process(self, *, reports_each_sample: bool = False) -> BatchRangeRunner:
        """Open the runner for this process itself."""
        return BatchRangeRunner(
            self.pipeline,
            self.ranges,
            step=self.step,
            is_tracing=self.is_tracing,
            reports_each_sample=reports_each_sample,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        streams = self.streams
        facts = (streams.generations, streams.order_facts, streams.store_generations, self.pipeline.bans)
        return _reopen_factory, (self.dataset, *facts, self.ranges, self.step, self.is_tracing)


def _new_ban_check(bans: Bans) -> BanCheck | None:
    """The check of the bans for a range: ranges have no history, so a ban applies from their beginning."""
    return bans.ban_filter(bans.history([], 0))


def _reopen_factory(
    dataset: BaseDataset,
    generations: list[int],
    order: dict[str, Any],
    stores: dict[str, int],
    bans: Bans,
    *factory_arguments: Any,
) -> BatchRangeRunnerFactory:
    streams = reopen_blend(dataset, generations, order, stores)
    return BatchRangeRunnerFactory(dataset, streams, build_pipeline(dataset, streams, bans), *factory_arguments)
