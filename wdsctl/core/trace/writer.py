"""Writes the trace of one rank of one run: appended in blocks, each by one write."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, time_ns
from typing import Any

from wdsctl.core.counted import counted
from wdsctl.core.errors import PermissionDenied, StorageError, UsageError, WdsctlError
from wdsctl.core.files import made_in
from wdsctl.core.folders import held
from wdsctl.core.os_errors import translated
from wdsctl.core.trace.block import encode, lead
from wdsctl.core.trace.facts import RunFacts, SourceFacts, to_json
from wdsctl.core.urls import is_url, shown

NAME = re.compile(r"rank-(\d{5,})-(\d+)\.trace")

BATCHES = 100  # a block
SAMPLES = 1 << 16  # at which a block ends sooner
SECONDS = 5.0  # after which the next batch ends it, and after which a write that failed is tried again
HELD = 10 * BATCHES  # batches that wait for a disk that can be written again; more are lost


class TraceWriter:
    """Keeps which samples were in which batch of the job. What is not in a block yet is lost to a `kill -9`: at most
    99 batches, and no more than came since 5 seconds before the last one. An orderly exit loses nothing.

    One file a rank and run, `rank-00003-<microseconds since 1970>.trace`. `run`: facts of the run, JSON, that are kept
    in the header. Raises StorageError or PermissionDenied where the file cannot be made. Once it is, nothing ends the
    run: what cannot be written (a full disk) is tried again every few seconds, and what is too much to wait is lost and
    counted. `report` is told of the first failure, of what is missing once it can be written again, and of that at the
    end. Not for several threads at once.
    """

    def __init__(
        self,
        folder: str,
        rank: int,
        world: int,
        sources: Sequence[SourceFacts],
        *,
        run: Mapping[str, Any],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        if is_url(folder):
            raise UsageError(
                "a trace is appended to, and stores at URLs cannot do that",
                where=shown(folder),
                hint="give a folder on a disk or a mounted file system",
            )
        self._rank, self._world = rank, world
        with translated(folder):
            self.path, started, handle = _created(os.path.realpath(folder), rank)
        facts = RunFacts(rank=rank, world=world, started=started, sources=tuple(sources), run=run)
        self._file = _File(self.path, handle, lead(to_json(facts)))
        self._pending = _Pending(world, report)
        # A loader is rarely closed: the interpreter's exit must not lose what is left. A forked child has a copy of all
        # this, and must not write it.
        self._finish = weakref.finalize(self, _finish, self._file, self._pending, os.getpid())
        self._pending.write(self._file)

    def add(self, number: int, origins: Sequence[Any], *, pass_number: int = 0) -> None:
        """Batch `number` of the whole job was made of the samples with these restore keys: (source, pass, id), or
        (source, pass, id, step). 1 µs, and with its part of a block some 10 µs for 32 samples.

        `pass_number`: which pass of a finite stream, where numbers begin anew in each. A batch told twice counts once.
        """
        pending = self._pending
        if not pending.goes_on_with(number, pass_number):
            self.flush()
            pending.begin(number - self._rank, pass_number)
        pending.add(number, origins)
        if pending.is_due():
            self.flush()

    @property
    def lost(self) -> int:
        """Batches that are not in the trace, because they could not be written."""
        return self._pending.lost

    def flush(self) -> None:
        """Hand the batches so far to the system: from here on they outlive this process. Not synced to the disk."""
        self._pending.write(self._file)

    def close(self) -> None:
        """Write what is left. Nothing may be added afterwards; closing twice is harmless."""
        self._finish()


class _Pending:
    """The block under way. `base`: the world's batches where the rank began to draw without a gap. `lost`: batches."""

    def __init__(self, world: int, report: Callable[[str], None]) -> None:
        self._world = world
        self._report = report
        self.base = self.pass_number = self.lost = 0
        self._last: int | None = None
        self._since = 0.0
        self._failed_at: float | None = None  # the last write; None: it went well
        self.clear()

    def clear(self) -> None:
        self.numbers: list[int] = []
        self.sizes: list[int] = []
        self.origins: list[Any] = []

    def begin(self, base: int, pass_number: int) -> None:
        """Begin another stretch. What could not be written of the last one is lost: a block is of one stretch."""
        self._lose()
        self.base, self.pass_number, self._last = base, pass_number, None

    def goes_on_with(self, number: int, pass_number: int) -> bool:
        """Whether the rank could have drawn it after the last one; a finite rank may have gone without some."""
        if self._last is None or pass_number != self.pass_number:
            return False
        return number >= self._last and (number - self._last) % self._world == 0

    def add(self, number: int, origins: Sequence[Any]) -> None:
        if not self.numbers:
            self._since = monotonic()
        self._last = number
        self.numbers.append(number)
        self.sizes.append(len(origins))
        self.origins.extend(origins)

    def is_due(self) -> bool:
        if self._failed_at is not None:
            return monotonic() - self._failed_at >= SECONDS or self._is_too_much()
        return len(self.numbers) >= BATCHES or len(self.origins) >= SAMPLES or monotonic() - self._since >= SECONDS

    def write(self, file: _File) -> None:
        """Append the block, if there is one. A failure is reported; the block waits, as long as it is not too much."""
        block = b""
        if not self.numbers and file.has_begun:
            return
        if self.numbers:
            block = encode(self.numbers, self.sizes, self.origins, self.base, self.pass_number)
        try:
            file.append(block)
        except (StorageError, PermissionDenied) as error:
            self._fail(error)
            return
        self.clear()
        if self._failed_at is not None:
            self._failed_at = None
            self._report(f"the trace goes on; {_batches(self.lost)} of this run are missing in it so far ({file.path})")

    def end(self, file: _File) -> None:
        """Nothing comes any more."""
        self.write(file)
        self._lose()
        if self.lost:
            self._report(f"{_batches(self.lost)} of this run are missing in the trace ({file.path})")

    def _fail(self, error: WdsctlError) -> None:
        if self._failed_at is None:
            again = f"it is tried again every {SECONDS:g} s, and the training goes on without"
            self._report(f"the trace cannot be written: {error.message} ({error.where}); {again}")
        self._failed_at = monotonic()
        if self._is_too_much():
            self._lose()

    def _is_too_much(self) -> bool:
        return len(self.numbers) >= HELD or len(self.origins) >= HELD // BATCHES * SAMPLES

    def _lose(self) -> None:
        """What follows is a stretch of its own: readers see that something is missing before it."""
        if self.numbers:
            self.lost += len(self.numbers)
            self._last = None
            self.clear()


class _File:
    """A file that grows by whole pieces: of one that could not be written, nothing stays. It begins with `lead`, which
    is written with the first piece, or alone with an empty one."""

    def __init__(self, path: str, handle: int, lead: bytes) -> None:
        self.path = path
        self._handle: int | None = handle
        self._lead = lead
        self._end = 0

    @property
    def has_begun(self) -> bool:
        return self._end > 0

    def append(self, piece: bytes) -> None:
        if self._handle is None:
            raise UsageError("the trace is closed", where=self.path, hint="make a new TraceWriter for a new run")
        data = piece if self._end else self._lead + piece
        with translated(self.path):
            try:
                at = 0
                while at < len(data):
                    at += os.pwrite(self._handle, memoryview(data)[at:], self._end + at)
            except BaseException:  # Ctrl-C too: half a block at the end would hide all that come after it
                with suppress(OSError):
                    os.ftruncate(self._handle, self._end)
                raise
        self._end += len(data)

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with translated(self.path):
                os.close(handle)


def _finish(file: _File, pending: _Pending, process: int) -> None:
    if os.getpid() != process:
        return
    try:
        pending.end(file)
    finally:
        with suppress(StorageError):  # a disk that is full may say so when a file is closed: what it has is told above
            file.close()


def _batches(count: int) -> str:
    return counted(count, "batch", "batches")


def _created(folder: str, rank: int) -> tuple[str, int, int]:
    """A new file: its path, when it started, its descriptor. It is later than all that are there, whatever the clock
    says, since of two runs the later one counts."""
    with held(folder, make=True) as into:
        matches = map(NAME.fullmatch, os.listdir(folder))
        newest = max((int(match[2]) for match in matches if match), default=0)
        started = max(time_ns() // 1000, newest + 1)
        while True:
            name = f"rank-{rank:05d}-{started}.trace"
            with suppress(FileExistsError):
                return os.path.join(folder, name), started, made_in(into, name)
            started += 1
