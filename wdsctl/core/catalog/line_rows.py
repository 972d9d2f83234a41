"""Rows of samples of files of lines, made when they are asked for.

A catalog of lines keeps none unless it is told to: a line has one part, and all that a row would say of it is in the
offsets file. Whoever reads rows gets them in a temporary table of the same name, which stands before the catalog's, or
in a copy of the catalog. Cost: some 2 µs a line, and 40 bytes of temporary storage, 60 with an index of the keys.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wdsctl.core.catalog.identity import SAMPLE_ROWS
from wdsctl.core.line_files import is_lines
from wdsctl.core.offsets import Offsets
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.shard_scan import texts
from wdsctl.core.temporary_space import in_temporary_space

_AT_ONCE = 50_000  # lines turned into Python objects at a time

_TABLE = (
    "CREATE TEMP TABLE sample (id INTEGER PRIMARY KEY, key TEXT NOT NULL, offset BIGINT NOT NULL, "
    "size BIGINT NOT NULL, parts TEXT NOT NULL)"
)
_INDEX = "CREATE INDEX temp.sample_key ON sample (key)"
_NO_ROOM = "rows of lines cannot be made"

_Row = tuple[int, str, int, int, str]


def are_implied(connection: sqlite3.Connection) -> bool:
    """Whether a catalog has samples without rows, and all of them are lines: also where there are none at all."""
    if connection.execute("SELECT value FROM meta WHERE key = ?", (SAMPLE_ROWS,)).fetchone() != ("0",):
        return False
    paths = connection.execute("SELECT path FROM shard WHERE removed IS NULL AND samples > 0")
    return all(is_lines(path) for (path,) in paths)


def give_rows(connection: sqlite3.Connection, path: str, *, by_key: bool = False) -> bool:
    """Give a connection to the catalog at `path` the rows that it implies; whether it implied any.

    `by_key`: with an index of the keys, for whoever looks up more than a few. Raises CatalogError WDS302 where the
    offsets file is gone or damaged, StorageError WDS401 where there is no room for the rows.
    """
    if not are_implied(connection):
        return False
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'sample'").fetchone() is None:
        offsets = offsets_of(connection, path)
        with in_temporary_space(_NO_ROOM), whole(connection):
            connection.execute(_TABLE)
            _fill(connection, "temp", offsets)
            if by_key:
                connection.execute(_INDEX)
    return True


def with_rows(connection: sqlite3.Connection, path: str, look: Callable[[], None] | None = None) -> sqlite3.Connection:
    """A connection to a copy of the catalog at `path` with the rows that it implies, for users' SQL, which may say
    `main.v_sample`; the given one, where it implies none, and closed where it does. Raises as `give_rows`.

    `look`: called every 50,000 lines; what it raises ends this.
    """
    if not are_implied(connection):
        return connection
    offsets = offsets_of(connection, path)
    # A file without a name, gone when it is closed. A URI, for not every SQLite lets others attach one by URI.
    copy = sqlite3.connect("file:", uri=True, isolation_level=None)
    try:
        with in_temporary_space(_NO_ROOM):
            connection.backup(copy)
            with whole(copy):
                # Users look up a key or two: a pass over the rows takes less than making the index.
                copy.execute("DROP INDEX IF EXISTS main.sample_key")
                _fill(copy, "main", offsets, look)
    except BaseException:  # Ctrl-C too: nobody else has the copy yet
        copy.close()
        raise
    connection.close()
    return copy


def offsets_of(connection: sqlite3.Connection, path: str) -> Offsets:
    """The offsets file that belongs to the catalog at `path`. Raises CatalogError WDS302."""
    [generation] = connection.execute("SELECT value FROM main.meta WHERE key = 'generation'").fetchone()
    return Offsets(os.path.join(os.path.dirname(path), f"offsets-{generation}.bin"))


@contextmanager
def whole(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written in the block, or nothing of it: a table without its rows would be taken for one of none."""
    connection.execute("SAVEPOINT line_rows")
    try:
        yield
    except BaseException:  # Ctrl-C too: the connection is the caller's, who may go on with it
        if connection.in_transaction:  # where the disk is full, SQLite may have gone back by itself
            connection.execute("ROLLBACK TO line_rows")
            connection.execute("RELEASE line_rows")
        raise
    connection.execute("RELEASE line_rows")


def _fill(
    connection: sqlite3.Connection, database: str, offsets: Offsets, look: Callable[[], None] | None = None
) -> None:
    connection.executemany(f"INSERT INTO {database}.sample VALUES (?, ?, ?, ?, ?)", _rows(offsets, look))


def _rows(offsets: Offsets, look: Callable[[], None] | None) -> Iterator[_Row]:
    """(id, key, offset, size, parts) of every line."""
    for i, shard in enumerate(offsets.shards):
        first, end = offsets.shard_row[i : i + 2].tolist()
        for start in range(first, end, _AT_ONCE):
            if look is not None:
                look()
            [ext] = [offsets.extensions.index(name) for name in offsets.layouts[0]]
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
