"""One writer at a time: a lock file with host, pid and a heartbeat. Works where flock does not (NFS, Lustre).

The file is made whole under another name and linked into place, so that it is never seen empty, and exactly one of
two takers wins. A holder whose process is gone, or whose heart has stopped on another machine, is taken over from.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from wdsctl.core.errors import CatalogError
from wdsctl.core.os_errors import translated

BEAT = 5.0  # seconds between heartbeats
STOPPED = 120.0  # seconds without one, after which a holder on another machine is taken for dead


@dataclass(frozen=True, slots=True)
class Holder:
    host: str
    pid: int
    born: str  # when the process started, by its own kernel: a pid alone may have been given out again
    since: float  # seconds since 1970
    token: str


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the lock at `path` for the block. Raises CatalogError WDS304, naming the holder, if somebody else does."""
    with translated(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mine = Holder(socket.gethostname(), os.getpid(), _born(os.getpid()), time.time(), uuid.uuid4().hex)
        _take(path, mine)
    stop = threading.Event()
    heart = threading.Thread(target=_beat, args=(path, stop), daemon=True, name="wdsctl-lock")
    heart.start()
    try:
        yield
    finally:
        stop.set()
        heart.join()
        with suppress(OSError):
            if _read(path) == mine:
                os.unlink(path)


def _take(path: str, mine: Holder) -> None:
    draft = f"{path}.{mine.token}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(asdict(mine), file)
    try:
        for _ in range(10):
            try:
                os.link(draft, path)
                return
            except FileExistsError:
                _remove_if_dead(path)
        raise _busy(path, None)
    finally:
        os.unlink(draft)


def _remove_if_dead(path: str) -> None:
    """Remove the lock of a dead holder. Raises CatalogError if it lives."""
    holder = _read(path)
    if holder is None:
        return
    if _lives(path, holder):
        raise _busy(path, holder)
    # Two takers may both find it dead: the rename succeeds for one, and what was renamed is looked at again.
    aside = f"{path}.{uuid.uuid4().hex}"
    with suppress(FileNotFoundError):
        os.rename(path, aside)
        if _read(aside) != holder:
            with suppress(FileExistsError):
                os.link(aside, path)
        os.unlink(aside)


def _read(path: str) -> Holder | None:
    try:
        with open(path, encoding="utf-8") as file:
            return Holder(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return Holder("", 0, "", 0.0, "unreadable")


def _lives(path: str, holder: Holder) -> bool:
    if holder.host == socket.gethostname():
        return _born(holder.pid) == holder.born != ""
    try:
        return time.time() - os.stat(path).st_mtime < STOPPED
    except FileNotFoundError:
        return False


def _born(pid: int) -> str:
    """When a process started, in its kernel's clock ticks; empty if there is none. Elsewhere than on Linux: its pid."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.isdir("/proc/self"):
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return str(pid)
    return str(pid)


def _beat(path: str, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        with suppress(OSError):
            os.utime(path)


def _busy(path: str, holder: Holder | None) -> CatalogError:
    if holder is None:
        return CatalogError("the catalog is locked", where=path, hint="try again", code="WDS304")
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    return CatalogError(
        f"another wdsctl is writing to this dataset: process {holder.pid} on {holder.host}, since {since}",
        where=path,
        hint="wait for it; if it is surely dead, remove the lock file",
        code="WDS304",
    )
