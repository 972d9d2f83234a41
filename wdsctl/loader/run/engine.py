"""Prefetching: worker processes run ahead of the training. Also the options of a run that do not affect its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wdsctl.core.errors import LoaderError, StorageError
from wdsctl.core.storage.open import find_fork_unsafe
from wdsctl.core.trace import SourceFacts, TraceWriter
from wdsctl.loader.plan.open_blend import OpenBlend
from wdsctl.loader.recipe.dataset import BaseDataset
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.workers.options import PoolOptions, TaskRunnerFactory
from wdsctl.loader.workers.pool import WorkerPool

if TYPE_CHECKING:
    from wdsctl.loader.workers.options import StartMethod

#: Turns that a worker runs ahead by default: at least, and at most. A ring has 32 blocks.
_MIN_DEPTH, _MAX_DEPTH = 2, 16
#: Bytes of prefetched results per worker that the default may use.
_MAX_READY_BYTES = 8 << 20
#: A worker gets its turns in this many portions: to wake it for every turn costs more.
_SUBMITS_PER_DEPTH = 4


class TaskPlan(Protocol):
    """The tasks of workers: which task a turn has, which worker runs it, and what to do with its result."""

    def task_at(self, turn: int) -> Any:
        """The task of a turn, the same one at every call."""

    def worker_of(self, task: Any) -> int:
        """The worker that runs a task."""

    def resume_state_of(self, worker: int) -> Any:
        """The state that a worker starts from if it starts now."""

    def expand_result(self, result: Any, task: Any) -> Any:
        """Expand a result that a worker compacted. Raises LoaderError WDS518 if it belongs to another task."""

    def record_result(self, result: Any) -> None:
        """Record a result before the next one is drawn, once or more often: `resume_state_of` includes it."""


class _TurnResult(NamedTuple):
    """The result of a turn, and its number among the tasks of its worker."""

    turn: int
    result: Any
    worker: int
    worker_task_number: int


class _TurnProgress(NamedTuple):
    """`tasks_before`: tasks that the pool had been given before turn 0. `expected_turns`: None: endless."""

    tasks_before: int
    expected_turns: int | None
    last_result: _TurnResult | None


class PrefetchEngine:
    """Workers that run up to `depth` turns each ahead (None: see `_depth`). They start at once.

    `runner_factory` gets a worker's resume state, and whether the worker has started before.

    An interrupt may come between any two steps: the pool knows what was submitted, and one assignment takes a result.
    Every other step may be repeated.
    """

    def __init__(
        self,
        runner_factory: TaskRunnerFactory,
        plan: TaskPlan,
        *,
        worker_count: int,
        depth: int | None,
        expected_turns: int | None,
        options: PoolOptions,
    ) -> None:
        self._plan = plan
        self._start_counts = [0] * worker_count
        self._pool = WorkerPool(runner_factory, self._resume_state_of, worker_count=worker_count, options=options)
        self._worker_count = worker_count
        self._fixed_depth = depth
        self._progress = _TurnProgress(0, expected_turns, None)
        self._stopped_workers: set[int] = set()  # workers that wait for a restart after an error

    def draw(self, turn: int) -> Any:
        """The result of this turn. Turns come in order; a turn that raised is drawn again."""
        last = self._record_last_result()
        if last is not None and last.turn == turn:
            return last.result
        self._submit_ahead(turn)
        task = self._plan.task_at(turn)
        worker = self._plan.worker_of(task)
        if worker in self._stopped_workers:
            self._pool.restart(worker)
            self._stopped_workers.discard(worker)
        number = self._pool.accepted_count(worker)
        try:
            result = self._plan.expand_result(self._pool.peek(worker), task)
        except Exception:  # of the worker's code: it ignores tasks until it is restarted
            self._stopped_workers.add(worker)
            raise
        self._progress = self._progress._replace(last_result=_TurnResult(turn, result, worker, number))
        return result

    def try_rewind(self, expected_turns: int | None) -> bool:
        """Count turns from 0 again, with `expected_turns` of them; False if this is impossible and new workers are
        needed."""
        taken = self._record_last_result()
        is_under_way = self._submitted_turns != (0 if taken is None else taken.turn + 1)
        if is_under_way or self._stopped_workers or self._pool.is_closed:
            return False
        self._progress = _TurnProgress(self._pool.submitted_count, expected_turns, None)
        return True

    def close(self) -> None:
        self._pool.close()

    def _record_last_result(self) -> _TurnResult | None:
        """The last result that was drawn, recorded in the plan and accepted in the pool."""
        taken = self._progress.last_result
        if taken is not None:
            self._plan.record_result(taken.result)
            self._pool.accept(taken.worker, taken.worker_task_number)
        return taken

    def _resume_state_of(self, worker: int) -> tuple[Any, bool]:
        self._start_counts[worker] += 1
        return self._plan.resume_state_of(worker), self._start_counts[worker] > 1

    @property
    def _submitted_turns(self) -> int:
        return self._pool.submitted_count - self._progress.tasks_before

    def _submit_ahead(self, turn: int) -> None:
        """Submit the tasks up to `depth` turns per worker after this one, and this one if it was not submitted yet."""
        submitted, depth = self._submitted_turns, self._depth()
        until = turn + self._worker_count * depth
        if submitted > until - max(1, depth // _SUBMITS_PER_DEPTH * self._worker_count):
            return
        if self._progress.expected_turns is not None:
            until = min(until, max(self._progress.expected_turns, turn + 1))
        for each in range(submitted, until):
            task = self._plan.task_at(each)
            self._pool.submit(self._plan.worker_of(task), task)
        self._pool.send()

    def _depth(self) -> int:
        """Turns that a worker runs ahead: the configured number, or as many small results as `_MAX_READY_BYTES` hold.

        A worker that is late for a moment (the machine is busy, or the worker reads the next block of its order) delays
        all others: if the training uses up a result in half a millisecond, a reserve has to be ready.
        """
        if self._fixed_depth is not None:
            return self._fixed_depth
        if not self._pool.largest_result_bytes:
            return _MIN_DEPTH
        return max(_MIN_DEPTH, min(_MAX_READY_BYTES // self._pool.largest_result_bytes, _MAX_DEPTH))


def check_result_task(result_task: Any, expected_task: Any) -> None:
    """Raise LoaderError WDS518 unless the result is that of the expected task. Another one would repeat batches and
    skip others, and no state would show it."""
    if result_task != expected_task:
        raise LoaderError(
            f"a worker returned the result of task {result_task}, expected task {expected_task}",
            hint="close the loader and iterate over it again: training continues at the same position",
            code="WDS518",
        )


@dataclass(slots=True)
class RuntimeOptions:
    """How a loader runs. None of this affects its batches.

    `is_tracing`: whether runners report the samples of each batch. It is known before there is a `tracer`, which needs
    the opened streams.
    """

    watchdog_timeout_seconds: float | None = 60.0
    watchdog_initial_timeout_seconds: float | None = None
    ring_bytes: int | None = None
    max_failed_fraction: float | None = None
    is_tracing: bool = False
    tracer: TraceWriter | None = None


def pool_options(
    workers: WorkerConfig, runtime_options: RuntimeOptions, streams: OpenBlend, *, has_watchdog: bool
) -> PoolOptions:
    return PoolOptions(
        start_method=_usable_start_method(workers.start_method, streams),
        ring_bytes=runtime_options.ring_bytes,
        timeout_seconds=runtime_options.watchdog_timeout_seconds if has_watchdog else None,
        first_timeout_seconds=runtime_options.watchdog_initial_timeout_seconds if has_watchdog else None,
    )


def _usable_start_method(start_method: StartMethod, streams: OpenBlend) -> StartMethod:
    """The start method of the workers: "forkserver" instead of "fork" if a forked worker would wait for threads of the
    store's client forever. Logs the change."""
    if start_method != "fork":
        return start_method
    roots = [root for source in streams.sources for root in (source.root, *(s.path for s in source.stores.values()))]
    unsafe = find_fork_unsafe(roots)
    if not unsafe:
        return start_method
    logger.warning(
        "workers start with 'forkserver', because the client of %s:// URLs in this process has threads, which do "
        "not survive a fork; pass start_method='forkserver' to silence this warning",
        unsafe,
    )
    return "forkserver"


def count_usable_workers(workers: WorkerConfig, lane_count: int) -> int:
    """How many workers a rank of `lane_count` lanes can use: one per lane. Logs a warning if more were requested."""
    if workers.num_workers > lane_count > 0:
        logger.warning(
            "num_workers is %d, but only %d workers can run, one per lane of this rank; start a new job with "
            "lanes=%d to use all",
            workers.num_workers,
            lane_count,
            workers.num_workers * workers.world_size,
        )
    return min(workers.num_workers, lane_count)


def check_lane_count(dataset: BaseDataset, lane_count: int) -> None:
    """Raise LoaderError WDS545 if a validation has fewer lanes than ranks and uneven="drop" would drop every batch.
    Logs a warning for other fewer lanes."""
    world = dataset.worker_config.world_size
    if lane_count >= world:
        return
    if dataset.uneven == "drop":
        raise LoaderError(
            f"this validation packs or groups in {lane_count} lanes, so only {lane_count} of {world} ranks have "
            "batches, and uneven='drop' would drop all batches",
            hint=f"pass lanes={world} or a multiple to get_val_dataset in all runs that you compare, or pass "
            "uneven='pad'",
            code="WDS545",
        )
    if dataset.worker_config.rank == 0:
        logger.warning(
            "%d of %d ranks have no batches in this validation, which packs or groups in %d lanes; pass lanes=%d to "
            "get_val_dataset to give each rank batches",
            world - lane_count,
            world,
            lane_count,
            world,
        )


def open_tracer(dataset: BaseDataset, streams: OpenBlend) -> TraceWriter | None:
    """The writer of this rank's trace, in the folder that the dataset names; None if the disk is full: a training must
    not end because of its trace. Raises StorageError, PermissionDenied otherwise."""
    sources = [
        SourceFacts(
            source.number,
            source.root if source.location is None else source.location.path,
            source.split_name,
            source.offsets.generation,
            source.split_digest,
            catalog=source.location.own_catalog if source.location is not None else "",
        )
        for source in streams.sources
    ]
    workers = dataset.worker_config
    arguments = (str(dataset.trace), workers.rank, workers.world_size, sources)
    try:
        return TraceWriter(*arguments, run=_store_facts(streams), on_message=logger.warning)
    except StorageError as error:
        if error.code != "WDS401":
            raise
        logger.warning("no trace of this run is written: %s (%s)", error.message, error.where)
        return None


def _store_facts(streams: OpenBlend) -> dict[str, Any]:
    """The auxiliary stores that samples of a source may refer to, from which `restore_sample` reads them."""
    stores = [
        {"source": source.number, "name": name, "path": store.path, "digest": store.digest}
        for source in streams.sources
        for name, store in source.stores.items()
    ]
    return {"aux": stores} if stores else {}
