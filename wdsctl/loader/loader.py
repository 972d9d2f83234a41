"""The loader: iterate over it, save its state at any moment, and resume on any number of ranks and workers.

Also the functions that create it, with the options of Energon's loaders.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from threading import RLock
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from wdsctl.core.checkpoint.state import copy_json
from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.text import escape_control_chars, pluralize, short_repr
from wdsctl.core.urls import redact_secrets
from wdsctl.loader import distributed
from wdsctl.loader.batching.batch import maybe_pin
from wdsctl.loader.distributed import RankBalancer, needs_balance
from wdsctl.loader.reading.source import SplitSource
from wdsctl.loader.recipe.dataset import BaseDataset, TrainDataset, ValDataset, describe_order, get_train_dataset
from wdsctl.loader.recipe.worker_config import WorkerConfig
from wdsctl.loader.resume.restore import restore_by_key
from wdsctl.loader.resume.state import LoaderState
from wdsctl.loader.run.engine import RuntimeOptions, open_tracer
from wdsctl.loader.run.rank_stream import RankStream
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.stores.cache import CachePool

if TYPE_CHECKING:
    from wdsctl.loader.stores.shard_cache import ShardCache

T = TypeVar("T")


class Loader:
    """The batches of one rank.

    Breaking out of a `for` loop over a training loses nothing: the next loop continues with the very next batch. A
    training never ends, unless it has virtual epochs or was created with `repeat=False`; then the next loop begins the
    next pass. A loop also begins the next pass if no batch is left, after a `break` at the last batch or in a state
    that was saved there, and this rank knows that no other has one left; otherwise this loop is empty. A loop over a
    validation is one pass from its first batch, however the last loop ended; it continues a pass only after a state was
    restored.

    Threads that draw from one loader share its batches: each batch goes to one of them. A process that is forked from
    the one that opened the loader cannot draw from it (LoaderError WDS517).
    """

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        """`Loader[Batch]`, for annotations."""
        return GenericAlias(cls, item)

    def __init__(
        self, dataset: BaseDataset, runtime_options: RuntimeOptions | None = None, *, pin_memory: bool = False
    ) -> None:
        self._dataset = dataset
        self._runtime_options = runtime_options or RuntimeOptions()
        self._pin_memory = pin_memory
        self._stream: RankStream | None = None
        self._are_ranks_checked = False
        self._balancer = RankBalancer(dataset) if needs_balance(dataset) else None
        self._last_drawn_stream: RankStream | None = None  # the stream of the last batch
        self._state_before_pass: LoaderState | None = None  # until the new pass has handed out a batch
        self._created_pid = os.getpid()
        self._owner_pid: int | None = None  # the process that opened the stream
        self._lock = RLock()  # held by the thread that draws

    def __iter__(self) -> Iterator[Any]:
        for run, offered, batch in self._draw_loop(from_start=isinstance(self._dataset, ValDataset)):
            # No statement may come between `accept` and the yield, where an interrupt could lose the batch. `accept`
            # returns False if the loop of another thread has handed out the batch.
            self._state_before_pass = None
            if run.accept(offered):
                yield batch

    def unbatched(self, split_batch: Callable[[Any], Sequence[T]]) -> Iterator[T]:
        """The parts that `split_batch` returns for each batch (one or more), one by one.

        A batch counts as handed out with the last of its parts; until then, states are before it.
        """
        for run, offered, batch in self._draw_loop():
            *first, last = split_batch(batch)
            yield from first
            self._state_before_pass = None
            if not run.accept(offered):
                raise LoaderError(
                    "a second loop over this loader has already returned the batch that this loop is splitting",
                    hint="end one loop before starting the next one, or use a loader for each",
                    code="WDS518",
                )
            yield last

    def __len__(self) -> int:
        """Batches of this rank in one `for` loop. Raises TypeError for an endless training, or if hooks decide."""
        if isinstance(self._dataset, TrainDataset) and self._dataset.virtual_epoch_length:
            return self._dataset.virtual_epoch_length
        run = self._open_stream()
        if run.is_endless:
            epoch = self._dataset.count_epoch_batches(run.streams.samples)
            if epoch is not None:
                return epoch
            raise TypeError(
                "an endless training has no length: pass virtual_epoch_length to get_train_dataset; if a torch "
                "DataLoader asked, iterate over the Loader itself"
            )
        if self._balancer is not None:
            return self._balancer.batches_per_pass(run)
        return run.pass_length(self._dataset.worker_config.rank)

    def __bool__(self) -> bool:
        """True, however many batches there are: trainers write `if loader:`. Opens nothing."""
        return True

    def __repr__(self) -> str:
        """What is read, batch size, rank, order and position. Opens nothing."""
        dataset, workers, stream = self._dataset, self._dataset.worker_config, self._stream
        named = (
            short_repr(redact_secrets(dataset.path)) if isinstance(dataset.path, str) else type(dataset.path).__name__
        )
        sources = () if stream is None else stream.streams.sources
        amount = pluralize(sum(source.n for source in sources), "sample")
        opened = f": {pluralize(len(sources), 'dataset')}, {amount}" if sources else ""
        size = "single samples" if dataset.batch_size is None else f"of {pluralize(dataset.batch_size, 'sample')}"
        names = ("packing", "buckets")
        batch_kind = ", ".join([size, *(name for name in names if getattr(dataset, name) is not None)])
        lines = [
            f"Loader of {named}, split {dataset.split_part!r}{opened}",
            f"  batches   {batch_kind}",
            f"  rank      {workers.rank} of {workers.world_size}, {pluralize(workers.num_workers, 'worker')}",
            f"  order     seed {dataset.seed}, {describe_order(dataset)}",
            f"  position  {self._describe_position()}",
        ]
        return escape_control_chars("\n".join(lines))

    def _describe_position(self) -> str:
        if self._stream is None:
            return "no batch drawn yet; datasets not opened yet"
        state = self.state_dict()
        position = f"after {pluralize(state['batches_drawn'], 'batch', 'batches')} of all ranks"
        return position if state["pass"] is None else f"pass {state['pass']}, {position}"

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_endless(self) -> bool:
        """Whether the batches never end: a `for` loop ends only with a virtual epoch. Opens nothing."""
        return isinstance(self._dataset, TrainDataset) and self._dataset.repeat

    @property
    def is_padding(self) -> bool:
        """Whether the last returned batch only pads a pass: this rank had no batch of its own at this step."""
        return self._balancer is not None and self._balancer.is_padding

    @property
    def stats(self) -> Stats:
        """Counts of the samples and batches that this loader returned or skipped, and times."""
        return self._open_stream().stats

    @property
    def sources(self) -> tuple[SplitSource, ...]:
        """The datasets that the loader reads, by their numbers in restore keys."""
        return self._open_stream().streams.sources

    @property
    def dataset(self) -> BaseDataset:
        """The dataset that the loader was made of. Opens nothing."""
        return self._dataset

    @property
    def worker_config(self) -> WorkerConfig:
        """The rank and the workers. Opens nothing."""
        return self._dataset.worker_config

    def config(self) -> dict[str, Any]:
        """The plan, as JSON: all resolved settings that determine the batches."""
        plan = self._open_stream().loader_plan
        return {"fingerprint": plan.fingerprint(), "order": plan.order_facts, "recipe": plan.recipe_facts}

    def state_dict(self) -> LoaderState:
        """Return the state of this rank after the last returned batch, as JSON. Takes less than a millisecond.

        Does not ask workers: a resumed run makes prefetched batches again. If the first batch of a pass fails, the
        state is that after the last batch of the previous pass, as on ranks that have not begun the next one.

        Writes the trace up to here: a killed job that resumes from this state does not draw its earlier batches again.
        """
        self._flush_trace()
        before = self._state_before_pass
        return self._open_stream().state_dict() if before is None else copy_json(before)

    def load_state_dict(self, state: LoaderState | Sequence[LoaderState], *, strict: bool = False) -> None:
        """Continue from a state, at any time: this rank's own state, all ranks' states, or a merged one.

        Raises StateMismatch if the state belongs to other data, another order or too few ranks. Other hooks or another
        batch size cause a warning, and are refused if `strict`.
        """
        loaded_state: Any = state
        # None must not start from the beginning: the checkpoint may have lost its state.
        run = self._new_stream({} if loaded_state is None else loaded_state, strict=strict)
        self.close()
        self._stream, self._state_before_pass = run, None
        if self._balancer is not None:
            self._balancer.forget_last_batch()  # it does not pad the pass of the state

    def save_state_rank(self) -> LoaderState:
        """`state_dict` under Energon's name."""
        return self.state_dict()

    def restore_state_rank(self, state: LoaderState | Sequence[LoaderState] | None, *, strict: bool = False) -> None:
        """`load_state_dict` under Energon's name. As in Energon, None changes nothing; it is logged as a warning."""
        if state is None:
            logger.warning("no state was restored: the loader received None, and keeps its position")
            return
        self.load_state_dict(state, strict=strict)

    def save_state(self, dst_rank: int) -> list[LoaderState] | None:
        """Energon's deprecated name of `save_state_global`. Causes a warning."""
        warnings.warn("save_state is deprecated: call save_state_rank or save_state_global", stacklevel=2)
        return self.save_state_global(dst_rank)

    def restore_state(self, state: LoaderState | Sequence[LoaderState] | None) -> None:
        """Energon's deprecated name of `restore_state_global`. Causes a warning."""
        warnings.warn("restore_state is deprecated: call restore_state_rank or restore_state_global", stacklevel=2)
        self.restore_state_global(state)

    def save_state_global(self, global_dst_rank: int | None = 0) -> list[LoaderState] | None:
        """The states of all ranks, on this global rank; None on the others. All ranks of the group must call it.

        If `global_dst_rank` is None, all ranks get the states. Raises LoaderError WDS546 if torch.distributed is not
        initialised with the other ranks.
        """
        distributed.check_other_processes(self._dataset.worker_config)
        return distributed.gather_states(self.state_dict(), self._group, global_dst_rank)

    def restore_state_global(
        self, state: LoaderState | Sequence[LoaderState] | None, *, src_rank: int | None = None, strict: bool = False
    ) -> None:
        """Continue from the states of all ranks, which every rank passes, or only `src_rank`, a rank of the
        data-parallel group."""
        if isinstance(self._dataset, TrainDataset) and self._dataset.adopt is not None:
            state = distributed.all_gather_states(state, self._group, src_rank)
        elif src_rank is not None:
            state = distributed.scatter_states(state, self._group, src_rank)
        self.restore_state_rank(state, strict=strict)

    def restore_sample(self, restore_key: Sequence[Any]) -> Any:
        """Rebuild one encoded sample, pack or batch from its `__restore_key__`. Does not move the loader.

        A batch is made of the samples that its key names. Raises LoaderError WDS502 if generator hooks make several
        batches of these samples that their keys do not distinguish.
        """
        if isinstance(restore_key, str) or not isinstance(restore_key, Sequence):
            raise UsageError(
                f"{restore_key!r} is not a restore key", hint="pass the `__restore_key__` of a sample or a batch"
            )
        run = self._open_stream()
        handler = self._dataset.worker_config.restore_error_handler
        return run.run_hooks(partial(restore_by_key, run.streams, run.pipeline, restore_key, handler))

    def can_restore_sample(self) -> bool:
        """Always True, because hooks are seeded by their samples. For compatibility with Energon."""
        return True

    def start(self) -> None:
        """Open the datasets and start the workers now, before threads and CUDA run: the process forks once for the
        workers. Otherwise the first batch does so."""
        self._check_process()
        self._open_stream().start()

    def close(self) -> None:
        """End the workers and close the shards. Iterating again continues from the same position."""
        if self._stream is not None:
            self._stream.close()
        self._flush_trace()

    def _flush_trace(self) -> None:
        if self._runtime_options.tracer is not None and self._owner_pid == os.getpid():
            self._runtime_options.tracer.flush()

    @property
    def _group(self) -> Any:
        return self._dataset.worker_config.data_parallel_group

    def _draw_loop(self, *, from_start: bool = False) -> Iterator[tuple[Any, Any, Any]]:
        """The batches of one `for` loop, each with the stream that must accept it, and the argument of `accept`."""
        begins = True
        while True:
            try:
                self._check_process()
                with self._lock:
                    drawn = self._draw_or_begin_pass(is_loop_start=begins, from_start=from_start)
            except StopIteration:
                return
            begins = False
            yield drawn

    def _check_process(self) -> None:
        """Raise LoaderError in a process that was forked from the one that opened the loader: both would get the same
        batches, or take each other's from the workers."""
        if self._owner_pid not in (None, os.getpid()):
            raise LoaderError(
                f"process {self._owner_pid} opened this loader, and this is process {os.getpid()}, forked from it: "
                "both would train on the same batches",
                hint="create another loader in this process: get_loader(dataset); if both processes train, give "
                "each its own rank",
                code="WDS517",
            )
        torch_data = sys.modules.get("torch.utils.data")
        worker = torch_data.get_worker_info() if torch_data is not None else None
        if worker is not None and worker.num_workers > 1 and self._created_pid != os.getpid():
            raise LoaderError(
                f"each of {worker.num_workers} workers of torch's DataLoader would return all batches of this loader",
                hint="iterate over the loader itself, and pass num_workers to its WorkerConfig",
                code="WDS517",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a loader that is not open, for spawned processes. Raises LoaderError WDS517 for an open one."""
        if self._stream is not None:
            raise LoaderError(
                "cannot send an open loader to another process: both would train on the same batches",
                hint="send the dataset, and create a loader in the other process: get_loader(dataset)",
                code="WDS517",
            )
        make_loader = partial(Loader, pin_memory=self._pin_memory)
        return make_loader, (self._dataset, self._runtime_options), {"_created_pid": self._created_pid}

    def _draw_or_begin_pass(self, *, is_loop_start: bool, from_start: bool) -> tuple[Any, Any, Any]:
        """The next batch, the same one until its stream accepts it. StopIteration ends a pass.

        `is_loop_start`: if the last loop handed out all batches, the loop begins the next pass, provided that no rank
        has a batch left; otherwise one rank would be a pass ahead of another, so that this loop is empty, and the next
        one begins the next pass. `from_start`: the loop does not continue a pass that another loop has left, but does
        continue a restored one.
        """
        run = self._open_stream()
        if is_loop_start and (
            run.is_over or (from_start and run is self._last_drawn_stream and run.batches_handed_out > 0)
        ):
            self._begin_next_pass(run)
        may_continue = is_loop_start and run.batches_handed_out > 0
        try:
            drawn = self._draw_batch()
        except StopIteration:
            if not (may_continue and run.ends_on_all_ranks):
                raise
            if run.is_over:
                self._begin_next_pass(run)
            drawn = self._draw_batch()
        self._last_drawn_stream = run
        return drawn

    def _draw_batch(self) -> tuple[Any, Any, Any]:
        run = self._open_stream()
        if not self._are_ranks_checked:
            self._check_ranks(run)
        try:
            batch = run.draw() if self._balancer is None else self._balancer.draw(run)
        except StopIteration:
            self._end_loop(run)
            raise
        return run, run.pending, maybe_pin(batch) if self._pin_memory else batch

    def _end_loop(self, stream: RankStream) -> None:
        """End a `for` loop, so that the next loop begins the next virtual epoch or pass. Until then, the rank keeps its
        position, as other ranks may still be in the same pass."""
        if self._balancer is not None:
            self._balancer.forget_last_batch()
        self._state_before_pass = None
        try:
            stream.end_loop()
        finally:
            if not self._dataset.worker_config.persistent_workers:
                stream.close()

    def _begin_next_pass(self, stream: RankStream) -> None:
        if self._balancer is not None:
            self._balancer.forget_last_batch()
        if self._state_before_pass is None:
            self._state_before_pass = stream.state_dict()
        stream.begin_next_pass()

    def _check_ranks(self, stream: RankStream) -> None:
        """Check that all ranks have the same plan, and different numbers, before any rank begins: otherwise a rank
        could read other data for weeks without notice."""
        self._are_ranks_checked = True
        distributed.check_created_after_init(self._dataset.worker_config)
        if self._group is not None:
            distributed.check_group(self._dataset.worker_config)
        if distributed.has_process_group(self._dataset.worker_config):
            distributed.check_distinct_ranks(self._dataset.worker_config)
            plan = {**stream.loader_plan.to_state(), "recipe": stream.loader_plan.recipe_facts}
            distributed.check_same_on_all_ranks({**plan, **stream.shared_progress}, self._group)

    def _open_stream(self) -> RankStream:
        if self._stream is None:
            self._stream = self._new_stream(None, strict=False)
        return self._stream

    def _new_stream(self, state: Any, *, strict: bool) -> RankStream:
        dataset, running = self._dataset, self._runtime_options
        if self._owner_pid not in (None, os.getpid()):
            # The trace, and a lock that one of its threads may hold, belong to the other process.
            running.tracer, self._lock = None, RLock()
        running.is_tracing = dataset.trace is not None
        run = RankStream(dataset, state, strict=strict, runtime_options=running)
        if running.is_tracing and running.tracer is None:
            running.tracer = open_tracer(dataset, run.streams)
        self._owner_pid = os.getpid()
        return run


#: Arguments of Energon's loaders without effect: here states are exact at any moment, Python collects its garbage, and
#: hung workers are replaced.
IGNORED_ENERGON_OPTIONS = {
    "checkpoint_every_sec",
    "checkpoint_every_min_n_samples",
    "n_checkpoints",
    "gc_collect_every_n_steps",
    "fail_on_timeout",
}


def get_savable_loader(
    dataset: BaseDataset,
    *,
    pin_memory: bool = False,
    watchdog_timeout_seconds: float | None = 60.0,
    watchdog_initial_timeout_seconds: float | None = None,
    ring_bytes: int | None = None,
    max_failed_fraction: float | None = None,
    cache_pool: CachePool | None = None,
    shard_cache: ShardCache | None = None,
    prefetch_factor: int | None = None,
    worker_config: WorkerConfig | None = None,
    **energon_options: Any,
) -> Loader:
    """The loader of a dataset. Opens the dataset lazily, on the first batch or attribute access.

    `pin_memory`: batches are in pinned memory, if there is an accelerator. `watchdog_timeout_seconds`: a worker that
    takes longer for a batch is replaced, and its stack is logged; None waits forever.
    `watchdog_initial_timeout_seconds`: the same for the first batch. `ring_bytes`: shared memory that a worker may
    take, at most. `max_failed_fraction`: the run ends (WDS527) if more than this share of the last thousand samples of
    a source fails, or of the last thousand batches; None: it continues, and logs a warning above 1 %. `cache_pool`: for
    cookers with `need_cache`, by default a `NoCachePool`. `shard_cache`: keeps slices of datasets at URLs on a local
    disk, for endless trainings; by default in the folder that WDSCTL_SHARD_CACHE names. `prefetch_factor`: overrides
    the WorkerConfig's. `worker_config`: must be the dataset's. `energon_options`: further options of Energon's loaders,
    accepted without effect.
    """
    if not isinstance(dataset, BaseDataset):
        raise UsageError(
            f"expected a dataset from get_train_dataset or get_val_dataset, found {type(dataset).__name__}",
            hint="get_loader(get_train_dataset(path, batch_size=32))",
        )
    if max_failed_fraction is not None and not 0 <= max_failed_fraction <= 1:
        raise UsageError(
            f"max_failed_fraction is {max_failed_fraction!r}, expected 0 to 1",
            hint="pass a fraction from 0 to 1, such as 0.05",
        )
    running = RuntimeOptions(
        watchdog_timeout_seconds=watchdog_timeout_seconds,
        watchdog_initial_timeout_seconds=watchdog_initial_timeout_seconds,
        ring_bytes=ring_bytes,
        max_failed_fraction=None if max_failed_fraction is None else float(max_failed_fraction),
    )
    _check_energon_options(dataset.worker_config, worker_config, energon_options)
    if prefetch_factor is not None:
        dataset = replace(dataset, worker_config=replace(dataset.worker_config, prefetch_factor=prefetch_factor))
    if cache_pool is not None:
        dataset = replace(dataset, cache_pool=cache_pool)
    if shard_cache is None and os.environ.get("WDSCTL_SHARD_CACHE"):
        from wdsctl.loader.stores.shard_cache import cache_from_environment

        shard_cache = cache_from_environment()
    if shard_cache is not None:
        dataset = replace(dataset, shard_cache=shard_cache)
    return Loader(dataset, running, pin_memory=pin_memory)


def get_loader(dataset: BaseDataset, **options: Any) -> Loader:
    """The same as `get_savable_loader`: every loader can be saved."""
    return get_savable_loader(dataset, **options)


def _check_energon_options(
    dataset_config: WorkerConfig, worker_config: WorkerConfig | None, option_names: Iterable[str]
) -> None:
    """Raise UsageError for an argument that Energon's loaders do not have either, and for another WorkerConfig."""
    for name in sorted(set(option_names) - IGNORED_ENERGON_OPTIONS):
        hint = "see help(get_savable_loader) for its arguments"
        if name in signature(get_train_dataset).parameters:
            hint = f"pass {name} to get_train_dataset or get_val_dataset"
        elif name in signature(WorkerConfig).parameters:
            hint = f"pass worker_config=WorkerConfig({name}=...) to get_train_dataset or get_val_dataset"
        raise UsageError(f"a loader has no argument {name!r}", hint=hint)
    if worker_config not in (None, dataset_config):
        raise UsageError(
            "the worker_config of the loader differs from that of its dataset",
            hint="pass worker_config to get_train_dataset only",
        )
