"""The offsets file: where every part of every sample is, as arrays that all readers of a host map and share.

Format, version 1, little-endian. Bytes 0-7 `WDSOFF1\\n`; 8-15 u64, the length of the header; then the header, JSON;
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

Opening costs the header, whatever the number of samples. A file is written once and never changed.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.offsets_head import MAGIC, unusable
from wdsctl.core.os_errors import translated

ALIGN = 64
SMALL = 1 << 20  # bytes: files up to this are read instead of mapped

Ints = NDArray[np.int64]

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
class ShardEntry:
    id: int
    path: str  # relative to the root
    size: int  # bytes
    samples: int
    layout_hash: str


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
    """A mapped offsets file. `rows` are samples in shard order; all columns are read-only views of the map."""

    def __init__(self, path: str) -> None:
        with translated(path, "read"):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
            columns = self._read_header()
            self.shard_row: Ints = columns["shard_row"]
            self.key_start: Ints = columns["key_start"]
            self.keys: NDArray[np.uint8] = columns["keys"]
            self.part_offset: Ints = columns["part_offset"]
            self.part_size: Ints = columns["part_size"]
            self.layout: NDArray[np.uint32] | None = columns.get("layout")
            self.part_start: Ints | None = columns.get("part_start")
            self._check()
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise unusable(path, "damaged") from error

    def _read_header(self) -> dict[str, NDArray[Any]]:
        """Take in the header; returns the columns that it describes. Raises many things if it is damaged."""
        if self._map[:8] != MAGIC:
            raise ValueError
        length = int.from_bytes(self._map[8:16], "little")
        header: dict[str, Any] = json.loads(self._map[16 : 16 + length])
        self.generation: int = header["generation"]
        self.extensions: list[str] = header["extensions"]
        self.layouts: list[tuple[str, ...]] = [tuple(self.extensions[i] for i in row) for row in header["layouts"]]
        self.shards: list[ShardEntry] = [ShardEntry(*row) for row in header["shards"]]
        places: dict[str, tuple[int, str, int]] = header["columns"]
        begin, _, length = places["keys"]
        self.key_text = memoryview(self._map)[begin : begin + length]  # all keys: slice it by `key_start`
        if any(dtype != DTYPES[name] for name, (_, dtype, _) in places.items()):
            raise ValueError
        return {name: np.frombuffer(self._map, dtype, count, at) for name, (at, dtype, count) in places.items()}

    def _check(self) -> None:
        """Whether the columns fit one another, as far as their lengths and ends tell."""
        samples, parts = sum(shard.samples for shard in self.shards), len(self.part_size)
        lengths = [len(self.shard_row) - 1, len(self.key_start) - 1, len(self.part_offset), len(self.keys)]
        wanted = [len(self.shards), samples, parts, int(self.key_start[-1])]
        if self.layout is not None and self.part_start is not None:
            lengths += [len(self.layout), len(self.part_start) - 1, int(self.part_start[-1])]
            wanted += [samples, samples, parts]
        elif samples * len(self.layouts[0] if samples else ()) != parts:
            raise ValueError
        if lengths != wanted or int(self.shard_row[-1]) != samples:
            raise ValueError

    @property
    def samples(self) -> int:
        return int(self.shard_row[-1])

    def key(self, row: int) -> str:
        """The key of one sample."""
        start, end = self.key_start[row : row + 2].tolist()
        return str(self.key_text[start:end], "utf-8")

    def shard_rows(self, i: int, numbers: dict[str, int]) -> ShardRows:
        """The columns of the i-th shard, part names as `numbers` has them: what a writer takes."""
        rows = slice(int(self.shard_row[i]), int(self.shard_row[i + 1]))
        counts = self.counts(rows)
        first = self.first_part(rows.start)
        parts = slice(first, first + int(counts.sum(dtype=np.int64)))
        bounds = self.key_start[rows.start : rows.stop + 1]
        table = np.array([numbers[name] for layout in self.layouts for name in layout], np.int64)
        sizes = np.array([len(layout) for layout in self.layouts] or [0], np.int64)
        layout = np.zeros(len(counts), np.uint32) if self.layout is None else self.layout[rows]
        # Of each part its place in the table: where its layout begins there, and how far into the sample it is.
        begins = (np.cumsum(sizes) - sizes)[layout] - (np.cumsum(counts, dtype=np.int64) - counts)
        places = np.repeat(begins, counts) + np.arange(parts.stop - parts.start)
        return ShardRows(
            keys=self.keys[bounds[0] : bounds[-1]].tobytes(),
            key_sizes=np.diff(bounds).astype(np.uint32),
            counts=counts,
            part_names=table[places],
            part_offsets=self.part_offset[parts],
            part_sizes=self.part_size[parts],
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
        which = np.zeros(rows.stop - rows.start, np.uint32) if self.layout is None else self.layout[rows]
        return sizes[which]

    def first_part(self, row: int) -> int:
        """The index of a sample's first part."""
        if self.part_start is None:
            return row * len(self.layouts[0]) if self.layouts else 0
        return int(self.part_start[row])

    def parts(self, row: int) -> list[tuple[str, int, int]]:
        """(part name, offset in the shard, size) of one sample, in tar order."""
        names = self.layouts[0 if self.layout is None else int(self.layout[row])]
        start = self.first_part(row)
        spans = slice(start, start + len(names))
        return list(zip(names, self.part_offset[spans].tolist(), self.part_size[spans].tolist(), strict=True))


def offsets_of(path: str) -> Offsets:
    """The file as it is now, opened once a process: for units, of which many read one file."""
    stat = os.stat(path)
    return _opened(path, (stat.st_ino, stat.st_mtime_ns))


@lru_cache(maxsize=2)
def _opened(path: str, _stamp: tuple[int, int]) -> Offsets:
    """`_stamp` tells a file from another that takes its place."""
    return Offsets(path)
