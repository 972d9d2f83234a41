"""Whether a catalog file is sound, and what is in it. Reads a published catalog by the standard library alone."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from wdsctl.core.catalog.identity import check
from wdsctl.core.catalog.published import reading
from wdsctl.core.catalog.totals import counted_totals, totals_of
from wdsctl.core.counted import counted
from wdsctl.core.sample_id import INDEX_BITS

#: Rows that belong to a shard, by table: the shard's id from the row's own columns.
_OF_SHARD = {
    "sample": f"id >> {INDEX_BITS}",
    "shard_part": "shard",
    "split_shard": "shard",
    "excluded_shard": "shard",
    "media": f"sample >> {INDEX_BITS}",
    "media_shard": "shard",
    "media_count": "shard",
    "keyframes": f"sample >> {INDEX_BITS}",
}


@dataclass(frozen=True, slots=True)
class TableSize:
    name: str
    rows: int
    size_bytes: int | None  # with its indexes; None where SQLite was built without the means to tell


class Problem(NamedTuple):
    """What a check found wrong, in words, and of which shard."""

    message: str
    shard: str = ""
    is_unfinished: bool = False  # a run that was killed has left it so, and the next one puts it right


def schema_version(path: str) -> int:
    """The schema version of the catalog file. Raises CatalogError WDS301, WDS302 and WDS303. Reads 100 bytes."""
    check(path)
    with open(path, "rb") as file:
        return int(struct.unpack(">I", file.read(100)[60:64])[0])


def tables(path: str) -> list[TableSize]:
    """Every table with its rows, the largest first. Reads the whole file: about a second a GB."""
    with reading(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        sizes = _sizes(connection)
        counts = {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
    rows = [TableSize(name, counts[name], None if sizes is None else sizes.get(name, 0)) for name in names]
    return sorted(rows, key=lambda row: (-(row.size_bytes or 0), -row.rows, row.name))


def page_problems(path: str) -> list[Problem]:
    """Pages that are not as they must be, and indexes that do not fit their tables. Reads the whole file."""
    with reading(path) as connection:
        said = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    return [Problem(" ".join(line.split())) for line in said if line != "ok"]


def view_problems(path: str, views: dict[str, str]) -> list[Problem]:
    """Views that are not there, or that SQLite cannot compile."""
    problems = []
    with reading(path) as connection:
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
        for name in sorted(there | set(views)):
            if name not in there:
                problems.append(Problem(f"the view {name} is not there"))
                continue
            try:
                connection.execute(f'SELECT * FROM "{name}" LIMIT 0').close()
            except sqlite3.OperationalError as error:
                problems.append(Problem(f"the view {name} does not work: {error}"))
    return problems


def count_problems(path: str) -> list[Problem]:
    """Counts that do not agree with the rows that they count. About half a second a million samples."""
    with reading(path) as connection:
        told = dict(connection.execute("SELECT key, value FROM meta"))
        problems = [*_split_counts(connection), *_totals(connection, told)]
        if told.get("sample_rows") != "0":
            rows = _samples_by_shard(connection)
            query = "SELECT id, path, samples FROM shard WHERE removed IS NULL"
            problems += [
                Problem(f"{counted(rows.get(number, 0), 'row')} of samples, and {samples:,} are counted", name)
                for number, name, samples in connection.execute(query)
                if rows.get(number, 0) != samples
            ]
        query = (
            "SELECT path, shard.samples, max(shard_part.samples) FROM shard_part JOIN shard ON shard.id = shard "
            "GROUP BY shard.id HAVING max(shard_part.samples) > shard.samples"
        )
        problems += [
            Problem(f"a part in {most:,} of {counted(samples, 'sample')}", name)
            for name, samples, most in connection.execute(query)
        ]
    return problems


def orphan_problems(path: str) -> list[Problem]:
    """Rows of shards that there are not, or not any more; parts that have no name."""
    with reading(path) as connection:
        there = _tables_of(connection)
        shards = {number for (number,) in connection.execute("SELECT id FROM shard WHERE removed IS NULL")}
        if connection.execute("SELECT 1 FROM meta WHERE key = 'kind'").fetchone():
            return []  # of a folder of media: its files have ids of their own
        problems = []
        for table, shard in _OF_SHARD.items():
            if table in there:
                orphans = sum(number not in shards for number in _shard_ids(connection, table, shard))
                if orphans:
                    problems.append(Problem(f"{table} has rows of {counted(orphans, 'shard')} that are not there"))
        lost = connection.execute("SELECT count(*) FROM shard_part WHERE ext NOT IN (SELECT id FROM ext)").fetchone()[0]
    return [*problems, Problem(f"{counted(lost, 'count')} of parts that have no name")] if lost else problems


def _shard_ids(connection: sqlite3.Connection, table: str, shard: str) -> list[int]:
    """The shards that a table has rows of. Rows by sample are leapt over, a shard a step."""
    if ">>" not in shard:
        return [number for (number,) in connection.execute(f"SELECT DISTINCT {shard} FROM {table}")]
    column = shard.partition(" ")[0]
    query = f"SELECT {column} FROM {table} WHERE {column} >= ? ORDER BY {column} LIMIT 1"
    found: list[int] = []
    row = connection.execute(query, (-(1 << 62),)).fetchone()
    while row is not None:
        found.append(row[0] >> INDEX_BITS)
        after = (found[-1] + 1) << INDEX_BITS
        row = connection.execute(query, (after,)).fetchone() if after < 1 << 63 else None
    return found


def _samples_by_shard(connection: sqlite3.Connection) -> dict[int, int]:
    query = f"SELECT id >> {INDEX_BITS}, count(*) FROM sample GROUP BY id >> {INDEX_BITS}"
    return dict(connection.execute(query))


def _totals(connection: sqlite3.Connection, facts: dict[str, str]) -> Iterator[Problem]:
    """Totals that are kept, and are not what their rows add up to. Those of media are not looked at."""
    kept = totals_of(connection, facts)
    if replace(kept, media=None) != counted_totals(connection):
        yield Problem("what is kept of the whole is not what the rows of shards add up to")


def _split_counts(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Bits of splits that are not as many as is counted, or are of more samples than the shard has."""
    query = (
        "SELECT split.name, shard.path, shard.samples, t.samples, t.bits FROM {} AS t "
        "JOIN shard ON shard.id = t.shard JOIN split ON split.id = t.split"
    )
    tables = [name for name in ("split_shard", "former_split") if name in _tables_of(connection)]
    for split, shard, samples, count, bits in chain.from_iterable(
        connection.execute(query.format(name)) for name in tables
    ):
        number = samples if bits is None else int.from_bytes(bits, "little").bit_count()
        fits = bits is None or int.from_bytes(bits, "little").bit_length() <= samples
        if number != count or not fits:
            words = f"the split {split!r} counts {counted(count, 'sample')} and marks {number:,} of {samples:,}"
            yield Problem(words, shard)


def _sizes(connection: sqlite3.Connection) -> dict[str, int] | None:
    try:
        sizes = connection.execute(
            "SELECT coalesce(tbl_name, dbstat.name), sum(pgsize) FROM dbstat LEFT JOIN sqlite_master "
            "ON sqlite_master.name = dbstat.name WHERE aggregate = TRUE GROUP BY 1"
        )
        return {str(name): int(size) for name, size in sizes}
    except sqlite3.OperationalError:
        return None


def _tables_of(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
