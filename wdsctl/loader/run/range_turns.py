"""Turns of ranges: batch b of a pass is range b of its positions, on rank b mod world size, whatever the lanes.

This holds if every range makes one batch, or what hooks make of it: nothing packs and nothing groups. The position in a
pass is the number of ranges that the world has drawn, so any number of ranks can continue from it.
"""

from __future__ import annotations

from typing import Any

from wdsctl.loader.order.passes import BatchRanges
from wdsctl.loader.pipeline.batches import END
from wdsctl.loader.plan.bans import Bans
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.recipe.dataset import BaseDataset
from wdsctl.loader.resume.state import END_PASSED, LoaderState
from wdsctl.loader.run.batch_ranges import BatchRange, BatchRangeRunner, BatchRangeRunnerFactory
from wdsctl.loader.run.build import (
    build_pipeline,
    can_multiply_batches,
    epoch_of_pass,
    make_plan,
)
from wdsctl.loader.run.engine import check_result_task
from wdsctl.loader.run.lane_runner import DrawnBatch
from wdsctl.loader.run.transport import expand_batch
from wdsctl.loader.run.turns import RankProgress, share_of_stats
from wdsctl.loader.runtime.stats import Stats


class RangeTurns:
    """The turns of one rank's ranges: see `wdsctl.loader.run.turns.TurnPlan`.

    The position of a rank: for each range that is not drawn to its end, by number, how many of its batches have been
    handed out, and how many entries the bans had when the range was begun.
    """

    has_fixed_length = True

    _first_number: int  # of the range of turn 0
    _epoch: int
    _partial_ranges: dict[int, tuple[int, int]]  # those begun before turn 0
    _ranks_began: tuple[int, int]  # batches handed out and ranges drawn in the pass when these ranks took it over
    _runner: BatchRangeRunner

    def __init__(self, dataset: BaseDataset, streams: OpenBlend, bans: Bans, *, is_tracing: bool) -> None:
        self._dataset = dataset
        self._streams = streams
        self._workers = dataset.worker_config
        self._is_tracing = is_tracing
        self._ban_count = len(bans.entries)
        order = streams.components[0].order
        # Passes that are shuffled together count as one.
        self._ranges = BatchRanges(order.n * max(1, order.passes), dataset.batch_size or 1, dataset.batch_drop_last)
        # The batch size belongs to the order here: positions in the pass count batches.
        facts = {**streams.order_facts, "batch_size": dataset.batch_size, "batch_drop_last": dataset.batch_drop_last}
        self.loader_plan = make_plan(dataset, streams, facts)
        self.pipeline = build_pipeline(dataset, streams, bans)
        self.worker_count = self._workers.num_workers
        self.expected_turns: int | None = 0

    def first_progress(self, pass_number: int, stats: Stats) -> RankProgress:
        self._ranks_began = 0, 0
        return RankProgress(0, {}, stats, pass_number=pass_number)

    def restore_progress(self, saved: LoaderState, *, strict: bool) -> RankProgress:
        self.loader_plan.check(saved["plan"], strict=strict)
        position = {int(number): (run["emitted"], run["bans"]) for number, run in saved["cursors"].items()}
        is_over = saved["end"] == END_PASSED
        has_other_ranks = saved["world"] != self._workers.world_size
        self._ranks_began = (saved["batches_handed_out"], saved["batches_drawn"]) if has_other_ranks else (0, 0)
        return RankProgress(
            saved["batches_drawn"], position, Stats(), saved["batches_handed_out"], saved["pass"], is_over
        )

    def check_ranks(self, progress: RankProgress) -> None:
        """Do nothing: a rank without ranges means that the pass has fewer ranges than ranks."""

    def use_worker(self) -> None:
        self.worker_count = 1

    def begin(self, progress: RankProgress) -> RankProgress:
        world = self._workers.world_size
        self._first_number = progress.batches_drawn + self._workers.rank
        self._epoch = epoch_of_pass(self._dataset, progress.pass_number)
        self._partial_ranges = dict(progress.position)
        self.expected_turns = max(0, -((self._first_number - self._ranges.batches) // world))
        if not self.worker_count:
            self._runner = self.runner_factory().open_in_process()
        return progress

    def runner_factory(self) -> BatchRangeRunnerFactory:
        step = self._workers.world_size * max(1, self.worker_count)
        return BatchRangeRunnerFactory(
            self._dataset, self._streams, self.pipeline, self._ranges, step, self._is_tracing
        )

    def next_turn(self, progress: RankProgress) -> int | None:
        number = progress.batches_drawn + self._workers.rank
        if number >= self._ranges.batches:
            return None
        return (number - self._first_number) // self._workers.world_size

    def task_at(self, turn: int) -> BatchRange:
        number = self._first_number + turn * self._workers.world_size
        # A range that is partly handed out is finished with the samples it began with: others make other batches.
        _, bans = self._partial_ranges.get(number, (0, None))
        return BatchRange(self._epoch, number, bans, number // self._workers.world_size)

    def run_task(self, task: BatchRange, progress: RankProgress) -> DrawnBatch:  # noqa: ARG002 - a range has no history
        return self._runner.run_task(task)

    def worker_of(self, task: BatchRange) -> int:
        return (task.number - self._first_number) // self._workers.world_size % self.worker_count

    def resume_state_of(self, worker: int) -> None:
        """Nothing: ranges do not depend on one another."""

    def expand_result(self, result: DrawnBatch, task: BatchRange) -> DrawnBatch:
        # The ban count does not identify a range: the task has it only while the range is partly handed out.
        check_result_task(result.task[:2], task[:2])
        return result._replace(batch=[expand_batch(batch, self._streams.sources) for batch in result.batch])

    def record_result(self, result: DrawnBatch) -> None:
        """Do nothing: no task depends on a result."""

    def advance(self, progress: RankProgress, result: DrawnBatch) -> tuple[RankProgress, Any]:
        number, batches = result.task.number, result.batch
        emitted, bans = progress.position.get(number, (0, self._ban_count))
        position = {other: count for other, count in progress.position.items() if other > number}
        has_more, has_one = emitted + 1 < len(batches), emitted < len(batches)
        if has_more:
            position[number] = (emitted + 1, bans)
        counts_more = has_one or not emitted  # a range without outputs has counts, too
        after = RankProgress(
            progress.batches_drawn + (0 if has_more else self._workers.world_size),
            position,
            progress.stats.plus(share_of_stats(result.stats, emitted, len(batches))) if counts_more else progress.stats,
            progress.batches_handed_out + has_one,
            progress.pass_number,
        )
        return after, batches[emitted] if has_one else END

    def is_under_way(self, progress: RankProgress, task: BatchRange) -> bool:
        return task.number in progress.position

    def has_more(self, progress: RankProgress, rank: int) -> bool:
        return progress.batches_drawn + rank < self._ranges.batches

    def ends_on_all_ranks(self, progress: RankProgress) -> bool:
        """A rank that has made a batch of each of its ranges, and has as many as rank 0, has handed out as many batches
        as any rank can: hooks and failures may take a range's only batch, but do not add any."""
        world = self._workers.world_size
        if world == 1 or self._dataset.uneven != "keep":
            return True
        handed_out, drawn = self._ranks_began
        most = -((drawn - self._ranges.batches) // world)  # ranges of rank 0
        own = (progress.batches_drawn - drawn) // world
        return own == most == progress.batches_handed_out - handed_out and not can_multiply_batches(self._dataset)

    def pass_length(self, rank: int) -> int:
        return max(0, -((rank - self._ranges.batches) // self._workers.world_size))

    def make_padding_batch(self, progress: RankProgress) -> Any:
        """The last batch of this rank in the pass; if it has none, that of another rank."""
        rank, world = self._workers.rank, self._workers.world_size
        own = range((progress.batches_drawn + rank) % world, self._ranges.batches, world)
        runner = BatchRangeRunner(self.pipeline, self._ranges, step=world, is_tracing=False, reports_each_sample=False)
        epoch = epoch_of_pass(self._dataset, progress.pass_number)
        for number in (*reversed(own), *range(self._ranges.batches)):
            batches = runner.run_task(BatchRange(epoch, number)).batch
            if batches:
                return batches[-1]
        return None

    def state_fields(self, progress: RankProgress) -> dict[str, Any]:
        ranges = progress.position.items()
        return {
            "plan": {**self.loader_plan.to_state(), "stages": []},
            "first_batch": 0,
            "lanes": 0,
            "lane_states": {number: {"emitted": emitted, "bans": bans} for number, (emitted, bans) in ranges},
        }
