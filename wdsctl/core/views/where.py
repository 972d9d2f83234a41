"""Evaluates an expression of `view create --where` over the samples of a catalog.

An expression is compiled twice: over an empty view, where a guard records which columns and functions it uses; then
over a view of the catalog that has only these columns, so that unused ones cost nothing. `python -m benchmarks view`
measures it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from wdsctl.core.catalog.database_file import DATABASE_ERRORS, error_text, recorded_page_problem, watch_statements
from wdsctl.core.catalog.open_catalog import MEDIA_FACTS, connect_catalog, damaged_catalog_error, no_sample_rows_error
from wdsctl.core.catalog.rows import add_implied_rows
from wdsctl.core.catalog.splits import SampleFlags, SplitShard, sample_flags
from wdsctl.core.catalog.values import MEDIA_FACT, ShardRow, read_generation
from wdsctl.core.columns.column_file import find_column, list_columns
from wdsctl.core.dataset.location import shell_command_at
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.views.slow_calls import bound_calls
from wdsctl.core.views.sql_errors import QUERY_ERRORS, Query, Token, timeout_error, was_interrupted
from wdsctl.core.views.sql_guard import SCALAR_FUNCTIONS, STEPS_PER_CHECK, Guard

POSITION_MASK = (1 << INDEX_BITS) - 1


SAMPLE_COLUMNS = {
    "id": "sample.id",
    "key": "sample.key",
    "shard": "shard.path",
    "position": f"sample.id & {POSITION_MASK}",
    "sample_offset": "sample.offset",
    "sample_size": "sample.size",
}


PART_COLUMNS = {
    "part": "ext.name",
    "ext": "ext.name",
    "offset": "sample.offset + json_extract(item.value, '$[1]')",
    "size": "json_extract(item.value, '$[2]')",
}


_PARTS_JOIN = "CROSS JOIN json_each(sample.parts) AS item CROSS JOIN ext ON ext.id = json_extract(item.value, '$[0]') "


_MEDIA_JOIN = (
    "LEFT JOIN media ON media.sample = sample.id AND media.ext = ext.id "
    "LEFT JOIN media_form ON media_form.id = media.form "
)


_SHARD_JOIN = "JOIN shard ON shard.id = sample.id >> 28 "

WHERE_DOC = "docs/views.md"

#: The values of a shard's samples in one column, by position.
ColumnReader = Callable[[ShardRow], Sequence[Any]]


class RowQuery:
    """The rows of the published catalog, over a connection of its own. `shards`: all of the catalog. Close it."""

    def __init__(self, dataset: OpenDataset, shards: Sequence[ShardRow]) -> None:
        dataset.catalog.check_not_media_folder()
        self._location = dataset.location
        self._shards = shards
        self._connection = connect_catalog(self._location.catalog_path)
        try:
            self._read_schema()
        except BaseException:  # Ctrl-C too: no caller has the connection yet
            self._connection.close()
            raise

    def __enter__(self) -> RowQuery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an expression may name."""
        return (*SAMPLE_COLUMNS, *PART_COLUMNS, *MEDIA_FACTS, *self._split_sets, *self._user_columns)

    def find_samples(
        self, text: str, *, source: str = "--where", timeout_seconds: float = 0
    ) -> Iterator[tuple[int, SampleFlags]]:
        """(shard id, (samples,) flags) of the samples with a row that fits. Call it once.

        Raises UsageError WDS332 for a text that is no expression over `columns`, before anything is read; WDS334 after
        the timeout (0: none).
        """
        query = Query(text, source, WHERE_DOC)
        guard = self._prepare_view(self._used_columns(query))
        self._seconds = timeout_seconds
        if timeout_seconds:
            guard.deadline_seconds = time.monotonic() + timeout_seconds
            watch_statements(
                self._connection,
                self._location.catalog_path,
                lambda: time.monotonic() > guard.deadline_seconds,
                steps=STEPS_PER_CHECK,
            )
        statement = f"SELECT id FROM v_row WHERE id >= ?1 AND id < ?2 AND (\n{text}\n)"
        with self._translate_errors(query, guard):
            bound_calls(query, guard, self._connection, statement, (0, 0))
        return self._match_shards(statement, query, guard)

    def _match_shards(self, statement: str, query: Query, guard: Guard) -> Iterator[tuple[int, SampleFlags]]:
        for shard in self._shards:
            self._shard_values[:] = [fill(shard) for fill in self._column_readers]
            first = shard.id << INDEX_BITS
            with self._translate_errors(query, guard):
                found = self._connection.execute(statement, (first, first + POSITION_MASK + 1)).fetchall()
            flags = np.zeros(shard.samples, np.bool_)
            flags[np.fromiter((row[0] for row in found), np.int64, len(found)) & POSITION_MASK] = True
            yield shard.id, flags

    @contextmanager
    def _translate_errors(self, query: Query, guard: Guard) -> Iterator[None]:
        """Raise SQLite's errors as ours."""
        catalog = self._location.catalog_path
        try:
            yield
        except QUERY_ERRORS as error:
            if time.monotonic() > guard.deadline_seconds:
                raise timeout_error(self._seconds) from error
            if was_interrupted(error, guard):
                problem = recorded_page_problem(catalog)
                raise (damaged_catalog_error(catalog, problem) if problem else KeyboardInterrupt()) from error
            raise query.explain(error, guard, self.columns) from error
        except DATABASE_ERRORS as error:
            if time.monotonic() > guard.deadline_seconds:  # while SQLite compiled the expression
                raise timeout_error(self._seconds) from error
            raise damaged_catalog_error(catalog, error_text(catalog, error)) from error

    def _used_columns(self, query: Query) -> list[str]:
        """The columns that an expression names. Raises UsageError WDS332."""
        tokens = query.tokens()
        _check_single_expression(query, tokens)
        query.check_quoted_names(tokens, self.columns)
        guard = Guard({"v_row": self.columns}, SCALAR_FUNCTIONS)
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.execute(empty_row_view_sql(self.columns))
            guard.install(connection)
            try:
                # First without parentheses: for an incomplete text, SQLite's error would be about our closing one.
                for expression in (query.text, f"(\n{query.text}\n)"):
                    connection.execute(f"EXPLAIN SELECT 1 FROM v_row WHERE {expression}").close()
            except sqlite3.Error as error:
                raise query.explain(error, guard, self.columns) from error
        used = [name for name in self.columns if name.lower() in guard.columns_read]
        if not used:
            raise query.error("the expression does not use any column", f"{WHERE_DOC} lists them")
        media_fact = next((token.identifier for token in tokens if token.identifier.lower() in MEDIA_FACTS), None)
        if media_fact is not None and not self._has_media:
            hint = (
                f"run {shell_command_at(self._location, 'index', '--media')} to read the facts of images, audio and "
                "video"
            )
            raise query.error(f"the catalog has no media facts, such as {media_fact}", hint)
        return used

    def _read_schema(self) -> None:
        """Read which rows, media facts, columns and split sets exist."""
        try:
            facts = dict(self._connection.execute("SELECT key, value FROM meta"))
            splits = self._connection.execute("SELECT id, name FROM split ORDER BY id").fetchall()
            add_implied_rows(self._connection, self._location.catalog_path)
            has_rows = self._connection.execute("SELECT 1 FROM sample LIMIT 1").fetchone() is not None
        except DATABASE_ERRORS as error:
            raise damaged_catalog_error(
                self._location.catalog_path, error_text(self._location.catalog_path, error)
            ) from error
        if not has_rows and any(shard.samples for shard in self._shards):
            raise no_sample_rows_error(self._location.catalog_path)
        self._has_media = MEDIA_FACT in facts
        self._generation = read_generation(self._location.catalog_path, facts)
        self._split_sets: dict[str, list[tuple[int, str]]] = {"split": []}
        for number, name in splits:
            of_set, _, short = name.rpartition("/")
            self._split_sets.setdefault(f"split_{of_set}" if of_set else "split", []).append((number, short))
        taken = {name.lower() for name in (*SAMPLE_COLUMNS, *PART_COLUMNS, *MEDIA_FACTS, *self._split_sets)}
        self._user_columns = [name for name in list_columns(self._location) if name.lower() not in taken]

    def _prepare_view(self, names: Sequence[str]) -> Guard:
        """Create the view `v_row` with these columns, and let the connection read nothing else."""
        filled_in = [name for name in names if name in self._split_sets or name in self._user_columns]
        self._column_readers: list[ColumnReader] = [
            self._split_reader(self._split_sets[name]) if name in self._split_sets else self._column_reader(name)
            for name in filled_in
        ]
        self._shard_values: list[Sequence[Any]] = []
        self._connection.create_function("wds_value", 2, lambda number, at: self._shard_values[number][at])
        self._connection.execute(row_view_sql(names, {name: number for number, name in enumerate(filled_in)}))
        guard = Guard({"v_row": ("id", *names)}, SCALAR_FUNCTIONS)
        guard.install(self._connection)
        return guard

    def _column_reader(self, name: str) -> ColumnReader:
        """The reader of a column. Raises CatalogError WDS314 if the column is of another generation."""
        column = find_column(self._location, name, self._generation)
        ends = np.cumsum(column.table[:, 1])
        starts = dict(zip(column.table[:, 0].tolist(), (ends - column.table[:, 1]).tolist(), strict=True))

        def values(shard: ShardRow) -> Sequence[Any]:
            start = starts[shard.id]
            numbers: list[int] = column.values[start : start + shard.samples].tolist()
            return numbers

        return values

    def _split_reader(self, splits: Sequence[tuple[int, str]]) -> ColumnReader:
        """The split of each sample in one set; None for samples in no split of it."""
        parts: dict[int, list[tuple[str, SplitShard]]] = {}
        query = "SELECT shard, samples, bits FROM split_shard WHERE split = ?"
        for number, name in splits:
            for row in self._connection.execute(query, (number,)):
                parts.setdefault(row[0], []).append((name, SplitShard(*row)))

        def values(shard: ShardRow) -> Sequence[Any]:
            names: list[str | None] = [None] * shard.samples
            for name, part in parts.get(shard.id, ()):
                if part.bits is None and part.samples:
                    return [name] * shard.samples
                for position in np.flatnonzero(sample_flags(part, shard.samples)).tolist():
                    names[position] = name
            return names

        return values


def _check_single_expression(query: Query, tokens: Sequence[Token]) -> None:
    """Raise UsageError unless the text is one expression, without a query in it."""
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0 or token.text == ";":
            raise query.error(f"the expression ends before the {token.text}", f"remove the {token.text}")
        if token.kind == "name" and token.text.lower() in ("select", "values"):
            hint = "pass a whole query with --sql: --sql \"SELECT id FROM v_part WHERE part = 'jpg'\""
            raise query.error("an expression cannot contain a query", hint)
    if depth:
        raise query.error("incomplete input: a parenthesis is not closed", "add the closing parenthesis")


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def empty_row_view_sql(names: Iterable[str]) -> str:
    """An empty view `v_row` with these columns, to find out which of them an expression reads."""
    return f"CREATE VIEW v_row AS SELECT {', '.join(f'1 AS {quote_identifier(name)}' for name in names)}"


def row_view_sql(names: Sequence[str], value_columns: Mapping[str, int]) -> str:
    """A view `v_row` of the catalog with `id` and these columns. Joins only the tables that they need.

    `value_columns`: columns that `wds_value(NUMBER, position)` returns, by their numbers.
    """
    value_sql = {name: f"wds_value({number}, sample.id & {POSITION_MASK})" for name, number in value_columns.items()}
    known = MEDIA_FACTS | SAMPLE_COLUMNS | PART_COLUMNS | value_sql
    columns = ", ".join(f"{known[name]} AS {quote_identifier(name)}" for name in dict.fromkeys(("id", *names)))
    media = _MEDIA_JOIN if any(name in MEDIA_FACTS for name in names) else ""
    parts = (
        _PARTS_JOIN if media or any(name in PART_COLUMNS for name in names) else ""
    )  # parts that are no media have rows, too
    shard = _SHARD_JOIN if "shard" in names else ""
    return f"CREATE TEMP VIEW v_row AS SELECT {columns} FROM sample {parts}{media}{shard}"
