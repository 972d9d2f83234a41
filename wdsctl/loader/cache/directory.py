"""The folder of a pool: owned by the processes that hold a lock on a file in it, and removed when none does.

PARENT/wdsctl-cache-UID/        mode 700; refused where it is not this user's own
    JOB/                        one a job and machine; ranks and workers share it
        owner                   every process of the job holds a shared lock (flock); the system lets go of it when
                                the process dies, however it does
        usage                   bytes and files, and a lock for whoever changes them
        xx/NAME                 bytes of entries, by their digest
        own/PID-NUMBER          values that a process has put aside
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from uuid import uuid4

OWNER = "owner"
GONE = ".gone"  # how the name of a folder ends that is being removed


class NotOursError(OSError):
    """The folder exists, and belongs to somebody else, or everybody may write to it."""


def parent_of(given: str | None) -> str:
    """The folder of this user's caches, made where it is not there. Raises OSError, NotOursError."""
    parent = os.path.join(os.path.abspath(given or tempfile.gettempdir()), f"wdsctl-cache-{os.getuid()}")
    if given is not None:
        os.makedirs(given, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(parent, 0o700)
    facts = os.lstat(parent)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        raise NotOursError(f"{parent} is not a folder that this user alone can write to")
    return parent


def job_name(environ: Mapping[str, str]) -> str:
    """The same for all ranks of a job on this machine, where the launcher says which job it is; else of this process.

    Containers that share a disk share no folder: process numbers mean other processes there.
    """
    if "SLURM_JOB_ID" in environ:
        return _word(f"slurm-{environ['SLURM_JOB_ID']}-{environ.get('SLURM_STEP_ID', '')}-{_processes()}")
    if "TORCHELASTIC_RUN_ID" in environ:
        place = f"{environ.get('MASTER_ADDR', '')}-{environ.get('MASTER_PORT', '')}"
        return _word(f"torch-{environ['TORCHELASTIC_RUN_ID']}-{place}-{_processes()}")
    return f"process-{os.getpid()}-{uuid4().hex[:8]}"


def remove_leftovers(parent: str) -> list[str]:
    """Remove the folders of jobs that are no more; returns their names. One that cannot be removed is left."""
    removed = []
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if name.endswith(GONE):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        handle = _locked(folder, fcntl.LOCK_EX)
        if handle is not None:
            try:
                _remove(folder)
                removed.append(name)
            finally:
                os.close(handle)
    return removed


class CacheDirectory:
    """A folder that this process holds. Raises OSError where it cannot be made or held."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle = _joined(path)

    def close(self) -> None:
        """Let go of it, and remove it if nobody else holds it. Forked processes hold what their parent holds."""
        if self._handle < 0:
            return
        handle, self._handle = self._handle, -1
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass  # another rank's
        else:
            _remove(self.path)
        os.close(handle)


def _remove(folder: str) -> None:
    """First from where it is: workers that still write would make it again behind our back, and nobody would own it."""
    gone = f"{folder}-{uuid4().hex[:8]}{GONE}"
    try:
        os.rename(folder, gone)
    except OSError:  # somebody has removed it, or nobody may
        gone = folder
    shutil.rmtree(gone, ignore_errors=True)


def _joined(folder: str) -> int:
    """A descriptor with a shared lock on the owner's file of a folder, which is made where it is not there."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            handle = os.open(os.path.join(folder, OWNER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # somebody has just removed the folder
        fcntl.flock(handle, fcntl.LOCK_SH)
        if _is_it(folder, handle):
            return handle
        os.close(handle)


def _locked(folder: str, how: int) -> int | None:
    """A descriptor with a lock on the owner's file of a folder; None where somebody has it, or there is none."""
    try:
        handle = os.open(os.path.join(folder, OWNER), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    if not _is_it(folder, handle):
        os.close(handle)
        return None
    return handle


def _is_it(folder: str, handle: int) -> bool:
    """Whether the open file is still the one of that name: it may have been removed between opening and locking."""
    try:
        return os.path.samestat(os.stat(os.path.join(folder, OWNER)), os.fstat(handle))
    except FileNotFoundError:
        return False


def _processes() -> str:
    """Which numbering of processes this one is in."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def _word(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in text)[:100]
