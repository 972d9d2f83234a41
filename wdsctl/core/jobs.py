"""Jobs: units of work that run on an executor, store their results in files, and resume after a kill.

A command divides its work into units: a shard to scan, a shard to convert, some files to probe. `run_units` skips the
units whose results are on disk, runs the others, saves their results and reports progress. Units and results are
plain values that pickle, so that an `Executor` can run them anywhere: in processes of this machine today, on a
cluster with a shared file system later. The result of a unit depends on the unit alone, never on the number of
workers or the order.

A result file contains the results of the units that ran together. Bytes 0-3: the CRC-32 of the table; bytes 4-11: its
length as u64; the table, a JSON list of [name of the unit, bytes of its result]; then the results, each with its own
checksum (`encode_checked`). Result files are not synced. A file that a power failure damaged, or that another program
left there, counts as absent, and its units run again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO, Generic, NamedTuple, Protocol, TypeVar
from zlib import crc32

from wdsctl.core.errors import translate_os_errors
from wdsctl.core.files import (
    CRC_BYTES,
    LENGTH_BYTES,
    MALFORMED_ERRORS,
    BytesLike,
    decode_checked,
    encode_checked,
    open_without_links,
    write_pieces,
)
from wdsctl.core.json_text import read_json
from wdsctl.core.progress import SILENT_PROGRESS, Progress

UnitT = TypeVar("UnitT")
ResultT = TypeVar("ResultT")

RESULT_SUFFIX = ".result"

#: Facts for JSON, and the bytes that follow them.
EncodedResult = tuple[Mapping[str, Any], Sequence[BytesLike]]


class Executor(Protocol):
    """Runs units. Functions, units and results must pickle, so functions are defined at the top of a module."""

    @property
    def workers(self) -> int:
        """The number of units that run at the same time."""

    def run(self, fn: Callable[[UnitT], ResultT], units: Iterable[UnitT]) -> Generator[tuple[int, ResultT], None, None]:
        """Yield (index of the unit, `fn(unit)`) as units finish; closing the generator stops the other units."""


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Runs units in worker processes on this machine. `preload`: modules to import before the first fork."""

    workers: int
    preload: Sequence[str] = ()

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
class ResultFolder(Generic[UnitT, ResultT]):
    """Stores results of units in files of a folder. Workers receive it with the units: its functions must pickle.

    `name` returns a name that identifies everything the result of a unit depends on. `encode` returns None for a
    result that must not be stored, such as the failure to read a shard: the next run tries again. `decode` raises one
    of `MALFORMED_ERRORS` for a result that cannot belong to the unit.
    """

    folder: str
    name: Callable[[UnitT], str]
    encode: Callable[[UnitT, ResultT], EncodedResult | None]
    decode: Callable[[UnitT, Mapping[str, Any], memoryview], ResultT]

    def path(self, unit: UnitT) -> str:
        """Return the file for the results of a batch. `unit`: the first unit of it whose result is stored."""
        return os.path.join(self.folder, self.name(unit) + RESULT_SUFFIX)

    def save(self, units: Sequence[UnitT], results: Sequence[ResultT]) -> list[bool]:
        """Write the results of a batch to one file, atomically. Returns which of them the file contains."""
        encoded = [self.encode(unit, result) for unit, result in zip(units, results, strict=True)]
        kept = [(unit, encode_checked(*each)) for unit, each in zip(units, encoded, strict=True) if each is not None]
        if kept:
            table = json.dumps([[self.name(unit), sum(map(len, pieces))] for unit, pieces in kept]).encode()
            head = [crc32(table).to_bytes(CRC_BYTES, "little"), len(table).to_bytes(LENGTH_BYTES, "little"), table]
            contents = chain(head, *(pieces for _, pieces in kept))
            write_pieces(self.path(kept[0][0]), contents, durable=False)
        return [each is not None for each in encoded]

    def load(self, unit: UnitT) -> ResultT | None:
        """Return the result of a unit that ran alone; None if there is none, or it is damaged."""
        path = self.path(unit)
        return self._read(unit, _ResultFile(path)) if os.path.exists(path) else None

    def load_or_run(self, unit: UnitT, fn: Callable[[UnitT], ResultT], file: _ResultFile | None = None) -> ResultT:
        """Return the result of a unit that ran alone, or in the batch of `file`.

        Runs the unit if the result is missing or damaged.
        """
        found = self.load(unit) if file is None else self._read(unit, file)
        return fn(unit) if found is None else found

    def find(self, units: Sequence[UnitT], *, are_batched: bool) -> dict[int, _ResultFile]:
        """Find the files with results of these units, by index.

        Lists the folder; if units ran in batches, also reads the table of each file.
        """
        with translate_os_errors(self.folder, "read"):
            listed = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        files: dict[str, _ResultFile] = {}
        for file_name in listed:
            if file_name.endswith(RESULT_SUFFIX):
                file = _ResultFile(os.path.join(self.folder, file_name))
                files |= dict.fromkeys(file.names() if are_batched else [file_name.removesuffix(RESULT_SUFFIX)], file)
        return {i: files[name] for i, unit in enumerate(units) if (name := self.name(unit)) in files} if files else {}

    def _read(self, unit: UnitT, file: _ResultFile) -> ResultT | None:
        data = file.get(self.name(unit))
        checked = None if data is None else decode_checked(data)
        try:
            return None if checked is None else self.decode(unit, *checked)
        except MALFORMED_ERRORS:
            return None


@dataclass(slots=True)
class _ResultFile:
    """A file with the results of a batch, which is read at the first `get`."""

    path: str
    _results: dict[str, bytes] | None = None

    def names(self) -> list[str]:
        """Return the names of the units with results in the file. Reads only the table."""
        with self._open() as file:
            return [name for name, _ in _read_table(file)]

    def get(self, name: str) -> bytes | None:
        if self._results is None:
            with translate_os_errors(self.path, "read"), self._open() as file:
                file_size = os.fstat(file.fileno()).st_size
                self._results = {name: file.read(min(size, file_size)) for name, size in _read_table(file)}
        return self._results.get(name)

    def _open(self) -> BinaryIO:
        return open(open_without_links(self.path), "rb")


def _read_table(file: BinaryIO) -> list[tuple[str, int]]:
    """Return (name, bytes) of each result in the file; nothing if the table is damaged."""
    checksum, length = file.read(CRC_BYTES), int.from_bytes(file.read(LENGTH_BYTES), "little")
    table = file.read(min(length, os.fstat(file.fileno()).st_size))
    if not table or crc32(table).to_bytes(CRC_BYTES, "little") != checksum:
        return []
    try:
        return [(str(name), size) for name, size in read_json(table) if type(size) is int and size >= 0]
    except MALFORMED_ERRORS:
        return []


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
) -> Generator[FinishedUnit[UnitT, ResultT], None, None]:
    """Run `fn` over units, and yield each unit once: in the order they finish, or in their own order.

    Does not run units with results in the folder `results`, and yields them first unless `is_ordered`. With `phase`,
    begins a phase of the progress for the remaining units, if there are any. It advances by a unit's `size` when the
    caller asks for the next unit. An error in a unit stops the others and is raised here, as in `Executor.run`; saved
    results stay.
    """
    stored = {} if results is None else results.find(units, are_batched=batch.units > 1)
    left = [i for i in range(len(units)) if i not in stored]
    sizes = [size(units[i]) for i in left]
    if phase and left:
        total_bytes = sum(each.size_bytes for each in sizes)
        progress.phase(phase, items=sum(each.items for each in sizes), size_bytes=total_bytes or None)
    arriving = _run_left(fn, units, left, sizes, executor, results, batch, progress)
    waiting: dict[int, FinishedUnit[UnitT, ResultT]] = {}
    with closing(arriving):
        for i in range(len(units)) if is_ordered else list(stored):
            if results is not None and i in stored:
                load = partial(results.load_or_run, units[i], fn, stored.pop(i))
                yield FinishedUnit(i, units[i], True, load)
                continue
            while i not in waiting:
                finished = next(arriving)
                waiting[finished.index] = finished
            yield waiting.pop(i)
        yield from arriving


def _run_left(
    fn: Callable[[UnitT], ResultT],
    units: Sequence[UnitT],
    left: Sequence[int],
    sizes: Sequence[UnitSize],
    executor: Executor,
    results: ResultFolder[UnitT, ResultT] | None,
    batch: BatchLimits,
    progress: Progress,
) -> Generator[FinishedUnit[UnitT, ResultT], None, None]:
    """Run the units whose indices are `left`, in batches, and yield them as they finish."""
    if results is None and executor.workers <= 1:
        batch = ONE_BY_ONE
    spans = batch_spans([each.size_bytes for each in sizes], executor.workers, batch)
    batches = ([units[i] for i in left[start:end]] for start, end in spans)
    with closing(executor.run(partial(_run_batch, fn, results, os.getpid()), batches)) as outcomes:
        for number, outcome in outcomes:
            start, end = spans[number]
            file: _ResultFile | None = None
            for i, (is_saved, sent) in zip(left[start:end], outcome, strict=True):
                if results is not None and not sent:
                    file = file or _ResultFile(results.path(units[i]))
                    yield FinishedUnit(i, units[i], is_saved, partial(results.load_or_run, units[i], fn, file))
                else:
                    yield FinishedUnit(i, units[i], is_saved, partial(sent.__getitem__, 0))
            progress.advance(
                items=sum(each.items for each in sizes[start:end]),
                size_bytes=sum(each.size_bytes for each in sizes[start:end]),
                doing=sizes[end - 1].label,
            )


def _run_batch(
    fn: Callable[[UnitT], ResultT],
    results: ResultFolder[UnitT, ResultT] | None,
    caller_pid: int,
    units: Sequence[UnitT],
) -> list[tuple[bool, list[ResultT]]]:
    """Return (whether the result is saved, the result) of each unit. Other processes do not send saved results."""
    found = [fn(unit) for unit in units]
    saved = [False] * len(units) if results is None else results.save(units, found)
    is_other_process = os.getpid() != caller_pid
    return [
        (is_saved, [] if is_saved and is_other_process else [result])
        for is_saved, result in zip(saved, found, strict=True)
    ]


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
