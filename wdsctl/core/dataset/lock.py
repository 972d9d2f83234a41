"""Lock a dataset for one writer, with a file that also works without flock (NFS, Lustre).

The file has host, pid and a heartbeat. A process writes it under another name and links it to its path: the lock is
never empty, and only one of two processes gets it. If the holder's process is gone or its heartbeat has stopped,
another process takes the lock over. A holder that was only suspended notices the loss before it publishes
(`check_lock_held`).

A lock may come with a dataset from any source. Whatever the file contains, it blocks a writer for at most
`REMOTE_TIMEOUT_SECONDS`, and wdsctl changes nothing outside its folder.

`process_identity` describes a process so that a later one can find out whether it still runs.

`lock_dataset` is the lock of a dataset for a command. At a URL, it also fetches and publishes the catalog.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.directories import OpenFolder, open_folder
from wdsctl.core.errors import CatalogError, InputError, translate_os_errors
from wdsctl.core.files import create_in, link_in, open_in, remove_file, rmdir_in, touch_in, unlink_in
from wdsctl.core.json_text import read_json
from wdsctl.core.text import escape_unprintable
from wdsctl.core.urls import redact_secrets


def process_identity() -> dict[str, Any]:
    """Describe this process as JSON: host, pid, start time, and the boot and pid namespace of the pid."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "born": process_start_time(pid), "space": pid_namespace()}


def is_process_running(process: Mapping[str, Any]) -> bool | None:
    """Whether a process still runs; None if unknown, for example because it runs on another machine."""
    if process.get("host") != socket.gethostname() or not isinstance(process.get("pid"), int):
        return None
    if process_start_time(process["pid"]) == process.get("born") != "":
        return True
    return False if process.get("space") == pid_namespace() else None


def pid_namespace() -> str:
    """Return the boot and the pid namespace in which this process's pids are valid; empty except on Linux."""
    try:
        return f"{_boot_id()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


@cache
def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def process_start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks; empty if it does not run. Except on Linux: its pid."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            facts = file.read().rsplit(")", 1)[1].split()
        # /proc still lists zombie processes: in containers, often forever.
        return "" if facts[0] in "ZX" else facts[19]
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


HEARTBEAT_SECONDS = 5.0  # seconds between heartbeats
#: Without a heartbeat for this long, a holder on this host whose process is not visible counts as dead.
LOCAL_TIMEOUT_SECONDS = 3 * HEARTBEAT_SECONDS
#: Without a heartbeat for this long, a holder on another machine counts as dead.
REMOTE_TIMEOUT_SECONDS = 120.0
POLL_SECONDS = 0.5  # seconds between checks of a held lock
MAX_COMMAND_CHARS = 200  # length limit of the stored command line
MAX_LOCK_BYTES = 1 << 16  # larger files are not locks

_TOKEN = re.compile(r"\w{1,64}", re.ASCII)  # part of a file name
_NO_HARD_LINK_ERRNOS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP})


@dataclass(frozen=True, slots=True)
class LockHolder:
    host: str
    pid: int
    born: str  # when the process started: a pid alone may have been reused
    since: float  # seconds since 1970
    token: str
    command: str = ""  # the command line
    space: str = ""  # the boot and pid namespace of the pid: containers may share a host's name


#: A lock that does not parse, and a file at its path that is not a lock.
_UNREADABLE_HOLDER = LockHolder("", 0, "", 0.0, "unreadable")
_NO_HOLDER = LockHolder("", 0, "", 0.0, "nobody")


@dataclass(frozen=True, slots=True)
class LockBreaking:
    """How to break locks. `breaks_running`: also if the holder runs on this host. `note` receives the holder."""

    breaks_running: bool
    note: Callable[[str], None]


_BREAKING: ContextVar[LockBreaking | None] = ContextVar("breaking", default=None)


@contextmanager
def break_locks(note: Callable[[str], None], *, breaks_running: bool = False) -> Iterator[None]:
    """Let `hold_lock` take locks from their holders within the block, without waiting."""
    token = _BREAKING.set(LockBreaking(breaks_running, note))
    try:
        yield
    finally:
        _BREAKING.reset(token)


@contextmanager
def hold_lock(path: str, *, wait: float = 0.0, note: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the lock at `path` for the duration of the block.

    `wait`: seconds to wait for another holder; `note` receives each holder once. Raises CatalogError WDS304, which
    names the holder, if the lock is still held then.
    """
    with translate_os_errors(path):
        own_holder = this_process_as_holder()
        _take_or_wait(path, own_holder, wait, note)
    stop = threading.Event()
    heartbeat = threading.Thread(
        target=_send_heartbeats, args=(path, own_holder, stop), daemon=True, name="wdsctl-lock"
    )
    heartbeat.start()
    try:
        yield
    finally:
        stop.set()
        heartbeat.join()
        with suppress(OSError, InputError):  # the lock or its folder may be gone
            if _read_holder(path) == own_holder:
                remove_file(path)


def this_process_as_holder() -> LockHolder:
    """Describe this process as the holder of a new lock."""
    arguments = map(redact_secrets, sys.argv[1:])
    return LockHolder(
        socket.gethostname(),
        os.getpid(),
        process_start_time(os.getpid()),
        time.time(),
        uuid.uuid4().hex,
        command=shlex.join([os.path.basename(sys.argv[0]), *arguments])[:MAX_COMMAND_CHARS],
        space=pid_namespace(),
    )


def lock_breaking() -> LockBreaking | None:
    """Return how to break locks here (`break_locks`); None if they are not to be broken."""
    return _BREAKING.get()


@contextmanager
def lock_dataset(
    location: DatasetLocation, *, wait: float = 0.0, note: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """`hold_lock` for a dataset whose catalog the block changes, and `publish_changes`."""
    with hold_lock(location.lock, wait=wait, note=note), publish_changes(location, note):
        yield


@contextmanager
def publish_changes(
    location: DatasetLocation, note: Callable[[str], None] = lambda _: None, *, is_record: bool = False
) -> Iterator[None]:
    """Publish what the block changes in the catalog's folder, if the dataset is at a URL; otherwise do nothing.

    Begins with the newest catalog. `is_record`: the block only records its run. Raises what
    `wdsctl.core.remote_catalogs.publish.publishing` raises.
    """
    if not location.published_url:
        yield
        return
    from wdsctl.core.remote_catalogs.publish import publishing

    with publishing(location.meta, location.published_url, note, is_record=is_record):
        yield


def after_publication(location: DatasetLocation, call: Callable[[], None]) -> None:
    """Call `call`, at a URL only once the changes of the catalog are published: it removes the work of this run."""
    if not location.published_url:
        call()
        return
    from wdsctl.core.remote_catalogs.publish import call_when_published

    call_when_published(location.meta, call)


def describe_lock_holder(path: str) -> str:
    """Describe the live holder of the lock at `path`; empty if there is none."""
    parent, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path, "read"), suppress(FileNotFoundError), open_folder(parent) as folder:
        holder = _read_holder_in(folder, name)
        if holder is not None and _is_alive(folder, name, holder, time.time()):
            return holder_text(holder)
    return ""


def check_lock_held(path: str) -> None:
    """Raise CatalogError WDS304 unless this process holds the lock.

    A process can lose its lock while it is suspended.
    """
    with translate_os_errors(path, "read"):
        holder = _read_holder(path)
    own_process = (socket.gethostname(), os.getpid(), process_start_time(os.getpid()), pid_namespace())
    if holder is None or (holder.host, holder.pid, holder.born, holder.space) != own_process:
        raise CatalogError(
            "another process took the lock while this process was suspended: wdsctl published nothing",
            where=path,
            hint="run the same command again: finished work is kept",
            code="WDS304",
        )


def _take_or_wait(path: str, own_holder: LockHolder, wait: float, note: Callable[[str], None]) -> None:
    deadline = time.monotonic() + wait
    reported_holder = ""
    while True:
        try:
            _take(path, own_holder)
        except CatalogError:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            holder = describe_lock_holder(path)
            if holder not in ("", reported_holder):
                reported_holder = holder
                note(f"waiting for another wdsctl that is writing to this dataset: {holder}")
            time.sleep(min(remaining, POLL_SECONDS))
        else:
            return


def _take(path: str, own_holder: LockHolder) -> None:
    parent, name = os.path.split(os.path.abspath(path))
    draft = f"{name}.{own_holder.token}"
    with open_folder(parent, create=True) as folder:  # the last holder may have removed it
        try:
            with open(create_in(folder, draft), "w", encoding="utf-8") as file:
                json.dump(asdict(own_holder), file)
            # Heartbeats use the file system's clock: a file server's clock may differ from this machine's.
            now = os.stat(draft, dir_fd=folder.descriptor, follow_symlinks=False).st_mtime
            for _ in range(10):
                try:
                    _link_or_copy_to(folder, draft, name)
                    folder.check_in_place()
                    return
                except FileExistsError:
                    _remove_if_dead(folder, name, draft, now)
            raise _locked_error(path, None)
        finally:
            unlink_in(folder, draft)


def _link_or_copy_to(folder: OpenFolder, draft: str, name: str) -> None:
    """Link `draft` to `name`. Raises FileExistsError if the path exists."""
    try:
        link_in(folder, draft, name)
    except OSError as error:
        if error.errno not in _NO_HARD_LINK_ERRNOS:
            raise
        # A reader may see an incomplete file: it counts as a lock until it is old.
        with open(open_in(folder, draft), "rb") as source, open(create_in(folder, name), "wb") as file:
            file.write(source.read(MAX_LOCK_BYTES))


def _remove_if_dead(folder: OpenFolder, name: str, draft: str, now: float) -> None:
    """Remove the lock of a dead holder, or break that of a live one. Raises CatalogError if it may not be broken."""
    holder = _read_holder_in(folder, name)
    path = os.path.join(folder.path, name)
    if holder is None:
        return
    is_alive = _is_alive(folder, name, holder, now)
    breaking = _BREAKING.get()
    if is_alive and breaking is None:
        raise _locked_error(path, holder)
    if is_alive and breaking is not None:
        if is_seen_running(holder) and not breaking.breaks_running:
            raise still_running_error(path, holder)
        breaking.note(f"breaking the lock of another wdsctl: {holder_text(holder)}")
    # Several processes may find the holder dead. One creates this file, and removes the lock if it is unchanged.
    claim = f"{name}.{holder.token}.dead"
    try:
        _link_or_copy_to(folder, draft, claim)
    except FileExistsError:
        time.sleep(0.01)
        if not _has_recent_heartbeat(folder, claim, now, LOCAL_TIMEOUT_SECONDS):  # its creator was killed
            _remove_lock(folder, claim)
        return
    if _read_holder_in(folder, name) == holder and (breaking is not None or not _is_alive(folder, name, holder, now)):
        _remove_lock(folder, name)
    unlink_in(folder, claim)


def _remove_lock(folder: OpenFolder, name: str) -> None:
    """Remove whatever is at the path of a lock. Of a link, only the link."""
    found = folder.lstat(name)
    if found is None:
        return
    if not stat.S_ISDIR(found.st_mode):
        unlink_in(folder, name)
        return
    try:
        rmdir_in(folder, name)
    except OSError as error:
        raise CatalogError(
            "the path of the lock file is a folder",
            where=os.path.join(folder.path, name),
            hint="wdsctl did not create this folder: check its content, and move it elsewhere",
            code="WDS304",
        ) from error


def _read_holder(path: str) -> LockHolder | None:
    """The holder of the lock; None if there is no file, a holder without a host if the file is not a lock."""
    parent, name = os.path.split(os.path.abspath(path))
    with suppress(FileNotFoundError), open_folder(parent) as folder:
        return _read_holder_in(folder, name)
    return None


def _read_holder_in(folder: OpenFolder, name: str) -> LockHolder | None:
    try:
        handle = open_in(folder, name)  # does not follow links or wait for pipes
    except FileNotFoundError:
        return None
    except (InputError, IsADirectoryError):
        return _NO_HOLDER
    with open(handle, "rb") as file:
        data = file.read(MAX_LOCK_BYTES + 1)
    return parse_holder(data) if len(data) <= MAX_LOCK_BYTES else _UNREADABLE_HOLDER


def parse_holder(data: bytes) -> LockHolder:
    """Parse the JSON of a holder. One that is not valid has no host."""
    try:
        holder = LockHolder(**read_json(data))
    except (ValueError, TypeError):
        return _UNREADABLE_HOLDER
    pid: object = holder.pid  # JSON may have any type here
    since: object = holder.since
    texts: tuple[object, ...] = (holder.host, holder.born, holder.token, holder.command, holder.space)
    is_valid = type(pid) is int and 0 < pid < 1 << 32 and all(isinstance(each, str) for each in texts)
    is_dated = isinstance(since, int | float) and abs(since) < 1e11  # excludes NaN
    return holder if is_valid and is_dated and _TOKEN.fullmatch(holder.token) else _UNREADABLE_HOLDER


def _is_alive(folder: OpenFolder, name: str, holder: LockHolder, now: float) -> bool:
    if holder == _NO_HOLDER:
        return False
    if is_seen_running(holder):
        return True
    is_here = holder.host == socket.gethostname()
    if is_here and holder.space == pid_namespace():
        return False
    return _has_recent_heartbeat(folder, name, now, LOCAL_TIMEOUT_SECONDS if is_here else REMOTE_TIMEOUT_SECONDS)


def is_seen_running(holder: LockHolder) -> bool:
    """Whether the holder's process runs here.

    A pid only counts together with its boot and pid namespace, since every machine has a process 1. Without them,
    heartbeats decide.
    """
    if holder.host != socket.gethostname() or holder.space != pid_namespace() or not holder.space:
        return False
    return process_start_time(holder.pid) == holder.born != ""


def _has_recent_heartbeat(folder: OpenFolder, name: str, now: float, seconds: float) -> bool:
    """Whether there was a recent heartbeat. A time in the future is none: it would be recent for years."""
    found = folder.lstat(name)
    return found is not None and abs(now - found.st_mtime) < seconds


def _send_heartbeats(path: str, own_holder: LockHolder, stop: threading.Event) -> None:
    parent, name = os.path.split(os.path.abspath(path))
    while not stop.wait(HEARTBEAT_SECONDS):
        with suppress(OSError, InputError), open_folder(parent) as folder:
            if _read_holder_in(folder, name) == own_holder:  # never touch another process's lock
                touch_in(folder, name)


def _locked_error(path: str, holder: LockHolder | None) -> CatalogError:
    if holder is None:
        return CatalogError("the catalog is locked", where=path, hint="try again", code="WDS304")
    return CatalogError(
        f"another wdsctl is writing to this dataset: {holder_text(holder)}",
        where=path,
        hint="wait with `--wait` (up to a week) or `--wait SECONDS`; only if its process has ended, pass "
        "`--break-lock`",
        code="WDS304",
    )


def still_running_error(path: str, holder: LockHolder) -> CatalogError:
    return CatalogError(
        f"the process that holds the lock is alive on this machine: {holder_text(holder)}",
        where=path,
        hint="wait for the process with `--wait`, or stop the process; `--break-lock --yes` takes the lock from a "
        "live process",
        code="WDS304",
    )


def holder_text(holder: LockHolder) -> str:
    """Describe a holder for a message."""
    if not holder.host:
        return "the lock file does not name the process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    command = f" ({escape_unprintable(redact_secrets(holder.command[:MAX_COMMAND_CHARS]))})" if holder.command else ""
    return f"process {holder.pid} on {escape_unprintable(holder.host[:MAX_COMMAND_CHARS])}, since {since}{command}"
