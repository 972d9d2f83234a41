"""A published catalog, opened to be read, by the standard library alone.

It never changes where it lies, so it is opened as immutable: no lock, no journal, on any file system
(<https://www.sqlite.org/uri.html>, `immutable`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from wdsctl.core.catalog.identity import DAMAGE, check, damaged


def uri_of(path: str) -> str:
    return f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"


def connect(path: str) -> sqlite3.Connection:
    """The catalog at `path`, in autocommit. Raises CatalogError WDS301, WDS302, WDS303."""
    check(path)
    return sqlite3.connect(uri_of(path), uri=True, isolation_level=None)


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """The same, as long as the block lasts; damage that shows in it is told as CatalogError WDS302."""
    try:
        with closing(connect(path)) as connection:
            yield connection
    except DAMAGE as error:
        raise damaged(path, str(error)) from error
