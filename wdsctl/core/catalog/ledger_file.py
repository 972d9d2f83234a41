"""Opens `ledger.sqlite`, checks it, and translates SQLite's errors.

Readers also open the file for writing, so that SQLite rolls back the unfinished transaction of a killed run. Without
write permission, SQLite opens it read-only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wdsctl.core.catalog.database_file import (
    DATABASE_ERRORS,
    OpenMode,
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


def connect_ledger(path: str, mode: OpenMode, *, checks_pages: bool = True) -> sqlite3.Connection:
    """Open a ledger, and check its ids, its schema and, with `checks_pages`, all pages. "rwc": may create it.

    Raises CatalogError WDS303 if the ledger is from a newer wdsctl, sqlite3.DatabaseError if the file is not a ledger,
    and sqlite3.OperationalError if it cannot be opened.
    """
    is_there = has_ledger(path)
    connection = open_database(path, None, mode, timeout_seconds=_BUSY_TIMEOUT_SECONDS)
    try:
        if is_there:
            _check_ids(connection, path)
            check_database(connection, ledger_schema())  # before any statement of its schema can run
            if checks_pages and (problem := _pragma(connection, "quick_check(1)")) != "ok":
                raise sqlite3.DatabaseError(problem)
            _check_types(connection, _all_tables(connection) if checks_pages else ("view", "view_shard"))
        if mode == "rwc":
            _configure(connection)
        if not is_there:
            _create_tables(connection)
            check_database(connection, ledger_schema())
    except BaseException:  # Ctrl-C too: no caller has the connection yet, so no caller could close it
        connection.close()
        raise
    return connection


def has_ledger(path: str) -> bool:
    """Whether the ledger exists and is not an empty file."""
    with translate_os_errors(path, "read"):
        return os.path.exists(path) and os.path.getsize(path) > 0


@contextmanager
def translate_ledger_errors(path: str) -> Iterator[None]:
    """Raise a WdsctlError in place of SQLite's errors."""
    try:
        yield
    except (sqlite3.Error, *DATABASE_ERRORS) as error:
        raise _translate_error(error, path) from error


@contextmanager
def translate_view_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as CatalogError: WDS302 for a damaged ledger, WDS304 for a locked one."""
    try:
        yield
    except DATABASE_ERRORS as error:
        message = error_text(path, error)
        if isinstance(error, sqlite3.OperationalError) and _is_locked(message):
            raise _locked_error(path) from error
        raise CatalogError(
            f"cannot read the ledger, which stores the views: {message}",
            where=path,
            hint="restore a copy of the ledger; or create the view again, which starts a new ledger and keeps the "
            "damaged file",
            code="WDS302",
        ) from error


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


def _check_ids(connection: sqlite3.Connection, path: str) -> None:
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application == LEDGER_APPLICATION_ID and int(str(version)) > LEDGER_SCHEMA_VERSION:
        raise CatalogError(
            f"the ledger has schema version {version}, this wdsctl knows versions up to {LEDGER_SCHEMA_VERSION}",
            where=path,
            hint="upgrade wdsctl (`pip install -U wdsctl`)",
            code="WDS303",
        )
    if (application, version) != (LEDGER_APPLICATION_ID, LEDGER_SCHEMA_VERSION):
        raise sqlite3.DatabaseError("it is not a ledger of wdsctl")


def _all_tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")]


def _check_types(connection: sqlite3.Connection, tables: Sequence[str]) -> None:
    """Raise sqlite3.DatabaseError for a value that has not the type of its column: SQLite stores it nevertheless."""
    for table in tables:
        wrong = []
        for _, name, kind, is_required, *_ in connection.execute(f'PRAGMA main.table_info("{table}")'):
            types = f"'{kind.lower()}'" if is_required else f"'{kind.lower()}', 'null'"
            wrong.append(f'typeof("{name}") NOT IN ({types})')
        test = f'SELECT EXISTS (SELECT 1 FROM main."{table}" WHERE {" OR ".join(wrong)})'
        if connection.execute(test).fetchone() != (0,):
            raise sqlite3.DatabaseError(f"the table {table} contains a value of a wrong type")


def _is_locked(message: str) -> bool:
    return "locked" in message or "busy" in message


def _locked_error(path: str) -> CatalogError:
    return CatalogError(
        "the ledger is locked",
        where=path,
        hint="run the same command again when the other wdsctl has finished",
        code="WDS304",
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
