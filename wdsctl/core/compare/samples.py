"""Match samples of two sides by key in constant memory (SQLite sorts them on disk), and compare their bytes."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from typing import NamedTuple

import numpy as np

from wdsctl.core.catalog.database_file import translate_disk_full
from wdsctl.core.catalog.splits import SampleFlags
from wdsctl.core.compare.sides import DiffSide
from wdsctl.core.errors import WdsctlError
from wdsctl.core.storage.open import check_unchanged, storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.urls import is_url

_INSERT_ROW_SQL = "INSERT INTO row VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_SORTED_SQL = "SELECT key, side, path, sample, parts, splits FROM row ORDER BY key, side, path, sample"


class DiffRow(NamedTuple):
    """A sample of one side, which is 0 or 1. `shard_number`: the number of its shard's path, shared by both sides.

    `offsets_row`: its row in the offsets file of its side. `part_signature`: names and sizes of its parts.
    `split_bits`: one bit per split.
    """

    key: bytes
    side: int
    shard_number: int
    offsets_row: int
    part_signature: bytes
    split_bits: bytes


class SampleMatch(NamedTuple):
    """A sample of one side or of both."""

    first: DiffRow | None
    second: DiffRow | None

    @property
    def has_same_parts(self) -> bool:
        return (
            self.first is not None
            and self.second is not None
            and self.first.part_signature == self.second.part_signature
        )

    @property
    def is_moved(self) -> bool:
        return (
            self.first is not None and self.second is not None and self.first.shard_number != self.second.shard_number
        )


class DiffRowTable:
    """A table with the samples of both sides, which matches them by key."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._part_name_ids: dict[str, int] = {}  # shared by both sides

    def add(
        self,
        side_number: int,
        side: DiffSide,
        shard_index: int,
        shard_number: int,
        names: Sequence[str],
        flags: SampleFlags,
    ) -> None:
        """Add the samples of a shard that are set in `flags`."""
        for name in side.offsets.extensions:
            self._part_name_ids.setdefault(name, len(self._part_name_ids))
        first = int(side.offsets.shard_row[shard_index])
        parts = _part_signatures(side, shard_index, self._part_name_ids)
        splits = side.split_bits(shard_index, names)
        columns = side.offsets.check_range(first, first + side.shards[shard_index].samples)
        starts, keys = (
            columns.key_start[first : first + side.shards[shard_index].samples + 1].tolist(),
            columns.key_text,
        )
        rows = (
            (
                bytes(keys[starts[i] : starts[i + 1]]),
                side_number,
                shard_number,
                first + i,
                parts[i],
                splits[i].tobytes(),
            )
            for i in np.flatnonzero(flags).tolist()
        )
        self._connection.executemany(_INSERT_ROW_SQL, rows)

    def matches(self) -> Iterator[SampleMatch]:
        """Yield all samples, matched by key. Among samples with equal keys, the most similar ones match."""
        for _, group in groupby(
            map(DiffRow._make, self._connection.execute(_SELECT_SORTED_SQL)), key=lambda row: row.key
        ):
            rows = list(group)
            first = [row for row in rows if not row.side]
            second = [row for row in rows if row.side]
            yield from _match_rows(first, second)


@contextmanager
def open_diff_rows() -> Iterator[DiffRowTable]:
    """Create a table in a temporary SQLite file. Raises StorageError WDS401 if the disk is full."""
    with (
        translate_disk_full("cannot sort samples"),
        closing(sqlite3.connect("", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = OFF").close()
        connection.execute("PRAGMA cache_size = -32768")
        connection.execute("CREATE TABLE row (key BLOB, side INT, path INT, sample INT, parts BLOB, splits BLOB)")
        yield DiffRowTable(connection)


def _part_signatures(side: DiffSide, shard_index: int, part_name_ids: dict[str, int]) -> list[bytes]:
    """Encode the names and sizes of each sample's parts, independent of their order in the tar."""
    rows = side.offsets.shard_columns(shard_index, part_name_ids)
    ends = np.cumsum(rows.counts, dtype=np.int64)
    sample = np.repeat(np.arange(len(rows.counts)), rows.counts)
    order = np.lexsort((rows.part_sizes, rows.part_names, sample))
    table = np.stack([np.asarray(rows.part_names, np.int64)[order], rows.part_sizes[order]], axis=1)
    text = table.astype("<i8").tobytes()
    starts = (16 * (ends - rows.counts)).tolist()
    return [text[start:end] for start, end in zip(starts, (16 * ends).tolist(), strict=True)]


def _match_rows(first: list[DiffRow], second: list[DiffRow]) -> Iterator[SampleMatch]:
    if len(first) == len(second) == 1:
        yield SampleMatch(first[0], second[0])
        return
    for match_key in _MATCH_KEYS:
        if not (first and second):
            break
        pairs, first, second = _pair_rows(first, second, match_key)
        yield from pairs
    yield from (SampleMatch(row, None) for row in first)
    yield from (SampleMatch(None, row) for row in second)


#: Match keys, from the strictest to the loosest.
_MATCH_KEYS: tuple[Callable[[DiffRow], object], ...] = (
    lambda row: (row.shard_number, row.part_signature),
    lambda row: row.part_signature,
    lambda row: row.shard_number,
    lambda _: None,
)


def _pair_rows(
    first: list[DiffRow], second: list[DiffRow], match_key: Callable[[DiffRow], object]
) -> tuple[list[SampleMatch], list[DiffRow], list[DiffRow]]:
    """Pair rows with the same match key. Return the pairs, and the unpaired rows of each side."""
    unpaired: dict[object, list[DiffRow]] = {}
    for row in reversed(second):
        unpaired.setdefault(match_key(row), []).append(row)
    pairs, unpaired_first = [], []
    for row in first:
        candidates = unpaired.get(match_key(row))
        if candidates:
            pairs.append(SampleMatch(row, candidates.pop()))
        else:
            unpaired_first.append(row)
    return pairs, unpaired_first, sorted(row for rows in unpaired.values() for row in rows)


class SplitDriftCounter:
    """Counts samples that entered or left splits."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pairs: Counter[tuple[bytes, bytes]] = Counter()
        self.entered: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def add(self, first: bytes, second: bytes) -> None:
        if first != second:
            self._pairs[first, second] += 1

    def finish(self) -> None:
        """Compute `entered` and `left` from the samples added so far."""
        for (first, second), count in self._pairs.items():
            before, after = int.from_bytes(first, "little"), int.from_bytes(second, "little")
            for i, name in enumerate(self._names):
                was_in, is_in = before >> i & 1, after >> i & 1
                self.entered[name] += count * (is_in and not was_in)
                self.left[name] += count * (was_in and not is_in)
        self._pairs.clear()


READ_SPAN_BYTES = 8 << 20  # limit for neighbouring samples in one read


class ByteComparer:
    """Compares the bytes of samples with equal part names and sizes. Memory: two spans."""

    def __init__(self, first: DiffSide, second: DiffSide, *, span_bytes: int = READ_SPAN_BYTES) -> None:
        self._sides = (first, second)
        self._storages: tuple[Storage, Storage] = (_open_storage(first), _open_storage(second))
        self._span_bytes = span_bytes

    def close(self) -> None:
        for store in self._storages:
            store.close()

    def are_as_hashed(self, first: int, second: int) -> bool:
        """Whether two shards, given by index, still have the size and time that they had when they were hashed."""
        return all(map(_is_as_hashed, self._sides, self._storages, (first, second)))

    def has_same_bytes(self, first: int, second: int) -> bool:
        """Whether two samples, given by row, have equal bytes in each part. Raises storage errors."""
        one, other = (sorted(side.offsets.parts(row)) for side, row in zip(self._sides, (first, second), strict=True))
        paths = [
            _path(side, side.offsets.shard_of(row)) for side, row in zip(self._sides, (first, second), strict=True)
        ]
        return all(
            size == other_size and self._is_same_range(paths, (offset, other_offset), size)
            for (_, offset, size), (_, other_offset, other_size) in zip(one, other, strict=True)
        )

    def find_differing(self, first: int, second: int) -> Iterator[int]:
        """Yield the positions of samples that differ, in two shards of the same layout.

        `first` and `second` are indices of shards. Raises storage errors.
        """
        side = self._sides[0]
        paths = [_path(side, i) for side, i in zip(self._sides, (first, second), strict=True)]
        rows = range(int(side.offsets.shard_row[first]), int(side.offsets.shard_row[first + 1]))
        for span_rows, start, end in self._row_spans(side, rows):
            if end - start > self._span_bytes:  # a single large sample
                parts = side.offsets.parts(span_rows.start)
                if not all(self._is_same_range(paths, (offset, offset), size) for _, offset, size in parts):
                    yield span_rows.start - rows.start
                continue
            one, other = (
                store.read(path, start, end - start) for store, path in zip(self._storages, paths, strict=True)
            )
            if one == other:
                continue
            for row in span_rows:
                slices = [slice(offset - start, offset - start + size) for _, offset, size in side.offsets.parts(row)]
                if any(one[part] != other[part] for part in slices):
                    yield row - rows.start

    def _row_spans(self, side: DiffSide, rows: range) -> Iterator[tuple[range, int, int]]:
        """Group neighbouring rows into spans: (rows, offset of the first part, end of the last part)."""
        begin = rows.start
        low, high = 0, 0
        for row in rows:
            parts = side.offsets.parts(row)
            if not parts:
                continue
            start, end = min(offset for _, offset, _ in parts), max(offset + size for _, offset, size in parts)
            if high and max(high, end) - min(low, start) > self._span_bytes:
                yield range(begin, row), low, high
                begin, low, high = row, start, end
            else:
                low, high = (min(low, start), max(high, end)) if high else (start, end)
        if high:
            yield range(begin, rows.stop), low, high

    def _is_same_range(self, paths: list[str], offsets: tuple[int, int], size: int) -> bool:
        for start in range(0, size, self._span_bytes):
            count = min(self._span_bytes, size - start)
            one, other = (
                store.read(path, offset + start, count)
                for store, path, offset in zip(self._storages, paths, offsets, strict=True)
            )
            if one != other:
                return False
        return True


def flags_at(positions: Iterator[int], samples: int) -> SampleFlags:
    """Return (samples,): True at these positions."""
    flags = np.zeros(samples, np.bool_)
    for position in positions:
        flags[position] = True
    return flags


def _open_storage(side: DiffSide) -> Storage:
    return storage_for(side.location.root, {_path(side, i): shard.size for i, shard in enumerate(side.shards)})


def _path(side: DiffSide, i: int) -> str:
    return os.path.join(side.location.root, side.shards[i].path)


def _is_as_hashed(side: DiffSide, storage: Storage, i: int) -> bool:
    path, number = _path(side, i), side.hashed_times.get(side.shards[i].id)
    if number is None:
        return False
    try:
        if is_url(side.location.root):
            check_unchanged(storage, path, number)
            return True
        stat = os.stat(path)
    except (OSError, WdsctlError):  # reading the shard tells why
        return False
    return (stat.st_size, stat.st_mtime_ns) == (side.shards[i].size, number)
