"""Writes the trace of one rank of one run: appended in blocks, each by one write."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic, time_ns
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.core.os_errors import translated
from wdsctl.core.trace.block import encode, lead
from wdsctl.core.trace.facts import RunFacts, SourceFacts, to_json
from wdsctl.core.urls import is_url, shown

NAME = re.compile(r"rank-(\d{5,})-(\d+)\.trace")

BATCHES = 100  # a block
SAMPLES = 1 << 16  # at which a block ends sooner
SECONDS = 5.0  # after which the next batch ends it


class TraceWriter:
    """Keeps which samples were in which batch of the job. What is not in a block yet is lost to a `kill -9`: at most
    99 batches, and no more than came since 5 seconds before the last one. An orderly exit loses nothing.

    One file a rank and run, `rank-00003-<microseconds since 1970>.trace`. `run`: facts of the run, JSON, that are kept
    in the header. Raises StorageError or PermissionDenied; a block that could not be written is tried again with the
    next. Not for several threads at once.
    """

    def __init__(
        self, folder: str, rank: int, world: int, sources: Sequence[SourceFacts], *, run: Mapping[str, Any]
    ) -> None:
        if is_url(folder):
            raise UsageError(
                "a trace is appended to, and stores at URLs cannot do that",
                where=shown(folder),
                hint="give a folder on a disk or a mounted file system",
            )
        self._rank, self._world = rank, world
        with translated(folder):
            os.makedirs(folder, exist_ok=True)
            self.path, started, handle = _created(folder, rank)
        facts = RunFacts(rank=rank, world=world, started=started, sources=tuple(sources), run=run)
        self._file = _File(self.path, handle)
        self._pending = _Pending(world)
        # A loader is rarely closed: the interpreter's exit must not lose what is left. A forked child has a copy of all
        # this, and must not write it.
        self._finish = weakref.finalize(self, _finish, self._file, self._pending, os.getpid())
        self._file.append(lead(to_json(facts)))

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

    def flush(self) -> None:
        """Hand the batches so far to the system: from here on they outlive this process. Not synced to the disk."""
        _flush(self._file, self._pending)

    def close(self) -> None:
        """Write what is left. Nothing may be added afterwards; closing twice is harmless."""
        self._finish()


class _Pending:
    """The block under way. `base`: the world's batches where the rank began to draw without a gap."""

    def __init__(self, world: int) -> None:
        self._world = world
        self.base = self.pass_number = 0
        self._last: int | None = None
        self._since = 0.0
        self.clear()

    def clear(self) -> None:
        self.numbers: list[int] = []
        self.sizes: list[int] = []
        self.origins: list[Any] = []

    def begin(self, base: int, pass_number: int) -> None:
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
        return len(self.numbers) >= BATCHES or len(self.origins) >= SAMPLES or monotonic() - self._since >= SECONDS


class _File:
    """A file that grows by whole pieces: of one that could not be written, nothing stays."""

    def __init__(self, path: str, handle: int) -> None:
        self._path = path
        self._handle: int | None = handle
        self._end = 0

    def append(self, data: bytes) -> None:
        if self._handle is None:
            raise UsageError("the trace is closed", where=self._path, hint="make a new TraceWriter for a new run")
        with translated(self._path):
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
            with translated(self._path):
                os.close(handle)


def _flush(file: _File, pending: _Pending) -> None:
    if pending.numbers:
        file.append(encode(pending.numbers, pending.sizes, pending.origins, pending.base, pending.pass_number))
        pending.clear()


def _finish(file: _File, pending: _Pending, process: int) -> None:
    if os.getpid() != process:
        return
    try:
        _flush(file, pending)
    finally:
        file.close()


def _created(folder: str, rank: int) -> tuple[str, int, int]:
    """A new file: its path, when it started, its descriptor. It is later than all that are there, whatever the clock
    says, since of two runs the later one counts."""
    matches = map(NAME.fullmatch, os.listdir(folder))
    newest = max((int(match[2]) for match in matches if match), default=0)
    started = max(time_ns() // 1000, newest + 1)
    while True:
        path = os.path.join(folder, f"rank-{rank:05d}-{started}.trace")
        with suppress(FileExistsError):
            return path, started, os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        started += 1
