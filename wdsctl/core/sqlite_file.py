"""Open SQLite files for writing in place, never through a link or a hard link.

SQLite takes paths and follows links. Before it opens the file, this module examines the file and the files that
SQLite may keep beside it, and does not let SQLite create the file. Before the first statement, it looks whether the
descriptor that SQLite got is of the examined file.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
import sys
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from wdsctl.core.directories import OpenFolder, link_error, open_folder
from wdsctl.core.errors import InputError, StorageError, translate_os_errors
from wdsctl.core.files import create_in, not_regular_error, open_in, write_pieces

_SIDE_FILE_SUFFIXES = ("-journal", "-wal", "-shm")
_DESCRIPTORS_FOLDER = "/proc/self/fd"
_TRIES = 10
_MIN_DESCRIPTOR = 3  # SQLite uses no lower ones
_COPY_BYTES = 1 << 20


def open_in_place(
    path: str, *, create: bool = False, timeout_seconds: float = 5.0, check_same_thread: bool = True
) -> sqlite3.Connection:
    """Connect to a file to write it in place. The connection begins no transactions by itself.

    `create`: create a missing file, and replace a file that has other hard links by a copy, so that the others stay
    unchanged. Raises InputError WDS415 if the file or a side file of SQLite is a link. Raises InputError WDS417 if
    one is not a regular file, if a side file has hard links, or if side files prevent the copy. Also raises
    StorageError WDS416 if another program replaced the file, sqlite3.Error, PermissionDenied and StorageError.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above) as folder:
        if create:
            if folder.lstat(name) is None:
                with suppress(FileExistsError):  # another process created it at the same time
                    os.close(create_in(folder, name))
            elif (found := _stat_regular(folder, name)) is not None and found.st_nlink > 1:
                _replace_with_copy(folder, name)
        _check_side_files(folder, name)
        was = _stat_regular(folder, name)
        options: dict[str, Any] = {"timeout": timeout_seconds, "check_same_thread": check_same_thread}
        connection = _connect(path, "mode=rw", folder, was, **options)
        try:
            now = _stat_regular(folder, name)
            folder.check_in_place()
            if was is None or now is None or not os.path.samestat(was, now):
                raise _replaced_error(path)
        except BaseException:  # also Ctrl-C: no other code has the connection yet
            connection.close()
            raise
    return connection


def open_immutable(path: str, *, timeout_seconds: float = 5.0, check_same_thread: bool = True) -> sqlite3.Connection:
    """Connect to a file that nobody writes, to read it: without locks, side files and transactions of its own.

    Raises InputError WDS415 for a link and WDS417 for a pipe or device, StorageError WDS416 if another program replaced
    the file, sqlite3.Error, and OSErrors as WdsctlErrors.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path, "read"), open_folder(above) as folder, open(open_in(folder, name), "rb") as file:
        was = os.fstat(file.fileno())
        options: dict[str, Any] = {"timeout": timeout_seconds, "check_same_thread": check_same_thread}
        connection = _connect(path, "mode=ro&immutable=1", folder, was, known=1, **options)
        try:
            now = folder.lstat(name)
            if now is None or not os.path.samestat(now, was):
                raise _replaced_error(path)
        except BaseException:  # also Ctrl-C: no other code has the connection yet
            connection.close()
            raise
    return connection


def _connect(
    path: str, query: str, folder: OpenFolder, file: os.stat_result | None, known: int = 0, **options: Any
) -> sqlite3.Connection:
    """Connect to the file that was examined. Raises StorageError WDS416 if SQLite has opened another one in its place.

    Tries again, as another thread may have got the descriptor that SQLite was expected to get.
    """
    for _ in range(_TRIES):
        number = _next_descriptor(folder)
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?{query}"
        connection: sqlite3.Connection = sqlite3.connect(uri, uri=True, isolation_level=None, **options)
        if file is not None and _has_opened(file, number, known):
            return connection
        connection.close()
    raise _replaced_error(path)


def check_side_files(path: str) -> None:
    """Raise InputError if SQLite's journal is a link, a pipe or a file with hard links.

    Call it before each transaction, since each one creates a new journal.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translate_os_errors(path), open_folder(above) as folder:
        _check_side_files(folder, name)


def _check_side_files(folder: OpenFolder, name: str) -> None:
    for suffix in _SIDE_FILE_SUFFIXES:
        found = _stat_regular(folder, f"{name}{suffix}")
        if found is not None and found.st_nlink > 1:
            raise _hard_link_error(os.path.join(folder.path, name + suffix))


def _stat_regular(folder: OpenFolder, name: str) -> os.stat_result | None:
    found = folder.lstat(name)
    if found is not None and stat.S_ISLNK(found.st_mode):
        raise link_error(os.path.join(folder.path, name))
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise not_regular_error(os.path.join(folder.path, name))
    return found


def _replace_with_copy(folder: OpenFolder, name: str) -> None:
    """Replace a file by a copy, so that its other hard links stay unchanged."""
    path = os.path.join(folder.path, name)
    if any(folder.lstat(f"{name}{suffix}") is not None for suffix in _SIDE_FILE_SUFFIXES):
        raise _hard_link_error(path)  # the journal belongs to the original file
    with open(open_in(folder, name), "rb") as source:
        write_pieces(path, iter(partial(source.read, _COPY_BYTES), b""))


def _replaced_error(path: str) -> StorageError:
    return StorageError(
        "another program replaced the file while wdsctl opened it",
        where=path,
        hint="run the same command again when no other program writes to the folder",
        code="WDS416",
    )


def _hard_link_error(path: str) -> InputError:
    return InputError(
        "the file has a hard link: a change would also change the other file",
        where=path,
        hint="replace the file by a copy: `cp FILE FILE.copy && mv FILE.copy FILE`",
        code="WDS417",
    )


def _next_descriptor(folder: OpenFolder) -> int:
    """The number of the descriptor that SQLite will get for its file, unless another thread opens or closes one."""
    number = fcntl.fcntl(folder.descriptor, fcntl.F_DUPFD_CLOEXEC, _MIN_DESCRIPTOR)
    os.close(number)
    return number


def _has_opened(file: os.stat_result, number: int, known: int = 0) -> bool:
    """Whether SQLite has opened this file, and no other that took its place meanwhile.

    If SQLite got no descriptor with this `number`, it has used an earlier one of this file again, or another thread has
    closed one: then the process must have more than `known` of this file.
    """
    try:
        return os.path.samestat(os.fstat(number), file)
    except OSError:
        return _count_open(file) > known


def _count_open(file: os.stat_result) -> int:
    """How many descriptors of the file this process has; if the system cannot tell, more than it needs."""
    if not os.path.isdir(_DESCRIPTORS_FOLDER):
        return sys.maxsize
    count = 0
    for descriptor in os.listdir(_DESCRIPTORS_FOLDER):
        with suppress(OSError):  # the descriptor of the list itself
            count += os.path.samestat(os.fstat(int(descriptor)), file)
    return count
