"""Rows of samples of files of lines, made when they are asked for.

A catalog of lines keeps none unless it is told to: a line has one part, and all that a row would say of it is in the
offsets file. Whoever reads rows gets them in a temporary table of the same name, which stands before the catalog's, or
in a copy of the catalog. Cost: some 2 µs a line, and 70 bytes of temporary storage.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

from wdsctl.core.catalog.identity import SAMPLE_ROWS
from wdsctl.core.catalog.placed import INDEX_BITS
from wdsctl.core.line_files import is_lines
from wdsctl.core.offsets import Offsets
from wdsctl.core.shard_scan import texts

_AT_ONCE = 50_000  # lines turned into Python objects at a time

_TABLE = (
    "CREATE TEMP TABLE sample (id INTEGER PRIMARY KEY, key TEXT NOT NULL, offset BIGINT NOT NULL, "
    "size BIGINT NOT NULL, parts TEXT NOT NULL)"
)
_INDEX = "CREATE INDEX temp.sample_key ON sample (key)"

_Row = tuple[int, str, int, int, str]


def are_implied(connection: sqlite3.Connection) -> bool:
    """Whether a catalog has samples without rows, and all of them are lines."""
    if connection.execute("SELECT value FROM meta WHERE key = ?", (SAMPLE_ROWS,)).fetchone() != ("0",):
        return False
    paths = [row[0] for row in connection.execute("SELECT path FROM shard WHERE removed IS NULL AND samples > 0")]
    return bool(paths) and all(map(is_lines, paths))


def give_rows(connection: sqlite3.Connection, path: str, *, by_key: bool = False) -> bool:
    """Give a connection to the catalog at `path` the rows that it implies; whether it implied any.

    `by_key`: with an index of the keys, for whoever looks up more than a few. Raises CatalogError WDS302 where the
    offsets file is gone or damaged.
    """
    if not are_implied(connection):
        return False
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'sample'").fetchone() is None:
        connection.execute(_TABLE)
        _fill(connection, "temp", path)
        if by_key:
            connection.execute(_INDEX)
    return True


def with_rows(connection: sqlite3.Connection, path: str) -> sqlite3.Connection:
    """A connection to a copy of the catalog at `path` with the rows that it implies, for users' SQL, which may say
    `main.v_sample`; the given one, where it implies none, and closed where it does. Raises as `give_rows`.
    """
    if not are_implied(connection):
        return connection
    copy = sqlite3.connect("", isolation_level=None)  # a file without a name, gone when it is closed
    try:
        connection.backup(copy)
        _fill(copy, "main", path)
    except BaseException:  # Ctrl-C too: nobody else has the copy yet
        copy.close()
        raise
    connection.close()
    return copy


def _fill(connection: sqlite3.Connection, database: str, path: str) -> None:
    [generation] = connection.execute("SELECT value FROM main.meta WHERE key = 'generation'").fetchone()
    offsets = Offsets(os.path.join(os.path.dirname(path), f"offsets-{generation}.bin"))
    is_alone = not connection.in_transaction
    if is_alone:
        connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO {database}.sample VALUES (?, ?, ?, ?, ?)", _rows(offsets))
    if is_alone:
        connection.execute("COMMIT")


def _rows(offsets: Offsets) -> Iterator[_Row]:
    """(id, key, offset, size, parts) of every line."""
    [ext] = [offsets.extensions.index(name) for name in offsets.layouts[0]]
    for i, shard in enumerate(offsets.shards):
        first, end = offsets.shard_row[i : i + 2].tolist()
        for start in range(first, end, _AT_ONCE):
            stop = min(end, start + _AT_ONCE)
            number = (shard.id << INDEX_BITS) + start - first
            bounds, sizes = offsets.key_start[start : stop + 1], offsets.part_size[start:stop].tolist()
            yield from zip(
                range(number, number + stop - start),
                texts(bytes(offsets.key_text[bounds[0] : bounds[-1]]), bounds - bounds[0]),
                offsets.part_offset[start:stop].tolist(),
                sizes,
                [f"[[{ext},0,{size}]]" for size in sizes],
                strict=True,
            )
