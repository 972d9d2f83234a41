"""Builds the next catalog: a copy of the published one, or a new one, that nobody sees until it is published.

The bulk path compiles its statements once and gives the driver tuples: 1 µs a sample instead of 10.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, insert, null, select, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError
from sqlalchemy.sql.dml import Insert

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.catalog import HASHED, KEY_FIELD, SELECTION, ShardRow
from wdsctl.core.catalog.engine import open_draft, open_published
from wdsctl.core.catalog.identity import DAMAGE, SAMPLE_ROWS, check, damaged
from wdsctl.core.catalog.media_rows import MediaTables
from wdsctl.core.catalog.media_settings import FACT, KIND, MediaSettings, settings_from
from wdsctl.core.catalog.rows import part_counts, sample_rows, shard_rows
from wdsctl.core.catalog.split_rows import SplitTables
from wdsctl.core.catalog.waste import Waste
from wdsctl.core.errors import DatasetError, StorageError
from wdsctl.core.files import publish
from wdsctl.core.offsets import ShardRows
from wdsctl.core.os_errors import translated
from wdsctl.core.plain_members import Ints
from wdsctl.core.selected_shards import selection_from
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.units import ShardFile
from wdsctl.version import VERSION

_AT_ONCE = 32  # samples an insert; older SQLites take no more than 999 values

REINDEX = 0.2  # new bytes of shards over old ones, from which on the key index is made anew


class Draft:
    """The next catalog. Methods change the draft alone; `drafting` publishes it when all went well."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._extensions = self._numbers()
        self.generation = int(self._fact("generation") or 0)
        highest = self._connection.execute(select(func.max(schema.shard.c.id))).scalar()
        self.last_shard_id = int(self._fact("last_shard_id") or highest or 0)
        self.exclude: tuple[str, ...] = tuple(json.loads(self._fact("exclude") or "[]"))
        self.key_field = self._fact(KEY_FIELD) or ""  # of JSON, that keys of lines come from
        self.selection = selection_from(self._fact(SELECTION))
        self.has_sample_rows = self._fact(SAMPLE_ROWS) != "0"
        self.is_hashed = self._fact(HASHED) == "1"
        self.is_to_be_packed = False  # rewrite the file without its free pages before it is published
        self.media_settings: MediaSettings | None = settings_from(self._fact(FACT))
        self.kind = self._fact(KIND)  # None: of shards
        self.media = MediaTables(connection, self.number_of)
        self.splits = SplitTables(connection)
        self.waste = Waste(connection)

    @property
    def extensions(self) -> list[str]:
        """Part names; a part's number is its index."""
        return list(self._extensions)

    def next_shard_id(self) -> int:
        """A number that no shard has had, in this catalog or in one that it takes the place of."""
        self.last_shard_id += 1
        return self.last_shard_id

    def numbers_of(self, scan: ShardScan) -> Ints:
        """The catalog's number of each of a scan's part names, new ones given out in order."""
        return np.array([self.number_of(name) for name in scan.extensions] or [0], np.int64)

    def number_of(self, part: str) -> int:
        """The catalog's number of a part name, a new one if it has none."""
        if part not in self._extensions:
            self._extensions[part] = len(self._extensions)
            self._insert(schema.ext, [{"id": self._extensions[part], "name": part}])
        return self._extensions[part]

    def add_shard(self, shard_id: int, shard: ShardFile, scan: ShardScan) -> ShardRow:
        """One shard and all its samples. Raises DatasetError where it holds more than ids can tell apart."""
        if scan.samples >= schema.SAMPLES_A_SHARD:
            raise DatasetError(
                f"the shard has {scan.samples:,} samples; {schema.SAMPLES_A_SHARD - 1:,} is the most",
                where=shard.path,
                hint="write it again as several shards",
            )
        numbers = self.numbers_of(scan)
        row = ShardRow(
            id=shard_id,
            path=shard.path,
            size=shard.size,
            mtime_ns=shard.mtime_ns,
            samples=scan.samples,
            parts=len(scan.part_sizes),
            status=scan.status,
            code=scan.code,
            layout_hash=scan.layout_hash(),
            sha256=scan.sha256,
        )
        values = asdict(row) | {"added": self.generation}
        self._bulk(_INSERT_SHARD, [tuple(map(values.get, schema.shard.columns.keys()))])
        self._bulk(_INSERT_PART_COUNT, part_counts(shard_id, scan, numbers))
        if self.has_sample_rows:
            self._bulk_samples(shard_id, scan, numbers)
        return row

    def add_sample_rows(self, shard_id: int, scan: ShardScan) -> None:
        """The samples of a shard that has a row, and counts, and none of a sample."""
        self._bulk_samples(shard_id, scan, self.numbers_of(scan))

    def forget_sample_rows(self) -> None:
        """From here on there are counts alone, and the offsets file."""
        self._connection.execute(text("DROP INDEX IF EXISTS sample_key"))
        self._connection.execute(delete(schema.sample))
        self.has_sample_rows, self.is_to_be_packed = False, True

    def remove_shard(self, shard_id: int) -> None:
        """A shard that is gone or has changed: its row stays and says so, its samples go."""
        first = shard_id << schema.INDEX_BITS
        t, of_shard = schema.sample.c.id, schema.split_shard.c.shard
        self._connection.execute(delete(schema.sample).where(t >= first, t < first + schema.SAMPLES_A_SHARD))
        self._connection.execute(delete(schema.shard_part).where(schema.shard_part.c.shard == shard_id))
        self._connection.execute(delete(schema.split_shard).where(of_shard == shard_id))
        self.media.remove_shard(shard_id)
        gone = update(schema.shard).where(schema.shard.c.id == shard_id).values(removed=self.generation)
        self._connection.execute(gone)

    def refresh(self, rows: Iterable[ShardRow]) -> None:
        """Shards whose time, path or hash is another one, and in which nothing has moved."""
        values = [(row.path, row.mtime_ns, row.sha256, row.id) for row in rows]
        self._bulk("UPDATE shard SET path = ?, mtime_ns = ?, sha256 = ? WHERE id = ?", values)

    def adopt(self, path: str, shard_ids: Sequence[int]) -> None:
        """Take shards over from the catalog at `path` as they are, with their splits. The draft has nothing yet."""
        engine = open_published(path)
        try:
            with engine.connect() as old:
                for table in (schema.ext, schema.split):
                    self._copy(table, old, select(table))
                shards = select(*_columns_of(schema.shard, old))
                for shard_id in shard_ids:
                    first = shard_id << schema.INDEX_BITS
                    self._copy(schema.shard, old, shards.where(schema.shard.c.id == shard_id))
                    for table in (schema.shard_part, schema.split_shard):
                        self._copy(table, old, select(table).where(table.c.shard == shard_id))
                    t = schema.sample.c.id
                    mine = select(schema.sample).where(t >= first, t < first + schema.SAMPLES_A_SHARD)
                    if self.has_sample_rows:
                        self._copy(schema.sample, old, mine)
                if old.execute(select(schema.meta.c.key).where(schema.meta.c.key == FACT)).first():
                    self._adopt_media(old, shard_ids)
                self.splits.adopt(old, shard_ids)
        finally:
            engine.dispose()
        self._extensions = self._numbers()
        self.media.look_again()

    def _adopt_media(self, old: Connection, shard_ids: Sequence[int]) -> None:
        self._copy(schema.media_form, old, select(schema.media_form))
        for shard_id in shard_ids:
            first = shard_id << schema.INDEX_BITS
            for table in (schema.media, schema.keyframes):
                t = table.c.sample
                self._copy(table, old, select(table).where(t >= first, t < first + schema.SAMPLES_A_SHARD))
            for table in (schema.media_shard, schema.media_count):
                self._copy(table, old, select(table).where(table.c.shard == shard_id))

    def rows_of(self, shard_id: int) -> ShardRows:
        """The columns of a shard, from its rows."""
        t, first = schema.sample.c, shard_id << schema.INDEX_BITS
        query = select(t.key, t.offset, t.parts).where(t.id >= first, t.id < first + schema.SAMPLES_A_SHARD)
        return shard_rows((key, at, parts) for key, at, parts in self._connection.execute(query.order_by(t.id)))

    def finish(self) -> None:
        """Facts and the key index. After this the draft is a catalog."""
        facts = {
            "uuid": self._fact("uuid") or uuid.uuid4().hex,
            "generation": str(self.generation),
            "written_by": f"wdsctl {VERSION}",
            "last_shard_id": str(self.last_shard_id),
            "exclude": json.dumps(self.exclude),
        }
        if self.key_field:
            facts[KEY_FIELD] = self.key_field
        if not self.selection.is_all:
            facts[SELECTION] = self.selection.as_text()
        if not self.has_sample_rows:
            facts[SAMPLE_ROWS] = "0"
        if self.is_hashed:
            facts[HASHED] = "1"
        if self.media_settings is not None:
            facts[FACT] = self.media_settings.as_text()
        if self.kind is not None:
            facts[KIND] = self.kind
        facts |= self.splits.facts
        self._connection.execute(delete(schema.meta))
        self._insert(schema.meta, [{"key": key, "value": value} for key, value in facts.items()])
        self._connection.execute(text(schema.KEY_INDEX))

    def expect(self, share: float) -> None:
        """How much is about to come, compared with what stays: much of it goes into a new key index sooner."""
        if share > REINDEX:
            self._connection.execute(text("DROP INDEX IF EXISTS sample_key"))

    def _numbers(self) -> dict[str, int]:
        t = schema.ext.c
        return {name: i for i, name in self._connection.execute(select(t.id, t.name).order_by(t.id))}

    def _copy(self, table: Table, old: Connection, query: Select[Any]) -> None:
        self._bulk(_compiled(insert(table)), map(tuple, old.execute(query)))

    def _bulk(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """The driver's own executemany on tuples: going through SQLAlchemy would build a dict a row."""
        cursor: sqlite3.Cursor = self._connection.connection.cursor()  # type: ignore[assignment]
        cursor.executemany(statement, rows)

    def _bulk_samples(self, shard_id: int, scan: ShardScan, numbers: Ints) -> None:
        """Several rows a statement, and the rest one by one: a statement costs as much as a row."""
        values = chain.from_iterable(sample_rows(shard_id, scan, numbers))
        columns = len(schema.sample.columns)
        runs, rest = divmod(scan.samples, _AT_ONCE)
        self._bulk(_INSERT_SAMPLES, (tuple(islice(values, _AT_ONCE * columns)) for _ in range(runs)))
        self._bulk(_INSERT_SAMPLE, (tuple(islice(values, columns)) for _ in range(rest)))

    def _fact(self, key: str) -> str | None:
        return self._connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)


@contextmanager
def drafting(path: str, *, anew: bool = False, ready: Callable[[], None] = lambda: None) -> Iterator[Draft]:
    """A draft of the catalog at `path`, published when the block ends well and dropped when it does not.

    The draft begins as a copy of what is published, or empty where nothing is or `anew` is set. `ready` is called last,
    and raises if it must not be published after all. Raises CatalogError WDS302 and WDS303, StorageError.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.partial")
    try:
        with translated(path):
            os.makedirs(folder, exist_ok=True)
            if not anew and os.path.exists(path):
                check(path)
                shutil.copyfile(path, draft)
        with _connected(draft, path) as connection:
            made = _begun(connection, path)
            yield made
            made.finish()
        if made.is_to_be_packed:
            _pack(draft, path)
        with translated(path):
            ready()
            publish(draft, path)
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(draft)


def _pack(draft: str, path: str) -> None:
    """Give back the pages that are free. Takes as much space again while it lasts."""
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = OFF").close()
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("VACUUM")
    except DAMAGE as error:
        raise _translated(error, path) from error


def _begun(connection: Connection, path: str) -> Draft:
    try:
        return Draft(connection)
    except (ValueError, TypeError) as error:
        raise damaged(path, "its facts do not parse") from error


@contextmanager
def _connected(draft: str, path: str) -> Iterator[Connection]:
    try:
        engine = open_draft(draft)
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()
    except DatabaseError as error:
        raise _translated(error.orig, path) from error
    except DAMAGE as error:
        raise _translated(error, path) from error


def _translated(error: BaseException | None, path: str) -> Exception:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return StorageError(
            "cannot write the catalog: the disk is full",
            where=path,
            hint="free some space and run the same command again: it goes on where it stopped",
            code="WDS401",
        )
    if isinstance(error, sqlite3.OperationalError):
        return StorageError(f"cannot write the catalog: {error}", where=path, hint="run the same command again")
    return damaged(path, str(error))


def _columns_of(table: Table, old: Connection) -> list[ColumnElement[Any]]:
    """The columns of a table, with null for those that the older catalog `old` does not have."""
    there = {row.name for row in old.execute(text(f"PRAGMA table_info({table.name})"))}
    return [column if column.name in there else null() for column in table.columns]


def _compiled(statement: Insert) -> str:
    """The statement as text, with `?` in the order of the table's columns."""
    return str(statement.compile(dialect=sqlite.dialect()))


def _repeated(statement: str, rows: int) -> str:
    """The statement for so many rows at once."""
    head, values = statement.split(" VALUES ")
    return f"{head} VALUES {', '.join([values] * rows)}"


_INSERT_SHARD = _compiled(insert(schema.shard))
_INSERT_PART_COUNT = _compiled(insert(schema.shard_part))
_INSERT_SAMPLE = _compiled(insert(schema.sample))
_INSERT_SAMPLES = _repeated(_INSERT_SAMPLE, _AT_ONCE)
