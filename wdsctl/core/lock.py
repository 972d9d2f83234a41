"""One writer at a time: a lock file with host, pid and a heartbeat. Works where flock does not (NFS, Lustre).

The file is made whole under another name and linked into place, so that it is never seen empty, and exactly one of
two takers wins. A holder whose process is gone, or whose heart has stopped, is taken over from. One that was only
asleep finds out before it publishes: see `check_held`.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from wdsctl.core.errors import CatalogError
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import one_line
from wdsctl.core.process_mark import born as _born
from wdsctl.core.process_mark import space as _space
from wdsctl.core.urls import shown

BEAT = 5.0  # seconds between heartbeats
MISSED = 3 * BEAT  # seconds without one, after which a process that cannot be seen on this host is taken for dead
POLL = 0.5  # seconds between looks at a lock that somebody holds
LONGEST = 200  # letters of a command that are kept
STOPPED = 120.0  # seconds without one, after which a holder on another machine is taken for dead

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class Holder:
    host: str
    pid: int
    born: str  # when the process started, by its own kernel: a pid alone may have been given out again
    since: float  # seconds since 1970
    token: str
    command: str = ""  # what it was started as
    space: str = ""  # the boot and the pid namespace that the pid is of: containers may share a host's name


@contextmanager
def locked(path: str, *, wait: float = 0.0, note: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the lock at `path` for the block. Raises CatalogError WDS304, naming the holder, if somebody else does.

    `wait`: seconds to wait for them, which `note` is told of once a holder.
    """
    with translated(path):
        born = _born(os.getpid())
        mine = Holder(
            socket.gethostname(), os.getpid(), born, time.time(), uuid.uuid4().hex, command=_command(), space=_space()
        )
        _take_in_time(path, mine, wait, note)
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


def writer(path: str) -> str:
    """Who holds the lock at `path`, in words; empty where nobody does who lives."""
    with translated(path, "read"):
        holder = _read(path)
        return _said(holder) if holder is not None and _lives(path, holder, time.time()) else ""


def check_held(path: str) -> None:
    """Raise CatalogError WDS304 unless this process holds the lock at `path`: it may have slept and lost it."""
    with translated(path, "read"):
        holder = _read(path)
    me = (socket.gethostname(), os.getpid(), _born(os.getpid()), _space())
    if holder is None or (holder.host, holder.pid, holder.born, holder.space) != me:
        raise CatalogError(
            "the lock was taken over while this process did not run: nothing is published",
            where=path,
            hint="run the same command again: finished work is kept",
            code="WDS304",
        )


def _take_in_time(path: str, mine: Holder, wait: float, note: Callable[[str], None]) -> None:
    until = time.monotonic() + wait
    told = ""
    while True:
        try:
            _take(path, mine)
        except CatalogError:
            left = until - time.monotonic()
            if left <= 0:
                raise
            holder = writer(path)
            if holder not in ("", told):
                told = holder
                note(f"waiting for another wdsctl that writes to this dataset: {holder}")
            time.sleep(min(left, POLL))
        else:
            return


def _take(path: str, mine: Holder) -> None:
    draft = f"{path}.{mine.token}"
    os.makedirs(os.path.dirname(path), exist_ok=True)  # whoever was waited for may have removed it
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(asdict(mine), file)
        # Heartbeats are by the file system's clock, which may be a server's: ours may go wrong.
        now = os.stat(draft).st_mtime
        for _ in range(10):
            try:
                _put(draft, path)
                return
            except FileExistsError:
                _remove_if_dead(path, draft, now)
        raise _busy(path, None)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _put(draft: str, path: str) -> None:
    """Let `draft` be at `path`, too. Raises FileExistsError if anything is there."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A reader may see it half written: such a lock is honoured until it is old.
        with open(draft, encoding="utf-8") as source, open(path, "x", encoding="utf-8") as file:
            file.write(source.read())


def _remove_if_dead(path: str, draft: str, now: float) -> None:
    """Remove the lock of a dead holder. Raises CatalogError if it lives."""
    holder = _read(path)
    if holder is None:
        return
    if _lives(path, holder, now):
        raise _busy(path, holder)
    # Several takers may find it dead. One of them makes this file, and removes the lock if it is still that one.
    claim = f"{path}.{holder.token}.dead"
    try:
        _put(draft, claim)
    except FileExistsError:
        time.sleep(0.01)
        with suppress(FileNotFoundError):
            if now - os.stat(claim).st_mtime > MISSED:  # of one that was killed in between
                os.unlink(claim)
        return
    with suppress(FileNotFoundError):
        if _read(path) == holder and not _lives(path, holder, now):
            os.unlink(path)
    with suppress(FileNotFoundError):
        os.unlink(claim)


def _read(path: str) -> Holder | None:
    try:
        with open(path, encoding="utf-8") as file:
            return Holder(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return Holder("", 0, "", 0.0, "unreadable")


def _lives(path: str, holder: Holder, now: float) -> bool:
    is_here = holder.host == socket.gethostname()
    if is_here and _born(holder.pid) == holder.born != "":
        return True
    if is_here and holder.space == _space():
        return False
    try:
        return now - os.stat(path).st_mtime < (MISSED if is_here else STOPPED)
    except FileNotFoundError:
        return False


def _beat(path: str, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        with suppress(OSError):
            os.utime(path)


def _busy(path: str, holder: Holder | None) -> CatalogError:
    if holder is None:
        return CatalogError("the catalog is locked", where=path, hint="try again", code="WDS304")
    return CatalogError(
        f"another wdsctl is writing to this dataset: {_said(holder)}",
        where=path,
        hint="wait for its end: `--wait` (a week) or `--wait SECONDS`; if it is surely dead, remove the lock file",
        code="WDS304",
    )


def _command() -> str:
    """What this process was started as, without what must stay secret in it."""
    return shlex.join([os.path.basename(sys.argv[0]), *map(shown, sys.argv[1:])])[:LONGEST]


def _said(holder: Holder) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    command = f" ({one_line(holder.command)})" if holder.command else ""
    return f"process {holder.pid} on {holder.host}, since {since}{command}"
