"""One writer at a time: a lock file with host, pid and a heartbeat. Works where flock does not (NFS, Lustre).

The file is made whole under another name and linked into place, so that it is never seen empty, and exactly one of
two takers wins. A holder whose process is gone, or whose heart has stopped, is taken over from. One that was only
asleep finds out before it publishes: see `check_held`.

A lock may have come with a dataset, made by anybody: whatever stands in it, whatever its time is and whatever else lies
in its place, it is in nobody's way for longer than `STOPPED`, and nothing outside its folder is touched.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.files import link_in, made_in, read_in, remove_file, rmdir_in, touch_in, unlink_in
from wdsctl.core.folders import Folder, held
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

LARGEST_BYTES = 1 << 16  # of a lock of ours: more is none

_TOKEN = re.compile(r"\w{1,64}", re.ASCII)  # names a file
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


#: A lock that says nothing of use, and something else that lies in a lock's place.
_UNREADABLE = Holder("", 0, "", 0.0, "unreadable")
_NOBODY = Holder("", 0, "", 0.0, "nobody")


@dataclass(frozen=True, slots=True)
class Breaking:
    """How locks that are in the way are taken from their holders. `living`: also from those seen to run on this host.
    `note` is told whose lock it was."""

    living: bool
    note: Callable[[str], None]


_BREAKING: ContextVar[Breaking | None] = ContextVar("breaking", default=None)


@contextmanager
def breaking(note: Callable[[str], None], *, living: bool = False) -> Iterator[None]:
    """Within the block `locked` does not wait for a holder: it takes the lock from them."""
    token = _BREAKING.set(Breaking(living, note))
    try:
        yield
    finally:
        _BREAKING.reset(token)


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
    heart = threading.Thread(target=_beat, args=(path, mine, stop), daemon=True, name="wdsctl-lock")
    heart.start()
    try:
        yield
    finally:
        stop.set()
        heart.join()
        with suppress(OSError, InputError):  # it may be gone, with its folder or without
            if _read(path) == mine:
                remove_file(path)


def writer(path: str) -> str:
    """Who holds the lock at `path`, in words; empty where nobody does who lives."""
    above, name = os.path.split(os.path.abspath(path))
    with translated(path, "read"), suppress(FileNotFoundError), held(above) as folder:
        holder = _read_in(folder, name)
        if holder is not None and _lives(folder, name, holder, time.time()):
            return _said(holder)
    return ""


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
    above, name = os.path.split(os.path.abspath(path))
    draft = f"{name}.{mine.token}"
    with held(above, make=True) as folder:  # whoever was waited for may have removed it
        try:
            with open(made_in(folder, draft), "w", encoding="utf-8") as file:
                json.dump(asdict(mine), file)
            # Heartbeats are by the file system's clock, which may be a server's: ours may go wrong.
            now = os.stat(draft, dir_fd=folder.handle, follow_symlinks=False).st_mtime
            for _ in range(10):
                try:
                    _put(folder, draft, name)
                    folder.check()
                    return
                except FileExistsError:
                    _remove_if_dead(folder, name, draft, now)
            raise _busy(path, None)
        finally:
            unlink_in(folder, draft)


def _put(folder: Folder, draft: str, name: str) -> None:
    """Let `draft` be at `name`, too. Raises FileExistsError if anything is there."""
    try:
        link_in(folder, draft, name)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A reader may see it half written: such a lock is honoured until it is old.
        with open(read_in(folder, draft), "rb") as source, open(made_in(folder, name), "wb") as file:
            file.write(source.read())


def _remove_if_dead(folder: Folder, name: str, draft: str, now: float) -> None:
    """Remove the lock of a dead holder, or of one that it is to be taken from. Raises CatalogError if it lives."""
    holder = _read_in(folder, name)
    path = os.path.join(folder.path, name)
    if holder is None:
        return
    lives = _lives(folder, name, holder, now)
    broken = _BREAKING.get()
    if lives and broken is None:
        raise _busy(path, holder)
    if lives and broken is not None:
        if _runs_here(holder) and not broken.living:
            raise _still_running(path, holder)
        broken.note(f"breaks the lock of another wdsctl: {_said(holder)}")
    # Several takers may find it dead. One of them makes this file, and removes the lock if it is still that one.
    claim = f"{name}.{holder.token}.dead"
    try:
        _put(folder, draft, claim)
    except FileExistsError:
        time.sleep(0.01)
        if not _is_fresh(folder, claim, now, MISSED):  # of one that was killed in between
            _clear(folder, claim)
        return
    if _read_in(folder, name) == holder and (broken is not None or not _lives(folder, name, holder, now)):
        _clear(folder, name)
    unlink_in(folder, claim)


def _clear(folder: Folder, name: str) -> None:
    """Remove what lies where a lock would be: a link itself, never what it leads to."""
    found = folder.look(name)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        unlink_in(folder, name)
        return
    try:
        rmdir_in(folder, name)
    except OSError as error:
        raise CatalogError(
            "a folder lies where the lock would be",
            where=os.path.join(folder.path, name),
            hint="wdsctl made none: look at what is in it, and move it away",
            code="WDS304",
        ) from error


def _read(path: str) -> Holder | None:
    """Who holds the lock; None where nothing is there, a holder without a host where it is no lock of ours."""
    above, name = os.path.split(os.path.abspath(path))
    with suppress(FileNotFoundError), held(above) as folder:
        return _read_in(folder, name)
    return None


def _read_in(folder: Folder, name: str) -> Holder | None:
    try:
        handle = read_in(folder, name)  # a link is not followed, and a pipe not waited for
    except FileNotFoundError:
        return None
    except (InputError, IsADirectoryError):
        return _NOBODY
    with open(handle, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    return _parsed(data) if len(data) <= LARGEST_BYTES else _UNREADABLE


def _parsed(data: bytes) -> Holder:
    try:
        holder = Holder(**json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return _UNREADABLE
    pid: object = holder.pid  # JSON has any type anywhere
    since: object = holder.since
    texts: tuple[object, ...] = (holder.host, holder.born, holder.token, holder.command, holder.space)
    is_whole = type(pid) is int and 0 < pid < 1 << 32 and all(isinstance(each, str) for each in texts)
    is_dated = isinstance(since, int | float) and abs(since) < 1e11  # which no NaN is
    return holder if is_whole and is_dated and _TOKEN.fullmatch(holder.token) else _UNREADABLE


def _lives(folder: Folder, name: str, holder: Holder, now: float) -> bool:
    if holder == _NOBODY:
        return False
    if _runs_here(holder):
        return True
    is_here = holder.host == socket.gethostname()
    if is_here and holder.space == _space():
        return False
    return _is_fresh(folder, name, now, MISSED if is_here else STOPPED)


def _runs_here(holder: Holder) -> bool:
    """Whether the process is seen to run. A pid says so only with the boot that it is of, which nobody else knows:
    process 1 is on every machine. Where there is no such word, the heart is asked."""
    if holder.host != socket.gethostname() or holder.space != _space() or not holder.space:
        return False
    return _born(holder.pid) == holder.born != ""


def _is_fresh(folder: Folder, name: str, now: float, seconds: float) -> bool:
    """Whether a heart has beaten of late. A time that is still to come is no beat: it would be fresh for years."""
    found = folder.look(name)
    return found is not None and abs(now - found.st_mtime) < seconds


def _beat(path: str, mine: Holder, stop: threading.Event) -> None:
    above, name = os.path.split(os.path.abspath(path))
    while not stop.wait(BEAT):
        with suppress(OSError, InputError), held(above) as folder:
            if _read_in(folder, name) == mine:  # the time of another file of that name is not ours to change
                touch_in(folder, name)


def _busy(path: str, holder: Holder | None) -> CatalogError:
    if holder is None:
        return CatalogError("the catalog is locked", where=path, hint="try again", code="WDS304")
    return CatalogError(
        f"another wdsctl is writing to this dataset: {_said(holder)}",
        where=path,
        hint="wait for its end: `--wait` (a week) or `--wait SECONDS`; if it is surely dead: `--break-lock`",
        code="WDS304",
    )


def _still_running(path: str, holder: Holder) -> CatalogError:
    return CatalogError(
        f"the holder of the lock runs on this machine: {_said(holder)}",
        where=path,
        hint="wait for its end with `--wait`, or end it; `--break-lock --yes` takes the lock from it",
        code="WDS304",
    )


def _command() -> str:
    """What this process was started as, without what must stay secret in it."""
    return shlex.join([os.path.basename(sys.argv[0]), *map(shown, sys.argv[1:])])[:LONGEST]


def _said(holder: Holder) -> str:
    if not holder.host:
        return "the lock does not say who it is"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    command = f" ({one_line(shown(holder.command[:LONGEST]))})" if holder.command else ""
    return f"process {holder.pid} on {one_line(holder.host[:LONGEST])}, since {since}{command}"
