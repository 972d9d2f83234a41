"""The batches of one rank: the next one, and the rank's progress."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from wdsctl.core.checkpoint.state import shorten_list
from wdsctl.core.text import pluralize
from wdsctl.loader.pipeline.batches import END
from wdsctl.loader.pipeline.pipeline import Pipeline
from wdsctl.loader.plan.bans import bans_from_state, check_samples_left, warn_of_unknown_bans
from wdsctl.loader.plan.open_blend import OpenBlend, open_blend
from wdsctl.loader.plan.plan import LoaderPlan
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, is_count_preserving, resolve_changed_shards
from wdsctl.loader.resume.changed_data import ChangedDataCheck
from wdsctl.loader.resume.growth import adopt_growth, find_new_generations, open_next_pass
from wdsctl.loader.resume.state import (
    LoaderState,
    build_rank_state,
    failures_of_rank,
    pass_end_status,
    state_for_rank,
)
from wdsctl.loader.run.build import has_random_hooks
from wdsctl.loader.run.engine import PrefetchEngine, RuntimeOptions, pool_options
from wdsctl.loader.run.lane_runner import DrawnBatch
from wdsctl.loader.run.lane_turns import LaneTurns
from wdsctl.loader.run.own_worker import call_in_worker, log_own_worker
from wdsctl.loader.run.range_turns import RangeTurns
from wdsctl.loader.run.turns import RankProgress, TurnPlan
from wdsctl.loader.runtime.failure_rates import FailureRates
from wdsctl.loader.runtime.failures import FatalSampleError, join_streaks
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.runtime.randomness import is_alone_with_generators, preserve_generators
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.workers.options import PoolOptions


class OfferedBatch(NamedTuple):
    """A batch that was drawn and not accepted, with the progress after it. `result`: of its turn; None for a batch that
    pads an uneven pass and is not from this stream."""

    progress: RankProgress
    batch: Any
    result: DrawnBatch | None


#: The progress of a rank, and the batch that was drawn and not accepted.
PendingBatch = tuple[RankProgress, OfferedBatch | None]


class RankStream:
    """The batches of one rank: from lanes, or from ranges of positions if every range makes one batch.

    `pending`: what `accept` takes after `draw`; one assignment changes the progress and the drawn batch together.
    """

    pending: PendingBatch
    streams: OpenBlend

    _turns: TurnPlan
    _engine: PrefetchEngine | None = None  # started with the first batch
    # The result of a turn with batches that are not handed out, and the progress before them.
    _unfinished: tuple[RankProgress, DrawnBatch] | None = None
    _traced: DrawnBatch | None = None  # the last result in the trace, which several batches may come from
    _counted: Any = None  # pass and task of the last counted failures

    def __init__(
        self, dataset: BaseDataset, state: Any = None, *, strict: bool = False, runtime_options: RuntimeOptions
    ) -> None:
        self._dataset = dataset = resolve_changed_shards(dataset, is_resumed=state is not None)
        self._workers = workers = dataset.worker_config
        self._runtime_options = runtime_options
        # Workers have generators of their own; this process shares the caller's.
        self._keeps_generators = has_random_hooks(dataset) and not workers.num_workers
        self._has_own_worker = False  # without being requested
        self.is_endless = isinstance(dataset, TrainDataset) and dataset.repeat
        self._counts_ranges = not self.is_endless and is_count_preserving(dataset)
        self._virtual_epoch_length = dataset.virtual_epoch_length if isinstance(dataset, TrainDataset) else 0
        self._batch_limit: int | None = getattr(dataset, "limit", None)
        self._failure_rates = FailureRates(runtime_options.max_failed_fraction)
        self._next_generations: list[int] | None = None  # that the next pass adopts
        self._changed_data = ChangedDataCheck(dataset)
        kind: Any = "training" if self.is_endless else "validation"
        saved = None if state is None else state_for_rank(state, workers.rank, workers.world_size, kind)
        known_bans = bans_from_state(saved["bans"] if saved is not None else [])
        self._bans = known_bans.with_entry(dataset.ban)
        edits = isinstance(dataset, TrainDataset) and dataset.adopt_weights and not self._counts_ranges
        new_weights_from = saved["batches_drawn"] if saved is not None and edits else None
        pass_number = 0 if saved is None else saved["pass"] or 0
        self._set_streams(open_blend(dataset, saved, new_weights_from=new_weights_from), pass_number)
        progress = (
            self._turns.first_progress(0, Stats()) if saved is None else self._restore_progress(saved, strict=strict)
        )
        if saved is not None:
            self._failure_rates.load(failures_of_rank(saved, workers.rank), len(self.streams.sources))
        check_samples_left(self._bans, self.streams, progress.batches_drawn)
        if not workers.rank:
            warn_of_unknown_bans(known_bans, self._bans, self.streams)
            if isinstance(dataset, TrainDataset):
                _warn_of_later_generations(self.streams)
        self._turns.check_ranks(progress)
        self._begin_turns(progress)

    def draw(self, *, skips_empty_turns: bool = True) -> Any:
        """The rank's next batch, the same one until it is accepted: an error or an interrupt loses nothing.
        `skips_empty_turns`: False to get END for a turn that makes no batch.

        Raises StopIteration at the end of a virtual epoch, and at the end of a pass until the next one is begun.
        """
        self._move_hooks_if_shared()
        with preserve_generators() if self._keeps_generators else nullcontext():
            while True:
                progress, offered = self.pending
                if offered is None:
                    if self._virtual_epoch_length and progress.batches_handed_out >= self._virtual_epoch_length:
                        raise StopIteration
                    offered = self._draw_next(progress)
                if offered is None or offered.result is None:
                    self._failure_rates.end_pass(self.streams.sources)
                    raise StopIteration
                if offered.batch is not END:
                    break
                if not skips_empty_turns:
                    return END
                self.accept(self.pending)
        result = offered.result
        if self._runtime_options.tracer is not None and result is not self._traced:
            self._traced = result
            self._runtime_options.tracer.add(result.task.number, result.origins, pass_number=progress.pass_number)
        return offered.batch

    def accept(self, pending: PendingBatch) -> bool:
        """Hand out the drawn batch; False if another loop has handed it out meanwhile. This is one assignment:
        interrupts and other threads come before it or after it."""
        if self.pending is not pending:
            return False
        progress, offered = pending
        self.pending = (progress if offered is None else offered.progress, None)
        return True

    @property
    def loader_plan(self) -> LoaderPlan:
        return self._turns.loader_plan

    @property
    def pipeline(self) -> Pipeline:
        return self._turns.pipeline

    @property
    def stats(self) -> Stats:
        return self.pending[0].stats

    @property
    def shared_progress(self) -> dict[str, Any]:
        """What is equal on all ranks before the first batch, beside the plan: bans, and the step of an endless stream.
        In the last step of a pass, ranks may differ."""
        step = {"batches_drawn": self.pending[0].batches_drawn} if self.is_endless else {}
        return {"bans": self._bans.to_state(), **step}

    @property
    def batches_handed_out(self) -> int:
        """Batches handed out in the current pass or virtual epoch; 0 if there is neither."""
        return self.pending[0].batches_handed_out

    @property
    def is_over(self) -> bool:
        """Whether a loop over the current pass has ended, so that the next one begins the next pass."""
        return self.pending[0].is_over

    @property
    def has_fixed_length(self) -> bool:
        """Whether a pass has a known number of turns: every range of positions is one."""
        return self._turns.has_fixed_length

    @property
    def ends_on_all_ranks(self) -> bool:
        """Whether a virtual epoch or pass without a further batch on this rank has none on any rank, if all ranks draw
        in step. False if this rank cannot know."""
        progress = self.pending[0]
        return not self._is_below_limit(progress) or self._turns.ends_on_all_ranks(progress)

    def has_more(self, rank: int) -> bool:
        """Whether this rank of the world has another turn in the current pass."""
        return self._is_below_limit(self.pending[0]) and self._turns.has_more(self.pending[0], rank)

    def pass_length(self, rank: int) -> int:
        """Turns of a rank in a whole pass. Raises TypeError if packing or grouping decides."""
        length = self._turns.pass_length(rank)
        return length if self._batch_limit is None else min(length, self._batch_limit)

    def make_padding_batch(self) -> Any:
        """Make a batch of the current pass again, of this rank if it has one, without counting it; None if the pass has
        no batch."""
        return self.run_hooks(partial(self._turns.make_padding_batch, self.pending[0]))

    def run_hooks(self, call: Callable[[], Any]) -> Any:
        """The result of a call that runs hooks apart from the batches: a sample or a batch."""
        if is_alone_with_generators():
            with preserve_generators():
                return call()
        options = self._pool_options(has_watchdog=False)
        if not has_random_hooks(self._dataset) or options.start_method != "fork":  # the call cannot be pickled
            return call()
        log_own_worker()
        return call_in_worker(call, self.streams.sources, options)

    def record_padding(self) -> None:
        """Count a turn in which this rank had no batch of its own: it had no turn, or has drawn one without a batch."""
        progress, offered = self.pending
        if offered is None:
            after = replace(progress, batches_drawn=progress.batches_drawn + self._workers.world_size)
            offered = OfferedBatch(after, END, None)
        after = replace(offered.progress, batches_handed_out=progress.batches_handed_out + 1)
        self.pending = (progress, offered._replace(progress=after))

    def end_loop(self) -> None:
        """End a virtual epoch of an endless stream, or a pass of a finite one. Raises FatalSampleError if the pass
        handed out no batch and something in it failed: an empty loop would look like success."""
        progress = self.pending[0]
        ended = replace(progress, batches_handed_out=0) if self.is_endless else replace(progress, is_over=True)
        self.pending = (ended, None)
        rates = self._failure_rates
        if not self.is_endless and not progress.batches_handed_out and rates.pass_failures:
            raise FatalSampleError(
                f"the pass ended without a batch, with {pluralize(rates.pass_failures, 'failure')}; the first: "
                f"{rates.first_failure}",
                hint="fix the cause; WorkerConfig(global_error_handler=reraise_exception) raises the first failure "
                "with its traceback",
            )

    def begin_next_pass(self) -> None:
        """Begin the next pass, with the same workers if passes do not depend on one another."""
        number, stats = self.pending[0].pass_number + 1, self.pending[0].stats
        self._failure_rates.begin_pass()
        keeps_turns = self._turns.has_fixed_length and self._next_generations is None
        engine = self._engine if keeps_turns and self._workers.persistent_workers else None
        if engine is not None and engine.try_rewind(self.pass_length(self._workers.rank)):
            self._unfinished = None
            self.pending = (self._turns.begin(self._turns.first_progress(number, stats)), None)
            return
        if self._engine is not None:
            self._engine.close()
        if self._next_generations is not None:
            self.streams.close()
        if not keeps_turns:
            self._set_streams(open_next_pass(self._dataset, self.streams, self._next_generations), number)
        self._next_generations = None
        self._begin_turns(self._turns.first_progress(number, stats))

    def state_dict(self) -> LoaderState:
        """The state of the rank after the batch that was accepted last. Asks no worker. Rank 0 logs a warning if the
        datasets have changed so that the state cannot be resumed."""
        if not self._workers.rank:
            self._changed_data.warn_if_changed(self.streams)
        progress, turns = self.pending[0], self._turns
        has_more = self._is_below_limit(progress) and turns.has_more(progress, self._workers.rank)
        is_at_virtual_end = bool(self._virtual_epoch_length) and (
            progress.batches_handed_out >= self._virtual_epoch_length
        )
        return build_rank_state(
            self._workers,
            generations=self.streams.generations,
            batches_drawn=progress.batches_drawn,
            pass_number=None if self.is_endless else progress.pass_number,
            # A finished virtual epoch stays finished after a resume.
            batches_handed_out=0 if is_at_virtual_end else progress.batches_handed_out,
            end=pass_end_status(is_over=progress.is_over, has_more=self.is_endless or has_more),
            bans=self._bans.to_state(),
            failures=self._failure_rates.to_state(),
            **turns.state_fields(progress),
        )

    def start(self) -> None:
        """Start the workers, if there are any."""
        self._move_hooks_if_shared()
        if self._turns.worker_count:
            self._start_workers()

    def close(self) -> None:
        """End the workers and close the shards. The next batch continues from the rank's position."""
        try:
            if self._engine is not None:
                self._engine.close()
            self.streams.close()
        finally:  # also after an interrupt: do not keep a closed engine
            self._begin_turns(self.pending[0])

    def _move_hooks_if_shared(self) -> None:
        """In a thread, run hooks in a worker process from now on: all threads share the generators of this process. The
        batches stay the same; one that was drawn and not accepted is drawn again."""
        if self._keeps_generators and not is_alone_with_generators():
            log_own_worker()
            self._keeps_generators, self._has_own_worker = False, True
            self._turns.use_worker()
            self._begin_turns(self.pending[0])

    def _draw_next(self, progress: RankProgress) -> OfferedBatch | None:
        """Draw the next batch, with the progress after it; None if the pass has no more."""
        turns = self._turns
        turn = turns.next_turn(progress) if self._is_below_limit(progress) else None
        if turn is None:
            return None
        unfinished = self._unfinished
        result: DrawnBatch
        if unfinished is not None and unfinished[0] is progress:
            result = unfinished[1]
        elif turns.worker_count:
            result = (self._engine or self._start_workers()).draw(turn)
        else:
            result = turns.run_task(turns.task_at(turn), progress)
        after, batch = turns.advance(progress, result)
        offered = OfferedBatch(after, batch, result)
        self.pending = (progress, offered)
        has_more = batch is not END and after.batches_drawn == progress.batches_drawn
        self._unfinished = (after, result) if has_more else None
        counted = (progress.pass_number, *result.task[:2])
        if counted != self._counted:
            self._counted = counted
            if not turns.is_under_way(progress, result.task):
                rates = self._failure_rates
                rates.in_a_row = join_streaks(rates.in_a_row, result.counts.streaks)
                rates.add(result.counts, self.streams.sources)
        return offered

    def _is_below_limit(self, progress: RankProgress) -> bool:
        return self._batch_limit is None or progress.batches_handed_out < self._batch_limit

    def _set_streams(self, streams: OpenBlend, pass_number: int) -> None:
        self.streams = streams
        is_tracing = self._runtime_options.is_tracing
        self._turns = (
            RangeTurns(self._dataset, streams, self._bans, is_tracing=is_tracing)
            if self._counts_ranges
            else LaneTurns(self._dataset, streams, self._bans, pass_number=pass_number, is_tracing=is_tracing)
        )
        if self._has_own_worker:
            self._turns.use_worker()

    def _restore_progress(self, saved: LoaderState, *, strict: bool) -> RankProgress:
        """The progress of a state; the run adopts what the datasets have become at the end of the epoch or pass."""
        progress = self._turns.restore_progress(saved, strict=strict)
        dataset = self._dataset
        if isinstance(dataset, TrainDataset) and dataset.adopt is not None:
            if self.is_endless:
                lanes = progress.position
                grown = adopt_growth(
                    dataset, self.streams, self.pipeline.refs, lanes.layout, lanes.states, progress.batches_drawn
                )
                self._set_streams(grown, progress.pass_number)
            else:
                self._next_generations = find_new_generations(dataset, self.streams)
        return progress

    def _begin_turns(self, progress: RankProgress) -> None:
        begun = self._turns.begin(progress)
        self._engine = self._unfinished = None
        # Last, so that after an earlier interrupt the pass can be begun again.
        self.pending = (begun, None)

    def _start_workers(self) -> PrefetchEngine:
        turns = self._turns
        if self._engine is None:
            expected_turns = turns.expected_turns
            if expected_turns is not None and self._batch_limit is not None:
                expected_turns = min(expected_turns, self._batch_limit)
            self._engine = PrefetchEngine(
                turns.runner_factory(),
                turns,
                worker_count=turns.worker_count,
                depth=self._workers.prefetch_factor,
                expected_turns=expected_turns,
                options=self._pool_options(has_watchdog=not self._has_own_worker),
            )
        return self._engine

    def _pool_options(self, *, has_watchdog: bool) -> PoolOptions:
        return pool_options(self._workers, self._runtime_options, self.streams, has_watchdog=has_watchdog)


def _warn_of_later_generations(streams: OpenBlend) -> None:
    """A validation without a state reads what a dataset has become, and its results are of other samples than those
    before the save."""
    if streams.outgrown_datasets:
        logger.warning(
            "the training continues without the samples that were added to %s since the state was saved, but a "
            "validation that is not restored from a state reads them, too; save and restore the states of validations "
            'to compare them, or pass adopt="next_epoch" to train on the new samples',
            shorten_list(streams.outgrown_datasets),
        )
