"""The loader: iterate it, save it at any moment, and go on from there on any number of ranks and workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from threading import RLock
from types import TracebackType
from typing import Any, TypeVar

from wdsctl.core.errors import LoaderError, UsageError
from wdsctl.core.job_state import copied
from wdsctl.loader import distributed
from wdsctl.loader.dataset import Dataset, TrainDataset, ValDataset, is_count_preserving
from wdsctl.loader.even_ranks import EvenRanks
from wdsctl.loader.moving import pinned_where_it_can_be
from wdsctl.loader.passes import Passes
from wdsctl.loader.randomness import callers_generators_kept
from wdsctl.loader.recipes import draws_randomly
from wdsctl.loader.restoring import restored
from wdsctl.loader.running import Running, tracer_of
from wdsctl.loader.source import Source
from wdsctl.loader.states import State
from wdsctl.loader.stats import Stats
from wdsctl.loader.training import Training

T = TypeVar("T")


class Loader:
    """The batches of one rank.

    Breaking out of a `for` loop over a training loses nothing: the next one goes on with the very next batch. A
    training never ends, unless it has virtual epochs or was made with `repeat=False`; then the next loop begins the
    next pass. So does a loop that finds nothing left: after a `break` at the last batch, or of a state that was saved
    there, if all ranks have equally many batches. A loop over a validation is one pass, from its first batch, however
    the last loop was left; it goes on only where a state was restored.

    Threads that draw from one loader share its batches: each batch goes to one of them. A process that is forked from
    the one that opened the loader cannot draw from it (LoaderError WDS517).
    """

    def __init__(self, dataset: Dataset, running: Running | None = None, *, pin_memory: bool = False) -> None:
        self._dataset = dataset
        self._running = running or Running()
        self._pins = pin_memory
        self._run: Training | Passes | None = None
        # Workers have generators of their own; in this process those are the caller's.
        self._keeps = draws_randomly(dataset) and not dataset.worker_config.num_workers
        self._checked = False
        self._ranks = EvenRanks(dataset)
        self._drawn_from: Training | Passes | None = None  # the run that has handed out a batch
        self._before_pass: State | None = None  # until a pass that was begun has handed out a batch
        self._made_in = os.getpid()
        self._owner: int | None = None  # the process that opened the run
        self._lock = RLock()  # of the thread that draws

    def __iter__(self) -> Iterator[Any]:
        for run, offered, batch in self._loop(anew=isinstance(self._dataset, ValDataset)):
            # Nothing between this and the yield, where an interrupt could lose the batch. Where another thread's loop
            # was quicker, it is that one's.
            self._before_pass = None
            if run.accept(offered):
                yield batch

    def unbatched(self, take_apart: Callable[[Any], Sequence[T]]) -> Iterator[T]:
        """What `take_apart` makes of each batch (one thing or more), one by one.

        A batch counts as handed out when the last of it has left; until then, states stand before it.
        """
        for run, offered, batch in self._loop():
            *first, last = take_apart(batch)
            yield from first
            self._before_pass = None
            if not run.accept(offered):
                raise LoaderError(
                    "another loop over this loader has begun and handed out the batch that this one is taking apart",
                    hint="give up a loop before the next one begins, or give each of them a loader of its own",
                    code="WDS518",
                )
            yield last

    def __len__(self) -> int:
        """Batches of this rank in one `for` loop. TypeError where there is no end, or where hooks decide."""
        if isinstance(self._dataset, TrainDataset) and self._dataset.virtual_epoch_length:
            return self._dataset.virtual_epoch_length
        run = self._opened()
        if isinstance(run, Passes):
            return self._ranks.length(run)
        if run.is_endless:
            raise TypeError(
                "a training has no length: it goes on without end (iterate the Loader itself: it takes the place of "
                "torch's DataLoader)"
            )
        raise TypeError("packing and grouping decide how many batches there are: the length is not known")

    def __bool__(self) -> bool:
        """A loader is there, however many batches it has: trainers ask `if loader:`. Opens nothing."""
        return True

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_padding(self) -> bool:
        """Whether the batch that was handed out last only evens out the ranks."""
        return self._ranks.is_padding

    @property
    def stats(self) -> Stats:
        """What this loader has handed out, skipped and left out, and where the time went."""
        return self._opened().stats

    @property
    def sources(self) -> tuple[Source, ...]:
        """The datasets that are read, by the number that restore keys have for them."""
        return self._opened().streams.sources

    def config(self) -> dict[str, Any]:
        """Everything that decides what comes, resolved: the plan, as JSON."""
        plan = self._opened().plan
        return {"fingerprint": plan.fingerprint(), "order": plan.order, "recipe": plan.recipe}

    def state_dict(self) -> State:
        """Where this rank stands: after the batch that was handed out last. JSON, under a millisecond.

        Nobody is asked: what workers have made ahead is made again by whoever resumes. Where the first batch of a pass
        fails, that is after the last one of the pass before, as on ranks that have not begun the next one.
        """
        before = self._before_pass
        return self._opened().state_dict() if before is None else copied(before)

    def load_state_dict(self, state: State | Sequence[State], *, strict: bool = False) -> None:
        """Go where a state says, at any time: this rank's own state, all ranks' states, or a merged one.

        Raises StateMismatch where the state belongs to other data, another order or too few ranks. Other hooks or
        another batch size draw a warning, and are refused if `strict`.
        """
        given: Any = state
        # None would begin anew; a checkpoint that lost its state must not.
        run = self._new({} if given is None else given, strict=strict)
        self.close()
        self._run, self._before_pass = run, None

    def save_state_rank(self) -> State:
        """What `state_dict` says, under the name that Energon has for it."""
        return self.state_dict()

    def restore_state_rank(self, state: State | Sequence[State] | None, *, strict: bool = False) -> None:
        """What `load_state_dict` does; None, from a job that had not begun, changes nothing."""
        if state is not None:
            self.load_state_dict(state, strict=strict)

    def save_state_global(self, global_dst_rank: int | None = 0) -> list[State] | None:
        """The states of all ranks, on this global rank; None on the others. All ranks of the group call it.

        Where no rank is given (None), all of them have the states.
        """
        return distributed.gather_states(self.state_dict(), self._group, global_dst_rank)

    def restore_state_global(
        self, state: State | Sequence[State] | None, *, src_rank: int | None = None, strict: bool = False
    ) -> None:
        """Go where the states of all ranks say: those that every rank gives, or those that `src_rank` alone gives, a
        rank of the data-parallel group."""
        if isinstance(self._dataset, TrainDataset) and self._dataset.adopt is not None:
            state = distributed.everybodys_states(state, self._group, src_rank)
        elif src_rank is not None:
            state = distributed.scatter_states(state, self._group, src_rank)
        self.restore_state_rank(state, strict=strict)

    def restore_sample(self, restore_key: Sequence[Any]) -> Any:
        """One sample or pack, encoded, or one batch, made once more from its `__restore_key__`. Nothing is moved.

        A batch is made of the samples that its key names. Raises LoaderError WDS502 where hooks that are generators
        make several batches of them, and their keys do not tell which one is meant.
        """
        if isinstance(restore_key, str) or not isinstance(restore_key, Sequence):
            raise UsageError(f"{restore_key!r} is no restore key", hint="give `__restore_key__` of a sample or a batch")
        run = self._opened()
        with callers_generators_kept():
            handler = self._dataset.worker_config.restore_error_handler
            return restored(run.streams, run.pipeline, restore_key, handler)

    def can_restore_sample(self) -> bool:
        """Always: hooks are seeded by their samples. Energon has this question."""
        return True

    def start(self) -> None:
        """Open the datasets and start the workers now. Otherwise the first batch does, which may be after threads and
        CUDA are up: the process is forked once for them."""
        self._check_process()
        self._opened().start()

    def close(self) -> None:
        """End the workers and close the shards. The loader may be iterated again: it goes on where it was."""
        if self._run is not None:
            self._run.close()
        if self._running.tracer is not None and self._owner == os.getpid():
            self._running.tracer.flush()

    @property
    def _group(self) -> Any:
        return self._dataset.worker_config.data_parallel_group

    def _loop(self, *, anew: bool = False) -> Iterator[tuple[Any, Any, Any]]:
        """The batches of one `for` loop, each behind the run that is to accept it, and what that is to accept."""
        begins = True
        while True:
            try:
                self._check_process()
                with self._lock:
                    drawn = self._draw(begins=begins, anew=anew)
            except StopIteration:
                return
            begins = False
            yield drawn

    def _check_process(self) -> None:
        """Raise LoaderError in a process that was forked from the one that opened the loader: both would take the same
        batches, and of workers, each would take some of what the other one is due."""
        if self._owner not in (None, os.getpid()):
            raise LoaderError(
                f"process {self._owner} opened this loader, and this is process {os.getpid()}, forked from it: "
                "both would train on the same batches",
                hint="make a loader in this process: get_loader(dataset), with a rank of its own if both are to draw",
                code="WDS517",
            )
        torch_data = sys.modules.get("torch.utils.data")
        worker = torch_data.get_worker_info() if torch_data is not None else None
        if worker is not None and worker.num_workers > 1 and self._made_in != os.getpid():
            raise LoaderError(
                f"each of the {worker.num_workers} workers of torch's DataLoader would give all batches of this loader",
                hint="iterate the loader itself, and give num_workers to its WorkerConfig",
                code="WDS517",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes that are spawned: a loader that is not open. Raises LoaderError WDS517 for one that is."""
        if self._run is not None:
            raise LoaderError(
                "a loader that is open cannot be sent to another process: both would train on the same batches",
                hint="send its dataset, and make a loader of it there: get_loader(dataset)",
                code="WDS517",
            )
        made = partial(Loader, pin_memory=self._pins)
        return made, (self._dataset, self._running), {"_made_in": self._made_in}

    def _draw(self, *, begins: bool, anew: bool) -> tuple[Any, Any, Any]:
        """The next batch, the same one until the run that it comes with accepts it. StopIteration ends a pass.

        A loop that `begins` where the last one had handed out everything is not empty: it has the next pass. That is
        so where all ranks have equally many batches; elsewhere one rank would be a pass ahead of another. One that
        begins `anew` does not go on with a pass that another loop has left; with one that was restored it does.
        """
        run = self._opened()
        if begins and (run.is_over or (anew and run is self._drawn_from and run.given > 0)):
            self._begin_next(run)
        goes_on = begins and run.given > 0 and run.is_even
        try:
            drawn = self._drawn()
        except StopIteration:
            if not goes_on:
                raise
            if run.is_over:
                self._begin_next(run)
            drawn = self._drawn()
        self._drawn_from = run
        return drawn

    def _drawn(self) -> tuple[Any, Any, Any]:
        run = self._opened()
        if not self._checked:
            self._check_ranks(run)
        try:
            if run.is_at_virtual_end:
                raise StopIteration
            batch = self._ranks.draw(run, partial(self._next, run))
        except StopIteration:
            self._end_loop(run)
            raise
        return run, run.offered, pinned_where_it_can_be(batch) if self._pins else batch

    def _end_loop(self, run: Training | Passes) -> None:
        """A `for` loop is over: the next one begins the next virtual epoch, or the next pass. Until it does, the rank
        is where it was, as other ranks may still be in the same pass."""
        self._ranks.forget()
        run.end_loop()
        self._before_pass = None
        if not self._dataset.worker_config.persistent_workers:
            run.close()

    def _begin_next(self, run: Training | Passes) -> None:
        self._ranks.forget()
        if self._before_pass is None:
            self._before_pass = run.state_dict()
        run.begin_next()

    def _next(self, run: Training | Passes) -> Any:
        with callers_generators_kept() if self._keeps else nullcontext():
            return run.draw()

    def _check_ranks(self, run: Training | Passes) -> None:
        """All ranks have the same plan, or none begins: a rank with other data would go unnoticed for weeks."""
        self._checked = True
        distributed.check_place(self._dataset.worker_config)
        if self._group is not None:
            distributed.check_group(self._dataset.worker_config)
        if distributed.is_running(self._dataset.worker_config):
            distributed.same_on_all({**run.plan.to_state(), "recipe": run.plan.recipe}, self._group)

    def _opened(self) -> Training | Passes:
        if self._run is None:
            self._run = self._new(None, strict=False)
        return self._run

    def _new(self, state: Any, *, strict: bool) -> Training | Passes:
        dataset, running = self._dataset, self._running
        if self._owner not in (None, os.getpid()):
            # The trace, and the lock that a thread of the other process may hold, are that process's.
            running.tracer, self._lock = None, RLock()
        running.is_tracing = dataset.trace is not None
        is_endless = isinstance(dataset, TrainDataset) and dataset.repeat
        kind = Passes if not is_endless and is_count_preserving(dataset) else Training
        run = kind(dataset, state, strict=strict, running=running)
        if running.is_tracing and running.tracer is None:
            running.tracer = tracer_of(dataset, run.streams)
        self._owner = os.getpid()
        return run
