"""Which samples of a shard are in which split, a shard at a time, and hashes of shards: for comparisons.

The standard library alone; memory is one shard's bits, however many shards there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from wdsctl.core.catalog.database_file import error_of
from wdsctl.core.catalog.identity import DAMAGE, damaged
from wdsctl.core.catalog.published import connect
from wdsctl.core.splitting import SplitShard


class SplitParts:
    """Of one published catalog. Made by `split_parts`, and open as long as its block lasts."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._ids: dict[str, int] = dict(self._rows("SELECT name, id FROM split ORDER BY id"))

    @property
    def names(self) -> list[str]:
        """The splits, in the order they were named."""
        return list(self._ids)

    def part(self, name: str, shard_id: int) -> SplitShard | None:
        """What a split has of a shard; None where that is nothing."""
        query = "SELECT shard, samples, bits FROM split_shard WHERE split = ? AND shard = ? AND samples > 0"
        rows = self._rows(query, self._ids.get(name, -1), shard_id)
        return SplitShard(*rows[0]) if rows else None

    def hashes(self) -> dict[int, str]:
        """SHA-256 in hex by shard id, of all shards that ever had one, gone or not."""
        if "sha256" not in {row[1] for row in self._rows("PRAGMA table_info(shard)")}:
            return {}  # a catalog of schema version 1 or 2
        return dict(self._rows("SELECT id, sha256 FROM shard WHERE sha256 IS NOT NULL"))

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except DAMAGE as error:
            raise damaged(self._path, error_of(self._path, error)) from error


@contextmanager
def split_parts(path: str) -> Iterator[SplitParts]:
    """The catalog at `path`. Raises CatalogError WDS301, WDS302, WDS303."""
    with closing(connect(path)) as connection:
        yield SplitParts(path, connection)
