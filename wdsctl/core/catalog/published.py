"""A published catalog, opened to be read, by the standard library alone.

It never changes where it lies, so it is opened as immutable: no lock, no journal, on any file system
(<https://www.sqlite.org/uri.html>, `immutable`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import error_of, open_database
from wdsctl.core.catalog.identity import DAMAGE, check, damaged
from wdsctl.core.catalog.own_schema import catalog_schema
from wdsctl.core.catalog.own_values import foreign_value
from wdsctl.core.os_errors import translated

#: The files whose values have been looked at, by path.
_CHECKED: dict[str, tuple[int, int, int, int]] = {}


def connect(path: str, *, check_same_thread: bool = True) -> sqlite3.Connection:
    """The catalog at `path`, in autocommit. Raises CatalogError WDS301, WDS302, WDS303."""
    check(path)
    with translating(path):
        connection = open_database(path, catalog_schema(), check_same_thread=check_same_thread)
        try:
            _check_values(connection, path)
        except BaseException:  # Ctrl-C too: nobody else has the connection yet
            connection.close()
            raise
        return connection


def _check_values(connection: sqlite3.Connection, path: str) -> None:
    """Once a file: commands open their catalog several times."""
    with translated(path, "read"):
        stat = os.stat(path)
    mark = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    if _CHECKED.get(path) != mark:
        said = foreign_value(connection)
        if said:
            raise sqlite3.DatabaseError(said)
        _CHECKED[path] = mark


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """The same, as long as the block lasts; damage that shows in it is told as CatalogError WDS302."""
    with closing(connect(path)) as connection, translating(path):
        yield connection


@contextmanager
def translating(path: str) -> Iterator[None]:
    """Raise damage to the catalog at `path` that shows in the block as CatalogError WDS302, and Ctrl-C as itself."""
    try:
        yield
    except DAMAGE as error:
        raise damaged(path, error_of(path, error)) from error
