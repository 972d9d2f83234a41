"""Positions of a selection become references to parts: which shard, from which byte, cut where. Numpy, and no reads.

References are made a window at a time, as lists of numbers and strings: objects a sample would be the garbage
collector's work, and it walks through everything a training process holds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.storage import Range
from wdsctl.loader.lazy_part import LARGE
from wdsctl.loader.selection import Selection

Ints = NDArray[np.int64]
Cuts = list[tuple[list[int], list[int]]]  # of each needed part: where it starts and ends, sample by sample

INDEX_BITS = 28  # of a sample's id: its index in its shard
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


Run = tuple[Block, int, int]  # the references of a block from one to before another


class References:
    """`needed`: for each layout of the offsets file, the parts that are read, by place in the tar."""

    def __init__(self, root: str, offsets: ShardIndex, selection: Selection, needed: Sequence[Sequence[int]]) -> None:
        self.paths = [os.path.join(root, shard.path) for shard in offsets.shards]
        self._offsets = offsets
        self._selection = selection
        self._needed = [np.array(parts, np.int64) for parts in needed]
        self._shard_ids = np.array([shard.id for shard in offsets.shards], np.int64)

    def block(self, positions: Ints, passes: Ints) -> Block:
        """References to the samples at these positions, in their order. About 2 us a sample."""
        return self.of_rows(self._selection.rows(positions), passes)

    def of_rows(self, rows: Ints, passes: Ints) -> Block:
        """The same for rows of the offsets."""
        offsets = self._offsets
        shards = self._shards(rows)
        layouts = np.zeros(len(rows), np.int64) if offsets.layout is None else offsets.layout[rows]
        first, spans = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        cuts: dict[int, Cuts] = {}
        for layout in np.unique(layouts).tolist():
            mine = np.flatnonzero(layouts == layout)
            starts, ends = self._bounds(rows[mine], layout)
            if starts.shape[1]:
                first[mine] = starts.min(axis=1)
                spans[mine] = _spans(starts, ends)
            cuts[layout] = [
                (_spread(start, mine, len(rows)), _spread(end, mine, len(rows)))
                for start, end in zip((starts.T - first[mine]), (ends.T - first[mine]), strict=True)
            ]
        return Block(
            passes=passes.tolist(),
            rows=rows.tolist(),
            ids=((self._shard_ids[shards] << INDEX_BITS) | (rows - offsets.shard_row[shards])).tolist(),
            keys=self._keys(rows),
            shards=shards.tolist(),
            layouts=layouts.tolist(),
            first=first.tolist(),
            spans=spans.tolist(),
            cuts=cuts,
            alike=next(iter(cuts)) if len(cuts) == 1 and _are_small(spans) else -1,
        )

    def ranges(self, slices: Ints) -> list[Range]:
        """What the positions [start, stop) of these slices cover, as ranges of bytes, one a shard and slice.

        `slices`: (slices, 2). Where a split has only some samples of a shard, what lies between them is covered too.
        """
        pieces = self._selection.by_shard(slices)
        low, high = self._selection.rows((pieces - np.array([0, 1])).ravel()).reshape(-1, 2).T
        begin, end = self._first_parts(low), self._first_parts(high + 1) - 1
        starts = self._offsets.part_offset[begin]
        sizes = self._offsets.part_offset[end] + self._offsets.part_size[end] - starts
        found = zip(self._shards(low).tolist(), starts.tolist(), sizes.tolist(), strict=True)
        return [Range(self.paths[shard], start, size) for shard, start, size in found]

    def reads(self, block: Block) -> Iterator[Range]:
        """The reads that load the samples of a block one by one, in their order. Large parts are not among them."""
        for shard, layout, first, span, i in zip(block.shards, block.layouts, block.first, block.spans, count()):
            path = self.paths[shard]
            if 0 <= span <= LARGE:
                yield Range(path, first, span)
            else:
                parts = ((starts[i], ends[i] - starts[i]) for starts, ends in block.cuts[layout])
                yield from (Range(path, first + at, size) for at, size in parts if size <= LARGE)

    def _bounds(self, rows: Ints, layout: int) -> tuple[Ints, Ints]:
        """Where the needed parts of rows of one layout start and end: (rows, parts) each."""
        places = self._first_parts(rows)[:, None] + self._needed[layout]
        starts = self._offsets.part_offset[places]
        return starts, starts + self._offsets.part_size[places]

    def _first_parts(self, rows: Ints) -> Ints:
        starts = self._offsets.part_start
        return rows * len(self._offsets.layouts[0]) if starts is None else starts[rows]

    def _shards(self, rows: Ints) -> Ints:
        shards: Ints = np.searchsorted(self._offsets.shard_row, rows, side="right") - 1
        return shards

    def _keys(self, rows: Ints) -> list[str]:
        starts, ends = self._offsets.key_start[rows].tolist(), self._offsets.key_start[rows + 1].tolist()
        text = self._offsets.key_text
        return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]


def _spans(starts: Ints, ends: Ints) -> Ints:
    spans: Ints = ends.max(axis=1) - starts.min(axis=1)
    between = spans - (ends - starts).sum(axis=1)
    return np.where(between > GAP, APART, spans)


def _are_small(spans: Ints) -> bool:
    return bool(((spans >= 0) & (spans <= LARGE)).all())


def _spread(values: Ints, places: Ints, count: int) -> list[int]:
    """The values at their places in a list as long as the block."""
    if len(values) == count:
        whole: list[int] = values.tolist()
        return whole
    spread = np.zeros(count, np.int64)
    spread[places] = values
    listed: list[int] = spread.tolist()
    return listed
