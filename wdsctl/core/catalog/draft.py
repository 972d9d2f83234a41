"""The next catalog, as long as nobody sees it: `drafting` begins and publishes it.

What every run of `index` writes goes to the driver as it is, several rows a statement: 1 µs a sample instead of 10, and
no wait for SQLAlchemy to be imported. What is seldom written (splits, facts of media) goes through `layer`.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from wdsctl.core.catalog.fact_names import HASHED, KEY_FIELD, KEY_UNTIL, OF_SPLITS, SELECTION, TOTALS
from wdsctl.core.catalog.identity import SAMPLE_ROWS
from wdsctl.core.catalog.media_settings import FACT, KIND, MediaSettings, settings_from
from wdsctl.core.catalog.rows import part_counts, sample_rows, shard_rows
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.totals import Totals, counted_totals
from wdsctl.core.errors import DatasetError
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets import ShardRows
from wdsctl.core.plain_members import Ints
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.selected_shards import selection_from
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.units import ShardFile
from wdsctl.version import VERSION

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from wdsctl.core.catalog.media_rows import MediaTables
    from wdsctl.core.catalog.split_rows import SplitTables
    from wdsctl.core.catalog.waste import Waste

REINDEX = 0.2  # new bytes of shards over old ones, from which on the key index is made anew

KEY_INDEX = "CREATE INDEX IF NOT EXISTS sample_key ON sample (key)"
_SAMPLES_A_SHARD = 1 << INDEX_BITS
_DIGITS = 11  # numbers of shards are below 2^35
_AT_ONCE = 32  # samples an insert; older SQLites take no more than 999 values
_SAMPLE_COLUMNS = 5

_INSERT_SHARD = (
    "INSERT INTO shard (id, path, size, mtime_ns, samples, parts, status, code, layout_hash, sha256, added) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_values = attrgetter(*(field.name for field in fields(ShardRow)))  # `astuple` copies each, ten times as slow
_INSERT_PART_COUNT = "INSERT INTO shard_part (shard, ext, samples, bytes, empty) VALUES (?, ?, ?, ?, ?)"
_INSERT_SAMPLE = 'INSERT INTO sample (id, "key", "offset", size, parts) VALUES (?, ?, ?, ?, ?)'
_INSERT_SAMPLES = _INSERT_SAMPLE + ", (?, ?, ?, ?, ?)" * (_AT_ONCE - 1)


class Draft:
    """The next catalog. Methods change the draft alone; `drafting` publishes it when all went well."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        facts: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta"))
        self._uuid = facts.get("uuid") or uuid.uuid4().hex
        self._extensions = self._numbers()
        self.generation = _count(facts.get("generation") or "0")
        (highest,) = connection.execute("SELECT max(id) FROM shard").fetchone()
        self.last_shard_id = _count(facts.get("last_shard_id") or str(highest or 0))
        self.exclude: tuple[str, ...] = tuple(read_json(facts.get("exclude") or "[]"))
        self.key_field = facts.get(KEY_FIELD) or ""  # of JSON, that keys of lines come from
        self.key_until = facts.get(KEY_UNTIL) or ""  # the rule that keys end by, where it was decided
        self.selection = selection_from(facts.get(SELECTION))
        self.has_sample_rows = facts.get(SAMPLE_ROWS) != "0"
        self.is_hashed = facts.get(HASHED) == "1"
        self.is_to_be_packed = False  # rewrite the file without its free pages before it is published
        self.media_settings: MediaSettings | None = settings_from(facts.get(FACT))
        self.kind = facts.get(KIND)  # None: of shards
        self.split_facts = {name: facts[name] for name in OF_SPLITS if name in facts}

    def close(self) -> None:
        """Let go of what was opened over the connection, which stays open."""
        if "layer" in self.__dict__:
            self.layer.close()

    @cached_property
    def layer(self) -> Connection:
        """The draft through SQLAlchemy."""
        from wdsctl.core.catalog.engine import layer_over

        made = layer_over(self._connection)
        made.begin()
        return made

    @cached_property
    def media(self) -> MediaTables:
        """The facts of media."""
        from wdsctl.core.catalog.media_rows import MediaTables

        return MediaTables(self.layer, self.number_of)

    @cached_property
    def splits(self) -> SplitTables:
        """The splits. Their facts are those of the draft."""
        from wdsctl.core.catalog.split_rows import SplitTables

        return SplitTables(self.layer, self.split_facts)

    @cached_property
    def waste(self) -> Waste:
        """What may be dropped."""
        from wdsctl.core.catalog.waste import Waste

        return Waste(self.layer)

    @property
    def extensions(self) -> list[str]:
        """Part names; a part's number is its index."""
        return list(self._extensions)

    def next_shard_id(self) -> int:
        """A number that no shard has had, in this catalog or in one that it takes the place of."""
        self.last_shard_id += 1
        return self.last_shard_id

    def numbers_of(self, scan: ShardScan) -> Ints:
        """The catalog's number of each of a scan's part names, new ones given out in order."""
        return np.array([self.number_of(name) for name in scan.extensions] or [0], np.int64)

    def number_of(self, part: str) -> int:
        """The catalog's number of a part name, a new one if it has none."""
        if part not in self._extensions:
            self._extensions[part] = len(self._extensions)
            self._connection.execute("INSERT INTO ext (id, name) VALUES (?, ?)", (self._extensions[part], part))
        return self._extensions[part]

    def add_shard(self, shard_id: int, shard: ShardFile, scan: ShardScan) -> ShardRow:
        """One shard and all its samples. Raises DatasetError where it holds more than ids can tell apart."""
        if scan.samples >= _SAMPLES_A_SHARD:
            raise DatasetError(
                f"the shard has {scan.samples:,} samples; {_SAMPLES_A_SHARD - 1:,} is the most",
                where=shard.path,
                hint="write it again as several shards",
            )
        numbers = self.numbers_of(scan)
        row = ShardRow(
            id=shard_id,
            path=shard.path,
            size=shard.size,
            mtime_ns=shard.mtime_ns,
            samples=scan.samples,
            parts=len(scan.part_sizes),
            status=scan.status,
            code=scan.code,
            layout_hash=scan.layout_hash(),
            sha256=scan.sha256,
        )
        self._connection.execute(_INSERT_SHARD, (*_values(row), self.generation))
        self._connection.executemany(_INSERT_PART_COUNT, part_counts(shard_id, scan, numbers))
        if self.has_sample_rows:
            self._bulk_samples(shard_id, scan, numbers)
        return row

    def add_sample_rows(self, shard_id: int, scan: ShardScan) -> None:
        """The samples of a shard that has a row, and counts, and none of a sample."""
        self._bulk_samples(shard_id, scan, self.numbers_of(scan))

    def forget_sample_rows(self) -> None:
        """From here on there are counts alone, and the offsets file."""
        self._connection.execute("DROP INDEX IF EXISTS sample_key")
        self._connection.execute("DELETE FROM sample")
        self.has_sample_rows, self.is_to_be_packed = False, True

    def remove_shard(self, shard_id: int, *, remembers: bool = False) -> None:
        """A shard that is gone or has changed: its row stays and says so, its samples go.

        `remembers`: which split they were in stays, too, for the case that the shard comes back.
        """
        self._connection.execute("DELETE FROM sample WHERE id >= ? AND id < ?", _ids(shard_id))
        if remembers:
            self._remember(shard_id)
        else:
            self._connection.execute("DELETE FROM former_split WHERE shard = ?", (shard_id,))
        for table in ("shard_part", "split_shard", "excluded_shard"):
            self._connection.execute(f"DELETE FROM {table} WHERE shard = ?", (shard_id,))
        self.media.remove_shard(shard_id)
        self._connection.execute("UPDATE shard SET removed = ? WHERE id = ?", (self.generation, shard_id))

    def _remember(self, shard_id: int) -> None:
        """Note of a shard's samples the split that each is in."""
        found = self._connection.execute("SELECT samples FROM shard WHERE id = ?", (shard_id,)).fetchone()
        if found is None:
            return  # a new catalog has not taken it over
        (count,) = found
        rows = self._connection.execute("SELECT split, bits FROM split_shard WHERE shard = ?", (shard_id,)).fetchall()
        rows += self._connection.execute("SELECT split, bits FROM former_split WHERE shard = ?", (shard_id,)).fetchall()
        had: dict[int, int] = {}
        for split, bits in rows:
            had[split] = had.get(split, 0) | ((1 << count) - 1 if bits is None else int.from_bytes(bits, "little"))
        self._connection.execute("DELETE FROM former_split WHERE shard = ?", (shard_id,))
        self._connection.executemany(
            "INSERT INTO former_split (split, shard, samples, bits) VALUES (?, ?, ?, ?)",
            [(split, shard_id, bits.bit_count(), _as_bits(bits, count)) for split, bits in sorted(had.items()) if bits],
        )

    def forget_former(self, path: str, layout_hash: str) -> None:
        """Forget which splits a shard was in that is gone, and was at this path with this layout: it is back."""
        which = "SELECT id FROM shard WHERE path = ? AND layout_hash = ? AND removed IS NOT NULL"
        self._connection.execute(f"DELETE FROM former_split WHERE shard IN ({which})", (path, layout_hash))

    def refresh(self, rows: Iterable[ShardRow]) -> None:
        """Shards whose time, path, hash or status is another one, and in which nothing has moved."""
        values = [(row.path, row.mtime_ns, row.sha256, row.status, row.id) for row in rows]
        query = "UPDATE shard SET path = ?, mtime_ns = ?, sha256 = ?, status = ? WHERE id = ?"
        self._connection.executemany(query, values)

    def adopt(self, path: str, shard_ids: Sequence[int]) -> None:
        """Take shards over from the catalog at `path` as they are, with their splits. The draft has nothing yet."""
        from wdsctl.core.catalog.adopted import adopt

        adopt(self.layer, self.splits, path, shard_ids, with_samples=self.has_sample_rows)
        self._extensions = self._numbers()
        self.media.look_again()

    def rows_of(self, shard_id: int) -> ShardRows:
        """The columns of a shard, from its rows."""
        query = 'SELECT "key", "offset", parts FROM sample WHERE id >= ? AND id < ? ORDER BY id'
        return shard_rows(self._connection.execute(query, _ids(shard_id)))

    def finish(self) -> None:
        """Facts and the key index. After this the draft is a catalog."""
        self._connection.execute("DELETE FROM meta")
        self._connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", self._facts().items())
        self._connection.execute(KEY_INDEX)
        self._connection.commit()

    def _facts(self) -> dict[str, str]:
        facts = {
            "uuid": self._uuid,
            "generation": str(self.generation),
            "written_by": f"wdsctl {VERSION}",
            "last_shard_id": str(self.last_shard_id),
            "exclude": json.dumps(self.exclude),
        }
        if self.key_field:
            facts[KEY_FIELD] = self.key_field
        if self.key_until:
            facts[KEY_UNTIL] = self.key_until
        if not self.selection.is_all:
            facts[SELECTION] = self.selection.as_text()
        if not self.has_sample_rows:
            facts[SAMPLE_ROWS] = "0"
        if self.is_hashed:
            facts[HASHED] = "1"
        if self.media_settings is not None:
            facts[FACT] = self.media_settings.as_text()
        facts |= {TOTALS: self._totals().as_text()} if self.kind is None else {KIND: self.kind}
        return facts | self.split_facts

    def _totals(self) -> Totals:
        totals = counted_totals(self._connection)
        if self.media_settings is None:
            return totals
        from wdsctl.core.catalog.media_reader import MediaReader

        return replace(totals, media=tuple(MediaReader(lambda: nullcontext(self.layer)).lines()))

    def expect(self, share: float) -> None:
        """How much is about to come, compared with what stays: much of it goes into a new key index sooner."""
        if share > REINDEX:
            self._connection.execute("DROP INDEX IF EXISTS sample_key")

    def _numbers(self) -> dict[str, int]:
        return {name: i for i, name in self._connection.execute("SELECT id, name FROM ext ORDER BY id")}

    def _bulk_samples(self, shard_id: int, scan: ShardScan, numbers: Ints) -> None:
        """Several rows a statement, and the rest one by one: a statement costs as much as a row."""
        values: Iterable[Any] = chain.from_iterable(sample_rows(shard_id, scan, numbers))
        runs, rest = divmod(scan.samples, _AT_ONCE)
        many = (tuple(islice(values, _AT_ONCE * _SAMPLE_COLUMNS)) for _ in range(runs))
        self._connection.executemany(_INSERT_SAMPLES, many)
        self._connection.executemany(_INSERT_SAMPLE, (tuple(islice(values, _SAMPLE_COLUMNS)) for _ in range(rest)))


def _count(text: str) -> int:
    """Raises ValueError where it is none of a generation or of the number of a shard."""
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise ValueError(text[:60])
    return int(text)


def _as_bits(flags: int, count: int) -> bytes | None:
    """One bit a sample, the lowest first; None where all `count` are set."""
    return None if flags == (1 << count) - 1 else flags.to_bytes((count + 7) // 8, "little")


def _ids(shard_id: int) -> tuple[int, int]:
    """The first id of a shard's samples, and the one after all that it may have."""
    return shard_id << INDEX_BITS, (shard_id + 1) << INDEX_BITS
