"""Shards that a new catalog takes over from the old one as they are: no file is there to read them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, insert, inspect, null, select, text
from sqlalchemy.dialects import sqlite

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.engine import open_published
from wdsctl.core.catalog.media_settings import FACT
from wdsctl.core.catalog.split_rows import SplitTables
from wdsctl.core.sample_id import INDEX_BITS


def adopt(draft: Connection, splits: SplitTables, path: str, shard_ids: Sequence[int], *, with_samples: bool) -> None:
    """Copy the rows of these shards, and their splits, from the catalog at `path` into a draft that has nothing yet.

    Of shards that are gone, what is remembered of their splits comes along.
    """
    engine = open_published(path)
    try:
        with engine.connect() as old:
            for table in (schema.ext, schema.split):
                _copy(draft, table, old, select(table))
            shards = select(*_columns_of(schema.shard, old))
            for shard_id in shard_ids:
                _copy(draft, schema.shard, old, shards.where(schema.shard.c.id == shard_id))
                for table in (schema.shard_part, schema.split_shard):
                    _copy(draft, table, old, select(table).where(table.c.shard == shard_id))
                if with_samples:
                    _copy(draft, schema.sample, old, _samples(schema.sample, schema.sample.c.id, shard_id))
            if old.execute(select(schema.meta.c.key).where(schema.meta.c.key == FACT)).first():
                _adopt_media(draft, old, shard_ids)
            gone = _remembered(old)
            for shard_id in gone:
                _copy(draft, schema.shard, old, shards.where(schema.shard.c.id == shard_id))
            splits.adopt(old, [*shard_ids, *gone])
    finally:
        engine.dispose()


def _remembered(old: Connection) -> list[int]:
    """The shards that are gone, and whose splits are remembered."""
    if not inspect(old).has_table(schema.former_split.name):
        return []  # a catalog of schema version 1 to 3
    is_gone = schema.shard.c.id.in_(select(schema.former_split.c.shard)) & schema.shard.c.removed.is_not(None)
    return list(old.execute(select(schema.shard.c.id).where(is_gone).order_by(schema.shard.c.id)).scalars())


def _adopt_media(draft: Connection, old: Connection, shard_ids: Iterable[int]) -> None:
    _copy(draft, schema.media_form, old, select(schema.media_form))
    for shard_id in shard_ids:
        for table in (schema.media, schema.keyframes):
            _copy(draft, table, old, _samples(table, table.c.sample, shard_id))
        for table in (schema.media_shard, schema.media_count):
            _copy(draft, table, old, select(table).where(table.c.shard == shard_id))


def _samples(table: Table, number: ColumnElement[int], shard_id: int) -> Select[Any]:
    """The rows of the samples of one shard."""
    first = shard_id << INDEX_BITS
    return select(table).where(number >= first, number < first + schema.SAMPLES_A_SHARD)


def _copy(draft: Connection, table: Table, old: Connection, query: Select[Any]) -> None:
    """By the driver's own executemany on tuples: going through SQLAlchemy would build a dict a row."""
    cursor: Any = draft.connection.cursor()
    cursor.executemany(str(insert(table).compile(dialect=sqlite.dialect())), map(tuple, old.execute(query)))


def _columns_of(table: Table, old: Connection) -> list[ColumnElement[Any]]:
    """The columns of a table, with null for those that the older catalog `old` does not have."""
    there = {row.name for row in old.execute(text(f"PRAGMA table_info({table.name})"))}
    return [column if column.name in there else null() for column in table.columns]
