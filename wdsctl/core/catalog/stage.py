"""Drafts of the next catalog: begun beside the published one, written by the steps of a command, and published once.

`open_draft` is for one change: the draft begins as a copy, and replaces the published file when the block succeeds.
`CatalogStage` is for several steps of one command. The first step drafts the catalog (`CatalogStage.begin`). The other
steps find the draft at `CatalogStage.location`, and read and change it (`change_catalog`) like a published catalog. The
published catalog stays valid until the end of the command.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

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
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.lock import check_lock_held
from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.files import MALFORMED_ERRORS, FileDraft, open_file_draft, open_own, remove_file, replace_atomically


class CatalogStage:
    """`location`: where the steps read and change the catalog. The caller holds the lock."""

    def __init__(self, location: DatasetLocation) -> None:
        self.location = location
        self._file: FileDraft | None = None
        self._open_files = ExitStack()
        self._after: list[Callable[[], None]] = []

    @contextmanager
    def begin(self, *, from_scratch: bool = False) -> Iterator[CatalogDraft]:
        """Begin the first draft, as `open_draft` does. If the block raises, nothing is staged."""
        published = self.location.published_catalog
        with ExitStack() as opened:
            file = opened.enter_context(open_file_draft(published))
            with write_draft(file.path, published, from_scratch=from_scratch) as draft:
                yield draft
            self._open_files = opened.pop_all()
        self._file = file
        self.location = replace(self.location, staged_catalog=file.path)

    def after_publish(self, call: Callable[[], None]) -> None:
        """Call `call` after the staged catalog is published, for example to remove the results of finished units."""
        self._after.append(call)

    def publish(self) -> None:
        """Publish the staged catalog, if there is one. Raises StorageError, and what the lock raises if it is lost.

        A draft that a step could not finish was removed (`change_catalog`): the published catalog stays.
        """
        file, self._file = self._file, None
        after, self._after = self._after, []
        self.location = replace(self.location, staged_catalog="")
        with self._open_files:
            if file is not None:
                if not os.path.exists(file.path):
                    return
                check_lock_held(self.location.lock)
                file.publish()
        for call in after:
            call()


@contextmanager
def stage_catalog(location: DatasetLocation) -> Iterator[CatalogStage]:
    """Stage a catalog that several steps write, and publish it when the block ends.

    The catalog is published even if the block ends by an error or Ctrl-C, as the finished steps are complete and took
    long. If the process is killed, the published catalog stays, and the next run finds the units of the steps.
    """
    stage = CatalogStage(location)
    try:
        yield stage
    except WdsctlError as error:
        here = stage.location
        error.where = error.where.replace(here.catalog_path, here.published_catalog)
        raise
    finally:
        stage.publish()


@contextmanager
def change_catalog(location: DatasetLocation) -> Iterator[CatalogDraft]:
    """Change the catalog of `location`. The caller holds the lock.

    Changes a staged catalog in place, and removes it if the block raises. Changes a copy of a published catalog, and
    publishes the copy, as `open_draft` does. Raises CatalogError WDS302 and WDS303, StorageError.
    """
    if not location.staged_catalog:
        with open_draft(location.catalog_path, before_publish=partial(check_lock_held, location.lock)) as draft:
            yield draft
        return
    try:
        with write_draft(location.staged_catalog, location.published_catalog) as draft:
            yield draft
    except BaseException:  # Ctrl-C too: a half-changed stage must not be published later
        remove_file(location.staged_catalog)
        raise


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
