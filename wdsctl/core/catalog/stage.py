"""Drafts of the next catalog: begun beside the published one, and published as a whole."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from wdsctl.core.catalog.database_file import (
    DATABASE_ERRORS,
    catalog_schema,
    catalog_statements,
    error_text,
    find_page_problem,
    open_database,
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
from wdsctl.core.files import MALFORMED_ERRORS, open_own, replace_atomically

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
def open_draft(
    path: str, *, from_scratch: bool = False, before_publish: Callable[[], None] = lambda: None
) -> Iterator[CatalogDraft]:
    """Open a draft of the catalog at `path`. Publishes the draft when the block succeeds, and deletes it if it raises.

    The draft begins as a copy of the published catalog, or empty if there is none or `from_scratch` is set.
    `before_publish` is called last; if it raises, the draft is deleted. Raises CatalogError WDS302 and WDS303,
    StorageError.
    """
    with replace_atomically(path) as file:
        with write_draft(file, path, from_scratch=from_scratch) as draft:
            yield draft
        before_publish()


@contextmanager
def write_draft(file: str, path: str, *, from_scratch: bool = False) -> Iterator[CatalogDraft]:
    """A draft in `file`, for the catalog at `path`. An existing draft is changed in place.

    If the block raises, the file is unusable, as drafts have no journal.
    """
    if not (from_scratch or os.path.exists(file)) and os.path.exists(path):
        check_catalog_file(path)
        with open_own(path) as published, open(file, "xb") as copy:
            shutil.copyfileobj(published, copy, 1 << 20)
    with _connect_draft(file, path) as connection:
        try:
            draft = CatalogDraft(connection)
        except MALFORMED_ERRORS as error:
            raise damaged_catalog_error(path, "its facts cannot be parsed") from error
        yield draft
        draft.finish()
    if draft.needs_vacuum:
        _vacuum(file, path)


@contextmanager
def _connect_draft(draft: str, path: str) -> Iterator[sqlite3.Connection]:
    """The draft of the catalog at `path`, in a transaction."""
    is_new = not os.path.exists(draft)
    try:
        # The draft is a copy of a catalog that was not checked yet. No foreign value may get into a published catalog.
        schema = None if is_new else catalog_schema()
        with closing(open_database(draft, schema, "rwc", source=path)) as connection:
            problem = "" if is_new else find_value_problem(connection)
            if problem:
                raise damaged_catalog_error(path, problem)
            for pragma in _BUILD:
                connection.execute(f"PRAGMA {pragma}").close()
            connection.execute("BEGIN")
            if is_new:
                for statement in catalog_statements():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {CATALOG_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {CATALOG_SCHEMA_VERSION}")
            yield connection
    except DATABASE_ERRORS as error:
        raise _translate_error(error, path) from error


def _vacuum(draft: str, path: str) -> None:
    """Rewrite the draft without free pages. Temporarily needs the same space again."""
    try:
        problem = find_page_problem(draft)
        if problem:  # rows that come again and again would be written as often
            raise sqlite3.DatabaseError(problem)
        with closing(open_database(draft, catalog_schema(), "rw", source=path)) as connection:
            connection.execute("PRAGMA journal_mode = OFF").close()
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("VACUUM")
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
