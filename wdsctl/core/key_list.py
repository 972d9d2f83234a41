"""Lists of keys, one a line, as users write them: read whole as arrays, and looked up by the million."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.beneath import open_file_beneath
from wdsctl.core.errors import DatasetError, InputError
from wdsctl.core.key_table import Keys, KeyTable, KeyTwice, are_equal, hashes_of
from wdsctl.core.os_errors import translated
from wdsctl.core.shard_index import Ints

_BOM = b"\xef\xbb\xbf"
_LF, _CR = 10, 13


class KeyList:
    """Keys in their order, as columns that `key_table` works on. Each is there once: `repeated` were left out."""

    def __init__(self, key_text: bytes, key_start: Ints) -> None:
        self.key_text = memoryview(key_text)
        self.key_start = key_start
        rows, self.repeated = _once(self, np.arange(len(key_start) - 1))
        self._rows = rows
        self._table: KeyTable | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, row: int) -> str:
        """One of the keys."""
        start, end = self.key_start[row : row + 2].tolist()
        return str(self.key_text[start:end], "utf-8")

    def find(self, keys: Keys, rows: Ints) -> Ints:
        """For each of these rows of another index the row of its key here, or -1. 0.3 s a million."""
        if self._table is None:
            self._table = _table(self, self._rows)
        return self._table.find(keys, rows)

    def unfound(self, seen: NDArray[np.bool_]) -> tuple[int, list[str]]:
        """How many of the keys were not `seen` (by row), and the first of them."""
        left = self._rows[~seen[self._rows]]
        return len(left), [self.key(row) for row in sorted(left[:1000].tolist())[:3]]


def key_list(keys: Sequence[str]) -> KeyList:
    """A list of these keys."""
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return KeyList(b"".join(encoded), starts)


def read_key_list(folder: str, name: str) -> KeyList:
    """The list in a file, UTF-8, one key a line; blank lines count for nothing.

    `name`: absolute, where the user names it; else it is data that does, and the file lies beneath `folder`.
    Raises InputError where there is no such file, or no key in it, DatasetError with the line that is no UTF-8.
    """
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        what = "a list of keys is a file" if os.path.exists(path) else "the list of keys does not exist"
        raise InputError(what, where=path, hint="name a text file with one key a line")
    with translated(path, "read"), open_file_beneath(path, ("/" if os.path.isabs(name) else folder,)) as file:
        data = file.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"line {line:,} is no UTF-8",
            where=path,
            hint="a list of keys is text, UTF-8, one key a line",
        ) from error
    text, starts = _parted(np.frombuffer(data.removeprefix(_BOM), np.uint8))
    if len(starts) == 1:
        raise InputError("the list has no keys", where=path, hint="one key a line, such as 000123")
    return KeyList(text, starts)


def _parted(data: NDArray[np.uint8]) -> tuple[bytes, Ints]:
    """The keys behind one another, and where each begins."""
    ends = np.flatnonzero(data == _LF)
    if not len(data) or data[-1] != _LF:
        ends = np.append(ends, len(data))
    begins = np.concatenate(([0], ends[:-1] + 1))
    last = data[np.maximum(ends - 1, 0)] if len(data) else np.zeros(len(ends), np.uint8)
    stops = ends - ((ends > begins) & (last == _CR))
    filled = stops > begins
    begins, stops = begins[filled], stops[filled]
    edges = np.zeros(len(data) + 1, np.int8)
    edges[begins] += 1
    edges[stops] -= 1
    kept = np.cumsum(edges[:-1], dtype=np.int8).astype(np.bool_)
    starts = np.concatenate(([0], np.cumsum(stops - begins))).astype(np.int64)
    return data[kept].tobytes(), starts


def _once(keys: Keys, rows: Ints) -> tuple[Ints, int]:
    """The rows without those whose key stands in an earlier one, and how many these are."""
    hashes = hashes_of(keys, rows)
    order = np.argsort(hashes, kind="stable")
    alike = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    before, after = rows[order[alike]], rows[order[alike + 1]]
    gone = after[are_equal(keys, before, keys, after)]
    kept = np.ones(len(rows), np.bool_)
    kept[gone] = False
    return rows[kept], len(gone)


def _table(keys: KeyList, rows: Ints) -> KeyTable:
    """The table of these rows. Different keys of one hash may have kept a repeated one apart from its like."""
    while True:
        try:
            return KeyTable(keys, rows)
        except KeyTwice as twice:
            rows = rows[rows != twice.second]
