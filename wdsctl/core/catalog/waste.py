"""Rows of a draft that nobody needs: of shards that no generation in use has, and of shards that there are not."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, Table, delete, func, or_, select

from wdsctl.core.catalog import schema
from wdsctl.core.sample_id import INDEX_BITS

_BY_SHARD = (
    schema.shard_part,
    schema.split_shard,
    schema.excluded_shard,
    schema.media_shard,
    schema.media_count,
)
_BY_SAMPLE = ((schema.sample, schema.sample.c.id), (schema.media, schema.media.c.sample))


class Waste:
    """What may be dropped from a draft of a dataset of shards."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def drop(self, generations: Collection[int]) -> dict[str, int]:
        """Drop it; returns how many rows of which table. `generations`: those that somebody may still train on.

        The rows of shards that one of them has stay, though the present one lacks them: their numbers mean something.
        So do those of shards that go back to their splits if they come back.
        """
        dropped = {"shard": self._removed_shards(generations)}
        live = select(schema.shard.c.id).where(schema.shard.c.removed.is_(None))
        for table in _BY_SHARD:
            dropped[table.name] = self._run(table, table.c.shard.not_in(live))
        for table, sample in (*_BY_SAMPLE, (schema.keyframes, schema.keyframes.c.sample)):
            dropped[table.name] = self._run(table, sample.op(">>")(INDEX_BITS).not_in(live))
        return {name: count for name, count in dropped.items() if count}

    def _removed_shards(self, generations: Collection[int]) -> int:
        t = schema.shard.c
        in_use = [(t.added <= number) & (t.removed > number) for number in generations]
        remembered = t.id.in_(select(schema.former_split.c.shard))
        return self._run(schema.shard, t.removed.is_not(None) & ~or_(remembered, *in_use))

    def _run(self, table: Table, which: ColumnElement[bool]) -> int:
        count = self._connection.execute(select(func.count()).select_from(table).where(which)).scalar_one()
        if count:
            self._connection.execute(delete(table).where(which))
        return int(count)
