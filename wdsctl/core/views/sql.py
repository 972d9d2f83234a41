"""`sql`: a query over the documented views of a dataset, read-only, row by row."""

from __future__ import annotations

import os
import sqlite3
import time
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from wdsctl.core.catalog.database_file import is_disk_full, recorded_page_problem, translate_disk_full, watch_statements
from wdsctl.core.catalog.open_catalog import damaged_catalog_error, no_sample_rows_error
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import UsageError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.views.selections import read_view_samples
from wdsctl.core.views.slow_calls import bound_calls
from wdsctl.core.views.sql_errors import QUERY_ERRORS, Query, Token, timeout_error, was_interrupted
from wdsctl.core.views.sql_guard import STEPS_PER_CHECK
from wdsctl.core.views.sql_views import PER_SAMPLE_VIEWS, QueryConnection, open_query_connection

SQL_DOC = "docs/catalog.md"

MAX_TEMPORARY_BYTES = 16 << 30  # of what a query sorts, groups and compares: 16 million rows of 1 KiB

_ID_LIMIT = 1 << 63
_SECONDS_PER_LOOK = 0.5
_OPEN_FILES = "/proc/self/fd"
_TEMPORARY_NAME = "/etilqs_"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns of a query, and an iterator over its rows. `note`: what could not be read."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    note: str = ""


@contextmanager
def sql(
    root: str, text: str, *, catalog: str | None = None, timeout_seconds: float = 0, source: str = "the query"
) -> Iterator[QueryResult]:
    """Run a query on `ROOT` or `ROOT@VIEW`. Rows can be read until the block ends.

    `timeout_seconds`: 0 for none. Raises UsageError WDS332 for a query that is wrong or does more than reading, WDS334
    after the timeout (both possibly between two rows), and what opening the catalog raises. Ctrl-C ends it at once.
    """
    with (
        open_indexed(root, catalog, takes_view=True) as dataset,
        _run_query(dataset, text, timeout_seconds, source, dataset.view) as answer,
    ):
        yield answer


def first_column(dataset: OpenDataset, text: str, *, source: str, timeout_seconds: float = 0) -> array[int]:
    """The integers in the first column of a query.

    Raises UsageError WDS332 for other values, WDS334 after the timeout.
    """
    found = array("q")
    with _run_query(dataset, text, timeout_seconds, source) as answer:
        for row in answer.rows:
            if type(row[0]) is not int or not -_ID_LIMIT <= row[0] < _ID_LIMIT:
                raise UsageError(
                    f"the first column, {answer.columns[0]}, has the value {row[0]!r:.40}, expected the id of a sample",
                    where=source,
                    hint="select id first, for example: SELECT id FROM v_part WHERE part = 'jpg' AND size > 100000",
                    code="WDS332",
                )
            found.append(row[0])
    return found


@contextmanager
def _run_query(
    dataset: OpenDataset, text: str, timeout_seconds: float, source: str, view: str = ""
) -> Iterator[QueryResult]:
    location, query = dataset.location, Query(text, source, SQL_DOC)
    tokens = query.tokens()
    _check_single_statement(query, tokens)
    is_of_samples = not _referenced_names(tokens).isdisjoint(PER_SAMPLE_VIEWS)
    budget = _Budget(timeout_seconds)  # the time to make rows of JSONL, before SQLite runs, counts too
    chosen = read_view_samples(dataset, view) if view else None
    readable = open_query_connection(dataset, chosen, needs_rows=is_of_samples, on_progress=budget.check)
    with closing(readable.connection) as connection:
        if readable.lacks_rows and is_of_samples:
            raise no_sample_rows_error(location.catalog_path)
        watch_statements(connection, location.catalog_path, budget, steps=STEPS_PER_CHECK)
        readable.guard.deadline_seconds = budget.end
        with _translate_errors(query, readable, budget, location):
            query.check_quoted_names(tokens, (*_known_names(readable), *_aliases(tokens)))
            bound_calls(query, readable.guard, connection, text)
            cursor = connection.execute(text)
        if cursor.description is None:
            raise query.error("only reading is allowed", f"write a SELECT; {SQL_DOC} lists the views")
        columns = tuple(column[0] for column in cursor.description)
        yield QueryResult(columns, _rows(cursor, query, readable, budget, location), readable.note)


class _Budget:
    """SQLite's progress handler, which decides whether to stop: after `seconds`, or at too many bytes of temporary
    files. Python handles signals in it, so Ctrl-C works.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds if seconds else float("inf")
        self.fills_disk = False
        self._next_look = time.monotonic() + _SECONDS_PER_LOOK

    def __call__(self) -> bool:
        if time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + _SECONDS_PER_LOOK
            self.fills_disk = _temporary_bytes() > MAX_TEMPORARY_BYTES
        return self.has_passed or self.fills_disk

    def check(self) -> None:
        """Raise UsageError WDS334 after the timeout."""
        if self.has_passed:
            raise timeout_error(self.seconds)

    @property
    def has_passed(self) -> bool:
        return time.monotonic() > self.end


def _temporary_bytes() -> int:
    """The bytes of SQLite's temporary files of this process, which have no names any more. 0 without /proc."""
    found = 0
    for number in os.listdir(_OPEN_FILES) if os.path.isdir(_OPEN_FILES) else ():
        with suppress(OSError):  # closed meanwhile
            file = os.path.join(_OPEN_FILES, number)
            found += os.stat(file).st_size if _TEMPORARY_NAME in os.readlink(file) else 0
    return found


def _rows(
    cursor: sqlite3.Cursor, query: Query, readable: QueryConnection, budget: _Budget, location: DatasetLocation
) -> Iterator[tuple[Any, ...]]:
    while True:
        with _translate_errors(query, readable, budget, location):
            row = cursor.fetchone()
        if row is None:
            return
        yield row


@contextmanager
def _translate_errors(
    query: Query, readable: QueryConnection, budget: _Budget, location: DatasetLocation
) -> Iterator[None]:
    """Raise SQLite's errors as ours."""
    try:
        yield
    except QUERY_ERRORS as error:
        if is_disk_full(error):
            with translate_disk_full("the query cannot run"):
                raise
        raise _explain_error(error, query, readable, budget, location) from error
    except sqlite3.DatabaseError as error:
        if readable.guard.denied is not None:
            raise query.explain(error, readable.guard, _known_names(readable)) from error
        if budget.has_passed:  # while SQLite compiled the query
            raise timeout_error(budget.seconds) from error
        raise damaged_catalog_error(location.catalog_path, str(error)) from error


def _explain_error(
    error: sqlite3.Error | sqlite3.Warning,
    query: Query,
    readable: QueryConnection,
    budget: _Budget,
    location: DatasetLocation,
) -> BaseException:
    if budget.has_passed:
        return timeout_error(budget.seconds)
    if budget.fills_disk:
        return query.error(
            f"the query needs more than {MAX_TEMPORARY_BYTES >> 20:,} MiB of temporary files",
            "select fewer or shorter values to sort, group or compare",
        )
    if not was_interrupted(error, readable.guard):
        return query.explain(error, readable.guard, _known_names(readable))
    problem = recorded_page_problem(location.catalog_path)
    return damaged_catalog_error(location.catalog_path, problem) if problem else KeyboardInterrupt()


def _check_single_statement(query: Query, tokens: list[Token]) -> None:
    """Raise UsageError for a second statement."""
    texts = [token.text for token in tokens]
    while texts and texts[-1] == ";":
        texts.pop()
    if not texts:
        raise query.error("the query is empty", "write a SELECT")
    if ";" in texts:
        raise query.error("a second query follows the semicolon", "run one query at a time")


def _referenced_names(tokens: list[Token]) -> set[str]:
    """All names in a query, and all texts: after FROM, SQLite accepts a text as a name."""
    names = {token.identifier.lower() for token in tokens if token.kind in ("name", "quoted")}
    return names | {token.text[1:-1].replace("''", "'").lower() for token in tokens if token.kind == "text"}


def _known_names(readable: QueryConnection) -> tuple[str, ...]:
    """All columns of all views, and the views."""
    views = readable.guard.views
    return tuple(dict.fromkeys((*(name for columns in views.values() for name in columns), *views)))


def _aliases(tokens: list[Token]) -> set[str]:
    """The names that a query defines: those on either side of AS."""
    neighbors = [i + step for i, token in enumerate(tokens) if token.text.lower() == "as" for step in (-1, 1)]
    return {tokens[i].identifier for i in neighbors if 0 <= i < len(tokens)}
