"""The offsets file: where every part of every sample is, as arrays that all readers of a host map and share.

Format, version 2, little-endian. Bytes 0-7 `WDSOFF2\\n`; 8-15 u64, the length of the header; then the header, JSON;
then the columns, each at a multiple of 64 bytes. The header has `generation`, `extensions` (part names),
`layouts` (lists of indices into `extensions`: the parts of a sample, in tar order), `shards` (id, path, size in bytes,
samples, layout hash), and `columns`: name -> [offset, dtype, count].

    shard_row    i8  shards + 1   the row of each shard's first sample
    key_start    i8  samples + 1  where each key begins in `keys`
    keys         u1               UTF-8
    layout       u4  samples      index into `layouts`          \\  absent where all samples
    part_start   i8  samples + 1  the first part of each sample /  have one layout
    part_offset  i8  parts        first byte of the data, from the start of the shard
    part_size    i8  parts        bytes

Behind all of it stand checksums by block (`block_sums.py`). Opening costs the header, whatever the number of samples: a
block is checked when a process first uses it. Sums are no protection from people, who can write them too: so with a
block it is checked that its numbers can be (`offsets_bounds.py`). A file is written once and never changed.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.block_sums import BlockSums
from wdsctl.core.files import open_own
from wdsctl.core.json_text import read_json
from wdsctl.core.offsets_bounds import Columns, check_column, check_parts, check_starts, read_header
from wdsctl.core.offsets_head import MAGIC, unusable
from wdsctl.core.os_errors import translated

ALIGN = 64
SMALL = 1 << 20  # bytes: files up to this are read instead of mapped
AT_ONCE = 2048  # groups that are checked at once, where all are
TOGETHER = 512  # neighbouring samples that are checked together: some 16 KB

Ints = NDArray[np.int64]

_Number = TypeVar("_Number", bound=np.generic)

DTYPES = {
    "shard_row": "<i8",
    "key_start": "<i8",
    "keys": "|u1",
    "part_offset": "<i8",
    "part_size": "<i8",
    "layout": "<u4",
    "part_start": "<i8",
}


@dataclass(frozen=True, slots=True)
class ShardRows:
    """One shard's samples as the columns of the file; `part_names` are indices into the writer's extensions."""

    keys: bytes
    key_sizes: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    part_names: NDArray[np.integer[Any]]
    part_offsets: Ints
    part_sizes: Ints


class Offsets:
    """A mapped offsets file. `rows` are samples in shard order; all columns are read-only views of the map.

    Nothing of it is used that was not checked: a column as a whole by its attribute, what some samples need by
    `checked` and by the methods that ask for one sample or for some. All of them raise CatalogError WDS302 where the
    bytes are not those that were written, or say what cannot be: a part that is not within its shard, say.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._checked: set[str] = set()  # columns that were checked as a whole
        with translated(path, "read"):
            try:
                handle = open_own(path)
            except FileNotFoundError as error:
                raise unusable(path, "missing") from error
            try:
                size = os.fstat(handle).st_size
                # A map keeps a descriptor: a blend of a thousand small datasets would hold a thousand of them.
                self._map: mmap.mmap | bytes = (
                    os.read(handle, size) if size <= SMALL else mmap.mmap(handle, size, prot=mmap.PROT_READ)
                )
            finally:
                os.close(handle)
        try:
            self._sums = BlockSums(self._map, lambda: unusable(path, "damaged"))
            if size <= SMALL:
                self._sums.check_all()
            self._all = self._read_header()
            self.shard_row: Ints = self._all.shard_row
            self._check()
            self._is_good = np.zeros(self.samples // TOGETHER + 1, np.bool_)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise unusable(path, "damaged") from error

    def _read_header(self) -> Columns:
        """Take in the header; returns the columns that it describes. Raises many things if it is damaged."""
        if self._map[:8] != MAGIC:
            raise ValueError
        length = int.from_bytes(self._map[8:16], "little")
        self._sums.check(0, 16 + length)
        header = read_header(read_json(self._map[16 : 16 + length]), DTYPES)
        self.generation, self.extensions, self.layouts, self.shards = header[:4]
        self._layout_sizes = np.array([len(layout) for layout in self.layouts] or [0], np.int64)
        self._shard_sizes = np.array([shard.size for shard in self.shards], np.int64)
        places = header.columns
        self._begins = {name: at for name, (at, _, _) in places.items()}
        begin, dtype, count = places["shard_row"]
        self._sums.check(begin, begin + np.dtype(dtype).itemsize * count)
        begin, _, length = places["keys"]
        columns: dict[str, Any] = {
            name: np.frombuffer(self._map, dtype, count, at) for name, (at, dtype, count) in places.items()
        }
        return Columns(**columns, key_text=memoryview(self._map)[begin : begin + length])

    def _check(self) -> None:
        """Whether the columns fit one another, as far as their lengths and ends tell."""
        _, key_start, keys, part_offset, part_size, _, layout, part_start = self._all
        samples, parts = sum(shard.samples for shard in self.shards), len(part_size)
        lengths = [len(self.shard_row) - 1, len(key_start) - 1, len(part_offset), len(keys)]
        wanted = [len(self.shards), samples, parts, int(key_start[-1])]
        if layout is not None and part_start is not None:
            lengths += [len(layout), len(part_start) - 1, int(part_start[-1])]
            wanted += [samples, samples, parts]
        elif samples * len(self.layouts[0] if samples else ()) != parts:
            raise ValueError
        rows = np.cumsum([0, *(shard.samples for shard in self.shards)], dtype=np.int64)
        if lengths != wanted or not np.array_equal(self.shard_row, rows):
            raise ValueError

    @property
    def samples(self) -> int:
        return int(self.shard_row[-1])

    @property
    def key_start(self) -> Ints:
        return self._whole("key_start", self._all.key_start)

    @property
    def keys(self) -> NDArray[np.uint8]:
        return self._whole("keys", self._all.keys)

    @property
    def key_text(self) -> memoryview:
        """All keys: slice it by `key_start`."""
        self._whole("keys", self._all.keys)
        return self._all.key_text

    @property
    def layout(self) -> NDArray[np.uint32] | None:
        return None if self._all.layout is None else self._whole("layout", self._all.layout)

    @property
    def part_start(self) -> Ints | None:
        return None if self._all.part_start is None else self._whole("part_start", self._all.part_start)

    @property
    def part_offset(self) -> Ints:
        return self._whole("part_offset", self._all.part_offset)

    @property
    def part_size(self) -> Ints:
        return self._whole("part_size", self._all.part_size)

    def check(self) -> None:
        """Check the whole file: some 15 ms a million samples of two parts, once it is in memory."""
        self._sums.check_all()
        groups = np.flatnonzero(~self._is_good)
        for start in range(0, len(groups), AT_ONCE):
            self._check_groups(groups[start : start + AT_ONCE])

    def checked(self, rows: Ints) -> Columns:
        """The columns, of which only what these samples have may be used. 5 us where they were used before."""
        places = rows // TOGETHER
        if not self._is_good[places].all():
            self._check_groups(np.unique(places[~self._is_good[places]]))
        return self._all

    def checked_range(self, start: int, stop: int) -> Columns:
        """The same for the samples [start, stop)."""
        first, end = start // TOGETHER, (max(stop, start + 1) - 1) // TOGETHER + 1
        if not self._is_good[first:end].all():
            self._check_groups(first + np.flatnonzero(~self._is_good[first:end]))
        return self._all

    def _of(self, row: int) -> Columns:
        """The same for one sample."""
        return self._all if self._is_good[row // TOGETHER] else self.checked_range(row, row + 1)

    def _check_groups(self, groups: Ints) -> None:
        """Check what groups of `TOGETHER` samples have: their keys, layouts and parts."""
        columns, sums = self._all, self._sums
        first, last = groups * TOGETHER, np.minimum((groups + 1) * TOGETHER, self.samples)
        spans = [self._spans("key_start", 8, first, last + 1)]
        if columns.part_start is not None:
            spans += [self._spans("layout", 4, first, last), self._spans("part_start", 8, first, last + 1)]
        sums.check_spans(*np.concatenate(spans, axis=1))  # before what they say is believed
        # Groups that are neighbours are looked at together: a look costs some 20 us, and 20 ns a sample.
        edges = np.flatnonzero(np.diff(groups) > 1) + 1
        runs = list(zip(first[np.append(0, edges)].tolist(), last[np.append(edges - 1, -1)].tolist(), strict=True))
        if not all(check_starts(columns, self._layout_sizes, *run) for run in runs):
            raise unusable(self._path, "damaged")
        if columns.part_start is None:
            each = len(self.layouts[0]) if self.layouts else 0
            begin, end = first * each, last * each
        else:
            begin, end = columns.part_start[first], columns.part_start[last]
        spans = [self._spans("keys", 1, columns.key_start[first], columns.key_start[last])]
        spans += [self._spans(name, 8, begin, end) for name in ("part_offset", "part_size")]
        sums.check_spans(*np.concatenate(spans, axis=1))
        if not all(check_parts(columns, self._layout_sizes, self._shard_sizes, *run) for run in runs):
            raise unusable(self._path, "damaged")
        self._is_good[groups] = True

    def _spans(self, name: str, size: int, first: Ints, last: Ints) -> Ints:
        """(2, spans): the bytes of the file where these items of a column begin and end."""
        return self._begins[name] + size * np.stack((first, last))

    def _whole(self, name: str, column: NDArray[_Number]) -> NDArray[_Number]:
        """A column that is checked as a whole, once: 0.3 ms a megabyte."""
        if name not in self._checked:
            self._sums.check(self._begins[name], self._begins[name] + column.nbytes)
            if not check_column(name, column, self._all, len(self.layouts), int(self._shard_sizes.max(initial=0))):
                raise unusable(self._path, "damaged")
            self._checked.add(name)
        return column

    def key(self, row: int) -> str:
        """The key of one sample."""
        columns = self._of(row)
        start, end = columns.key_start[row : row + 2].tolist()
        return str(columns.key_text[start:end], "utf-8")

    def shard_rows(self, i: int, numbers: dict[str, int]) -> ShardRows:
        """The columns of the i-th shard, part names as `numbers` has them: what a writer takes."""
        rows = slice(int(self.shard_row[i]), int(self.shard_row[i + 1]))
        counts = self.counts(rows)
        first = self.first_part(rows.start)
        parts = slice(first, first + int(counts.sum(dtype=np.int64)))
        columns = self.checked_range(rows.start, rows.stop)
        bounds = columns.key_start[rows.start : rows.stop + 1]
        table = np.array([numbers[name] for layout in self.layouts for name in layout], np.int64)
        sizes = np.array([len(layout) for layout in self.layouts] or [0], np.int64)
        layout = np.zeros(len(counts), np.uint32) if columns.layout is None else columns.layout[rows]
        # Of each part its place in the table: where its layout begins there, and how far into the sample it is.
        begins = (np.cumsum(sizes) - sizes)[layout] - (np.cumsum(counts, dtype=np.int64) - counts)
        places = np.repeat(begins, counts) + np.arange(parts.stop - parts.start)
        return ShardRows(
            keys=columns.keys[bounds[0] : bounds[-1]].tobytes(),
            key_sizes=np.diff(bounds).astype(np.uint32),
            counts=counts,
            part_names=table[places],
            part_offsets=columns.part_offset[parts],
            part_sizes=columns.part_size[parts],
        )

    def shard_of(self, row: int) -> int:
        """The index in `shards` of the shard that a sample is in."""
        return int(np.searchsorted(self.shard_row, row, side="right")) - 1

    def with_layouts(self, layouts: Sequence[int]) -> tuple[int, int]:
        """How many samples have one of these layouts, and the first of them (-1 if none has)."""
        if not layouts:
            return 0, -1
        if self.layout is None:
            return self.samples, 0
        rows = np.flatnonzero(np.isin(self.layout, layouts))
        return len(rows), int(rows[0]) if len(rows) else -1

    def counts(self, rows: slice) -> NDArray[np.uint32]:
        """How many parts each of these samples has."""
        sizes = np.array([len(layout) for layout in self.layouts] or [0], np.uint32)
        layout = self.checked_range(rows.start, rows.stop).layout
        return sizes[np.zeros(rows.stop - rows.start, np.uint32) if layout is None else layout[rows]]

    def first_part(self, row: int) -> int:
        """The index of a sample's first part."""
        part_start = self._of(row).part_start
        if part_start is None:
            return row * len(self.layouts[0]) if self.layouts else 0
        return int(part_start[row])

    def parts(self, row: int) -> list[tuple[str, int, int]]:
        """(part name, offset in the shard, size) of one sample, in tar order."""
        columns = self._of(row)
        names = self.layouts[0 if columns.layout is None else int(columns.layout[row])]
        start = self.first_part(row)
        spans = slice(start, start + len(names))
        return list(zip(names, columns.part_offset[spans].tolist(), columns.part_size[spans].tolist(), strict=True))


def offsets_of(path: str) -> Offsets:
    """The file as it is now, opened once a process: for units, of which many read one file."""
    stat = os.stat(path)
    return _opened(path, (stat.st_ino, stat.st_mtime_ns))


@lru_cache(maxsize=2)
def _opened(path: str, _stamp: tuple[int, int]) -> Offsets:
    """`_stamp` tells a file from another that takes its place."""
    return Offsets(path)
