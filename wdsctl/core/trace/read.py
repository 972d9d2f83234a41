"""Read the trace of a job: all files of a folder as one table of batches and their samples, and steps as batches.

If a job wrote a batch twice, because it resumed from an older state, the later run counts. Memory: 48 bytes per block
of about 100 batches, and one open block of every file that overlaps the range to read.

A step is one batch of every rank. A stretch begins when all ranks together (the world) have drawn `base` batches. A
rank then draws batch `base + rank` and every `world`-th one after it: the steps `(number - base) // world` of this
stretch, which follow the steps before it. Runs count in the order in which they were written. A run that begins at a
batch replaces the numbering from there on. Before the first traced stretch, the numbering assumes a constant world
size.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import InputError, translate_os_errors
from wdsctl.core.file_limits import MAX_DOCUMENT_BYTES, MIN_UNPACKED_BYTES, scale_limit, unpacked_size_error
from wdsctl.core.safe_open import open_file_beneath
from wdsctl.core.trace.format import (
    FRAME_HEAD_BYTES,
    FRAME_MAGIC,
    PREAMBLE_BYTES,
    TRACE_MAGIC,
    NewerTraceError,
    RunFacts,
    SourceFacts,
    TraceBlock,
    decode_block,
    parse_block_header,
    parse_preamble,
    run_facts_from_json,
)
from wdsctl.core.trace.write import TRACE_FILE_NAME
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.storage.objects import StoredObject

_SEARCH_BYTES = 1 << 20  # bytes per block of the search for the next head

TraceProblemKind = Literal["cut", "damaged", "newer", "gap"]


@dataclass(frozen=True, slots=True)
class TraceProblem:
    """An unreadable or missing range of a file, from `byte_offset` on.

    `cut`: the end is missing, as after a kill. `gap`: batches before this block are missing, as after a full disk.
    """

    path: str
    byte_offset: int
    kind: TraceProblemKind
    message: str


@dataclass(frozen=True)
class TraceFile:
    """One file. `blocks`: (blocks, 7) of low, high, base, pass, offset of the head, batches, bytes unpacked.

    `size`: of the file, in bytes. `copy`: the file to read; `path` names the one in the store, if this is its copy.

    Takes 48 bytes of memory per 100 batches or so.
    """

    path: str
    copy: str
    facts: RunFacts
    blocks: Int64Array
    problems: tuple[TraceProblem, ...]
    size: int


def open_trace_file(copy: str, origin: str = "") -> TraceFile | TraceProblem:
    """Read the header and the heads of all blocks; return the file, or the problem if the header is unusable.

    `origin`: the file in a store that this is a copy of.
    """
    path = origin or copy
    with _open(copy) as file:
        size = os.fstat(file.fileno()).st_size
        facts = _facts(file, path, size)
        if isinstance(facts, TraceProblem):
            return facts
        problems: list[TraceProblem] = []
        rows = list(_heads(file, path, file.tell(), size, problems))
        blocks = np.array(rows, np.int64).reshape(-1, 7)
        return TraceFile(path, copy, facts, blocks, (*problems, *_gaps(path, facts, blocks)), size)


def read_block(file: TraceFile, byte_offset: int) -> TraceBlock | TraceProblem:
    """Read the block whose head is at `byte_offset`; return the block, or the problem if it is damaged."""
    with _open(file.copy) as handle:
        handle.seek(byte_offset)
        head = parse_block_header(handle.read(FRAME_HEAD_BYTES))
        block = decode_block(head, handle.read(head.length)) if head is not None and head.is_readable else None
    return block or _damaged_problem(file.path, byte_offset, "a block of it")


@contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    with translate_os_errors(path, "read"), open_file_beneath(path, (os.path.dirname(path),)) as file:
        yield file


def _facts(file: BinaryIO, path: str, size: int) -> RunFacts | TraceProblem:
    """Read the facts of the header, and leave the file at the first frame."""
    start = file.read(PREAMBLE_BYTES)
    if start[: len(TRACE_MAGIC)] != TRACE_MAGIC[: len(start)]:
        return TraceProblem(path, 0, "damaged", "it is not a trace file")
    length, crc = parse_preamble(start) if len(start) == PREAMBLE_BYTES else (size, 0)
    if PREAMBLE_BYTES + length > size:
        return _cut_problem(path, 0)
    if length > scale_limit(MAX_DOCUMENT_BYTES):
        return _damaged_problem(path, 0, "its header")
    header = file.read(length)
    try:
        return run_facts_from_json(header) if zlib.crc32(header) == crc else _damaged_problem(path, 0, "its header")
    except NewerTraceError as error:
        return TraceProblem(path, 0, "newer", str(error))
    except (ValueError, TypeError, KeyError):
        return _damaged_problem(path, 0, "its header")


def _heads(
    file: BinaryIO, path: str, byte_offset: int, size: int, problems: list[TraceProblem]
) -> Iterator[tuple[int, ...]]:
    while byte_offset < size:
        file.seek(byte_offset)
        data = file.read(FRAME_HEAD_BYTES)
        head = parse_block_header(data)
        if head is None:
            following = _next_head(file, byte_offset + 1, size)
            if following is None and FRAME_MAGIC.startswith(data[: len(FRAME_MAGIC)]) and len(data) < FRAME_HEAD_BYTES:
                problems.append(_cut_problem(path, byte_offset))
            else:
                problems.append(_damaged_problem(path, byte_offset, "a part of it"))
            if following is None:
                return
            byte_offset = following
            continue
        end = byte_offset + FRAME_HEAD_BYTES + head.length
        if end > size:
            problems.append(_cut_problem(path, byte_offset))
            return
        if head.is_readable:
            yield head.low, head.high, head.base, head.pass_number, byte_offset, head.batches, head.data_bytes
        else:
            problems.append(_damaged_problem(path, byte_offset, "a block of it"))
        byte_offset = end


def _gaps(path: str, facts: RunFacts, blocks: Int64Array) -> Iterator[TraceProblem]:
    """Find gaps: blocks of one pass that do not continue with the rank's next batch.

    A rank that reads whole lanes, whose number the ranks do not divide, goes on at batches that are no multiple of
    `world` away, and lacks none.
    """
    before, after = blocks[:-1], blocks[1:]
    step = after[:, 0] - before[:, 1]
    is_later = (
        (after[:, 3] == before[:, 3]) & (after[:, 2] != before[:, 2]) & (step > facts.world) & (step % facts.world == 0)
    )
    for i in np.flatnonzero(is_later).tolist():
        first, last = int(before[i, 1]) + facts.world, int(after[i, 0]) - facts.world
        message = (
            f"batches {first:,} to {last:,} of rank {facts.rank} are missing: writing them failed, or the job "
            "resumed from a later state"
        )
        yield TraceProblem(path, int(after[i, 4]), "gap", message)


def _next_head(file: BinaryIO, byte_offset: int, size: int) -> int | None:
    """Find the offset of the next complete head; None if there is none."""
    while byte_offset < size:
        file.seek(byte_offset)
        data = file.read(_SEARCH_BYTES + FRAME_HEAD_BYTES)
        found = data.find(FRAME_MAGIC)
        while 0 <= found < _SEARCH_BYTES:
            if parse_block_header(data[found : found + FRAME_HEAD_BYTES]) is not None:
                return byte_offset + found
            found = data.find(FRAME_MAGIC, found + 1)
        byte_offset += _SEARCH_BYTES
    return None


def _cut_problem(path: str, byte_offset: int) -> TraceProblem:
    return TraceProblem(path, byte_offset, "cut", "its end is missing: the run was killed, or is still writing")


def _damaged_problem(path: str, byte_offset: int, what: str) -> TraceProblem:
    return TraceProblem(path, byte_offset, "damaged", f"{what} is damaged")


class StepSegment(NamedTuple):
    base: int  # batches that all ranks together had drawn before
    world: int  # ranks


class StepNumbering:
    def __init__(self, segments: Iterable[StepSegment]) -> None:
        kept: list[StepSegment] = []
        for stretch in segments:
            while kept and kept[-1].base >= stretch.base:
                kept.pop()
            if not kept or kept[-1].world != stretch.world or (stretch.base - kept[-1].base) % stretch.world:
                kept.append(stretch)
        self._segments = kept
        self._bases = [stretch.base for stretch in kept]
        # The number of each segment's first step. An interrupted step counts as one.
        self._first_steps = [stretch.base // stretch.world for stretch in kept[:1]]
        for (base, world), following in pairwise(kept):
            self._first_steps.append(self._first_steps[-1] - (base - following.base) // world)

    def step_of(self, number: int) -> int:
        """Return the training step of a batch."""
        i = max(0, bisect_right(self._bases, number) - 1)
        base, world = self._segments[i]
        return self._first_steps[i] + (number - base) // world

    def batch_numbers(self, step: int) -> range:
        """Return the numbers of the batches in a step, one per rank."""
        if not self._segments or step < 0:
            return range(0)
        i = max(0, bisect_right(self._first_steps, step) - 1)
        base, world = self._segments[i]
        start = base + (step - self._first_steps[i]) * world
        return range(start, start + world)


_MAX_BATCH_NUMBER = 1 << 62
_MAX_RATIO = 256  # bytes that come out of each byte of a trace: 200 if a job reads its samples in order


@dataclass(frozen=True, slots=True)
class TracedBatch:
    """A batch as it was last written. `number`: within the job, or within the pass of a finite stream.

    `origins`: (samples, 4) of source, pass, sample id and step. The step is -1 for samples without a generator, the
    source -1 for samples without a restore key.
    """

    number: int
    step: int
    pass_number: int
    run: RunFacts
    origins: Int64Array

    @property
    def sources(self) -> dict[int, SourceFacts]:
        """The datasets of its run, by their numbers in origins."""
        return {source.number: source for source in self.run.sources}

    def restore_key(self, position: int) -> tuple[int, ...]:
        """(source, pass, id) of a sample, and the step if a generator made it."""
        origin = self.origins[position].tolist()
        return tuple(origin[:3] if origin[3] < 0 else origin)


class _BlockLocation(NamedTuple):
    """The location of a block. Sorts by pass, first batch and file, from the oldest run to the newest."""

    pass_number: int
    low: int
    file_index: int
    byte_offset: int


class _PendingBatch(NamedTuple):
    """The next batch of an open block. `priority` sorts by pass and number, then the newest first."""

    priority: tuple[int, int, int, int]
    location: _BlockLocation
    block: TraceBlock
    batch_index: int


class Trace:
    """The trace of a job. `problems`: unreadable ranges; reading blocks adds those that are damaged."""

    def __init__(self, folder: str, found: Sequence[TraceFile | TraceProblem], copies: str = "") -> None:
        """`copies`: the folder with the copies of a trace in a store, removed with this object.

        Raises DatasetError WDS541 if the blocks hold more than queries have memory for.
        """
        if copies:
            weakref.finalize(self, shutil.rmtree, copies, ignore_errors=True)
        self.folder = folder
        files = [each for each in found if isinstance(each, TraceFile)]
        self.files = sorted(files, key=lambda file: (file.facts.started, file.facts.rank))
        self.problems = [each for each in found if isinstance(each, TraceProblem)]
        self.problems += (problem for file in self.files for problem in file.problems)
        self._steps: dict[int, StepNumbering] = {}
        allowed = scale_limit(max(MIN_UNPACKED_BYTES, _MAX_RATIO * sum(file.size for file in self.files)))
        if sum(int(file.blocks[:, 6].sum()) for file in self.files) > allowed:
            raise unpacked_size_error(allowed, folder, code="WDS541")

    def batches(
        self, start: int = 0, stop: int = _MAX_BATCH_NUMBER, *, rank: int | None = None, pass_number: int | None = None
    ) -> Iterator[TracedBatch]:
        """Yield the batches with `start` <= number < `stop` by pass and number, each as it was last written."""
        before: tuple[int, int] | None = None
        for number, of_pass, file, origins in self._read_newest_first(start, stop, pass_number):
            if (of_pass, number) == before:
                continue
            before = (of_pass, number)
            facts = self.files[file].facts
            if rank is None or facts.rank == rank:
                yield TracedBatch(number, self.steps(of_pass).step_of(number), of_pass, facts, origins)

    def step(self, step: int, *, rank: int | None = None, pass_number: int | None = None) -> list[TracedBatch]:
        """Return the batches of all ranks in one training step, in every pass."""
        passes = self.passes if pass_number is None else [pass_number]
        found: list[TracedBatch] = []
        for each in passes:
            numbers = self.steps(each).batch_numbers(step)
            found += self.batches(numbers.start, numbers.stop, rank=rank, pass_number=each)
        return found

    @cached_property
    def passes(self) -> list[int]:
        """The numbers of all passes of a finite stream; [0] for an endless one."""
        return sorted({int(each) for file in self.files for each in np.unique(file.blocks[:, 3])})

    def steps(self, pass_number: int = 0) -> StepNumbering:
        """Return the step numbers of this pass."""
        if pass_number not in self._steps:
            self._steps[pass_number] = StepNumbering(self._segments(pass_number))
        return self._steps[pass_number]

    def _segments(self, pass_number: int) -> Iterator[StepSegment]:
        for file in self.files:
            bases = file.blocks[file.blocks[:, 3] == pass_number, 2]
            is_new = np.diff(bases, prepend=bases[:1] - 1) != 0
            for base in bases[is_new].tolist():
                yield StepSegment(base, file.facts.world)

    def _read_newest_first(
        self, start: int, stop: int, pass_number: int | None
    ) -> Iterator[tuple[int, int, int, Int64Array]]:
        """Yield (number, pass, file, origins) of all written batches, by pass and number.

        Yields a batch that was written several times once per write, the newest first.
        """
        waiting = deque(self._block_locations(start, stop, pass_number))
        heap: list[_PendingBatch] = []
        while waiting or heap:
            if waiting and (not heap or waiting[0][:2] <= heap[0].priority[:2]):
                location = waiting.popleft()
                block = self._block(location)
                if block is not None:
                    _push_batch(heap, location, block, int(np.searchsorted(block.batch_numbers, start)))
                continue
            _, location, block, i = heappop(heap)
            number = int(block.batch_numbers[i])
            if number < stop:
                yield (
                    number,
                    location.pass_number,
                    location.file_index,
                    block.origins[block.origin_starts[i] : block.origin_starts[i + 1]],
                )
                _push_batch(heap, location, block, i + 1)

    def _block_locations(self, start: int, stop: int, pass_number: int | None) -> list[_BlockLocation]:
        locations: list[_BlockLocation] = []
        for i, file in enumerate(self.files):
            rows = file.blocks
            is_in_range = (rows[:, 0] < stop) & (rows[:, 1] >= start)
            if pass_number is not None:
                is_in_range &= rows[:, 3] == pass_number
            locations += (
                _BlockLocation(of_pass, low, i, at) for low, _, _, of_pass, at, *_ in rows[is_in_range].tolist()
            )
        return sorted(locations)

    def _block(self, location: _BlockLocation) -> TraceBlock | None:
        block = read_block(self.files[location.file_index], location.byte_offset)
        if isinstance(block, TraceBlock):
            return block
        if block not in self.problems:
            self.problems.append(block)
        return None


def _push_batch(heap: list[_PendingBatch], location: _BlockLocation, block: TraceBlock, batch_index: int) -> None:
    """Queue the batch at this index, or the last one with its number, which counts."""
    if batch_index < len(block.batch_numbers):
        number = int(block.batch_numbers[batch_index])
        last = int(np.searchsorted(block.batch_numbers, number, side="right")) - 1
        heappush(
            heap,
            _PendingBatch(
                (location.pass_number, number, -location.file_index, -location.byte_offset), location, block, last
            ),
        )


def read_trace(folder: str) -> Trace:
    """Open the trace that the ranks of a job wrote into this folder.

    Raises InputError WDS540 if there is none. Costs one read per block of about 100 batches. Copies a trace in a store
    into a temporary folder first.
    """
    if is_url(folder):
        return _read_from_store(normalize_root(folder))
    if not os.path.isdir(folder):
        raise InputError(
            "the folder of the trace does not exist",
            where=folder,
            hint="pass the folder that `trace=` named in the training",
            code="WDS540",
        )
    with translate_os_errors(folder, "list"):
        names = sorted(filter(TRACE_FILE_NAME.fullmatch, os.listdir(folder)))
    if not names:
        raise _no_trace_error(folder)
    return Trace(folder, [open_trace_file(os.path.join(folder, name)) for name in names])


def _read_from_store(url: str) -> Trace:
    """Open a trace in a store, where the objects of a folder, in order, are a file."""
    from wdsctl.core.storage.objects import ObjectStore

    pieces: dict[str, list[StoredObject]] = {}
    for each in ObjectStore(url).list(url):
        name, _, number = each.url.removeprefix(f"{url}/").partition("/")
        if TRACE_FILE_NAME.fullmatch(name) and number.isdecimal():
            pieces.setdefault(name, []).append(each)
    shown = redact_secrets(url)
    if not pieces:
        raise _no_trace_error(shown)
    copies = tempfile.mkdtemp(prefix="wdsctl-trace-")
    try:
        return _copy_pieces(shown, pieces, copies)
    except BaseException:  # also Ctrl-C: no trace owns the copies yet
        shutil.rmtree(copies, ignore_errors=True)
        raise


def _copy_pieces(shown: str, pieces: Mapping[str, Sequence[StoredObject]], copies: str) -> Trace:
    from wdsctl.core.storage.objects import download

    found: list[TraceFile | TraceProblem] = []
    for name, objects in sorted(pieces.items()):
        path, origin = os.path.join(copies, name), f"{shown}/{name}"
        download(objects, path)
        at = 0
        for i, each in enumerate(objects):
            if int(each.url.rpartition("/")[2]) != i:
                found.append(TraceProblem(origin, at, "damaged", f"the object {i:08d} of it is missing"))
                break
            at += each.size
        found.append(open_trace_file(path, origin))
    return Trace(shown, found, copies)


def _no_trace_error(folder: str) -> InputError:
    return InputError(
        "the folder has no traces",
        where=folder,
        hint='pass `trace="FOLDER"` to get_train_dataset: each rank then writes a trace',
        code="WDS540",
    )
