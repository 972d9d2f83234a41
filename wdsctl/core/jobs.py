"""Jobs: units of work that run on an executor, store their results in files, and resume after a kill.

A command divides its work into units: a shard to scan, a shard to convert, some files to probe. `run_units` skips the
units whose results are on disk, runs the others, saves their results and reports progress. Units and results are
plain values, so that an `Executor` can run them anywhere: in processes of this machine, on a Ray cluster, or as tasks
of an array job (`wdsctl/core/executors`). The result of a unit depends on the unit alone, never on the number of
workers or the order.

Commands ask `make_executor` for their executor, and whoever calls a command chooses with `using_executor`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Generic, NamedTuple, Protocol, runtime_checkable

from wdsctl.core.job_results import FoundFiles, PackedResults, ResultFile, ResultFolder, ResultT, UnitT
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.records import LazySequence, Records


class Executor(Protocol):
    """Runs units. Functions, units and results must pickle, so functions are defined at the top of a module."""

    @property
    def workers(self) -> int:
        """The number of units that run at the same time."""

    @property
    def shares_files(self) -> bool:
        """Whether units run on this machine, so that they can save results in the caller's folders."""

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        """Yield (index of the unit, `fn(unit)`) as units finish; closing the generator stops the other units."""


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Runs units in worker processes on this machine. `preload`: modules to import before the first fork."""

    workers: int
    preload: Sequence[str] = ()

    @property
    def shares_files(self) -> bool:
        return True

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        """Yield (index of the unit, `fn(unit)`) in the order in which units finish.

        With one worker or one unit, runs everything in this process. Takes units from their iterable when a worker
        needs them. If a unit raises, raises its error and stops the other units: it interrupts those that run, and
        their `finally` clauses run. Closing the generator stops them in the same way. Raises StorageError WDS405 if a
        worker dies, WDS407 if none can be started.
        """
        remaining = iter(units)
        first = list(islice(remaining, 2))
        if self.workers <= 1 or len(first) < 2:
            for i, unit in enumerate(chain(first, remaining)):
                yield i, fn(unit)
            return
        from wdsctl.core.processes import run_in_processes

        yield from run_in_processes(fn, chain(first, remaining), self.workers, self.preload)


ExecutorFactory = Callable[[int, Sequence[str]], Executor]

_CHOSEN_FACTORY: ContextVar[ExecutorFactory | None] = ContextVar("executor", default=None)


@contextmanager
def using_executor(factory: ExecutorFactory) -> Iterator[None]:
    """Let `make_executor` return the executors of `factory` within the block.

    `factory` receives the number of workers, and the modules to import before the first unit.
    """
    token = _CHOSEN_FACTORY.set(factory)
    try:
        yield
    finally:
        _CHOSEN_FACTORY.reset(token)


def has_chosen_executor() -> bool:
    """Whether the call is within `using_executor`."""
    return _CHOSEN_FACTORY.get() is not None


def make_executor(workers: int, preload: Sequence[str] = ()) -> Executor:
    """Make the executor that the caller of the command has chosen; by default, processes of this machine."""
    factory = _CHOSEN_FACTORY.get()
    return LocalProcesses(workers, preload) if factory is None else factory(workers, preload)


@dataclass(frozen=True, slots=True)
class UnitBatch(Generic[UnitT]):
    """Units that run together. `label` names them in messages. `reads`: local paths that they need."""

    units: Sequence[UnitT]
    label: str
    reads: Sequence[str] = ()


def unit_label(unit: object) -> str:
    """Return the name of a unit for messages: its property `label`, such as the path of its shard; or nothing."""
    return str(getattr(unit, "label", ""))


class UnitSize(NamedTuple):
    """What a finished unit adds to the progress."""

    items: int = 1
    size_bytes: int = 0
    label: str = ""  # what the progress shows beside the bar


class BatchLimits(NamedTuple):
    """Neighbouring units run together up to these limits, which saves messages to workers and files."""

    units: int
    size_bytes: int


ONE_BY_ONE = BatchLimits(1, 0)


@dataclass(frozen=True, slots=True)
class FinishedUnit(Generic[UnitT, ResultT]):
    """A unit that has run, in this or an earlier run.

    `result()` reads the stored result at the call, unless the unit ran in this process. If the file is damaged, it
    runs the unit again in this process.
    """

    index: int
    unit: UnitT
    is_saved: bool  # the result is in a file, for the next run
    result: Callable[[], ResultT]


@dataclass(frozen=True, slots=True)
class Stage(Generic[UnitT, ResultT]):
    """What one call of `run_units` has left to run. `done`: units whose results are in the folder `results`."""

    fn: Callable[[UnitT], ResultT]
    units: Sequence[UnitT]
    done: Sequence[UnitT]
    sizes: Sequence[UnitSize]
    results: ResultFolder[UnitT, ResultT] | None
    batch: BatchLimits
    phase: str
    reads: Sequence[str]


@dataclass(frozen=True, slots=True)
class FoundResult(Generic[ResultT]):
    """A result that another process has left. `is_saved`, `load`: as in `FinishedUnit`."""

    is_saved: bool
    load: Callable[[], ResultT]


@runtime_checkable
class ResultSource(Protocol):
    """An executor for units that other processes run, before or after this one."""

    def find_results(self, stage: Stage[UnitT, ResultT]) -> Sequence[FoundResult[ResultT]] | None:
        """Return the results of all units of a stage, or raise StageStopped; None to run the stage by `run`."""


class StageStopped(BaseException):
    """A command stops before a stage, because other processes run it. Not an Exception: no handler may take it for a
    failure.
    """


def run_units(
    fn: Callable[[UnitT], ResultT],
    units: Sequence[UnitT],
    executor: Executor,
    *,
    results: ResultFolder[UnitT, ResultT] | None = None,
    batch: BatchLimits = ONE_BY_ONE,
    is_ordered: bool = False,
    phase: str = "",
    progress: Progress = SILENT_PROGRESS,
    size: Callable[[UnitT], UnitSize] = lambda _unit: UnitSize(),
    reads: Sequence[str] = (),
) -> Generator[FinishedUnit[UnitT, ResultT], None, None]:
    """Run `fn` over units, and yield each unit once: in the order they finish, or in their own order.

    Does not run units with results in the folder `results`, and yields them first unless `is_ordered`. With `phase`,
    begins a phase of the progress for the remaining units, if there are any. It advances by a unit's `size` when the
    caller asks for the next unit. An error in a unit stops the others and is raised here, as in `Executor.run`; saved
    results stay. `reads`: files and folders that all units need, which other machines must see, too.
    """
    stored = FoundFiles() if results is None else results.find(units, are_batched=batch.units > 1)
    left = array("q", (i for i in range(len(units)) if i not in stored)) if stored else range(len(units))
    sizes = Records(UnitSize, (size(units[i]) for i in left))
    if phase and left:
        total_bytes = sum(each.size_bytes for each in sizes)
        progress.phase(phase, items=sum(each.items for each in sizes), size_bytes=total_bytes or None)
    units_left, done = _pick(units, left), _pick(units, array("q", stored))
    stage = Stage(fn, units_left, done, sizes, results, batch, phase, tuple(reads))
    found = executor.find_results(stage) if isinstance(executor, ResultSource) and left else None
    if found is None:
        arriving = _run_left(stage, left, executor, progress)
    else:
        arriving = _report_found(stage, left, found, progress)
    waiting: dict[int, FinishedUnit[UnitT, ResultT]] = {}
    with closing(arriving):
        for i in range(len(units)) if is_ordered else stored:
            if results is not None and i in stored:
                unit = units[i]
                yield FinishedUnit(i, unit, True, partial(results.load_or_run, unit, fn, stored[i]))
                continue
            while i not in waiting:
                finished = next(arriving)
                waiting[finished.index] = finished
            yield waiting.pop(i)
        yield from arriving


def _pick(units: Sequence[UnitT], indices: Sequence[int]) -> Sequence[UnitT]:
    return LazySequence(len(indices), lambda i: units[indices[i]])


def _report_found(
    stage: Stage[UnitT, ResultT], left: Sequence[int], found: Sequence[FoundResult[ResultT]], progress: Progress
) -> Generator[FinishedUnit[UnitT, ResultT], None, None]:
    """Yield the units of a stage, whose indices are `left`, with the results that other processes have left."""
    for i, unit, each, size in zip(left, stage.units, found, stage.sizes, strict=True):
        yield FinishedUnit(i, unit, each.is_saved, each.load)
        progress.advance(items=size.items, size_bytes=size.size_bytes, doing=size.label)


def _run_left(
    stage: Stage[UnitT, ResultT], left: Sequence[int], executor: Executor, progress: Progress
) -> Generator[FinishedUnit[UnitT, ResultT], None, None]:
    """Run the units of a stage, whose indices are `left`, in batches, and yield them as they finish."""
    fn, units, sizes, results = stage.fn, stage.units, stage.sizes, stage.results
    limits = ONE_BY_ONE if results is None and executor.workers <= 1 else stage.batch
    spans = batch_spans(array("q", (each.size_bytes for each in sizes)), executor.workers, limits)
    batches = (UnitBatch(units[start:end], unit_label(units[start]), stage.reads) for start, end in spans)
    caller_pid = os.getpid() if executor.shares_files else None
    with closing(executor.run(partial(_run_batch, fn, results, caller_pid), batches)) as outcomes:
        for number, outcome in outcomes:
            start, end = spans[number]
            if results is not None and outcome.packed is not None:
                results.write(outcome.packed)
            file: ResultFile | None = None
            sizes_run = sizes[start:end]
            for i, unit, (is_saved, sent) in zip(left[start:end], units[start:end], outcome.results, strict=True):
                if results is not None and not sent:
                    file = file or ResultFile(results.path(unit))
                    yield FinishedUnit(i, unit, is_saved, partial(results.load_or_run, unit, fn, file))
                else:
                    yield FinishedUnit(i, unit, is_saved, partial(sent.__getitem__, 0))
            progress.advance(
                items=sum(each.items for each in sizes_run),
                size_bytes=sum(each.size_bytes for each in sizes_run),
                doing=sizes_run[-1].label,
            )


@dataclass(frozen=True, slots=True)
class _BatchResult(Generic[ResultT]):
    """(whether the result is saved, the result) of each unit, and results that the caller must save."""

    results: Sequence[tuple[bool, list[ResultT]]]
    packed: PackedResults | None = None


def _run_batch(
    fn: Callable[[UnitT], ResultT],
    results: ResultFolder[UnitT, ResultT] | None,
    caller_pid: int | None,
    batch: UnitBatch[UnitT],
) -> _BatchResult[ResultT]:
    """Run the units of a batch. Other processes do not send results that are saved.

    `caller_pid`: None if the caller is on another machine. Its process then saves the results.
    """
    found = [fn(unit) for unit in batch.units]
    packed: PackedResults | None = None
    saved = [False] * len(found)
    if results is not None and caller_pid is not None:
        saved = results.save(batch.units, found)
    elif results is not None:
        packed = results.pack(batch.units, found)
        packed = packed._replace(pieces=[b"".join(packed.pieces)])
        saved = packed.are_kept
    is_other_process = os.getpid() != caller_pid
    sent = [
        (is_saved, [] if is_saved and is_other_process else [result])
        for is_saved, result in zip(saved, found, strict=True)
    ]
    return _BatchResult(sent, packed)


def batch_spans(sizes: Sequence[int], workers: int, limits: BatchLimits) -> list[tuple[int, int]]:
    """Return (start, end) of the units that run together: large units alone, small ones up to the limits.

    Spreads few units over the workers: each gets at least four batches.
    """
    most = min(limits.units, len(sizes) // (4 * max(1, workers)))
    spans: list[tuple[int, int]] = []
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (total + size > limits.size_bytes or i - start >= most):
            spans.append((start, i))
            start, total = i, 0
        total += size
    return [*spans, (start, len(sizes))] if sizes else []
