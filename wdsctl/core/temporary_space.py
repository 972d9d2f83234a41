"""SQLite's own temporary files: what it raises where there is no room for them, with what helps."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from wdsctl.core.errors import StorageError


@contextmanager
def in_temporary_space(failure: str) -> Iterator[None]:
    """For writing and sorting temporary rows. Raises StorageError WDS401, `failure` and why, where the disk is full."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" not in str(error) and "disk" not in str(error):
            raise
        raise StorageError(
            f"{failure}: {error}",
            where=os.environ.get("SQLITE_TMPDIR", "the folder for temporary files"),
            hint="free some space there, or name another folder: SQLITE_TMPDIR=DIR",
            code="WDS401",
        ) from error
