"""Opens `ledger.sqlite`, tells whether it is sound, and says SQLite's troubles in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import check_database, error_of, open_database
from wdsctl.core.catalog.ledger_mark import APPLICATION_ID, VERSION
from wdsctl.core.catalog.own_schema import ledger_schema
from wdsctl.core.catalog.schema_text import ledger_statements
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError, WdsctlError
from wdsctl.core.os_errors import translated

_BUSY_TIMEOUT = 10.0  # seconds: another command may be noting its findings


def connect(path: str) -> sqlite3.Connection:
    """Open or create a ledger that is sound."""
    connection = open_database(path, None, "rwc", timeout_seconds=_BUSY_TIMEOUT)
    try:
        _prepare(connection)
        _create(connection)
        check_database(connection, ledger_schema())
    except BaseException:  # Ctrl-C too: nobody else has the connection yet, so nobody else would close it
        connection.close()
        raise
    return connection


def connect_for_reading(path: str) -> sqlite3.Connection:
    """Open a ledger that is there. Not read-only: what a killed run left half-written is rolled back."""
    connection = open_database(path, ledger_schema(), "rw", timeout_seconds=_BUSY_TIMEOUT)
    _prepare(connection)
    return connection


def connect_to_nothing() -> sqlite3.Connection:
    """An empty ledger in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _prepare(connection)
    _create(connection)
    return connection


def is_sound(path: str) -> bool:
    """Whether it is missing, empty or a whole ledger of ours. Reads all of it.

    Raises CatalogError WDS303 if it is from a newer wdsctl, WDS304 if another process holds it for long.
    """
    with translated(path, "read"):
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            return True
    try:
        with closing(open_database(path, None, "rw", timeout_seconds=_BUSY_TIMEOUT)) as connection:
            application, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
            is_known = application == APPLICATION_ID and int(str(version)) <= VERSION
            if is_known:
                check_database(connection, ledger_schema())  # before anything of it runs
            checked = _pragma(connection, "quick_check(1)") if is_known else ""
    except sqlite3.OperationalError as error:
        raise _said(error, path) from error
    except sqlite3.DatabaseError:
        return False
    if application == APPLICATION_ID and int(str(version)) > VERSION:
        raise CatalogError(
            f"the ledger has schema version {version}, this wdsctl knows versions up to {VERSION}",
            where=path,
            hint="upgrade wdsctl (`pip install -U wdsctl`)",
            code="WDS303",
        )
    return application == APPLICATION_ID and checked == "ok"


@contextmanager
def translating(path: str) -> Iterator[None]:
    """Raise our own errors in the place of SQLite's."""
    try:
        yield
    except sqlite3.Error as error:
        raise _said(error, path) from error


def _prepare(connection: sqlite3.Connection) -> None:
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _create(connection: sqlite3.Connection) -> None:
    """The tables that are not there yet, in one transaction with the mark that says whose they are."""
    if _pragma(connection, "user_version") == VERSION:
        return
    with connection:
        connection.execute("BEGIN")
        # Begins with a write: where two create it at once, the second waits here, and then finds the tables.
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in ledger_statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _said(error: BaseException, path: str) -> WdsctlError:
    """By SQLite's words: its error codes reach Python only from 3.11 on."""
    words = error_of(path, error)
    if "locked" in words or "busy" in words:
        return CatalogError("the ledger is locked", where=path, hint="wait for the other wdsctl", code="WDS304")
    if "full" in words:
        return StorageError(words, where=path, hint="free some space and run the same command again", code="WDS401")
    if "readonly" in words or "unable to open" in words:
        return PermissionDenied(words, where=path, hint="check the owner and the mode of the file and its folder")
    if "disk I/O" in words:
        return StorageError(words, where=path, hint="run the same command again: finished work is kept")
    return CatalogError(
        f"the ledger is damaged: {words}",
        where=path,
        hint="run the same command again: a damaged ledger is set aside",
        code="WDS302",
    )
