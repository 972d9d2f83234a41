"""Opens `ledger.sqlite`, checks it, and translates SQLite's errors.

Readers also open the file for writing, so that SQLite rolls back the unfinished transaction of a killed run. Without
write permission, SQLite opens it read-only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import (
    DATABASE_ERRORS,
    check_database,
    error_text,
    ledger_schema,
    ledger_statements,
    open_database,
)
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError, WdsctlError, translate_os_errors

LEDGER_APPLICATION_ID = 0x5744534C  # "WDSL"
LEDGER_SCHEMA_VERSION = 1

_BUSY_TIMEOUT_SECONDS = 10.0  # while another command stores its findings


def connect_ledger(path: str) -> sqlite3.Connection:
    """Open an undamaged ledger, or create one."""
    connection = open_database(path, None, "rwc", timeout_seconds=_BUSY_TIMEOUT_SECONDS)
    try:
        _configure(connection)
        _create_tables(connection)
        check_database(connection, ledger_schema())
    except BaseException:  # Ctrl-C too: no caller has the connection yet, so no caller could close it
        connection.close()
        raise
    return connection


def connect_existing_ledger(path: str) -> sqlite3.Connection:
    """Open a ledger that exists."""
    connection = open_database(path, ledger_schema(), "rw", timeout_seconds=_BUSY_TIMEOUT_SECONDS)
    _configure(connection)
    return connection


def connect_empty_ledger() -> sqlite3.Connection:
    """An empty ledger in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _configure(connection)
    _create_tables(connection)
    return connection


@contextmanager
def read_ledger(path: str) -> Iterator[sqlite3.Connection | None]:
    """The ledger in one transaction, or None if there is none. Checks only the schema, not the pages, to be fast.

    Raises CatalogError: WDS302 if the ledger is damaged, WDS303 if it is too new, WDS304 if it is locked.
    """
    if not has_ledger(path):
        yield None
        return
    try:
        with closing(open_database(path, None, "rw", timeout_seconds=_BUSY_TIMEOUT_SECONDS)) as connection:
            application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
            _check_version(path, application, version)
            if (application, version) != (LEDGER_APPLICATION_ID, LEDGER_SCHEMA_VERSION):
                raise _unreadable_error(path, "it is not a ledger of wdsctl")
            check_database(connection, ledger_schema())
            connection.execute("BEGIN")
            yield connection
    except DATABASE_ERRORS as error:
        message = error_text(path, error)
        if isinstance(error, sqlite3.OperationalError) and _is_locked(message):
            raise _locked_error(path) from error
        raise _unreadable_error(path, message) from error


def has_quarantine(path: str) -> bool:
    """Whether samples are in quarantine; True if the ledger cannot be read, so that the next reader reports why."""
    if not os.path.exists(path):
        return False
    try:
        with closing(open_database(path, ledger_schema(), "rw", timeout_seconds=_BUSY_TIMEOUT_SECONDS)) as connection:
            return connection.execute("SELECT 1 FROM quarantine LIMIT 1").fetchone() is not None
    except DATABASE_ERRORS:
        return True


def has_ledger(path: str) -> bool:
    """Whether the ledger exists and is not an empty file."""
    with translate_os_errors(path, "read"):
        return os.path.exists(path) and os.path.getsize(path) > 0


def is_undamaged_ledger(path: str) -> bool:
    """Whether the file is missing, empty, or an undamaged ledger. Reads the whole file.

    Raises CatalogError WDS303 if it is from a newer wdsctl, WDS304 if another process keeps it locked.
    """
    if not has_ledger(path):
        return True
    try:
        with closing(open_database(path, None, "rw", timeout_seconds=_BUSY_TIMEOUT_SECONDS)) as connection:
            application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
            is_known = (application, version) == (LEDGER_APPLICATION_ID, LEDGER_SCHEMA_VERSION)
            if is_known:
                check_database(connection, ledger_schema())  # before any statement of its schema can run
            checked = _pragma(connection, "quick_check(1)") if is_known else ""
    except sqlite3.OperationalError as error:
        raise _translate_error(error, path) from error
    except sqlite3.DatabaseError:
        return False
    _check_version(path, application, version)
    return checked == "ok"


@contextmanager
def translate_ledger_errors(path: str) -> Iterator[None]:
    """Raise a WdsctlError in place of SQLite's errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate_error(error, path) from error


def _configure(connection: sqlite3.Connection) -> None:
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new file, in one transaction with the ids that identify the file."""
    if _pragma(connection, "user_version") == LEDGER_SCHEMA_VERSION:
        return
    with connection:
        connection.execute("BEGIN")
        # The transaction begins with a write: a second process that creates the file waits here, then finds the tables.
        connection.execute(f"PRAGMA application_id = {LEDGER_APPLICATION_ID}")
        for statement in ledger_statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {LEDGER_SCHEMA_VERSION}")


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _check_version(path: str, application: object, version: object) -> None:
    if application == LEDGER_APPLICATION_ID and int(str(version)) > LEDGER_SCHEMA_VERSION:
        raise CatalogError(
            f"the ledger has schema version {version}, this wdsctl knows versions up to {LEDGER_SCHEMA_VERSION}",
            where=path,
            hint="upgrade wdsctl (`pip install -U wdsctl`)",
            code="WDS303",
        )


def _is_locked(message: str) -> bool:
    return "locked" in message or "busy" in message


def _locked_error(path: str) -> CatalogError:
    return CatalogError(
        "the ledger is locked",
        where=path,
        hint="run the same command again when the other wdsctl has finished",
        code="WDS304",
    )


def _unreadable_error(path: str, reason: str) -> CatalogError:
    return CatalogError(
        f"cannot read the ledger, which stores the views: {reason}",
        where=path,
        hint="restore a copy of the ledger; or create the view again, which starts a new ledger and keeps the "
        "damaged file",
        code="WDS302",
    )


def _translate_error(error: BaseException, path: str) -> WdsctlError:
    """Translate an error by SQLite's message: Python exposes SQLite's error codes only from 3.11 on."""
    message = error_text(path, error)
    if _is_locked(message):
        return _locked_error(path)
    if "full" in message:
        return StorageError(message, where=path, hint="free some space and run the same command again", code="WDS401")
    if "readonly" in message or "unable to open" in message:
        return PermissionDenied(message, where=path, hint="check the owner and the mode of the file and its folder")
    if "disk I/O" in message:
        return StorageError(message, where=path, hint="run the same command again: finished work is kept")
    return CatalogError(
        f"the ledger is damaged: {message}",
        where=path,
        hint="run the same command again: it starts a new ledger and keeps the damaged file",
        code="WDS302",
    )
