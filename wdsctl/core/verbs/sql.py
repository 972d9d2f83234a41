"""`sql`: a query over the documented views of a dataset, read-only, row by row."""

from __future__ import annotations

import sqlite3
import time
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from wdsctl.core.catalog.database_file import unsound, watch_statements
from wdsctl.core.catalog.identity import damaged, without_rows
from wdsctl.core.catalog.query_views import NARROWED, Readable, open_readable
from wdsctl.core.errors import UsageError
from wdsctl.core.place import Place
from wdsctl.core.query_errors import MISTAKES, Query, too_long, was_interrupted
from wdsctl.core.root_name import located
from wdsctl.core.selections import selected
from wdsctl.core.sql_text import Token
from wdsctl.core.temporary_space import in_temporary_space, is_no_room
from wdsctl.core.verbs.presence import check_made

DOC = "docs/catalog.md"

_STEPS = 20_000  # of SQLite's machine between two looks at the clock: about a millisecond
_ID_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, as they come. `note`: what could not be read."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    note: str = ""


@contextmanager
def sql(
    root: str, text: str, *, catalog: str | None = None, timeout_seconds: float = 0, where: str = "the query"
) -> Iterator[Answer]:
    """Run a query on `ROOT` or `ROOT@VIEW`. The rows come as long as the block lasts.

    `timeout_seconds`: 0 for none. Raises UsageError WDS332 where the text asks for what there is not, or for more than
    reading, WDS334 after the timeout (both may come between two rows); what the catalog raises. Ctrl-C ends it at once.
    """
    place, view = located(root, catalog)
    check_made(place)
    with _answering(place, text, timeout_seconds, where, view) as answer:
        yield answer


def first_column(place: Place, text: str, *, where: str, timeout_seconds: float = 0) -> array[int]:
    """The whole numbers that a query gives in its first column.

    Raises UsageError WDS332 where it gives others, WDS334 after the timeout.
    """
    found = array("q")
    with _answering(place, text, timeout_seconds, where) as answer:
        for row in answer.rows:
            if type(row[0]) is not int or not -_ID_LIMIT <= row[0] < _ID_LIMIT:
                raise UsageError(
                    f"the first column, {answer.columns[0]}, has {row[0]!r:.40}, and not the id of a sample",
                    where=where,
                    hint="such as: SELECT id FROM v_part WHERE part = 'jpg' AND size > 100000",
                    code="WDS332",
                )
            found.append(row[0])
    return found


@contextmanager
def _answering(place: Place, text: str, timeout_seconds: float, where: str, view: str = "") -> Iterator[Answer]:
    query = Query(text, where, DOC)
    words = query.words()
    _check_one(query, words)
    is_of_samples = not _asked(words).isdisjoint(NARROWED)
    watch = _Watch(timeout_seconds)  # rows of lines are made before SQLite asks it: that takes of the time, too
    chosen = selected(place, view) if view else None
    readable = open_readable(place, chosen, needs_rows=is_of_samples, look=watch.check)
    with closing(readable.connection) as connection:
        if readable.lacks_rows and is_of_samples:
            raise without_rows(place.catalog)
        watch_statements(connection, place.catalog, watch, steps=_STEPS)
        readable.guard.end = watch.end
        with _explaining(query, readable, watch, place):
            query.check_quoted(words, (*_names(readable), *_given(words)))
            cursor = connection.execute(text)
        if cursor.description is None:
            raise query.refused("only reading is allowed", f"write a SELECT; {DOC} lists the views", words[0])
        columns = tuple(column[0] for column in cursor.description)
        yield Answer(columns, _rows(cursor, query, readable, watch, place), readable.note)


class _Watch:
    """SQLite asks it now and then whether to stop. Python runs handlers of signals in it, so Ctrl-C gets through."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds if seconds else float("inf")

    def __call__(self) -> bool:
        return self.is_over

    def check(self) -> None:
        """Raise UsageError WDS334 where the time is over."""
        if self.is_over:
            raise too_long(self.seconds)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.end


def _rows(
    cursor: sqlite3.Cursor, query: Query, readable: Readable, watch: _Watch, place: Place
) -> Iterator[tuple[Any, ...]]:
    while True:
        with _explaining(query, readable, watch, place):
            row = cursor.fetchone()
        if row is None:
            return
        yield row


@contextmanager
def _explaining(query: Query, readable: Readable, watch: _Watch, place: Place) -> Iterator[None]:
    """Raise what SQLite says as ours."""
    try:
        yield
    except MISTAKES as error:
        if is_no_room(error):
            with in_temporary_space("the query cannot be answered"):
                raise
        raise _meant(error, query, readable, watch, place) from error
    except sqlite3.DatabaseError as error:
        if readable.guard.denied is not None:
            raise query.explained(error, readable.guard, _names(readable)) from error
        raise damaged(place.catalog, str(error)) from error


def _meant(
    error: sqlite3.Error | sqlite3.Warning, query: Query, readable: Readable, watch: _Watch, place: Place
) -> BaseException:
    if watch.is_over:
        return too_long(watch.seconds)
    if not was_interrupted(error, readable.guard):
        return query.explained(error, readable.guard, _names(readable))
    said = unsound(place.catalog)
    return damaged(place.catalog, said) if said else KeyboardInterrupt()


def _check_one(query: Query, words: list[Token]) -> None:
    """Raise UsageError where there is a second statement."""
    ends = [i for i, word in enumerate(words) if word.text == ";"]
    for i in ends:
        rest = [word for word in words[i:] if word.text != ";"]
        if rest:
            raise query.refused("this begins a second query", "run one at a time", rest[0])
    if len(ends) == len(words):
        raise query.refused("the query is empty", "write a SELECT", words[0])


def _asked(words: list[Token]) -> set[str]:
    """The names in a query, of views and of whatever else. Texts too: SQLite takes one behind FROM for a name."""
    names = {word.meaning.lower() for word in words if word.kind in ("name", "quoted")}
    return names | {word.text[1:-1].replace("''", "'").lower() for word in words if word.kind == "text"}


def _names(readable: Readable) -> tuple[str, ...]:
    """All columns of all views, and the views."""
    views = readable.guard.views
    return tuple(dict.fromkeys((*(name for columns in views.values() for name in columns), *views)))


def _given(words: list[Token]) -> set[str]:
    """Names that a query gives to things itself: those on either side of AS."""
    beside = [i + step for i, word in enumerate(words) if word.text.lower() == "as" for step in (-1, 1)]
    return {words[i].meaning for i in beside if 0 <= i < len(words)}
