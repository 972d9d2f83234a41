"""A published catalog, opened to be read, by the standard library alone.

It never changes where it lies, so it is opened as immutable: no lock, no journal, on any file system
(<https://www.sqlite.org/uri.html>, `immutable`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import error_of, open_database
from wdsctl.core.catalog.identity import DAMAGE, check, damaged
from wdsctl.core.catalog.own_schema import catalog_schema


def connect(path: str, *, check_same_thread: bool = True) -> sqlite3.Connection:
    """The catalog at `path`, in autocommit. Raises CatalogError WDS301, WDS302, WDS303."""
    check(path)
    with translating(path):
        return open_database(path, catalog_schema(), check_same_thread=check_same_thread)


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
