"""Rows of samples and shards: those of a draft, and those that a JSONL dataset implies, computed for queries.

Rows of a draft come from the columns of a scan, are copied from another catalog, and are deleted if no generation needs
them. Rows of samples are made in blocks, to bound memory.

A catalog of JSONL stores no rows of samples unless `index --sample-rows` was used: a line has one part, and the offsets
file has all values of a row. Queries over rows read a temporary table of the same name, which hides the catalog's
table, or a copy of the catalog. Cost: 2 us and 40 bytes of temporary storage per line, 60 bytes with an index of keys.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.database_file import savepoint, translate_disk_full
from wdsctl.core.catalog.media import placeholders, sample_id_range
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.splits import SplitTables
from wdsctl.core.catalog.values import MEDIA_FACT, SAMPLE_ROWS_FACT
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.read import Offsets, ShardColumns
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.shards.shard_scan import ShardScan, split_texts

BLOCK_SAMPLES = 50_000  # samples turned into Python objects at a time

SampleRow: TypeAlias = tuple[int, str, int, int, str]

_IMPLIED_TABLE = (
    "CREATE TEMP TABLE sample (id INTEGER PRIMARY KEY, key TEXT NOT NULL, offset BIGINT NOT NULL, "
    "size BIGINT NOT NULL, parts TEXT NOT NULL)"
)
_IMPLIED_KEY_INDEX = "CREATE INDEX temp.sample_key ON sample (key)"
_NO_SPACE_MESSAGE = "cannot compute sample rows of JSONL files"


def sample_rows(shard_id: int, scan: ShardScan, numbers: Int64Array) -> Iterator[SampleRow]:
    """(id, key, offset, size, parts) of every sample. 0.5 us per sample."""
    return chain.from_iterable(_blocks(shard_id, scan, numbers))


def _blocks(shard_id: int, scan: ShardScan, numbers: Int64Array) -> Iterator[Iterable[SampleRow]]:
    key_ends, part_ends = np.zeros((2, scan.samples + 1), np.int64)
    np.cumsum(scan.key_sizes, out=key_ends[1:])
    np.cumsum(scan.counts, out=part_ends[1:])
    named = numbers[scan.part_names]
    first_id = shard_id << INDEX_BITS
    for start in range(0, scan.samples, BLOCK_SAMPLES):
        rows = slice(start, min(start + BLOCK_SAMPLES, scan.samples))
        parts = slice(int(part_ends[start]), int(part_ends[rows.stop]))
        offsets, counts = scan.offsets[rows], scan.counts[rows]
        relative = scan.part_offsets[parts] - np.repeat(offsets, counts)
        yield zip(
            range(first_id + start, first_id + rows.stop),
            split_texts(scan.keys, key_ends[start : rows.stop + 1]),
            offsets.tolist(),
            scan.sizes[rows].tolist(),
            _encode_parts(named[parts], relative, scan.part_sizes[parts], counts),
            strict=True,
        )


def _encode_parts(
    names: Int64Array, offsets: Int64Array, sizes: Int64Array, counts: NDArray[np.uint32]
) -> Iterable[str]:
    """[[ext, offset, size], ...] of each sample."""
    count = int(counts[0])
    if (counts == count).all():
        table = np.stack([names, offsets, sizes], axis=1).reshape(len(counts), 3 * count)
        return _encode_uniform_parts(table)
    columns = zip(names.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
    texts = [f"[{name},{offset},{size}]" for name, offset, size in columns]
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return ["[" + ",".join(texts[a:b]) + "]" for a, b in zip([0, *ends], ends, strict=False)]


def _encode_uniform_parts(table: Int64Array) -> Iterable[str]:
    """The JSON of samples with equally many parts. Constant numbers go into the template: half the time.

    If a single number differs, as for JSONL, each of its values is formatted once: there are far fewer than samples.
    """
    same = (table == table[0]).all(axis=0)
    fields = [str(value) if fixed else "%d" for value, fixed in zip(table[0].tolist(), same, strict=True)]
    form = "[" + ",".join("[" + ",".join(fields[i : i + 3]) + "]" for i in range(0, len(fields), 3)) + "]"
    differing = table[:, ~same].T
    if not len(differing):
        return [form] * len(table)
    if len(differing) > 1:
        return map(form.__mod__, zip(*differing.tolist(), strict=True))
    values, which = np.unique(differing[0], return_inverse=True)
    written = np.array([form % value for value in values.tolist()], np.object_)
    repeated: list[str] = written[which].tolist()
    return repeated


def part_count_rows(shard_id: int, scan: ShardScan, numbers: Int64Array) -> Iterator[tuple[int, int, int, int, int]]:
    """(shard, ext, samples, bytes, empty) of every part that the shard has."""
    if len(scan.part_names) == 0:
        return
    names = scan.part_names
    if any(finding.code == "WDS107" for finding in scan.findings):
        # A part that a sample has twice counts once, as the row states the number of samples with the part.
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        names = (np.unique((samples << 32) + names) & 0xFFFFFFFF).astype(np.uint32)
    if len(scan.extensions) == 1:
        filled = int(np.count_nonzero(scan.part_sizes))
        yield shard_id, int(numbers[0]), len(names), int(scan.part_sizes.sum()), len(scan.part_sizes) - filled
        return
    having = np.bincount(names, minlength=len(scan.extensions))
    sizes = np.bincount(scan.part_names, scan.part_sizes, len(scan.extensions))
    empty = np.bincount(scan.part_names, scan.part_sizes == 0, len(scan.extensions))
    for i, number in enumerate(numbers.tolist()):
        if having[i]:
            yield shard_id, number, int(having[i]), int(sizes[i]), int(empty[i])


def parse_shard_columns(rows: Iterable[tuple[str, int, str]]) -> ShardColumns:
    """The columns of a shard from (key, offset, parts) of its samples, in order. 2 us per sample."""
    keys: list[bytes] = []
    counts: list[int] = []
    parts: list[tuple[int, int, int]] = []
    for key, offset, line in rows:
        sample_parts = read_json(line)
        keys.append(key.encode())
        counts.append(len(sample_parts))
        parts += [(name, offset + at, size) for name, at, size in sample_parts]
    names, offsets, sizes = np.array(parts, np.int64).reshape(-1, 3).T.copy()
    return ShardColumns(
        keys=b"".join(keys),
        key_sizes=np.array([len(key) for key in keys], np.uint32),
        counts=np.array(counts, np.uint32),
        part_names=names,
        part_offsets=offsets,
        part_sizes=sizes,
    )


_LIVE_SHARDS = "SELECT id FROM shard WHERE removed IS NULL"

#: Table with rows of shards -> the expression for the shard's id.
_SHARD_IDS = {
    "shard_part": "shard",
    "split_shard": "shard",
    "excluded_shard": "shard",
    "media_shard": "shard",
    "media_count": "shard",
    "sample": f"id >> {INDEX_BITS}",
    "media": f"sample >> {INDEX_BITS}",
    "keyframes": f"sample >> {INDEX_BITS}",
}


def copy_shards(
    draft: sqlite3.Connection, splits: SplitTables, path: str, shard_ids: Sequence[int], *, with_samples: bool
) -> None:
    """Copy these shards with their splits from the catalog at `path` into an empty draft.

    Also copies removed shards whose splits are remembered, without their samples.
    """
    with Catalog.open(path) as old:

        def copy(table: str, where: str = "1", *values: int) -> None:
            rows = old.iter_rows(f"SELECT * FROM {table} WHERE {where}", *values)
            first = next(rows, None)
            if first is not None:
                insert = f"INSERT INTO {table} VALUES {placeholders(len(first))}"
                draft.execute(insert, first)
                draft.executemany(insert, rows)

        has_media = old.fact(MEDIA_FACT) is not None
        for table in ("ext", "split", *(["media_form"] if has_media else [])):
            copy(table)
        for shard_id in shard_ids:
            copy("shard", "id = ?", shard_id)
            for table in ("shard_part", "split_shard", *(("media_shard", "media_count") if has_media else ())):
                copy(table, "shard = ?", shard_id)
            if with_samples:
                copy("sample", "id >= ? AND id < ?", *sample_id_range(shard_id))
            for table in ("media", "keyframes") if has_media else ():
                copy(table, "sample >= ? AND sample < ?", *sample_id_range(shard_id))
        remembered = "id IN (SELECT shard FROM former_split) AND removed IS NOT NULL"
        removed = [shard_id for (shard_id,) in old.rows(f"SELECT id FROM shard WHERE {remembered} ORDER BY id")]
        for shard_id in removed:
            copy("shard", "id = ?", shard_id)
        splits.facts |= old.split_reader.facts()
        for table in ("excluded_shard", "former_split"):
            for shard_id in (*shard_ids, *removed):
                copy(table, "shard = ?", shard_id)


def drop_unused_rows(draft: sqlite3.Connection, generations: Collection[int]) -> dict[str, int]:
    """Delete rows that no generation needs. Returns the number of deleted rows by table.

    `generations`: those that states may have been saved on; the rows of their shards stay, because states name them by
    id. So do the rows of removed shards whose splits are remembered.
    """
    in_use = " OR ".join(f"(added <= {generation} AND removed > {generation})" for generation in generations) or "0"
    remembered = "id IN (SELECT shard FROM former_split)"
    conditions = {"shard": f"removed IS NOT NULL AND NOT ({remembered} OR {in_use})"}
    conditions |= {table: f"{shard_id} NOT IN ({_LIVE_SHARDS})" for table, shard_id in _SHARD_IDS.items()}
    dropped = {
        table: draft.execute(f"DELETE FROM {table} WHERE {condition}").rowcount
        for table, condition in conditions.items()
    }
    return {table: count for table, count in dropped.items() if count}


def has_implied_rows(connection: sqlite3.Connection) -> bool:
    """Whether samples have no rows and all samples are lines of JSONL; True without samples."""
    if connection.execute("SELECT value FROM meta WHERE key = ?", (SAMPLE_ROWS_FACT,)).fetchone() != ("0",):
        return False
    paths = connection.execute("SELECT path FROM shard WHERE removed IS NULL AND samples > 0")
    return all(is_jsonl_name(path) for (path,) in paths)


def add_implied_rows(connection: sqlite3.Connection, path: str, *, by_key: bool = False) -> bool:
    """Add the rows that the catalog at `path` implies to a connection. Returns whether it implies any.

    `by_key`: with an index of the keys, for more than a few lookups. Raises CatalogError WDS302 if the offsets file is
    missing or damaged, StorageError WDS401 if there is no space for the rows.
    """
    if not has_implied_rows(connection):
        return False
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'sample'").fetchone() is None:
        offsets = open_catalog_offsets(connection, path)
        with translate_disk_full(_NO_SPACE_MESSAGE), savepoint(connection):
            connection.execute(_IMPLIED_TABLE)
            _fill_implied_rows(connection, "temp", offsets)
            if by_key:
                connection.execute(_IMPLIED_KEY_INDEX)
    return True


def copy_with_implied_rows(
    connection: sqlite3.Connection, path: str, on_batch: Callable[[], None] | None = None
) -> sqlite3.Connection:
    """Copy the catalog at `path`, and add the implied rows to the copy: for SQL that names `main.v_sample`.

    Closes `connection`, or returns it if the catalog implies no rows. Raises what `add_implied_rows` raises.
    `on_batch`: called every 50,000 lines; its errors end the copying.
    """
    if not has_implied_rows(connection):
        return connection
    offsets = open_catalog_offsets(connection, path)
    # An unnamed temporary file, opened by a URI: otherwise some builds of SQLite cannot attach other databases by URI.
    copy = sqlite3.connect("file:", uri=True, isolation_level=None)
    try:
        with translate_disk_full(_NO_SPACE_MESSAGE):
            connection.backup(copy)
            with savepoint(copy):
                # Users look up a key or two: a pass over the rows is faster than creating the index.
                copy.execute("DROP INDEX IF EXISTS main.sample_key")
                _fill_implied_rows(copy, "main", offsets, on_batch)
    except BaseException:  # Ctrl-C too: no caller has the copy yet
        copy.close()
        raise
    connection.close()
    return copy


def open_catalog_offsets(connection: sqlite3.Connection, path: str) -> Offsets:
    """The offsets file of the catalog at `path`. Raises CatalogError WDS302."""
    [generation] = connection.execute("SELECT value FROM main.meta WHERE key = 'generation'").fetchone()
    return Offsets(os.path.join(os.path.dirname(path), f"offsets-{generation}.bin"))


def _fill_implied_rows(
    connection: sqlite3.Connection, database: str, offsets: Offsets, on_batch: Callable[[], None] | None = None
) -> None:
    connection.executemany(f"INSERT INTO {database}.sample VALUES (?, ?, ?, ?, ?)", _implied_rows(offsets, on_batch))


def _implied_rows(offsets: Offsets, on_batch: Callable[[], None] | None) -> Iterator[SampleRow]:
    """(id, key, offset, size, parts) of every line."""
    for i, shard in enumerate(offsets.shards):
        first, end = offsets.shard_row[i : i + 2].tolist()
        for start in range(first, end, BLOCK_SAMPLES):
            if on_batch is not None:
                on_batch()
            [ext] = [offsets.extensions.index(name) for name in offsets.layouts[0]]
            stop = min(end, start + BLOCK_SAMPLES)
            number = (shard.id << INDEX_BITS) + start - first
            bounds, sizes = offsets.key_start[start : stop + 1], offsets.part_size[start:stop].tolist()
            yield from zip(
                range(number, number + stop - start),
                split_texts(bytes(offsets.key_text[bounds[0] : bounds[-1]]), bounds - bounds[0]),
                offsets.part_offset[start:stop].tolist(),
                sizes,
                [f"[[{ext},0,{size}]]" for size in sizes],
                strict=True,
            )
