"""The folder of a disk cache, and the quota of its files.

The folder belongs to the processes that hold a lock on a file in it, and is removed when none does:

PARENT/wdsctl-cache-UID/        mode 700; refused where it is not this user's own
    JOB/                        one per job and machine; ranks and workers share it
        owner                   every process of the job holds a shared lock (flock), which the system releases when
                                the process dies
        usage                   numbers of bytes and files, and the lock for changing them
        xx/NAME                 bytes of entries, by digest
        own/PID-NUMBER          values that a process cached

The quota holds for all processes of a machine. A full cache evicts the least recently used entries.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import struct
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import NamedTuple
from uuid import uuid4

OWNER_FILE = "owner"
REMOVED_SUFFIX = ".gone"  # of a folder that is being removed


class ForeignFolderError(OSError):
    """The folder exists, and belongs to another user or is writable for others."""


def make_parent_folder(base_folder: str | None, kind: str = "cache") -> str:
    """Create the folder of this user's caches of a kind, unless it exists. Raises OSError, ForeignFolderError."""
    parent = os.path.join(os.path.abspath(base_folder or tempfile.gettempdir()), f"wdsctl-{kind}-{os.getuid()}")
    if base_folder is not None:
        os.makedirs(base_folder, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(parent, 0o700)
    facts = os.lstat(parent)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise ForeignFolderError(f"{parent} is not a folder that only this user can write to")
    return parent


def job_name(environ: Mapping[str, str]) -> str:
    """A name for the job on this machine, from the launcher's variables; without these, a name for this process.

    Containers that share a disk get different names, as their process ids are not comparable.
    """
    if "SLURM_JOB_ID" in environ:
        return _safe_name(f"slurm-{environ['SLURM_JOB_ID']}-{environ.get('SLURM_STEP_ID', '')}-{_pid_namespace()}")
    if "TORCHELASTIC_RUN_ID" in environ:
        address = f"{environ.get('MASTER_ADDR', '')}-{environ.get('MASTER_PORT', '')}"
        return _safe_name(f"torch-{environ['TORCHELASTIC_RUN_ID']}-{address}-{_pid_namespace()}")
    return f"process-{os.getpid()}-{uuid4().hex[:8]}"


def remove_leftovers(parent: str) -> list[str]:
    """Remove the folders of jobs that ended, as far as possible; returns their names."""
    removed = []
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if name.endswith(REMOVED_SUFFIX):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        handle = _try_lock(folder, fcntl.LOCK_EX)
        if handle is not None:
            try:
                _remove_folder(folder)
                removed.append(name)
            finally:
                os.close(handle)
    return removed


class CacheDirectory:
    """A cache folder that this process holds a lock on. Raises OSError if it cannot be created or locked."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock_descriptor = _lock_shared(path)

    def close(self) -> None:
        """Release the lock, and remove the folder if no other process holds it. Forked processes share the lock."""
        if self._lock_descriptor < 0:
            return
        handle, self._lock_descriptor = self._lock_descriptor, -1
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass  # another rank uses it
        else:
            _remove_folder(self.path)
        os.close(handle)


def _remove_folder(folder: str) -> None:
    """Rename the folder, then remove it: a worker that still writes would create it again without an owner."""
    renamed = f"{folder}-{uuid4().hex[:8]}{REMOVED_SUFFIX}"
    try:
        os.rename(folder, renamed)
    except OSError:  # removed already, or not permitted
        renamed = folder
    shutil.rmtree(renamed, ignore_errors=True)


def _lock_shared(folder: str) -> int:
    """A descriptor with a shared lock on the owner file of a folder, which is created if missing."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            handle = os.open(
                os.path.join(folder, OWNER_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except FileNotFoundError:
            continue  # the folder was just removed
        fcntl.flock(handle, fcntl.LOCK_SH)
        if _is_same_file(folder, handle):
            return handle
        os.close(handle)


def _try_lock(folder: str, lock_kind: int) -> int | None:
    """A descriptor with a lock on the owner file of a folder; None if it is locked or missing."""
    try:
        handle = os.open(os.path.join(folder, OWNER_FILE), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, lock_kind | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    if not _is_same_file(folder, handle):
        os.close(handle)
        return None
    return handle


def _is_same_file(folder: str, descriptor: int) -> bool:
    """Whether the open file is still the folder's owner file: it may have been removed before it was locked."""
    try:
        return os.path.samestat(os.stat(os.path.join(folder, OWNER_FILE)), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _pid_namespace() -> str:
    """The PID namespace of this process; empty if unknown."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def _safe_name(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text)[:100]


USAGE_FILE = "usage"
VALUES_FOLDER = "own"
PARTIAL_SUFFIX = ".partial"
DISK_BLOCK_BYTES = 4096  # file sizes are rounded up to it
KEPT_SHARE = 0.9  # of the quota, after an eviction
FULL_RETRY_SECONDS = 1.0  # before a cache that stayed full is searched again

_USAGE_STRUCT = struct.Struct("<qq")


class _CachedFile(NamedTuple):
    last_used: float  # last read or write, in seconds since 1970; 0 if it will not be used again
    path: str
    size: int


@dataclass(slots=True)
class CacheQuota:
    """Limits the bytes and number of files below `folder`. Methods raise OSError if the folder is gone or full."""

    folder: str
    max_bytes: int
    max_files: int
    _full_until: float = 0.0
    _counting_threads: set[int] = field(default_factory=set)  # of this process, which hold or wait for the lock
    _deferred_removals: deque[tuple[str, int]] = field(default_factory=deque)  # (path, bytes), while the lock is held

    def reserve(self, size: int, draft: str = "") -> bool:
        """Reserve space for a file of `size` bytes; False if there is none. `draft`: a file to create in that size, so
        that other processes count it in full.

        Evicts the least recently used entries. Cached values stay as long as their process lives.
        """
        need = bytes_on_disk(size)
        if need > self.max_bytes or time.monotonic() < self._full_until:
            return False
        with self._locked_usage() as numbers:
            if not self._fits(numbers, need):
                self._evict(numbers, need)
            if not self._fits(numbers, need):
                self._full_until = time.monotonic() + FULL_RETRY_SECONDS
                return False
            if draft:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(os.path.dirname(draft), 0o700)  # not the parents: the cache may have been removed
                with open(draft, "xb") as file:
                    os.truncate(file.fileno(), size)
            numbers[0] += need
            numbers[1] += 1
            return True

    def remove(self, path: str, size: int) -> None:
        """Remove a file of `size` bytes and release its space, in one step.

        The garbage collector may call it at any time, also while this thread holds the lock: then the removal is
        deferred until the lock is released.
        """
        self._deferred_removals.append((path, size))
        if get_ident() not in self._counting_threads:
            with self._locked_usage():
                pass

    def _fits(self, usage: list[int], needed_bytes: int) -> bool:
        return usage[0] + needed_bytes <= self.max_bytes and usage[1] < self.max_files

    def _evict(self, usage: list[int], needed_bytes: int) -> None:
        """Count the existing files, and remove the least recently used ones until there is space."""
        removable, in_use = _list_files(self.folder)
        total, count = sum(file.size for file in (*removable, *in_use)), len(removable) + len(in_use)
        target_bytes = min(KEPT_SHARE * self.max_bytes, self.max_bytes - needed_bytes)
        target_files = KEPT_SHARE * self.max_files
        for file in sorted(removable):
            if file.last_used and total <= target_bytes and count <= target_files:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.path)
            total, count = total - file.size, count - 1
        usage[:] = [total, count]

    @contextlib.contextmanager
    def _locked_usage(self) -> Iterator[list[int]]:
        """[bytes, files] under an exclusive lock; changes are written back."""
        self._counting_threads.add(get_ident())
        try:
            handle = os.open(os.path.join(self.folder, USAGE_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                data = os.pread(handle, _USAGE_STRUCT.size, 0)
                numbers = list(_USAGE_STRUCT.unpack(data)) if len(data) == _USAGE_STRUCT.size else [0, 0]
                yield numbers
                while self._deferred_removals:
                    path, size = self._deferred_removals.popleft()
                    with contextlib.suppress(OSError):  # a file that cannot be removed stays counted
                        os.unlink(path)
                        numbers[0] -= bytes_on_disk(size)
                        numbers[1] -= 1
                os.pwrite(handle, _USAGE_STRUCT.pack(*numbers), 0)
            finally:
                os.close(handle)
        finally:
            self._counting_threads.discard(get_ident())


def bytes_on_disk(size: int) -> int:
    """The disk space of a file of `size` bytes."""
    return max(1, -(-size // DISK_BLOCK_BYTES)) * DISK_BLOCK_BYTES


def _list_files(folder: str) -> tuple[list[_CachedFile], list[_CachedFile]]:
    """(removable, in use): files in use are being written, or are values of a process that is alive."""
    removable: list[_CachedFile] = []
    in_use: list[_CachedFile] = []
    with os.scandir(folder) as entries:
        subfolders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    for each in subfolders:
        with os.scandir(each.path) as entries:
            for entry in entries:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                file = _CachedFile(facts.st_mtime, entry.path, bytes_on_disk(facts.st_size))
                has_owner = each.name == VALUES_FOLDER or entry.name.endswith(PARTIAL_SUFFIX)
                if has_owner and _is_owner_alive(entry.name):
                    in_use.append(file)
                else:
                    removable.append(file._replace(last_used=0.0) if has_owner else file)
    return removable, in_use


def _is_owner_alive(file_name: str) -> bool:
    """Whether the process is alive whose id a file's name starts with."""
    number = file_name.partition("-")[0]
    if not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
