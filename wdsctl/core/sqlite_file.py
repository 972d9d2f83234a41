"""Opens SQLite files that are written in place, so that no other file is written through a link or a second name.

SQLite takes paths and follows links. So its file is looked at, and what may lie beside it, before it is opened; it is
opened without being made; and before the first statement it is told from the descriptors of this process that it is
the file that was looked at.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from urllib.parse import quote

from wdsctl.core.errors import InputError, StorageError
from wdsctl.core.files import made_in, no_file, write_whole
from wdsctl.core.folders import Folder, held, linked
from wdsctl.core.os_errors import translated

_BESIDE = ("-journal", "-wal", "-shm")
_FDS = "/proc/self/fd"


def open_in_place(
    path: str, *, make: bool = False, timeout_seconds: float = 5.0, check_same_thread: bool = True
) -> sqlite3.Connection:
    """A connection to the file, which is a file of this name alone. It opens no transactions of its own.

    `make`: it is made where it is missing, and copied where it has other names (hard links), so that those stay as they
    are. Raises InputError WDS415 where it, or a file of SQLite's beside it, is a link, WDS417 where one is no file of
    its own; sqlite3.Error, PermissionDenied, StorageError.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translated(path), held(above) as folder:
        if make:
            if folder.look(name) is None:
                _make(folder, name)
            elif _has_other_names(folder, name):
                _copy(folder, name)
        _check_beside(folder, name)
        was = _file(folder, name)
        uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=rw"
        connection = sqlite3.connect(
            uri, uri=True, timeout=timeout_seconds, isolation_level=None, check_same_thread=check_same_thread
        )
        try:
            now = _file(folder, name)
            folder.check()
            if was is None or now is None or not os.path.samestat(was, now) or not _has_open(was):
                raise StorageError(
                    "the file was replaced while it was opened",
                    where=path,
                    hint="run the same command again when nothing else writes to its folder",
                    code="WDS416",
                )
        except BaseException:
            connection.close()
            raise
    return connection


def check_beside(path: str) -> None:
    """Raise InputError where a link, a pipe or a file of other names lies where SQLite keeps its journal.

    Asked again before each transaction, since SQLite makes its journal anew in each.
    """
    above, name = os.path.split(os.path.abspath(path))
    with translated(path), held(above) as folder:
        _check_beside(folder, name)


def _check_beside(folder: Folder, name: str) -> None:
    for suffix in _BESIDE:
        found = _file(folder, f"{name}{suffix}")
        if found is not None and found.st_nlink > 1:
            raise _of_two_names(os.path.join(folder.path, name + suffix))


def _make(folder: Folder, name: str) -> None:
    try:
        os.close(made_in(folder, name))
    except FileExistsError:
        return  # another process made it at the same time


def _file(folder: Folder, name: str) -> os.stat_result | None:
    found = folder.look(name)
    if found is not None and stat.S_ISLNK(found.st_mode):
        raise linked(os.path.join(folder.path, name))
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise no_file(os.path.join(folder.path, name))
    return found


def _has_other_names(folder: Folder, name: str) -> bool:
    found = _file(folder, name)
    return found is not None and found.st_nlink > 1


def _copy(folder: Folder, name: str) -> None:
    """Put a copy of a file in its place, so that its other names keep what they have."""
    path = os.path.join(folder.path, name)
    if any(folder.look(f"{name}{suffix}") is not None for suffix in _BESIDE):
        raise _of_two_names(path)  # what the journal says belongs to the file that is there
    with open(path, "rb") as source:
        data = source.read()
    write_whole(path, lambda file: file.writelines([data]))


def _of_two_names(path: str) -> InputError:
    return InputError(
        "the file has another name, whose content would be changed with it (a hard link)",
        where=path,
        hint="put a copy in its place: `cp FILE FILE.copy && mv FILE.copy FILE`",
        code="WDS417",
    )


def _has_open(file: os.stat_result) -> bool:
    """Whether this process has the file open; where that cannot be told, it has."""
    if not os.path.isdir(_FDS):
        return True
    for descriptor in os.listdir(_FDS):
        try:
            if os.path.samestat(os.fstat(int(descriptor)), file):
                return True
        except OSError:
            continue  # the descriptor of the list itself
    return False
