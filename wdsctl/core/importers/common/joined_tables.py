"""Several tables about the same files, such as attributes, boxes and metadata of the same pictures: one sample a file.

The rows of the table with the most files become samples. Another table with one row a file gives its columns, and one
with several rows a file gives a list of them, in a column named after the table. Rows are matched by the texts that
name the files; if the texts differ, by the names of the files without their endings.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from wdsctl.core.errors import Finding
from wdsctl.core.file_limits import scale_limit
from wdsctl.core.importers.common.cell_types import convert_cells, infer_cell_types
from wdsctl.core.importers.common.files import PROBED_ROWS
from wdsctl.core.importers.common.samples import SourceRow
from wdsctl.core.importers.common.split_paths import splits_by_word
from wdsctl.core.importers.common.tables import Table, several_tables_error, table_stem
from wdsctl.core.importers.common.text import Record, RecordReader, TextRows
from wdsctl.core.importers.protocol import Options
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

#: path -> all rows of a table.
ReadRows = Callable[[str], Iterator[SourceRow]]

_MAX_JOINED_BYTES = 64 << 20  # of all tables but the largest; each worker has their cells in memory


class JoinColumn(NamedTuple):
    """`table`: the name of the file that has the column. `source`: its name there; empty for the list of rows."""

    table: str
    source: str


@dataclass(slots=True)
class Join:
    """The rows of tables with the same columns, for the rows of the samples. `name`: of the first file.

    `rows`: text that names a file -> the values of its rows, one for each of `fields`. `unmatched`: texts that name no
    file of the samples.
    """

    name: str
    fields: tuple[str, ...]
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    columns: dict[str, JoinColumn] = field(default_factory=dict)  # name in the samples -> where it is from
    unmatched: list[str] = field(default_factory=list)

    def values(self, key: str) -> dict[str, Any]:
        """The values of the columns for the sample of this file: None for each, if no row names the file."""
        rows = list(self.named_values(key))
        one = rows[0] if rows else {}
        return {name: one.get(column.source) if column.source else rows for name, column in self.columns.items()}

    def named_values(self, key: str) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.fields, values, strict=True)) for values in self.rows.get(key, ()))

    def convert(self) -> None:
        """Convert the cells of columns of numbers, as those of the main table are converted."""
        types = infer_cell_types((row for key in self.rows for row in self.named_values(key)), self.fields)
        for key, rows in self.rows.items() if types else ():
            rows[:] = [tuple(convert_cells(row, types).values()) for row in self.named_values(key)]


@dataclass(slots=True)
class JoinedTables:
    """`main`: the tables whose rows become samples. `key`: their column that names the files."""

    main: list[Table]
    key: str
    joins: list[Join]
    by_stem: bool
    paths: list[str]  # of the other tables

    @property
    def columns(self) -> list[str]:
        return [name for join in self.joins for name in join.columns]

    def notes(self) -> dict[str, str]:
        """Column -> the table that it is from."""
        return {
            name: f"of {path_for_message(column.table)}" for join in self.joins for name, column in join.columns.items()
        }

    def findings(self) -> list[Finding]:
        """An error WDS268 for each table with rows about files that the samples do not have."""
        main = path_for_message(os.path.basename(self.main[0].path))
        return [
            Finding(
                code="WDS268",
                severity="error",
                message=f"{path_for_message(join.name)} names {pluralize(len(join.unmatched), 'file')} that {main} "
                f"does not name, such as {path_for_message(join.unmatched[0])}; their rows are in no sample",
                count=len(join.unmatched),
            )
            for join in self.joins
            if join.unmatched
        ]


class JoinedReader:
    """Reads the rows of a main table with the columns of the tables that are joined to it."""

    def __init__(self, reader: RecordReader, tables: JoinedTables) -> None:
        self._reader = reader
        self._tables = tables

    def records(self, file: BinaryIO, path: str, offset: int, line: int) -> Iterator[Record]:
        for record in self._reader.records(file, path, offset, line):
            if record.fault is None:
                key = _key(record.values.get(self._tables.key), by_stem=self._tables.by_stem)
                joined = {name: value for join in self._tables.joins for name, value in join.values(key).items()}
                record = record._replace(values={**record.values, **joined})  # noqa: PLW2901
            yield record


def join_tables(
    root: str, tables: Sequence[Table], open_reader: Callable[[str], RecordReader], options: Options
) -> JoinedTables:
    """Join the tables of a folder that name the same files. `open_reader`: of the table at a path.

    Tables with the same columns are one table in several files. Raises InputError WDS252 if the tables are about other
    files, if two of one kind have rows for the same file, or if they are large; and the errors of rows that are joined.
    Cost: reads all rows; keeps those of all tables but the main one.
    """
    joined = _join(tables, lambda path: TextRows([path], open_reader(path)).rows(0))
    if joined is None:
        raise several_tables_error(root, [table.path for table in tables])
    for join in joined.joins if options.get("types") != "text" else ():
        join.convert()
    return joined


def join_first_rows(tables: JoinedTables, readers: Sequence[RecordReader]) -> list[Table]:
    """The main tables with the first rows that these readers yield."""
    rows = [
        islice(TextRows([table.path], each).rows(0), PROBED_ROWS)
        for table, each in zip(tables.main, readers, strict=True)
    ]
    found = [[row.values for row in each if row.fault is None] for each in rows]
    return [table._replace(rows=each) for table, each in zip(tables.main, found, strict=True)]


def _join(tables: Sequence[Table], read: ReadRows) -> JoinedTables | None:
    """The tables as one; None if they cannot be joined."""
    sizes = sorted(source_files.stat_file(table.path).size for table in tables)
    if sum(sizes[:-1]) > scale_limit(_MAX_JOINED_BYTES):
        return None
    groups: dict[frozenset[str], list[Table]] = {}
    for table in tables:
        groups.setdefault(frozenset(name for row in table.rows for name in row), []).append(table)
    keys = [{_key_column(table) for table in group} for group in groups.values()]
    if len(groups) < 2 or any(len(each) != 1 or None in each for each in keys):
        return None
    found = [_Group(group, str(key.pop())) for group, key in zip(groups.values(), keys, strict=True)]
    counts = [each.count_rows(read) for each in found]
    if not all(counts):
        return None
    at = max(range(len(found)), key=lambda i: (len(counts[i]), -counts[i].total(), -i))
    named = [set(each) for each in counts]
    stems = [{_key(each, by_stem=True) for each in keys} for keys in named]
    by_stem = any(named[at].isdisjoint(each) for each in named)
    are_unique = list(map(len, stems)) == list(map(len, named))
    if by_stem and (any(map(stems[at].isdisjoint, stems)) or not are_unique):
        return None
    main = found[at]
    taken = {*(name for row in main.tables[0].rows for name in row)}
    joins = []
    for i, group in enumerate(found):
        if i != at:
            joins.append(_make_join(group, read, stems[at] if by_stem else named[at], taken, by_stem=by_stem))
    paths = [table.path for i, group in enumerate(found) if i != at for table in group.tables]
    splits = splits_by_word([table.path for table in main.tables]) or [""] * len(main.tables)
    tables = [table._replace(split=split) for table, split in zip(main.tables, splits, strict=True)]
    return JoinedTables(tables, main.key, joins, by_stem, paths)


class _Group(NamedTuple):
    """Tables with the same columns. `key`: the column that names files."""

    tables: list[Table]
    key: str

    def count_rows(self, read: ReadRows) -> Counter[str]:
        """Text that names a file -> how many rows it has; empty if two tables name the same file."""
        found = Counter[str]()
        for table in self.tables:
            here = Counter(row.values[self.key] for row in read(table.path) if row.fault is None)
            del here[""]
            if not found.keys().isdisjoint(here):
                return Counter()
            found += here
        return found


def _key_column(table: Table) -> str | None:
    """The column whose texts name the files; None if there are several."""
    names = table.names
    columns = {name for name in (*names.bases, *names.stems) if name not in names.templates}
    columns |= {column for template in names.templates.values() for column in template.columns}
    return columns.pop() if len(columns) == 1 else None


def _key(text: Any, *, by_stem: bool) -> str:
    name = str(text or "")
    return strip_extension(os.path.basename(name.replace("\\", "/"))) if by_stem else name


def _make_join(group: _Group, read: ReadRows, files: set[str], taken: set[str], *, by_stem: bool) -> Join:
    """`files`: the keys of the main table. `taken`: names that other columns have."""
    first = group.tables[0]
    name, stem = os.path.basename(first.path), table_stem(os.path.basename(first.path))
    join = Join(name, tuple(column for column in first.rows[0] if column != group.key))
    for row in (row for table in group.tables for row in read(table.path)):
        if row.fault is not None:
            raise row.fault
        if key := _key(row.values[group.key], by_stem=by_stem):
            cells = tuple(sys.intern(row.values[column]) for column in join.fields)
            join.rows.setdefault(key, []).append(cells)
        else:
            join.unmatched.append(f"the one of {row.where}, which has no {group.key}")
    if all(len(each) == 1 for each in join.rows.values()):
        join.columns = {_free_name(column, stem, taken): JoinColumn(name, column) for column in join.fields}
    else:
        join.columns = {_free_name(stem, stem, taken): JoinColumn(name, "")}
    join.unmatched += sorted(join.rows.keys() - files)
    return join


def _free_name(column: str, stem: str, taken: set[str]) -> str:
    """The name of a column among the others, which it joins: `dev_title` for the second `title`, of `dev.csv`."""
    while column in taken:
        column = f"{stem}_{column}"
    taken.add(column)
    return column
