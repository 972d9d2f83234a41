"""Write the trace of one rank of one run, appended block by block."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, time_ns
from typing import Any

from wdsctl.core.directories import open_folder
from wdsctl.core.errors import PermissionDenied, StorageError, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.files import create_in
from wdsctl.core.text import pluralize
from wdsctl.core.trace.format import RunFacts, SourceFacts, encode_block, encode_preamble, run_facts_to_json
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

TRACE_FILE_NAME = re.compile(r"rank-(\d{5,})-(\d+)\.trace")

BLOCK_BATCHES = 100  # batches per block
MAX_BLOCK_SAMPLES = 1 << 16  # a block with this many samples ends sooner
FLUSH_SECONDS = 5.0  # age at which a block ends, and pause before a failed write is repeated
REMOTE_FLUSH_SECONDS = 30.0  # the same in a store, where each block costs a request
REMOTE_BLOCK_BATCHES = 10 * BLOCK_BATCHES
MAX_PENDING_BATCHES = 10 * BLOCK_BATCHES  # buffered while writing fails; then dropped


class TraceWriter:
    """Records which samples were in which batch of a job, in one file per rank and run, or in objects of a store.

    The file is `rank-00003-<microseconds since 1970>.trace`. `run`: facts of the run for the header, JSON. An orderly
    exit loses nothing. A `kill -9` loses the batches since the last block: at most 99, and at most those of 5 seconds
    before the last one. `flush` ends a block; the loader calls it when it saves a state.

    In a store, the file is a folder of immutable objects, one per block, which ends after 1,000 batches or 30 s,
    and a request that fails is repeated with the next block. A process that exits without `close` may lose the last
    block there, and says so.

    Raises StorageError or PermissionDenied if the file cannot be created. Later failures (a full disk) do not end the
    run. The writer repeats failed writes every few seconds; if the buffer is full, it drops and counts the buffered
    batches. It calls `on_message` for the first failure, for the missing batches once writing works again, and for
    the loss at the end. Not thread-safe.
    """

    def __init__(
        self,
        folder: str,
        rank: int,
        world: int,
        sources: Sequence[SourceFacts],
        *,
        run: Mapping[str, Any],
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._rank, self._world = rank, world

        def preamble(started: int) -> bytes:
            facts = RunFacts(rank=rank, world=world, started=started, sources=tuple(sources), run=run)
            return encode_preamble(run_facts_to_json(facts))

        self._file: _AppendFile | _AppendObjects
        if is_url(folder):
            self._file = _AppendObjects(normalize_root(folder), rank, preamble)
            self._pending = _PendingBlock(world, on_message, REMOTE_FLUSH_SECONDS, REMOTE_BLOCK_BATCHES)
        else:
            with translate_os_errors(folder):
                path, started, handle = _create_file(os.path.realpath(folder), rank)
            self._file = _AppendFile(path, handle, preamble(started))
            self._pending = _PendingBlock(world, on_message, FLUSH_SECONDS, BLOCK_BATCHES)
        self.path = self._file.path
        # A loader is rarely closed: write the rest when the interpreter exits. A forked child has a copy of this
        # object, and must not write it.
        self._finish = weakref.finalize(self, _finish, self._file, self._pending, os.getpid())
        self._pending.write(self._file)

    def add(self, number: int, origins: Sequence[Any], *, pass_number: int = 0) -> None:
        """Record batch `number` of the job. For 32 samples, takes 1 µs, and about 10 µs including the write.

        `origins`: the restore keys of its samples, (source, pass, id) or (source, pass, id, step). `pass_number`: the
        pass of a finite stream, whose batch numbers restart in each pass. A batch that is added twice counts once.
        """
        pending = self._pending
        if not pending.continues_with(number, pass_number):
            self.flush()
            pending.begin(number - self._rank, pass_number)
        pending.add(number, origins)
        if pending.is_due():
            self.flush()

    @property
    def lost(self) -> int:
        """The number of batches that are missing from the trace, because they could not be written."""
        return self._pending.lost_batches

    def flush(self) -> None:
        """Write the buffered batches, which then survive the end of this process. Does not sync to the disk.

        Raises UsageError after `close` if there are any.
        """
        if self._finish.alive:
            self._pending.write(self._file)
        elif self._pending.numbers:
            raise UsageError("the trace is closed", where=self.path, hint="create a new TraceWriter for each run")

    def close(self) -> None:
        """Write the rest. Do not add batches afterwards; closing twice is harmless."""
        self._finish()


class _PendingBlock:
    """The block in progress. `base`: batches that all ranks together had drawn when the stretch began."""

    def __init__(self, world: int, on_message: Callable[[str], None], flush_seconds: float, block_batches: int) -> None:
        self._world = world
        self._flush_seconds = flush_seconds
        self._block_batches = block_batches
        self._on_message = on_message
        self.base = self.pass_number = self.lost_batches = 0
        self._last: int | None = None
        self._started_at = 0.0
        self._failed_at: float | None = None  # time of the failed write; None if the last write succeeded
        self.clear()

    def clear(self) -> None:
        self.numbers: list[int] = []
        self.sizes: list[int] = []
        self.origins: list[Any] = []

    def begin(self, base: int, pass_number: int) -> None:
        """Begin another stretch. Drops unwritten batches of the last one: a block has one stretch only."""
        self._drop_pending()
        self.base, self.pass_number, self._last = base, pass_number, None

    def continues_with(self, number: int, pass_number: int) -> bool:
        """Whether this batch can follow the last one. A rank of a finite stream may skip some."""
        if self._last is None or pass_number != self.pass_number:
            return False
        return number >= self._last and (number - self._last) % self._world == 0

    def add(self, number: int, origins: Sequence[Any]) -> None:
        if not self.numbers:
            self._started_at = monotonic()
        self._last = number
        self.numbers.append(number)
        self.sizes.append(len(origins))
        self.origins.extend(origins)

    def is_due(self) -> bool:
        if self._failed_at is not None:
            return monotonic() - self._failed_at >= self._flush_seconds or self._is_full()
        return (
            len(self.numbers) >= self._block_batches
            or len(self.origins) >= MAX_BLOCK_SAMPLES
            or monotonic() - self._started_at >= self._flush_seconds
        )

    def write(self, file: _AppendFile | _AppendObjects) -> None:
        """Append the block, if there is one. If that fails, report it and keep the block until the buffer is full."""
        block = b""
        if not self.numbers and file.has_begun:
            return
        if self.numbers:
            block = encode_block(self.numbers, self.sizes, self.origins, self.base, self.pass_number)
        try:
            file.append(block)
        except (StorageError, PermissionDenied) as error:
            self._fail(error)
            return
        self.clear()
        if self._failed_at is not None:
            self._failed_at = None
            self._on_message(
                f"writing the trace continues; it lacks {_count_batches_text(self.lost_batches)} of this run so far "
                f"({file.path})"
            )

    def end(self, file: _AppendFile | _AppendObjects) -> None:
        """Write the rest, and report lost batches."""
        self.write(file)
        self._drop_pending()
        if self.lost_batches:
            self._on_message(f"the trace lacks {_count_batches_text(self.lost_batches)} of this run ({file.path})")

    def _fail(self, error: WdsctlError) -> None:
        if self._failed_at is None:
            retry = f"the training continues; the next attempt follows in {self._flush_seconds:g} s"
            self._on_message(f"cannot write the trace: {error.message} ({error.where}); {retry}")
        self._failed_at = monotonic()
        if self._is_full():
            self._drop_pending()

    def _is_full(self) -> bool:
        return (
            len(self.numbers) >= max(MAX_PENDING_BATCHES, 2 * self._block_batches)
            or len(self.origins) >= MAX_PENDING_BATCHES // BLOCK_BATCHES * MAX_BLOCK_SAMPLES
        )

    def _drop_pending(self) -> None:
        """Drop the buffered batches. The next block begins a new stretch, so readers notice the gap."""
        if self.numbers:
            self.lost_batches += len(self.numbers)
            self._last = None
            self.clear()


class _AppendFile:
    """A file that grows by complete pieces: a failed write leaves nothing behind.

    `preamble` is written together with the first piece, which may be empty.
    """

    def __init__(self, path: str, handle: int, preamble: bytes) -> None:
        self.path = path
        self._handle = handle
        self._preamble = preamble
        self._end = 0

    @property
    def has_begun(self) -> bool:
        return self._end > 0

    def append(self, piece: bytes) -> None:
        data = piece if self._end else self._preamble + piece
        with translate_os_errors(self.path):
            try:
                at = 0
                while at < len(data):
                    at += os.pwrite(self._handle, memoryview(data)[at:], self._end + at)
            except BaseException:  # also Ctrl-C: half a block would hide all later ones
                with suppress(OSError):
                    os.ftruncate(self._handle, self._end)
                raise
        self._end += len(data)

    def close(self) -> None:
        with translate_os_errors(self.path):
            os.close(self._handle)


class _AppendObjects:
    """A folder of a store whose objects, in order, are a trace file. The first one begins with the preamble.

    Raises the errors of the store if the first object cannot be written.
    """

    def __init__(self, folder: str, rank: int, preamble: Callable[[int], bytes]) -> None:
        from wdsctl.core.storage.objects import ObjectStore
        from wdsctl.core.storage.remote_errors import RetryPolicy

        # The training waits for each request: one that fails is repeated by the next block, not here.
        self._store = ObjectStore(folder, retry_policy=RetryPolicy(max_retry_seconds=0.0))
        started = _next_start(
            each.url.removeprefix(f"{folder}/").partition("/")[0] for each in self._store.list(folder)
        )
        self._url = f"{folder}/{_file_name(rank, started)}"
        self.path = redact_secrets(self._url)
        self._count = 0
        self.append(preamble(started))

    @property
    def has_begun(self) -> bool:
        return self._count > 0

    def append(self, piece: bytes) -> None:
        self._store.put(f"{self._url}/{self._count:08d}", piece)
        self._count += 1

    def close(self) -> None:
        """Do nothing: the store has all objects."""


def _finish(file: _AppendFile | _AppendObjects, pending: _PendingBlock, process_id: int) -> None:
    if os.getpid() != process_id:
        return
    try:
        pending.end(file)
    finally:
        with suppress(StorageError):  # a full disk may fail at close: the failed write was reported before
            file.close()


def _count_batches_text(count: int) -> str:
    return pluralize(count, "batch", "batches")


def _create_file(folder: str, rank: int) -> tuple[str, int, int]:
    """Create a trace file, and return (path, start, descriptor)."""
    with open_folder(folder, create=True) as into:
        started = _next_start(os.listdir(folder))
        while True:
            name = _file_name(rank, started)
            with suppress(FileExistsError):
                return os.path.join(folder, name), started, create_in(into, name)
            started += 1


def _next_start(names: Iterable[str]) -> int:
    """A start later than those of these files, even if the clock was set back, because the later run counts."""
    matches = map(TRACE_FILE_NAME.fullmatch, names)
    return max(time_ns() // 1000, max((int(match[2]) for match in matches if match), default=0) + 1)


def _file_name(rank: int, started: int) -> str:
    return f"rank-{rank:05d}-{started}.trace"
