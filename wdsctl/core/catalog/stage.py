"""Drafts of the next catalog: begun beside the published one, and published as a whole."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import (
    DATABASE_ERRORS,
    catalog_schema,
    catalog_statements,
    error_text,
    find_page_problem,
    open_database,
    watch_statements,
)
from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.open_catalog import (
    CATALOG_APPLICATION_ID,
    CATALOG_SCHEMA_VERSION,
    check_catalog_file,
    damaged_catalog_error,
    find_value_problem,
)
from wdsctl.core.errors import StorageError
from wdsctl.core.files import MALFORMED_ERRORS, open_own

#: The settings of a draft. No journal and no syncs: if the run dies, the draft is deleted. The key index is sorted on
#: disk, to bound memory; two threads halve the time.
_BUILD = (
    "journal_mode = OFF",
    "synchronous = OFF",
    "locking_mode = EXCLUSIVE",
    "cache_size = -16384",
    "temp_store = FILE",
    "threads = 2",
)


@contextmanager
def connect_draft(file: str, path: str, *, from_scratch: bool = False) -> Iterator[sqlite3.Connection]:
    """A new draft in `file`, for the catalog at `path`: a copy of it, or empty if there is none or `from_scratch`.

    Raises CatalogError WDS302 and WDS303, StorageError.
    """
    is_copy = not from_scratch and os.path.exists(path)
    if is_copy:
        check_catalog_file(path)
        with open_own(path) as published, open(file, "xb") as copy:
            shutil.copyfileobj(published, copy, 1 << 20)
    # The draft is a copy of a catalog that was not checked yet. No foreign value may get into a published catalog.
    schema = catalog_schema() if is_copy else None
    with _translate_errors(path):
        connection = open_database(file, schema, "rwc", source=path, check_same_thread=False)
    with closing(connection):
        with _translate_errors(path):
            problem = find_value_problem(connection) if is_copy else ""
            if problem:
                raise damaged_catalog_error(path, problem)
            for pragma in _BUILD:
                connection.execute(f"PRAGMA {pragma}").close()
            if not is_copy:
                for statement in catalog_statements():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {CATALOG_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {CATALOG_SCHEMA_VERSION}")
        yield connection


@contextmanager
def change_draft(connection: sqlite3.Connection, file: str, path: str) -> Iterator[CatalogDraft]:
    """Change the draft in `file`, over its connection. If the block raises, the file is unusable: it has no journal."""
    with _translate_errors(path):
        watch_statements(connection, path, size_bytes=os.path.getsize(file))
        connection.execute("BEGIN")
        try:
            draft = CatalogDraft(connection)
        except MALFORMED_ERRORS as error:
            raise damaged_catalog_error(path, "its facts cannot be parsed") from error
        yield draft
        draft.finish()
        if draft.needs_vacuum:
            problem = find_page_problem(file)
            if problem:  # rows that come again and again would be written as often
                raise sqlite3.DatabaseError(problem)
            connection.execute("VACUUM")  # temporarily needs the same space again


def reset_change_counter(file: str) -> None:
    """Set SQLite's count of changes in a closed draft to 1, so that its bytes do not depend on how many connections
    wrote it. Nobody compares counts: a catalog is replaced as a whole."""
    handle = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for position in (24, 92):  # the counter, and the counter for which the header's other facts are valid
            os.pwrite(handle, b"\0\0\0\1", position)
    finally:
        os.close(handle)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except DATABASE_ERRORS as error:
        raise _translate_error(error, path) from error


def _translate_error(error: BaseException, path: str) -> Exception:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return StorageError(
            "cannot write the catalog: the disk is full",
            where=path,
            hint="free some space and run the same command again: it continues where it stopped",
            code="WDS401",
        )
    if isinstance(error, sqlite3.OperationalError) and str(error) != "interrupted":
        return StorageError(f"cannot write the catalog: {error}", where=path, hint="run the same command again")
    return damaged_catalog_error(path, error_text(path, error))
