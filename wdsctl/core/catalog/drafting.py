"""The next catalog as a file beside the one that is published: begun, given out as a `Draft`, and put in its place."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import error_of, open_database, page_problem
from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.identity import APPLICATION_ID, DAMAGE, VERSION, check, damaged
from wdsctl.core.catalog.migrations import migrate
from wdsctl.core.catalog.own_schema import catalog_schema
from wdsctl.core.catalog.own_values import foreign_value
from wdsctl.core.catalog.schema_text import catalog_statements
from wdsctl.core.checked_file import UNFIT
from wdsctl.core.errors import StorageError
from wdsctl.core.files import replacing

#: Of a draft. No journal, no syncs: if the run dies, it is thrown away. Sorting the key index in memory would break the
#: bound on memory; two threads halve its time.
_BUILD = (
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -16384",
    "temp_store = FILE",
    "threads = 2",
)


@contextmanager
def drafting(path: str, *, anew: bool = False, ready: Callable[[], None] = lambda: None) -> Iterator[Draft]:
    """A draft of the catalog at `path`, published when the block ends well and dropped when it does not.

    The draft begins as a copy of what is published, brought to the present schema, or empty where nothing is or `anew`
    is set. `ready` is called last, and raises if it must not be published after all. Raises CatalogError WDS302 and
    WDS303, StorageError.
    """
    with replacing(path) as draft:
        if not anew and os.path.exists(path):
            check(path)
            with open(path, "rb") as published, open(draft, "xb") as file:
                shutil.copyfileobj(published, file, 1 << 20)
        with _connected(draft, path) as connection, closing(_begun(connection, path)) as made:
            yield made
            made.finish()
        if made.is_to_be_packed:
            _pack(draft, path)
        ready()


@contextmanager
def _connected(draft: str, path: str) -> Iterator[sqlite3.Connection]:
    """The draft of the catalog at `path`, in a transaction. The driver opens none of its own."""
    is_new = not os.path.exists(draft)
    try:
        # What it is a copy of has been checked by nobody yet; nothing foreign goes into what is published.
        schema = None if is_new else catalog_schema()
        with closing(open_database(draft, schema, "rwc", source=path)) as connection:
            said = "" if is_new else foreign_value(connection)
            if said:
                raise damaged(path, said)
            for pragma in _BUILD:
                connection.execute(f"PRAGMA {pragma}").close()
            migrate(connection)
            connection.execute("BEGIN")
            if is_new:
                _create(connection)
            yield connection
    except DAMAGE as error:
        raise _translated(error, path) from error


def _create(connection: sqlite3.Connection) -> None:
    for statement in catalog_statements():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _begun(connection: sqlite3.Connection, path: str) -> Draft:
    try:
        return Draft(connection)
    except UNFIT as error:
        raise damaged(path, "its facts do not parse") from error


def _pack(draft: str, path: str) -> None:
    """Give back the pages that are free. Takes as much space again while it lasts."""
    try:
        said = page_problem(draft)
        if said:  # rows that come again and again would be written as often
            raise sqlite3.DatabaseError(said)
        with closing(open_database(draft, catalog_schema(), "rw", source=path)) as connection:
            connection.execute("PRAGMA journal_mode = OFF").close()
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("VACUUM")
    except DAMAGE as error:
        raise _translated(error, path) from error


def _translated(error: BaseException, path: str) -> Exception:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return StorageError(
            "cannot write the catalog: the disk is full",
            where=path,
            hint="free some space and run the same command again: it goes on where it stopped",
            code="WDS401",
        )
    if isinstance(error, sqlite3.OperationalError) and str(error) != "interrupted":
        return StorageError(f"cannot write the catalog: {error}", where=path, hint="run the same command again")
    return damaged(path, error_of(path, error))
