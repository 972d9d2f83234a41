"""SQLite's own temporary files: what it raises where there is no room for them, with what helps."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.errors import StorageError

_NO_ROOM = frozenset({"database or disk is full", "disk I/O error"})


@contextmanager
def in_temporary_space(failure: str) -> Iterator[None]:
    """For writing and sorting temporary rows. Raises StorageError WDS401, `failure` and why, where the disk is full."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not is_no_room(error):
            raise
        raise StorageError(
            f"{failure}: {error}",
            where=temporary_folder(),
            hint="free some space there, or name another folder: SQLITE_TMPDIR=DIR",
            code="WDS401",
        ) from error


def is_no_room(error: sqlite3.Error | sqlite3.Warning) -> bool:
    """Whether SQLite could not write what it wanted to: these are its own words, and of no query."""
    return str(error) in _NO_ROOM


def temporary_folder() -> str:
    """Where SQLite puts its temporary files: the first of these folders that can be written, as it looks for them."""
    asked = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"))
    for folder in (*filter(None, asked), "/var/tmp", "/usr/tmp", "/tmp"):  # noqa: S108 - SQLite's own list
        if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return os.curdir
