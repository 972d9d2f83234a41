"""Reads lists of keys, one per line, and lists of samples, such as those of `wdsctl view export`, as whole arrays, and
looks up millions of keys.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import DatasetError, InputError, translate_os_errors
from wdsctl.core.file_limits import MAX_INDEX_BYTES, iter_lines, read_whole
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets.key_table import DuplicateKey, KeyColumns, KeyTable, are_equal, hash_keys
from wdsctl.core.safe_open import open_below, open_file_beneath
from wdsctl.core.storage.source_files import forget_listings, open_file
from wdsctl.core.urls import is_url

_BOM = b"\xef\xbb\xbf"
_LF, _CR = 10, 13


class KeyList:
    """Keys in order, as columns for `key_table`. Each occurs once: `repeated` others were left out."""

    def __init__(self, key_text: bytes, key_start: Int64Array) -> None:
        self.key_text = memoryview(key_text)
        self.key_start = key_start
        rows, self.repeated_count = _drop_repeated(self, np.arange(len(key_start) - 1))
        self._rows = rows
        self._table: KeyTable | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def key(self, row: int) -> str:
        """One of the keys."""
        start, end = self.key_start[row : row + 2].tolist()
        return str(self.key_text[start:end], "utf-8")

    def find(self, keys: KeyColumns, rows: Int64Array) -> Int64Array:
        """For each of these rows of another index, the row of its key in this list, or -1. 0.3 s per million."""
        if self._table is None:
            self._table = _table(self, self._rows)
        return self._table.find(keys, rows)

    def find_missing(self, is_seen: NDArray[np.bool_]) -> tuple[int, list[str]]:
        """How many of the keys were not `is_seen` (by row), and the first of them."""
        left = self._rows[~is_seen[self._rows]]
        return len(left), [self.key(row) for row in sorted(left[:1000].tolist())[:3]]


def key_list(keys: Sequence[str]) -> KeyList:
    """A list of these keys."""
    encoded = [key.encode("utf-8", "surrogatepass") for key in keys]
    starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return KeyList(b"".join(encoded), starts)


def read_key_list(folder: str, name: str) -> KeyList:
    """The keys of a file: UTF-8, one per line; blank lines are ignored.

    `name`: absolute if the user names the file; otherwise data names it, and it must be beneath `folder`. Raises
    InputError if there is no such file, or no key in it, DatasetError with the line that is not UTF-8.
    """
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        problem = "is not a regular file" if os.path.exists(path) else "does not exist"
        raise InputError(f"the list of keys {problem}", where=path, hint="pass a text file with one key per line")
    with translate_os_errors(path, "read"), open_file_beneath(path, ("/" if os.path.isabs(name) else folder,)) as file:
        data = read_whole(file, path, MAX_INDEX_BYTES)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"line {line:,} is not UTF-8",
            where=path,
            hint="write the list as UTF-8 text with one key per line",
        ) from error
    text, starts = _split_lines(np.frombuffer(data.removeprefix(_BOM), np.uint8))
    if len(starts) == 1:
        raise InputError("the list has no keys", where=path, hint="write one key per line, for example 000123")
    return KeyList(text, starts)


def _split_lines(data: NDArray[np.uint8]) -> tuple[bytes, Int64Array]:
    """(the concatenated keys, where each begins)"""
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


def _drop_repeated(keys: KeyColumns, rows: Int64Array) -> tuple[Int64Array, int]:
    """(the rows without those whose key occurs in an earlier one, how many were dropped)"""
    hashes = hash_keys(keys, rows)
    order = np.argsort(hashes, kind="stable")
    same_hash = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    before, after = rows[order[same_hash]], rows[order[same_hash + 1]]
    gone = after[are_equal(keys, before, keys, after)]
    kept = np.ones(len(rows), np.bool_)
    kept[gone] = False
    return rows[kept], len(gone)


def _table(keys: KeyList, rows: Int64Array) -> KeyTable:
    """The table of these rows, without repeated keys that hash collisions had hidden."""
    while True:
        try:
            return KeyTable(keys, rows)
        except DuplicateKey as twice:
            rows = rows[rows != twice.second]


STDIN_PATH = "-"


class SampleSelector(NamedTuple):
    """A sample to select: by key alone, by key in one shard, or by position in one shard."""

    key: str
    shard: str | None = None
    position: int | None = None


def read_sample_list(path: str, folder: str = "") -> Iterator[SampleSelector]:
    """The samples that a file names, in its order; `-` reads stdin. Blank lines are ignored.

    `folder`: the folder that must contain the file if data names it; empty if the user does.

    Lines may end in CRLF, and the file may begin with a BOM. Bytes that are no UTF-8 stand for keys with `\\xNN`, as
    the catalog stores them. In a `.jsonl` file, each line is an object with `key`, and optionally `shard` and
    `position`. Raises InputError, StorageError and PermissionDenied.
    """
    is_json = is_jsonl_name(path)
    with _opened(path, folder) as file:
        for number, line in enumerate(iter_lines(file, path), 1):
            text = line.removeprefix(_BOM) if number == 1 else line
            text = text.rstrip(b"\r\n")
            if text.strip():
                yield (
                    _from_json(text, path, number)
                    if is_json
                    else SampleSelector(text.decode("utf-8", "backslashreplace"))
                )


@contextmanager
def _opened(path: str, folder: str) -> Iterator[BinaryIO]:
    if path == STDIN_PATH:
        yield sys.stdin.buffer
        return
    forget_listings()
    with (
        translate_os_errors(path, "read"),
        open_file(path) if is_url(path) else open_below(path, folder) if folder else open(path, "rb") as file,
    ):
        yield file


def _from_json(line: bytes, path: str, number: int) -> SampleSelector:
    try:
        value = read_json(line)
        key, shard, position = value["key"], value.get("shard"), value.get("position")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unusable(path, number) from error
    is_position = position is None or (type(position) is int and shard is not None)
    if not (isinstance(key, str) and isinstance(shard, str | None) and is_position):
        raise _unusable(path, number)
    return SampleSelector(key, shard, position)


def _unusable(path: str, number: int) -> InputError:
    return InputError(
        f"line {number:,} has no sample key",
        where=path,
        hint='write {"key": "0001"} per line, with "shard" if the key repeats; or a .txt file with one key per line',
    )
