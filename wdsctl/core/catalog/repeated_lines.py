"""Keys that stand in several files of lines, for a catalog that keeps no rows of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np

from wdsctl.core.catalog.line_rows import offsets_of, whole
from wdsctl.core.line_keys import NUMBERS
from wdsctl.core.name_index import CHUNK, Rows, keys_by_hash
from wdsctl.core.offsets import Offsets
from wdsctl.core.temporary_space import in_temporary_space

_TABLE = "CREATE TEMP TABLE line (key TEXT NOT NULL, shard INTEGER NOT NULL)"
_REPEATED = "SELECT key FROM line GROUP BY key HAVING min(shard) < max(shard) ORDER BY key"
_SHARDS = (
    "SELECT path FROM shard WHERE id IN (SELECT DISTINCT shard FROM line WHERE key = ? ORDER BY shard LIMIT 3) "
    "ORDER BY id"
)

_Repeated = tuple[str, tuple[str, ...]]


def repeated_lines(
    connection: sqlite3.Connection, path: str, key_field: str, limit: int
) -> tuple[int, list[_Repeated]]:
    """How many keys stand in more than one file, and the first `limit` of them with the first few of their files.

    Numbered keys begin with the file's path without its ending: where no two files share that, no key is looked at.
    Else keys are compared by their hashes, some 0.3 s and 24 MB a million; only those that
    look repeated get rows, temporary ones.
    Raises CatalogError WDS302 where the offsets file is gone or damaged, StorageError WDS401 where there is no room.
    """
    query = "SELECT path FROM shard WHERE removed IS NULL AND samples > 0"
    stems = [NUMBERS.prefix(each) for (each,) in connection.execute(query)]
    if len(stems) < 2 or (not key_field and len(set(stems)) == len(stems)):
        return 0, []
    offsets = offsets_of(connection, path)
    alike = _alike(offsets)
    if not len(alike):
        return 0, []
    with in_temporary_space("keys cannot be compared"), whole(connection):
        connection.execute(_TABLE)
        connection.executemany("INSERT INTO temp.line VALUES (?, ?)", _keys(offsets, alike))
        repeated: list[str] = []
        count = 0
        for count, (key,) in enumerate(connection.execute(_REPEATED), 1):
            repeated += [key] if count <= limit else []
        found = [(key, tuple(row[0] for row in connection.execute(_SHARDS, (key,)))) for key in repeated]
        connection.execute("DROP TABLE temp.line")
    return count, found


def _alike(offsets: Offsets) -> Rows:
    """The rows of keys whose hash stands in more than one file."""
    hashes, rows = keys_by_hash(offsets)
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    shards = np.searchsorted(offsets.shard_row, rows, side="right")
    are_apart = np.minimum.reduceat(shards, starts) < np.maximum.reduceat(shards, starts)
    return rows[np.repeat(are_apart, np.diff(starts, append=len(rows)))]


def _keys(offsets: Offsets, rows: Rows) -> Iterator[tuple[str, int]]:
    """(key, shard id) of these rows."""
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        shards = np.searchsorted(offsets.shard_row, some, side="right") - 1
        yield from zip(map(offsets.key, some.tolist()), (offsets.shards[i].id for i in shards.tolist()), strict=True)
