"""Samples of shards that differ, matched by their keys: sorted on disk by SQLite, so that memory does not grow."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import groupby
from typing import NamedTuple

import numpy as np

from wdsctl.core.compare.side import Side
from wdsctl.core.splitting_bits import Flags
from wdsctl.core.temporary_space import in_temporary_space

_INSERT = "INSERT INTO row VALUES (?, ?, ?, ?, ?, ?)"
_SORTED = "SELECT key, side, path, sample, parts, splits FROM row ORDER BY key, side, path, sample"


class Row(NamedTuple):
    """`side`: 0 or 1. `path`: the shard's number among the paths of both. `row`: of the sample in the offsets file of
    its side. `parts`: names and sizes of its parts, as bytes. `splits`: a bit each."""

    key: bytes
    side: int
    path: int
    row: int
    parts: bytes
    splits: bytes


class Match(NamedTuple):
    """A sample of one side or of both. Of both: `is_alike` where parts have the same names and sizes."""

    first: Row | None
    second: Row | None

    @property
    def is_alike(self) -> bool:
        return self.first is not None and self.second is not None and self.first.parts == self.second.parts

    @property
    def is_moved(self) -> bool:
        return self.first is not None and self.second is not None and self.first.path != self.second.path


class Rows:
    """Rows that wait to be matched."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}  # of part names, over both sides

    def add(self, number: int, side: Side, i: int, path: int, names: Sequence[str], flags: Flags) -> None:
        """The samples of the i-th shard of a side that are flagged."""
        for name in side.offsets.extensions:
            self._numbers.setdefault(name, len(self._numbers))
        first = int(side.offsets.shard_row[i])
        chosen = np.flatnonzero(flags).tolist()
        parts = _parts(side, i, self._numbers)
        splits = side.members(i, names)
        columns = side.offsets.checked_range(first, first + side.shards[i].samples)
        starts, keys = columns.key_start[first : first + side.shards[i].samples + 1].tolist(), columns.key_text
        rows = (
            (bytes(keys[starts[at] : starts[at + 1]]), number, path, first + at, parts[at], splits[at].tobytes())
            for at in chosen
        )
        self._connection.executemany(_INSERT, rows)

    def matches(self) -> Iterator[Match]:
        """Every sample once, by key. Where a key comes more than once, what is most alike belongs together."""
        for _, group in groupby(map(Row._make, self._connection.execute(_SORTED)), key=lambda row: row.key):
            rows = list(group)
            first = [row for row in rows if not row.side]
            second = [row for row in rows if row.side]
            yield from _matched(first, second)


@contextmanager
def waiting_rows() -> Iterator[Rows]:
    """Rows in a private file of SQLite's, gone afterwards. Raises StorageError WDS401 where the disk is full."""
    with (
        in_temporary_space("samples cannot be sorted"),
        closing(sqlite3.connect("", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = OFF").close()
        connection.execute("PRAGMA cache_size = -32768")
        connection.execute("CREATE TABLE row (key BLOB, side INT, path INT, sample INT, parts BLOB, splits BLOB)")
        yield Rows(connection)


def _parts(side: Side, i: int, numbers: dict[str, int]) -> list[bytes]:
    """Of each sample of a shard, names and sizes of its parts, in whatever order they are in the tar."""
    rows = side.offsets.shard_rows(i, numbers)
    ends = np.cumsum(rows.counts, dtype=np.int64)
    sample = np.repeat(np.arange(len(rows.counts)), rows.counts)
    order = np.lexsort((rows.part_sizes, rows.part_names, sample))
    table = np.stack([np.asarray(rows.part_names, np.int64)[order], rows.part_sizes[order]], axis=1)
    text = table.astype("<i8").tobytes()
    starts = (16 * (ends - rows.counts)).tolist()
    return [text[start:end] for start, end in zip(starts, (16 * ends).tolist(), strict=True)]


def _matched(first: list[Row], second: list[Row]) -> Iterator[Match]:
    if len(first) == len(second) == 1:
        yield Match(first[0], second[0])
        return
    for same in _LIKENESS:
        if not (first and second):
            break
        pairs, first, second = _paired(first, second, same)
        yield from pairs
    yield from (Match(row, None) for row in first)
    yield from (Match(None, row) for row in second)


#: What pairs are found by, the closest first.
_LIKENESS: tuple[Callable[[Row], object], ...] = (
    lambda row: (row.path, row.parts),
    lambda row: row.parts,
    lambda row: row.path,
    lambda _: None,
)


def _paired(
    first: list[Row], second: list[Row], same: Callable[[Row], object]
) -> tuple[list[Match], list[Row], list[Row]]:
    """Pairs that are the same by this measure, and what is left of both."""
    waiting: dict[object, list[Row]] = {}
    for row in reversed(second):
        waiting.setdefault(same(row), []).append(row)
    pairs, left = [], []
    for row in first:
        there = waiting.get(same(row))
        if there:
            pairs.append(Match(row, there.pop()))
        else:
            left.append(row)
    return pairs, left, sorted(row for rows in waiting.values() for row in rows)


class Drift:
    """Samples that are in other splits than they were, by split."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._pairs: Counter[tuple[bytes, bytes]] = Counter()
        self.entered: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    def note(self, first: bytes, second: bytes) -> None:
        if first != second:
            self._pairs[first, second] += 1

    def close(self) -> None:
        """Count what was noted one by one."""
        for (first, second), count in self._pairs.items():
            before, after = int.from_bytes(first, "little"), int.from_bytes(second, "little")
            for i, name in enumerate(self._names):
                was, is_now = before >> i & 1, after >> i & 1
                self.entered[name] += count * (is_now and not was)
                self.left[name] += count * (was and not is_now)
        self._pairs.clear()
