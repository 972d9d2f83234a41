"""Positions of a selection become references to parts: which shard, from which byte, cut where. Numpy, and no reads.

References are made a window at a time, as lists of numbers and strings: objects a sample would be the garbage
collector's work, and it walks through everything a training process holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.shard_index import Columns, ShardIndex
from wdsctl.core.storage import Range
from wdsctl.loader.lazy_part import LARGE
from wdsctl.loader.selection import Selection

Ints = NDArray[np.int64]
Cuts = list[tuple[list[int], list[int]]]  # of each needed part: where it starts and ends, sample by sample

GAP = 64 << 10  # bytes: parts of one sample that lie closer are read in one go, with what is between them
APART = -1  # the span of a sample whose parts are read one by one


@dataclass(slots=True)
class Block:
    """References to some samples, a list a column. Bytes are counted from the start of the shard."""

    passes: list[int]  # over its source, counted from 0: which one a sample comes in
    rows: list[int]  # of the offsets file
    ids: list[int]
    keys: list[str]
    shards: list[int]  # index into `paths`
    layouts: list[int]
    first: list[int]  # where the first needed part begins
    spans: list[int]  # bytes from there to the end of the last; APART where there is much between them
    cuts: dict[int, Cuts]  # by layout; bytes from `first`
    alike: int  # the layout of all of them, where they have one and none is large or APART; else -1

    def __len__(self) -> int:
        return len(self.rows)


class References:
    """`needed`: for each layout of the offsets file, the parts that are used, by place in the tar. `ranged`: for each
    of these, whether it is not read with the sample; an empty one where all are. Spans are of those that are.
    """

    def __init__(
        self,
        root: str,
        offsets: ShardIndex,
        selection: Selection,
        needed: Sequence[Sequence[int]],
        ranged: Sequence[Sequence[bool]] = (),
    ) -> None:
        self.paths = [os.path.join(root, shard.path) for shard in offsets.shards]
        self._offsets = offsets
        self._selection = selection
        self._needed = [np.array(parts, np.int64) for parts in needed]
        self.ranged = [tuple(each) for each in ranged] if any(ranged) else [()] * len(self._needed)
        self._shard_ids = np.array([shard.id for shard in offsets.shards], np.int64)

    def block(self, positions: Ints, passes: Ints) -> Block:
        """References to the samples at these positions, in their order. About 2 us a sample."""
        return self.of_rows(self._selection.rows(positions), passes)

    def of_rows(self, rows: Ints, passes: Ints) -> Block:
        """The same for rows of the offsets."""
        offsets = self._offsets
        columns = offsets.checked(rows)
        shards = self._shards(rows)
        layouts = np.zeros(len(rows), np.int64) if columns.layout is None else columns.layout[rows]
        numbers = [0] if columns.layout is None else np.unique(layouts).tolist()
        first, spans, cuts = (
            self._cut(columns, rows, numbers[0])
            if len(numbers) == 1
            else self._cut_apart(columns, rows, layouts, numbers)
        )
        return Block(
            passes=passes.tolist(),
            rows=rows.tolist(),
            ids=(self._shard_ids.take(shards) << INDEX_BITS | rows - offsets.shard_row.take(shards)).tolist(),
            keys=_keys(columns, rows),
            shards=shards.tolist(),
            layouts=layouts.tolist(),
            first=first.tolist(),
            spans=spans.tolist(),
            cuts=cuts,
            alike=numbers[0] if len(numbers) == 1 and _are_small(spans) else -1,
        )

    def ranges(self, slices: Ints, between: int = 0) -> list[Range]:
        """What the positions [start, stop) of these slices cover, as ranges of bytes. Of neighbours in a shard with no
        more than `between` bytes between them it makes one.

        `slices`: (slices, 2). Where a split has only some samples of a shard, what lies between them is covered too.
        """
        pieces = self._selection.by_shard(slices)
        low, high = self._selection.rows((pieces - np.array([0, 1])).ravel()).reshape(-1, 2).T
        columns = self._offsets.checked(np.concatenate((low, high)))
        shards, last = self._shards(low), self._first_parts(columns, high + 1) - 1
        starts = columns.part_offset.take(self._first_parts(columns, low))
        ends = columns.part_offset.take(last) + columns.part_size.take(last)
        gaps = starts[1:] - ends[:-1]
        is_apart = (gaps < 0) | (gaps > between) | (shards[1:] != shards[:-1])
        begins = np.concatenate(([0], np.flatnonzero(is_apart) + 1))
        sizes = ends[np.append(begins[1:], len(ends)) - 1] - starts[begins]
        found = zip(shards[begins].tolist(), starts[begins].tolist(), sizes.tolist(), strict=True)
        return [Range(self.paths[shard], start, size) for shard, start, size in found]

    def reads(self, block: Block) -> Iterator[Range]:
        """The reads that load the samples of a block one by one, in their order. Large parts are not among them."""
        for shard, layout, first, span, i in zip(block.shards, block.layouts, block.first, block.spans, count()):
            path = self.paths[shard]
            if 0 <= span <= LARGE:
                yield Range(path, first, span)
            else:
                cuts = block.cuts[layout]
                read = (not each for each in self.ranged[layout] or [False] * len(cuts))
                parts = ((starts[i], ends[i] - starts[i]) for starts, ends in compress(cuts, read))
                yield from (Range(path, first + at, size) for at, size in parts if size <= LARGE)

    def _cut(self, columns: Columns, rows: Ints, layout: int) -> tuple[Ints, Ints, dict[int, Cuts]]:
        """Where the needed parts of rows of one layout begin, their spans, and where they are cut."""
        places = self._needed[layout][:, None] + self._first_parts(columns, rows)
        if not len(places):
            return np.zeros_like(rows), np.zeros_like(rows), {layout: []}
        # `take`, because an index costs several times as much where there are few rows.
        starts, sizes = columns.part_offset.take(places), columns.part_size.take(places)
        ends = starts + sizes
        first, spans = self._span(layout, starts, ends, sizes)
        cuts = zip((starts - first).tolist(), (ends - first).tolist(), strict=True)
        return first, spans, {layout: list(cuts)}

    def _span(self, layout: int, starts: Ints, ends: Ints, sizes: Ints) -> tuple[Ints, Ints]:
        """Of the parts that are read with the sample: where they begin, and how far they go."""
        if self.ranged[layout]:
            read = ~np.array(self.ranged[layout])
            if not read.any():
                return starts.min(axis=0), np.zeros_like(starts[0])
            starts, ends, sizes = starts[read], ends[read], sizes[read]
        first = starts.min(axis=0)
        spans = ends.max(axis=0) - first
        spans[spans - sizes.sum(axis=0) > GAP] = APART
        return first, spans

    def _cut_apart(
        self, columns: Columns, rows: Ints, layouts: NDArray[np.integer[Any]], numbers: Sequence[int]
    ) -> tuple[Ints, Ints, dict[int, Cuts]]:
        """The same of several layouts."""
        first, spans = np.zeros_like(rows), np.zeros_like(rows)
        cuts: dict[int, Cuts] = {}
        for layout in numbers:
            mine = np.flatnonzero(layouts == layout)
            first[mine], spans[mine], cut = self._cut(columns, rows[mine], layout)
            cuts[layout] = [(_spread(a, mine, len(rows)), _spread(b, mine, len(rows))) for a, b in cut[layout]]
        return first, spans, cuts

    def _first_parts(self, columns: Columns, rows: Ints) -> Ints:
        starts = columns.part_start
        return rows * len(self._offsets.layouts[0]) if starts is None else starts.take(rows)

    def _shards(self, rows: Ints) -> Ints:
        shards: Ints = self._offsets.shard_row.searchsorted(rows, side="right") - 1
        return shards


def _keys(columns: Columns, rows: Ints) -> list[str]:
    starts, ends = columns.key_start.take(rows).tolist(), columns.key_start.take(rows + 1).tolist()
    text = columns.key_text
    return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]


def _are_small(spans: Ints) -> bool:
    # As unsigned words, APART is larger than all.
    return bool(spans.view(np.uint64).max(initial=0) <= LARGE)


def _spread(values: list[int], places: Ints, count: int) -> list[int]:
    """The values at their places in a list as long as the block."""
    spread = np.zeros(count, np.int64)
    spread[places] = values
    listed: list[int] = spread.tolist()
    return listed
