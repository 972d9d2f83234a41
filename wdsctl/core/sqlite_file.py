"""Open SQLite files for writing in place, never through a link or a hard link.

SQLite takes paths and follows links. Before it opens the file, this module examines the file and the files that
SQLite may keep beside it, and does not let SQLite create the file. Before the first statement, it looks among the
descriptors of this process for the examined file.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from wdsctl.core.directories import OpenFolder, link_error, open_folder
from wdsctl.core.errors import InputError, StorageError, translate_os_errors
from wdsctl.core.files import create_in, not_regular_error, open_in, write_pieces

_SIDE_FILE_SUFFIXES = ("-journal", "-wal", "-shm")
_DESCRIPTORS_FOLDER = "/proc/self/fd"
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
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=timeout_seconds, isolation_level=None, check_same_thread=check_same_thread
        )
        try:
            now = _stat_regular(folder, name)
            folder.check_in_place()
            if was is None or now is None or not os.path.samestat(was, now) or not _is_open_here(was):
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
        connection = sqlite3.connect(
            f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1",
            uri=True,
            timeout=timeout_seconds,
            isolation_level=None,
            check_same_thread=check_same_thread,
        )
        try:
            now = folder.lstat(name)
            if now is None or not os.path.samestat(now, os.fstat(file.fileno())):
                raise _replaced_error(path)
        except BaseException:  # also Ctrl-C: no other code has the connection yet
            connection.close()
            raise
    return connection


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


def _is_open_here(file: os.stat_result) -> bool:
    """Whether this process has the file open; True if the system cannot tell."""
    if not os.path.isdir(_DESCRIPTORS_FOLDER):
        return True
    for descriptor in os.listdir(_DESCRIPTORS_FOLDER):
        try:
            if os.path.samestat(os.fstat(int(descriptor)), file):
                return True
        except OSError:
            continue  # the descriptor of the list itself
    return False
