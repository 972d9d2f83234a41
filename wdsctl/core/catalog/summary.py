"""What a summary needs of a published catalog, at a cost that does not grow with the shards. Standard library alone."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from wdsctl.core.catalog.published import reading
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.totals import Totals, totals_of

_COLUMNS = "id, path, size, mtime_ns, samples, parts, status, code, layout_hash"


@dataclass(frozen=True, slots=True)
class Summary:
    """`first`: the first shards, in the order they were added. `spread`: some, evenly spread over all."""

    facts: dict[str, str]
    totals: Totals
    first: tuple[ShardRow, ...]
    spread: tuple[ShardRow, ...]

    @property
    def has_all(self) -> bool:
        """Whether `spread` is every shard there is."""
        return len(self.spread) == self.totals.shards


def read_summary(path: str, *, first: int, spread: int) -> Summary:
    """At most so many shards of each. Raises CatalogError WDS301, WDS302, WDS303."""
    with reading(path) as connection:
        return summary_of(connection, first=first, spread=spread)


def summary_of(connection: sqlite3.Connection, *, first: int, spread: int) -> Summary:
    """Cost: a row each of them. Of a catalog without totals, a row a shard; where rows of shards that have been removed
    lie between those of others, a step over each.
    """
    facts = dict(connection.execute("SELECT key, value FROM meta"))
    totals = totals_of(connection, facts)
    shown = _rows(connection, totals.ids[0], first)
    has_all = totals.shards <= spread
    some = _rows(connection, totals.ids[0], spread) if has_all else _spread(connection, totals.ids, spread)
    return Summary(facts, totals, tuple(shown), tuple(some))


def _rows(connection: sqlite3.Connection, start: int, limit: int) -> list[ShardRow]:
    query = f"SELECT {_COLUMNS} FROM shard WHERE removed IS NULL AND id >= ? ORDER BY id LIMIT ?"
    return [ShardRow(*row) for row in connection.execute(query, (start, limit))]


def _spread(connection: sqlite3.Connection, ids: tuple[int, int], count: int) -> list[ShardRow]:
    """The first shard of each of so many stretches of numbers that have one."""
    low, high = ids
    bounds = [low + (high + 1 - low) * i // max(1, count) for i in range(count + 1)]
    query = f"SELECT {_COLUMNS} FROM shard WHERE removed IS NULL AND id >= ? AND id < ? ORDER BY id LIMIT 1"
    found = [connection.execute(query, bounds[i : i + 2]).fetchone() for i in range(count)]
    return [ShardRow(*row) for row in found if row is not None]
