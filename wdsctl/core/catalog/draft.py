"""Builds the next catalog: a copy of the published one, or a new one, that nobody sees until it is published.

The bulk path compiles its statement once and gives the driver tuples: 1 µs a sample instead of 10.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, func, insert, select, text, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError
from sqlalchemy.sql.dml import Insert

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.engine import open_draft
from wdsctl.core.catalog.identity import check, damaged
from wdsctl.core.errors import DatasetError, StorageError
from wdsctl.core.files import publish
from wdsctl.core.members import Ints
from wdsctl.core.os_errors import translated
from wdsctl.core.scan import ShardScan
from wdsctl.core.splitting import SplitShard
from wdsctl.core.units import ShardFile
from wdsctl.version import VERSION

ROWS = 50_000  # samples turned into Python objects at a time
REINDEX = 0.2  # share of new samples from which on the key index is made anew rather than added to


class Draft:
    """The next catalog. Methods change the draft alone; `drafting` publishes it when all went well."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._extensions = {name: i for i, name in connection.execute(select(schema.ext.c.id, schema.ext.c.name))}
        self._new_samples = 0
        self.generation = int(self._fact("generation") or 0)

    @property
    def extensions(self) -> list[str]:
        """Part names; a part's number is its index."""
        return list(self._extensions)

    def next_generation(self) -> int:
        """Begin a generation: shards change only between one and the next."""
        self.generation += 1
        return self.generation

    def next_shard_id(self) -> int:
        return 1 + (self._connection.execute(select(func.max(schema.shard.c.id))).scalar() or 0)

    def numbers_of(self, scan: ShardScan) -> Ints:
        """The catalog's number of each of a scan's part names, new ones given out in order."""
        numbers = []
        for name in scan.extensions:
            if name not in self._extensions:
                self._extensions[name] = len(self._extensions)
                self._insert(schema.ext, [{"id": self._extensions[name], "name": name}])
            numbers.append(self._extensions[name])
        return np.array(numbers or [0], np.int64)

    def add_shard(self, shard_id: int, shard: ShardFile, scan: ShardScan) -> None:
        """One shard and all its samples. Raises DatasetError where it holds more than ids can tell apart."""
        if scan.samples >= schema.SAMPLES_A_SHARD:
            raise DatasetError(
                f"the shard has {scan.samples:,} samples; {schema.SAMPLES_A_SHARD - 1:,} is the most",
                where=shard.path,
                hint="write it again as several shards",
            )
        numbers = self.numbers_of(scan)
        row = {
            "id": shard_id,
            "path": shard.path,
            "size": shard.size,
            "mtime_ns": shard.mtime_ns,
            "samples": scan.samples,
            "parts": len(scan.part_sizes),
            "status": scan.status,
            "code": scan.code,
            "layout_hash": scan.layout_hash(),
            "added": self.generation,
        }
        self._insert(schema.shard, [row])
        self._insert(schema.shard_part, list(_part_counts(shard_id, scan, numbers)))
        # The driver's own executemany on tuples: going through SQLAlchemy would build a dict a row.
        cursor: sqlite3.Cursor = self._connection.connection.cursor()  # type: ignore[assignment]
        cursor.executemany(_INSERT_SAMPLE, _sample_rows(shard_id, scan, numbers))
        self._new_samples += scan.samples

    def remove_shard(self, shard_id: int) -> None:
        """A shard that is gone or has changed: its row stays and says so, its samples go."""
        first = shard_id << schema.INDEX_BITS
        t, of_shard = schema.sample.c.id, schema.split_shard.c.shard
        self._connection.execute(delete(schema.sample).where(t >= first, t < first + schema.SAMPLES_A_SHARD))
        self._connection.execute(delete(schema.shard_part).where(schema.shard_part.c.shard == shard_id))
        self._connection.execute(delete(schema.split_shard).where(of_shard == shard_id))
        gone = update(schema.shard).where(schema.shard.c.id == shard_id).values(removed=self.generation)
        self._connection.execute(gone)

    @property
    def has_splits(self) -> bool:
        return self._connection.execute(select(func.count()).select_from(schema.split)).scalar_one() > 0

    def splits_of(self, shard_id: int) -> list[str]:
        """The splits that have samples of this shard."""
        of_shard = schema.split_shard.c
        query = select(schema.split.c.name).join(schema.split_shard, of_shard.split == schema.split.c.id)
        return list(self._connection.execute(query.where(of_shard.shard == shard_id)).scalars())

    def split_totals(self, by: str) -> dict[str, int]:
        """How many shards, or samples, each split has."""
        of_shard = schema.split_shard.c
        count = func.count(of_shard.shard) if by == "shard" else func.coalesce(func.sum(of_shard.samples), 0)
        query = select(schema.split.c.name, count).join_from(
            schema.split, schema.split_shard, of_shard.split == schema.split.c.id, isouter=True
        )
        rows = self._connection.execute(query.group_by(schema.split.c.id).order_by(schema.split.c.id))
        return dict(rows.tuples())

    def replace_splits(self, shares: Mapping[str, float], by: str, seed: int) -> None:
        """Forget the splits and name new, empty ones."""
        self._connection.execute(delete(schema.split_shard))
        self._connection.execute(delete(schema.split))
        rows = [
            {"id": i, "name": name, "share": repr(share), "by": by, "seed": seed}
            for i, (name, share) in enumerate(shares.items(), 1)
        ]
        self._insert(schema.split, rows)

    def add_to_split(self, name: str, shards: Iterable[SplitShard]) -> None:
        number = self._connection.execute(select(schema.split.c.id).where(schema.split.c.name == name)).scalar_one()
        rows = [{"split": number, "shard": s.shard, "samples": s.samples, "bits": s.bits} for s in shards]
        self._insert(schema.split_shard, rows)

    def finish(self) -> None:
        """Facts and the key index. After this the draft is a catalog."""
        facts = {
            "uuid": self._fact("uuid") or uuid.uuid4().hex,
            "generation": str(self.generation),
            "written_by": f"wdsctl {VERSION}",
        }
        self._connection.execute(delete(schema.meta))
        self._insert(schema.meta, [{"key": key, "value": value} for key, value in facts.items()])
        self._connection.execute(text(schema.KEY_INDEX))

    def expect(self, samples: int) -> None:
        """So many samples are about to come. Adding many to the key index one by one costs more than making it anew."""
        have = self._connection.execute(select(func.coalesce(func.sum(schema.shard.c.samples), 0))).scalar_one()
        if samples > REINDEX * have:
            self._connection.execute(text("DROP INDEX IF EXISTS sample_key"))

    def _fact(self, key: str) -> str | None:
        return self._connection.execute(select(schema.meta.c.value).where(schema.meta.c.key == key)).scalar()

    def _insert(self, table: Any, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(insert(table), rows)


@contextmanager
def drafting(path: str, *, anew: bool = False) -> Iterator[Draft]:
    """A draft of the catalog at `path`, published when the block ends well and dropped when it does not.

    The draft begins as a copy of what is published, or empty where nothing is or `anew` is set.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.partial")
    try:
        with translated(path):
            os.makedirs(folder, exist_ok=True)
            if not anew and os.path.exists(path):
                check(path)
                shutil.copyfile(path, draft)
        with _connected(draft, path) as connection:
            made = Draft(connection)
            yield made
            made.finish()
        with translated(path):
            publish(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


@contextmanager
def _connected(draft: str, path: str) -> Iterator[Connection]:
    try:
        engine = open_draft(draft)
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()
    except DatabaseError as error:
        raise _translated(error.orig, path) from error
    except sqlite3.DatabaseError as error:
        raise _translated(error, path) from error


def _translated(error: BaseException | None, path: str) -> Exception:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return StorageError(
            "cannot write the catalog: the disk is full",
            where=path,
            hint="free some space and run the same command again: it goes on where it stopped",
            code="WDS401",
        )
    if isinstance(error, sqlite3.OperationalError):
        return StorageError(f"cannot write the catalog: {error}", where=path, hint="run the same command again")
    return damaged(path, str(error))


def _compiled(statement: Insert) -> str:
    """The statement as text, with `?` in the order of the table's columns."""
    return str(statement.compile(dialect=sqlite.dialect()))


_INSERT_SAMPLE = _compiled(insert(schema.sample))


def _sample_rows(shard_id: int, scan: ShardScan, numbers: Ints) -> Iterator[tuple[int, str, int, int, str]]:
    """(id, key, offset, size, parts) of every sample, made in blocks to bound memory."""
    part_ends = np.append(0, np.cumsum(scan.counts, dtype=np.int64))
    named = numbers[scan.part_names]
    for start in range(0, scan.samples, ROWS):
        rows = slice(start, min(start + ROWS, scan.samples))
        parts = slice(int(part_ends[start]), int(part_ends[rows.stop]))
        offsets, counts = scan.offsets[rows], scan.counts[rows]
        relative = scan.part_offsets[parts] - np.repeat(offsets, counts)
        first_id = shard_id << schema.INDEX_BITS
        yield from zip(
            range(first_id + start, first_id + rows.stop),
            scan.key_list(rows),
            offsets.tolist(),
            scan.sizes[rows].tolist(),
            _as_json(named[parts], relative, scan.part_sizes[parts], counts),
            strict=True,
        )


def _as_json(names: Ints, offsets: Ints, sizes: Ints, counts: NDArray[np.uint16]) -> Iterable[str]:
    """[[ext, offset, size], ...] of each sample."""
    count = int(counts[0])
    if (counts == count).all():
        table = np.stack([names, offsets, sizes], axis=1).reshape(len(counts), 3 * count)
        return _alike(table)
    columns = zip(names.tolist(), offsets.tolist(), sizes.tolist(), strict=True)
    texts = [f"[{name},{offset},{size}]" for name, offset, size in columns]
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    return ["[" + ",".join(texts[a:b]) + "]" for a, b in zip([0, *ends], ends, strict=False)]


def _alike(table: Ints) -> Iterable[str]:
    """The JSON of samples with equally many parts. What is the same in all rows goes into the form: half the time."""
    same = (table == table[0]).all(axis=0)
    fields = [str(value) if fixed else "%d" for value, fixed in zip(table[0].tolist(), same, strict=True)]
    form = "[" + ",".join("[" + ",".join(fields[i : i + 3]) + "]" for i in range(0, len(fields), 3)) + "]"
    return (
        [form % row for row in zip(*table[:, ~same].T.tolist(), strict=True)] if not same.all() else [form] * len(table)
    )


def _part_counts(shard_id: int, scan: ShardScan, numbers: Ints) -> Iterator[dict[str, int]]:
    if len(scan.part_names) == 0:
        return
    names = scan.part_names
    if any(finding.code == "WDS107" for finding in scan.findings):
        # A part that a sample has twice counts once: what is asked is how many samples have it.
        samples = np.repeat(np.arange(scan.samples), scan.counts)
        names = (np.unique(samples * np.int64(1 << 16) + names) & 0xFFFF).astype(np.uint16)
    having = np.bincount(names, minlength=len(scan.extensions))
    sizes = np.bincount(scan.part_names, scan.part_sizes, len(scan.extensions))
    empty = np.bincount(scan.part_names, scan.part_sizes == 0, len(scan.extensions))
    for i, number in enumerate(numbers.tolist()):
        if having[i]:
            yield {
                "shard": shard_id,
                "ext": number,
                "samples": int(having[i]),
                "bytes": int(sizes[i]),
                "empty": int(empty[i]),
            }
