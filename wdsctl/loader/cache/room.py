"""How much a cache may hold, counted for all processes of a machine together, and what goes when it is full."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import get_ident
from typing import NamedTuple

USAGE = "usage"
OWN = "own"
PARTIAL = ".partial"
BLOCK = 4096  # bytes that a file takes at least, and is rounded up to
KEPT = 0.9  # of what is allowed, after some had to go
PATIENCE = 1.0  # seconds before a cache that stayed full is gone through again

_NUMBERS = struct.Struct("<qq")


class _File(NamedTuple):
    used: float  # when it was last read or written, in seconds since 1970; 0 of what nobody will use any more
    path: str
    size: int


@dataclass(slots=True)
class Room:
    """`most_bytes` and `most_files` of the files below `folder`. Raises OSError where that is gone or full."""

    folder: str
    most_bytes: int
    most_files: int
    _full_until: float = 0.0
    _counting: set[int] = field(default_factory=set)  # the threads of this process that count, or wait for it
    _later: deque[tuple[str, int]] = field(default_factory=deque)  # what they were asked to remove meanwhile

    def reserve(self, size: int, draft: str = "") -> bool:
        """Take room for a file of so many bytes that is to be written; False where there is none. With `draft`, it is
        made in that size, so that whoever counts what is there counts it in full.

        What was used longest ago makes room. Values that processes have put aside stay, for as long as these live.
        """
        need = rounded(size)
        if need > self.most_bytes or time.monotonic() < self._full_until:
            return False
        with self._counted() as numbers:
            if not self._fits(numbers, need):
                self._sweep(numbers, need)
            if not self._fits(numbers, need):
                self._full_until = time.monotonic() + PATIENCE
                return False
            if draft:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(draft), 0o700)  # not the cache's own folder, which may have been removed
                with open(draft, "xb") as file:
                    os.truncate(file.fileno(), size)
            numbers[0] += need
            numbers[1] += 1
            return True

    def remove(self, path: str, size: int) -> None:
        """Remove a file of so many bytes and give its room back, in one step: others count what is there.

        The garbage collector may ask at any moment, also while its thread is counting: then it is done at the end of
        that.
        """
        self._later.append((path, size))
        if get_ident() not in self._counting:
            with self._counted():
                pass

    def held(self) -> tuple[int, int]:
        """Bytes and files, as they are counted."""
        with self._counted() as numbers:
            return numbers[0], numbers[1]

    def _fits(self, numbers: list[int], need: int) -> bool:
        return numbers[0] + need <= self.most_bytes and numbers[1] < self.most_files

    def _sweep(self, numbers: list[int], need: int) -> None:
        """Count what is really there, and remove what was used longest ago until there is room."""
        files, kept = _files(self.folder)
        total, count = sum(file.size for file in (*files, *kept)), len(files) + len(kept)
        most_bytes, most_files = min(KEPT * self.most_bytes, self.most_bytes - need), KEPT * self.most_files
        for file in sorted(files):
            if file.used and total <= most_bytes and count <= most_files:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.path)
            total, count = total - file.size, count - 1
        numbers[:] = [total, count]

    @contextlib.contextmanager
    def _counted(self) -> Iterator[list[int]]:
        """The numbers, for one process at a time; what they become is kept."""
        self._counting.add(get_ident())
        try:
            handle = os.open(os.path.join(self.folder, USAGE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                data = os.pread(handle, _NUMBERS.size, 0)
                numbers = list(_NUMBERS.unpack(data)) if len(data) == _NUMBERS.size else [0, 0]
                yield numbers
                self._remove_now(numbers)
                os.pwrite(handle, _NUMBERS.pack(*numbers), 0)
            finally:
                os.close(handle)
        finally:
            self._counting.discard(get_ident())

    def _remove_now(self, numbers: list[int]) -> None:
        while self._later:
            path, size = self._later.popleft()
            with contextlib.suppress(OSError):  # what cannot be removed goes on being counted
                os.unlink(path)
                numbers[0] -= rounded(size)
                numbers[1] -= 1


def rounded(size: int) -> int:
    """What a file of so many bytes takes on a disk."""
    return max(1, -(-size // BLOCK)) * BLOCK


def _files(folder: str) -> tuple[list[_File], list[_File]]:
    """Files that may go, and those that stay: being written, or put aside by a process that lives."""
    may_go: list[_File] = []
    stay: list[_File] = []
    with os.scandir(folder) as entries:
        below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    for each in below:
        with os.scandir(each.path) as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                file = _File(facts.st_mtime, entry.path, rounded(facts.st_size))
                is_held = each.name == OWN or entry.name.endswith(PARTIAL)
                if is_held and _lives(entry.name):
                    stay.append(file)
                else:
                    may_go.append(file._replace(used=0.0) if is_held else file)
    return may_go, stay


def _lives(name: str) -> bool:
    """Whether the process lives whose number a file's name begins with."""
    number = name.partition("-")[0]
    if not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
