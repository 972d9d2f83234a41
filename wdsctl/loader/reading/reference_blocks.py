"""References to samples: from positions of a selection to shards and byte ranges of parts. Numpy only, no reads.

References are resolved a window at a time, into lists of numbers and strings: objects per sample would burden the
garbage collector, which walks through everything that a training process holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Int64Array
from wdsctl.core.offsets.read import IndexColumns, ShardIndex
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.storage.storage import FileRange
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.samples.lazy_part import LAZY_PART_BYTES

PartBounds = list[tuple[list[int], list[int]]]  # of each needed part: starts and ends by sample

MAX_PART_GAP_BYTES = (
    64 << 10
)  # bytes: parts of one sample that lie closer are read in one go, with what is between them
SEPARATE_READS = -1  # the span of a sample whose parts are read one by one


@dataclass(slots=True)
class ReferenceBlock:
    """References to samples, as columns. Bytes are counted from the start of the shard."""

    passes: list[int]  # number of the pass over the source, from 0
    rows: list[int]  # of the offsets file
    ids: list[int]
    keys: list[str]
    shards: list[int]  # index into `paths`
    layouts: list[int]
    first_bytes: list[int]  # start of the first needed part
    spans: list[int]  # bytes from there to the end of the last needed part, or SEPARATE_READS
    part_bounds: dict[int, PartBounds]  # by layout; bytes from `first_bytes`
    common_layout: int  # the layout of all samples if it is one and each takes one small read; else -1
    announcement: object = field(default=None, kw_only=True)  # of their reads, for as long as the block is used

    def __len__(self) -> int:
        return len(self.rows)


class ReferenceResolver:
    """Resolves rows of the offsets file to references. `part_indices`: by layout, the needed parts by index in the
    sample. `lazy_parts`: for each of these whether it is read on demand (empty: none); spans leave these out.
    """

    def __init__(
        self,
        root: str,
        offsets: ShardIndex,
        selection: SampleSelection,
        part_indices: Sequence[Sequence[int]],
        lazy_parts: Sequence[Sequence[bool]] = (),
    ) -> None:
        self.paths = [os.path.join(root, shard.path) for shard in offsets.shards]
        self._offsets = offsets
        self._selection = selection
        self._part_indices = [np.array(parts, np.int64) for parts in part_indices]
        self.lazy_parts = [tuple(each) for each in lazy_parts] if any(lazy_parts) else [()] * len(self._part_indices)
        self._shard_ids = np.array([shard.id for shard in offsets.shards], np.int64)

    def block(self, positions: Int64Array, passes: Int64Array) -> ReferenceBlock:
        """References to the samples at these positions, in order. Cost: about 2 us per sample."""
        return self.block_of_rows(self._selection.rows(positions), passes)

    def block_of_rows(self, rows: Int64Array, passes: Int64Array) -> ReferenceBlock:
        """References to rows of the offsets file."""
        offsets = self._offsets
        columns = offsets.check_rows(rows)
        shards = self._shard_indices(rows)
        layouts = np.zeros(len(rows), np.int64) if columns.layout is None else columns.layout[rows]
        numbers = [0] if columns.layout is None else np.unique(layouts).tolist()
        first, spans, bounds = (
            self._locate_parts(columns, rows, numbers[0])
            if len(numbers) == 1
            else self._locate_parts_by_layout(columns, rows, layouts, numbers)
        )
        # As an unsigned integer, SEPARATE_READS is larger than any span.
        has_common_layout = len(numbers) == 1 and spans.view(np.uint64).max(initial=0) <= LAZY_PART_BYTES
        return ReferenceBlock(
            passes=passes.tolist(),
            rows=rows.tolist(),
            ids=(self._shard_ids.take(shards) << INDEX_BITS | rows - offsets.shard_row.take(shards)).tolist(),
            keys=_keys(columns, rows),
            shards=shards.tolist(),
            layouts=layouts.tolist(),
            first_bytes=first.tolist(),
            spans=spans.tolist(),
            part_bounds=bounds,
            common_layout=numbers[0] if has_common_layout else -1,
        )

    def parts_read(self) -> list[Any]:
        """The needed parts of each layout, and which of them are read on demand: values for JSON."""
        return [
            [indices.tolist(), list(lazy)] for indices, lazy in zip(self._part_indices, self.lazy_parts, strict=True)
        ]

    def byte_ranges(self, slices: Int64Array, max_gap_bytes: int = 0) -> list[FileRange]:
        """The byte ranges that these slices of positions [start, stop) cover. Ranges in one shard that are at most
        `max_gap_bytes` apart are merged.

        `slices`: (slices, 2). If a split has only some samples of a shard, the bytes between them are included.
        """
        shard_slices = self._selection.cut_by_shard(slices)
        low, high = self._selection.rows((shard_slices - np.array([0, 1])).ravel()).reshape(-1, 2).T
        columns = self._offsets.check_rows(np.concatenate((low, high)))
        shards, last = self._shard_indices(low), self._first_parts(columns, high + 1) - 1
        starts = columns.part_offset.take(self._first_parts(columns, low))
        ends = columns.part_offset.take(last) + columns.part_size.take(last)
        gaps = starts[1:] - ends[:-1]
        is_new_range = (gaps < 0) | (gaps > max_gap_bytes) | (shards[1:] != shards[:-1])
        first_indices = np.concatenate(([0], np.flatnonzero(is_new_range) + 1))
        sizes = ends[np.append(first_indices[1:], len(ends)) - 1] - starts[first_indices]
        found = zip(shards[first_indices].tolist(), starts[first_indices].tolist(), sizes.tolist(), strict=True)
        return [FileRange(self.paths[shard], start, size) for shard, start, size in found]

    def reads(self, block: ReferenceBlock) -> Iterator[FileRange]:
        """The reads that load the samples of a block, in order, without those of large parts."""
        for shard, layout, first, span, i in zip(block.shards, block.layouts, block.first_bytes, block.spans, count()):
            path = self.paths[shard]
            if 0 <= span <= LAZY_PART_BYTES:
                yield FileRange(path, first, span)
            else:
                bounds = block.part_bounds[layout]
                read = (not each for each in self.lazy_parts[layout] or [False] * len(bounds))
                parts = ((starts[i], ends[i] - starts[i]) for starts, ends in compress(bounds, read))
                yield from (FileRange(path, first + at, size) for at, size in parts if size <= LAZY_PART_BYTES)

    def _locate_parts(
        self, columns: IndexColumns, rows: Int64Array, layout: int
    ) -> tuple[Int64Array, Int64Array, dict[int, PartBounds]]:
        """(first bytes, spans, bounds) of the needed parts of rows with one layout."""
        part_rows = self._part_indices[layout][:, None] + self._first_parts(columns, rows)
        if not len(part_rows):
            return np.zeros_like(rows), np.zeros_like(rows), {layout: []}
        # `take` is several times faster than indexing for few rows.
        starts, sizes = columns.part_offset.take(part_rows), columns.part_size.take(part_rows)
        ends = starts + sizes
        first, spans = self._read_span(layout, starts, ends, sizes)
        bounds = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
        return first, spans, {layout: list(bounds)}

    def _read_span(
        self, layout: int, starts: Int64Array, ends: Int64Array, sizes: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """(first bytes, spans) of the parts that are read with the sample."""
        if self.lazy_parts[layout]:
            read = ~np.array(self.lazy_parts[layout])
            if not read.any():
                return starts.min(axis=0), np.zeros_like(starts[0])
            starts, ends, sizes = starts[read], ends[read], sizes[read]
        first = starts.min(axis=0)
        spans = ends.max(axis=0) - first
        spans[spans - sizes.sum(axis=0) > MAX_PART_GAP_BYTES] = SEPARATE_READS
        return first, spans

    def _locate_parts_by_layout(
        self, columns: IndexColumns, rows: Int64Array, layouts: NDArray[np.integer[Any]], numbers: Sequence[int]
    ) -> tuple[Int64Array, Int64Array, dict[int, PartBounds]]:
        """The same for rows with several layouts."""
        first, spans = np.zeros_like(rows), np.zeros_like(rows)
        bounds: dict[int, PartBounds] = {}
        for layout in numbers:
            indices = np.flatnonzero(layouts == layout)
            first[indices], spans[indices], layout_bounds = self._locate_parts(columns, rows[indices], layout)
            bounds[layout] = [
                (_scatter(a, indices, len(rows)), _scatter(b, indices, len(rows))) for a, b in layout_bounds[layout]
            ]
        return first, spans, bounds

    def _first_parts(self, columns: IndexColumns, rows: Int64Array) -> Int64Array:
        starts = columns.part_start
        return rows * len(self._offsets.layouts[0]) if starts is None else starts.take(rows)

    def _shard_indices(self, rows: Int64Array) -> Int64Array:
        shards: Int64Array = self._offsets.shard_row.searchsorted(rows, side="right") - 1
        return shards


def _keys(columns: IndexColumns, rows: Int64Array) -> list[str]:
    starts, ends = columns.key_start.take(rows).tolist(), columns.key_start.take(rows + 1).tolist()
    text = columns.key_text
    return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]


def _scatter(values: list[int], indices: Int64Array, count: int) -> list[int]:
    """A list of `count` numbers with the values at these indices, 0 elsewhere."""
    scattered = np.zeros(count, np.int64)
    scattered[indices] = values
    listed: list[int] = scattered.tolist()
    return listed
