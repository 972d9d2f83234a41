"""Reads the offsets file: where every part of every sample is, as arrays that all processes of a machine map.

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

Checksums by block follow (`block_checksums.py`). Opening a file reads only the header, whatever the number of samples;
a block is checked when a process first uses it. Checksums do not protect from attackers, who can compute them too, so
the numbers of a block are also checked against the size of the shard (`bounds.py`). A file is written once and never
changed.

`ShardIndex` is the interface that readers of samples need. `Offsets` implements it. An index from another source needs
the same arrays, whose rows are samples in shard order.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.errors import translate_os_errors
from wdsctl.core.offsets.block_checksums import CHECKSUM_BLOCK_BYTES, BlockChecksums
from wdsctl.core.offsets.bounds import (
    OffsetsColumns,
    are_parts_valid,
    are_starts_valid,
    is_column_valid,
    parse_offsets_header,
)
from wdsctl.core.offsets.head import OFFSETS_MAGIC, offsets_error
from wdsctl.core.offsets.mapped_arrays import MAX_UNMAPPED_BYTES, map_file, read_array_header

if TYPE_CHECKING:
    from wdsctl.core.remote_catalogs.ranges import PartialFile

PARTIAL_SUFFIX_BYTES = 40  # after a file that was fetched in part (`wdsctl.core.remote_catalogs.ranges`)
GROUPS_PER_CHECK = 2048  # groups per step of a check of all groups
SAMPLES_PER_GROUP = 512  # neighbouring samples that are checked together: some 16 KB


_Number = TypeVar("_Number", bound=np.generic)

COLUMN_DTYPES = {
    "shard_row": "<i8",
    "key_start": "<i8",
    "keys": "|u1",
    "part_offset": "<i8",
    "part_size": "<i8",
    "layout": "<u4",
    "part_start": "<i8",
}


@dataclass(frozen=True, slots=True)
class ShardColumns:
    """The samples of one shard as columns of the file; `part_names` are indices into the writer's part names."""

    keys: bytes
    key_sizes: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    part_names: NDArray[np.integer[Any]]
    part_offsets: Int64Array
    part_sizes: Int64Array


class Offsets:
    """A mapped offsets file. Rows are samples in shard order; all columns are read-only views of the map.

    All values are checked before use: an attribute checks a whole column, `check_rows` and the methods for single
    samples check the needed values. All raise CatalogError WDS302 for damaged bytes and for impossible numbers, such as
    a part outside its shard.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._checked_columns: set[str] = set()  # columns that were checked as a whole
        with translate_os_errors(path, "read"):
            try:
                self._map: bytes | mmap.mmap | memoryview = map_file(path)
            except FileNotFoundError as error:
                raise offsets_error(path, "missing") from error
        try:
            self._partial = self._open_partial()
            fetch = None if self._partial is None else self._partial.fetch
            self._checksums = BlockChecksums(self._map, lambda: offsets_error(path, "damaged"), fetch)
            if len(self._map) <= MAX_UNMAPPED_BYTES:
                self._checksums.check_all()
            self._columns = self._read_header()
            self.shard_row: Int64Array = self._columns.shard_row
            self._check()
            self._is_group_checked = np.zeros(self.samples // SAMPLES_PER_GROUP + 1, np.bool_)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise offsets_error(path, "damaged") from error

    def _open_partial(self) -> PartialFile | None:
        """The file as one that was fetched in part; None for a whole file, which has a length of its own."""
        if len(self._map) % (CHECKSUM_BLOCK_BYTES + 8) != PARTIAL_SUFFIX_BYTES:
            return None
        from wdsctl.core.remote_catalogs.ranges import PartialFile, is_mirror  # local datasets have no such files

        if not is_mirror(os.path.dirname(self._path)):
            raise offsets_error(self._path, "damaged")
        whole = memoryview(self._map)
        partial = PartialFile(self._path, whole)
        self._map = whole[: partial.size]
        return partial

    def _read_header(self) -> OffsetsColumns:
        """Read the header, and return the columns that it describes. Raises various errors if it is damaged."""
        header = parse_offsets_header(
            read_array_header(self._map, OFFSETS_MAGIC, self._checksums, "shards"), COLUMN_DTYPES
        )
        self.generation, self.extensions, self.layouts, self.shards = header[:4]
        self._layout_sizes = np.array([len(layout) for layout in self.layouts] or [0], np.int64)
        self._shard_sizes = np.fromiter((shard.size for shard in self.shards), np.int64, len(self.shards))
        layout_table = header.columns
        self._column_starts = {name: at for name, (at, _, _) in layout_table.items()}
        begin, dtype, count = layout_table["shard_row"]
        self._checksums.check(begin, begin + np.dtype(dtype).itemsize * count)
        begin, _, length = layout_table["keys"]
        if self._partial is not None:  # the last values, which `_check` reads
            for name in layout_table.keys() & {"key_start", "part_start"}:
                at, dtype, count = layout_table[name]
                end = at + np.dtype(dtype).itemsize * count
                self._checksums.check(end - np.dtype(dtype).itemsize, end)
        columns: dict[str, Any] = {
            name: np.frombuffer(self._map, dtype, count, at) for name, (at, dtype, count) in layout_table.items()
        }
        return OffsetsColumns(**columns, key_text=memoryview(self._map)[begin : begin + length])

    def _check(self) -> None:
        """Check that the lengths and last values of the columns are consistent."""
        _, key_start, keys, part_offset, part_size, _, layout, part_start = self._columns
        shard_samples = np.fromiter((shard.samples for shard in self.shards), np.int64, len(self.shards))
        rows = np.append(0, np.cumsum(shard_samples))
        samples, parts = int(rows[-1]), len(part_size)
        lengths = [len(self.shard_row) - 1, len(key_start) - 1, len(part_offset), len(keys)]
        expected = [len(self.shards), samples, parts, int(key_start[-1])]
        if layout is not None and part_start is not None:
            lengths += [len(layout), len(part_start) - 1, int(part_start[-1])]
            expected += [samples, samples, parts]
        elif samples * len(self.layouts[0] if samples else ()) != parts:
            raise ValueError
        if lengths != expected or not np.array_equal(self.shard_row, rows):
            raise ValueError

    @property
    def samples(self) -> int:
        return int(self.shard_row[-1])

    @property
    def key_start(self) -> Int64Array:
        return self._check_column("key_start", self._columns.key_start)

    @property
    def keys(self) -> NDArray[np.uint8]:
        return self._check_column("keys", self._columns.keys)

    @property
    def key_text(self) -> memoryview:
        """All keys: slice it by `key_start`."""
        self._check_column("keys", self._columns.keys)
        return self._columns.key_text

    @property
    def layout(self) -> NDArray[np.uint32] | None:
        return None if self._columns.layout is None else self._check_column("layout", self._columns.layout)

    @property
    def part_start(self) -> Int64Array | None:
        return None if self._columns.part_start is None else self._check_column("part_start", self._columns.part_start)

    @property
    def part_offset(self) -> Int64Array:
        return self._check_column("part_offset", self._columns.part_offset)

    @property
    def part_size(self) -> Int64Array:
        return self._check_column("part_size", self._columns.part_size)

    def check_all(self) -> None:
        """Check the whole file: 15 ms per million samples of two parts, once it is in memory."""
        self._checksums.check_all()
        groups = np.flatnonzero(~self._is_group_checked)
        for start in range(0, len(groups), GROUPS_PER_CHECK):
            self._check_groups(groups[start : start + GROUPS_PER_CHECK])

    def fetch_groups(self, is_needed: NDArray[np.bool_]) -> None:
        """Fetch and check groups of `SAMPLES_PER_GROUP` samples, many at a time. Of a whole file, nothing is fetched.

        `is_needed`: (groups,).
        """
        if self._partial is not None:
            groups = np.flatnonzero(is_needed & ~self._is_group_checked)
            for start in range(0, len(groups), GROUPS_PER_CHECK):
                self._check_groups(groups[start : start + GROUPS_PER_CHECK])

    @property
    def is_partial(self) -> bool:
        """Whether the file is at a URL, and is fetched as it is used."""
        return self._partial is not None

    def check_rows(self, rows: Int64Array) -> OffsetsColumns:
        """Check these samples and return the columns, of which only they may be used. 5 us if checked before."""
        groups = rows // SAMPLES_PER_GROUP
        if not self._is_group_checked[groups].all():
            self._check_groups(np.unique(groups[~self._is_group_checked[groups]]))
        return self._columns

    def check_range(self, start: int, stop: int) -> OffsetsColumns:
        """`check_rows` for the samples [start, stop)."""
        first, end = start // SAMPLES_PER_GROUP, (max(stop, start + 1) - 1) // SAMPLES_PER_GROUP + 1
        if not self._is_group_checked[first:end].all():
            self._check_groups(first + np.flatnonzero(~self._is_group_checked[first:end]))
        return self._columns

    def _of(self, row: int) -> OffsetsColumns:
        """`check_rows` for one sample."""
        return self._columns if self._is_group_checked[row // SAMPLES_PER_GROUP] else self.check_range(row, row + 1)

    def _check_groups(self, groups: Int64Array) -> None:
        """Check the keys, layouts and parts of groups of `SAMPLES_PER_GROUP` samples."""
        columns, checksums = self._columns, self._checksums
        first, last = groups * SAMPLES_PER_GROUP, np.minimum((groups + 1) * SAMPLES_PER_GROUP, self.samples)
        spans = [self._spans("key_start", 8, first, last + 1)]
        if columns.part_start is not None:
            spans += [self._spans("layout", 4, first, last), self._spans("part_start", 8, first, last + 1)]
        checksums.check_spans(*np.concatenate(spans, axis=1))  # before the values are used
        # Neighbouring groups are checked together: a check costs some 20 us, and 20 ns per sample.
        edges = np.flatnonzero(np.diff(groups) > 1) + 1
        runs = list(zip(first[np.append(0, edges)].tolist(), last[np.append(edges - 1, -1)].tolist(), strict=True))
        if not all(are_starts_valid(columns, self._layout_sizes, *run) for run in runs):
            raise offsets_error(self._path, "damaged")
        if columns.part_start is None:
            each = len(self.layouts[0]) if self.layouts else 0
            begin, end = first * each, last * each
        else:
            begin, end = columns.part_start[first], columns.part_start[last]
        spans = [self._spans("keys", 1, columns.key_start[first], columns.key_start[last])]
        spans += [self._spans(name, 8, begin, end) for name in ("part_offset", "part_size")]
        checksums.check_spans(*np.concatenate(spans, axis=1))
        if not all(are_parts_valid(columns, self._layout_sizes, self._shard_sizes, *run) for run in runs):
            raise offsets_error(self._path, "damaged")
        self._is_group_checked[groups] = True

    def _spans(self, name: str, size: int, first: Int64Array, last: Int64Array) -> Int64Array:
        """(2, spans): first and last byte in the file of these items of a column."""
        return self._column_starts[name] + size * np.stack((first, last))

    def _check_column(self, name: str, column: NDArray[_Number]) -> NDArray[_Number]:
        """A whole column, checked once: 0.3 ms per MB."""
        if name not in self._checked_columns:
            self._checksums.check(self._column_starts[name], self._column_starts[name] + column.nbytes)
            if not is_column_valid(
                name, column, self._columns, len(self.layouts), int(self._shard_sizes.max(initial=0))
            ):
                raise offsets_error(self._path, "damaged")
            self._checked_columns.add(name)
        return column

    def key(self, row: int) -> str:
        """The key of one sample."""
        columns = self._of(row)
        start, end = columns.key_start[row : row + 2].tolist()
        return str(columns.key_text[start:end], "utf-8")

    def shard_columns(self, i: int, numbers: dict[str, int]) -> ShardColumns:
        """The columns of the i-th shard for a writer, whose numbers of part names are `numbers`."""
        rows = slice(int(self.shard_row[i]), int(self.shard_row[i + 1]))
        counts = self.part_counts(rows)
        first = self.first_part(rows.start)
        parts = slice(first, first + int(counts.sum(dtype=np.int64)))
        columns = self.check_range(rows.start, rows.stop)
        bounds = columns.key_start[rows.start : rows.stop + 1]
        table = np.array([numbers[name] for layout in self.layouts for name in layout], np.int64)
        sizes = np.array([len(layout) for layout in self.layouts] or [0], np.int64)
        layout = np.zeros(len(counts), np.uint32) if columns.layout is None else columns.layout[rows]
        # The index of each part in the table: the start of its layout there, plus the part's index in the sample.
        begins = (np.cumsum(sizes) - sizes)[layout] - (np.cumsum(counts, dtype=np.int64) - counts)
        table_rows = np.repeat(begins, counts) + np.arange(parts.stop - parts.start)
        return ShardColumns(
            keys=columns.keys[bounds[0] : bounds[-1]].tobytes(),
            key_sizes=np.diff(bounds).astype(np.uint32),
            counts=counts,
            part_names=table[table_rows],
            part_offsets=columns.part_offset[parts],
            part_sizes=columns.part_size[parts],
        )

    def shard_of(self, row: int) -> int:
        """The index in `shards` of the shard that a sample is in."""
        return int(np.searchsorted(self.shard_row, row, side="right")) - 1

    def find_with_layouts(self, layouts: Sequence[int]) -> tuple[int, int]:
        """(how many samples have one of these layouts, the first of them or -1)"""
        if not layouts:
            return 0, -1
        if self.layout is None:
            return self.samples, 0
        rows = np.flatnonzero(np.isin(self.layout, layouts))
        return len(rows), int(rows[0]) if len(rows) else -1

    def part_counts(self, rows: slice) -> NDArray[np.uint32]:
        """How many parts each of these samples has."""
        sizes = np.array([len(layout) for layout in self.layouts] or [0], np.uint32)
        layout = self.check_range(rows.start, rows.stop).layout
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


def open_cached_offsets(path: str) -> Offsets:
    """The current file, opened once per process, as many units read the same file."""
    stat = os.stat(path)
    return _opened(path, (stat.st_ino, stat.st_mtime_ns))


@lru_cache(maxsize=2)
def _opened(path: str, _stamp: tuple[int, int]) -> Offsets:
    """`_stamp` distinguishes a file from one that replaced it."""
    return Offsets(path)


class ShardWithId(Protocol):
    @property
    def id(self) -> int: ...

    @property
    def path(self) -> str:
        """Relative to the dataset's root."""

    @property
    def size(self) -> int:
        """Bytes: a file of another size is not the one that was indexed."""

    @property
    def samples(self) -> int: ...

    @property
    def layout_hash(self) -> str:
        """A hash that is equal for shards with the same parts at the same offsets."""


class IndexColumns(Protocol):
    """The columns of a `ShardIndex` that readers of samples need."""

    @property
    def key_start(self) -> Int64Array: ...

    @property
    def key_text(self) -> memoryview: ...

    @property
    def layout(self) -> NDArray[np.uint32] | None: ...

    @property
    def part_start(self) -> Int64Array | None: ...

    @property
    def part_offset(self) -> Int64Array: ...

    @property
    def part_size(self) -> Int64Array: ...


class ShardIndex(Protocol):
    @property
    def generation(self) -> int:
        """Which state of the dataset this is."""

    @property
    def shards(self) -> Sequence[ShardWithId]: ...

    @property
    def layouts(self) -> Sequence[tuple[str, ...]]:
        """The lists of part names that samples have, in tar order."""

    @property
    def shard_row(self) -> Int64Array:
        """(shards + 1,): the row of each shard's first sample."""

    @property
    def key_start(self) -> Int64Array:
        """(samples + 1,): where each key begins in `key_text`."""

    @property
    def key_text(self) -> memoryview:
        """All keys, UTF-8."""

    @property
    def layout(self) -> NDArray[np.uint32] | None:
        """(samples,): index into `layouts`; None where all samples have the first."""

    @property
    def part_start(self) -> Int64Array | None:
        """(samples + 1,): the first part of each sample; None where all samples have one layout."""

    @property
    def part_offset(self) -> Int64Array:
        """(parts,): bytes from the start of the shard."""

    @property
    def part_size(self) -> Int64Array:
        """(parts,): bytes."""

    def check_rows(self, rows: Int64Array) -> IndexColumns:
        """Check these rows and return the columns. The caller may use only these rows. Raises CatalogError."""

    def shard_of(self, row: int) -> int:
        """The index in `shards` of the shard that a sample is in."""

    def key(self, row: int) -> str: ...

    def parts(self, row: int) -> list[tuple[str, int, int]]:
        """(part name, offset in the shard, size) of one sample, in tar order."""
