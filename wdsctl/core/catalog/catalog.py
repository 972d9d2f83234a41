"""Reads a published catalog. Speaks of shards, samples and splits, not of rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DatabaseError

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.engine import open_published
from wdsctl.core.catalog.identity import damaged
from wdsctl.core.dataset_yaml import SplitRule


@dataclass(frozen=True, slots=True)
class ShardRow:
    id: int
    path: str
    size: int  # bytes
    mtime_ns: int
    samples: int
    parts: int
    status: str
    code: str | None
    layout_hash: str


@dataclass(frozen=True, slots=True)
class PartCount:
    """How much there is of one part over a dataset. `share` is the share of samples that have it."""

    name: str
    samples: int
    share: float
    size_bytes: int
    empty: int


@dataclass(frozen=True, slots=True)
class SplitCount:
    name: str
    share: float  # as asked for
    shards: int  # that it has samples of
    samples: int


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    key: str
    shards: tuple[str, ...]  # some of the shards that have it


class Catalog:
    """A published catalog, read-only. Close it, or use it in a `with`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._engine: Engine = open_published(path)

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._engine.dispose()

    def facts(self) -> dict[str, str]:
        """uuid, generation, and the version of wdsctl that wrote the catalog."""
        with self._reading() as connection:
            rows = connection.execute(select(schema.meta.c.key, schema.meta.c.value)).all()
        return {row.key: row.value for row in rows}

    def shards(self) -> list[ShardRow]:
        """The shards of the current generation, in the order they were added."""
        t = schema.shard.c
        columns = (t.id, t.path, t.size, t.mtime_ns, t.samples, t.parts, t.status, t.code, t.layout_hash)
        query = select(*columns).where(t.removed.is_(None)).order_by(t.id)
        with self._reading() as connection:
            return [ShardRow(*row) for row in connection.execute(query)]

    def parts(self) -> list[PartCount]:
        """The parts of the current generation, the most frequent first."""
        counts, shard = schema.shard_part.c, schema.shard.c
        query = (
            select(schema.ext.c.name, func.sum(counts.samples), func.sum(counts.bytes), func.sum(counts.empty))
            .join(schema.ext, schema.ext.c.id == counts.ext)
            .join(schema.shard, shard.id == counts.shard)
            .where(shard.removed.is_(None))
            .group_by(schema.ext.c.id)
            .order_by(func.sum(counts.samples).desc(), schema.ext.c.id)
        )
        with self._reading() as connection:
            total = connection.execute(select(func.sum(shard.samples)).where(shard.removed.is_(None))).scalar() or 0
            return [
                PartCount(name, samples, samples / total if total else 0.0, size, empty)
                for name, samples, size, empty in connection.execute(query)
            ]

    def splits(self) -> list[SplitCount]:
        """The splits, in the order they were named."""
        split, of_shard = schema.split.c, schema.split_shard.c
        query = (
            select(split.name, split.share, func.count(of_shard.shard), func.coalesce(func.sum(of_shard.samples), 0))
            .join_from(schema.split, schema.split_shard, of_shard.split == split.id, isouter=True)
            .group_by(split.id)
            .order_by(split.id)
        )
        with self._reading() as connection:
            return [SplitCount(name, float(share), *counts) for name, share, *counts in connection.execute(query)]

    def split_rule(self) -> SplitRule | None:
        """How the splits were made; None where there are none."""
        t = schema.split.c
        with self._reading() as connection:
            rows = connection.execute(select(t.name, t.share, t.by, t.seed).order_by(t.id)).all()
        return SplitRule({name: float(share) for name, share, _, _ in rows}, rows[0][2], rows[0][3]) if rows else None

    def repeated_keys(self, limit: int = 20) -> tuple[int, list[RepeatedKey]]:
        """How many keys stand in more than one shard, and the first of them with their shards. One sorted scan."""
        key, shard_of = schema.sample.c.key, schema.sample.c.id.op(">>")(schema.INDEX_BITS)
        repeated = select(key).group_by(key).having(func.min(shard_of) < func.max(shard_of)).order_by(key)
        with self._reading() as connection:
            keys = list(connection.execute(repeated).scalars())
            found = []
            for each in keys[:limit]:
                where = (
                    select(schema.shard.c.path)
                    .join(schema.sample, schema.shard.c.id == shard_of)
                    .where(key == each)
                    .distinct()
                    .limit(3)
                )
                found.append(RepeatedKey(each, tuple(connection.execute(where).scalars())))
            return len(keys), found

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except DatabaseError as error:
            raise damaged(self.path, str(error.orig)) from error
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, str(error)) from error
