"""Which samples of a catalog fit an expression of `view create --where`.

An expression is compiled twice: first alone, over rows that hold nothing, where a guard sees which columns and
functions it has; then over a view of the catalog that has these columns and no others, so that what is not asked for
costs nothing. `python -m benchmarks view` measures it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any

import numpy as np

from wdsctl.core.catalog.database_file import error_of, unsound, watch_statements
from wdsctl.core.catalog.facts import generation_of
from wdsctl.core.catalog.identity import DAMAGE, damaged, without_rows
from wdsctl.core.catalog.line_rows import give_rows
from wdsctl.core.catalog.media_settings import FACT
from wdsctl.core.catalog.published import connect
from wdsctl.core.catalog.quick import refuse_media_folder
from wdsctl.core.catalog.row_view import MASK, OF_PART, OF_SAMPLE, filled, hollow
from wdsctl.core.catalog.schema import MEDIA_FACTS
from wdsctl.core.catalog.view_reader import KnownShard
from wdsctl.core.columns import find_column, kept_columns
from wdsctl.core.command_line import command_at
from wdsctl.core.place import Place
from wdsctl.core.query_errors import MISTAKES, Query, too_long, was_interrupted
from wdsctl.core.query_guard import SCALARS, Guard
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import Flags, flags_of
from wdsctl.core.sql_text import Token

DOC = "docs/views.md"

#: The values of a shard's samples in one column, by their places.
Fill = Callable[[KnownShard], Sequence[Any]]


class RowQuery:
    """The rows of one published catalog. `shards`: all of its own, as `known_shards` gives them. Close it."""

    def __init__(self, place: Place, shards: Sequence[KnownShard]) -> None:
        refuse_media_folder(place.catalog)
        self._place = place
        self._shards = shards
        self._connection = connect(place.catalog)
        try:
            self._look()
        except BaseException:  # Ctrl-C too: nobody else has the connection yet
            self._connection.close()
            raise

    def __enter__(self) -> RowQuery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an expression may name."""
        return (*OF_SAMPLE, *OF_PART, *MEDIA_FACTS, *self._sets, *self._numbers)

    def where(self, text: str, *, said: str = "--where", timeout_seconds: float = 0) -> Iterator[tuple[int, Flags]]:
        """Which samples of each shard have a row that fits: (shard id, (samples,)). Ask once.

        Raises UsageError WDS332 where the text is no expression over `columns`, before anything is read; WDS334 after
        the timeout (0: none).
        """
        query = Query(text, said, DOC, before="SELECT ")
        guard = self._ready(self._used(query))
        self._seconds = timeout_seconds
        if timeout_seconds:
            guard.end = time.monotonic() + timeout_seconds
            watch_statements(self._connection, self._place.catalog, lambda: time.monotonic() > guard.end)
        statement = f"SELECT id FROM v_row WHERE id >= ?1 AND id < ?2 AND (\n{text}\n)"
        return self._fitting(statement, query, guard)

    def _fitting(self, statement: str, query: Query, guard: Guard) -> Iterator[tuple[int, Flags]]:
        for shard in self._shards:
            self._values[:] = [fill(shard) for fill in self._fills]
            first = shard.id << INDEX_BITS
            try:
                found = self._connection.execute(statement, (first, first + MASK + 1)).fetchall()
            except MISTAKES as error:
                if time.monotonic() > guard.end:
                    raise too_long(self._seconds) from error
                if was_interrupted(error, guard):
                    said = unsound(self._place.catalog)
                    raise (damaged(self._place.catalog, said) if said else KeyboardInterrupt()) from error
                raise query.explained(error, guard, self.columns) from error
            except DAMAGE as error:
                raise damaged(self._place.catalog, error_of(self._place.catalog, error)) from error
            flags = np.zeros(shard.samples, np.bool_)
            flags[np.fromiter((row[0] for row in found), np.int64, len(found)) & MASK] = True
            yield shard.id, flags

    def _used(self, query: Query) -> list[str]:
        """The columns that an expression names. Raises UsageError WDS332 where it is none."""
        words = query.words()
        _check_alone(query, words)
        query.check_quoted(words, self.columns)
        guard = Guard({"v_row": self.columns}, SCALARS)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(hollow(self.columns))
            guard.put_on(connection)
            try:
                connection.execute(f"EXPLAIN SELECT 1 FROM v_row WHERE (\n{query.text}\n)").close()
            except sqlite3.Error as error:
                raise query.explained(error, guard, self.columns) from error
        used = [name for name in self.columns if name.lower() in guard.read]
        if not used:
            raise query.refused("the expression names no column", f"{DOC} lists them", words[0])
        asked = next((word for word in words if word.meaning.lower() in MEDIA_FACTS), None)
        if asked is not None and not self._has_media:
            hint = f"{command_at(self._place, 'index', '--media')} reads what images, sounds and videos are"
            raise query.refused(f"the catalog has no facts of media, such as {asked.meaning}", hint, asked)
        return used

    def _look(self) -> None:
        """What there is: rows, facts of media, columns, sets of splits."""
        try:
            facts = dict(self._connection.execute("SELECT key, value FROM meta"))
            splits = self._connection.execute("SELECT id, name FROM split ORDER BY id").fetchall()
            give_rows(self._connection, self._place.catalog)
            has_rows = self._connection.execute("SELECT 1 FROM sample LIMIT 1").fetchone() is not None
        except DAMAGE as error:
            raise damaged(self._place.catalog, error_of(self._place.catalog, error)) from error
        if not has_rows and any(shard.samples for shard in self._shards):
            raise without_rows(self._place.catalog)
        self._has_media = FACT in facts
        self._generation = generation_of(self._place.catalog, facts)
        self._sets: dict[str, list[tuple[int, str]]] = {"split": []}
        for number, name in splits:
            of_set, _, short = name.rpartition("/")
            self._sets.setdefault(f"split_{of_set}" if of_set else "split", []).append((number, short))
        taken = {name.lower() for name in (*OF_SAMPLE, *OF_PART, *MEDIA_FACTS, *self._sets)}
        self._numbers = [name for name in kept_columns(self._place) if name.lower() not in taken]

    def _ready(self, names: Sequence[str]) -> Guard:
        """Make the view `v_row` with these columns, and let the connection read nothing else."""
        filled_in = [name for name in names if name in self._sets or name in self._numbers]
        self._fills: list[Fill] = [
            self._of_set(self._sets[name]) if name in self._sets else self._of_column(name) for name in filled_in
        ]
        self._values: list[Sequence[Any]] = []
        self._connection.create_function("wds_value", 2, lambda number, at: self._values[number][at])
        self._connection.execute(filled(names, {name: number for number, name in enumerate(filled_in)}))
        guard = Guard({"v_row": ("id", *names)}, SCALARS)
        guard.put_on(self._connection)
        return guard

    def _of_column(self, name: str) -> Fill:
        """Raises CatalogError WDS314 where the column was made for another generation."""
        column = find_column(self._place, name, self._generation)
        ends = np.cumsum(column.table[:, 1])
        starts = dict(zip(column.table[:, 0].tolist(), (ends - column.table[:, 1]).tolist(), strict=True))

        def values(shard: KnownShard) -> Sequence[Any]:
            start = starts[shard.id]
            numbers: list[int] = column.values[start : start + shard.samples].tolist()
            return numbers

        return values

    def _of_set(self, splits: Sequence[tuple[int, str]]) -> Fill:
        """The split that each sample is in, of one set; None for those in no split of it."""
        parts: dict[int, list[tuple[str, SplitShard]]] = {}
        query = "SELECT shard, samples, bits FROM split_shard WHERE split = ?"
        for number, name in splits:
            for row in self._connection.execute(query, (number,)):
                parts.setdefault(row[0], []).append((name, SplitShard(*row)))

        def values(shard: KnownShard) -> Sequence[Any]:
            names: list[str | None] = [None] * shard.samples
            for name, part in parts.get(shard.id, ()):
                if part.bits is None and part.samples:
                    return [name] * shard.samples
                for place in np.flatnonzero(flags_of(part, shard.samples)).tolist():
                    names[place] = name
            return names

        return values


def _check_alone(query: Query, words: Sequence[Token]) -> None:
    """Raise UsageError unless the text is one expression, without a query in it."""
    depth = 0
    for word in words:
        depth += (word.text == "(") - (word.text == ")")
        if depth < 0 or word.text == ";":
            raise query.refused("the expression ends here", f"take out the {word.text}", word)
        if word.kind == "name" and word.text.lower() in ("select", "values"):
            hint = "--sql takes a whole query: --sql \"SELECT id FROM v_part WHERE part = 'jpg'\""
            raise query.refused("an expression has no query in it", hint, word)
