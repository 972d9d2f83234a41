"""One dataset as a training reads it: positions become references to parts, references become samples.

References are made a window at a time, in numpy; loading takes them one by one. Nothing is read before it is needed,
and only the parts that the field map names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import WdsctlError
from wdsctl.core.offsets import Offsets
from wdsctl.core.storage import LocalStorage, Range, Storage
from wdsctl.loader.decoding import BatchMemory, SampleDecoder, as_bytes
from wdsctl.loader.layout import Layout, compile_layout
from wdsctl.loader.lazy_part import LARGE, LazyPart
from wdsctl.loader.samples.source_info import source_at
from wdsctl.loader.selection import Selection

Ints = NDArray[np.int64]

INDEX_MASK = (1 << 28) - 1
INDEX_BITS = 28
GAP = 64 << 10  # bytes: parts of one sample that lie closer are read in one go, with what is between them


@dataclass(slots=True)
class Block:
    """References to the samples of one window, a list a column: what `Source.load` needs, and nothing read yet."""

    source: Source
    epoch: int
    rows: list[int]
    keys: list[str]
    ids: list[int]
    shards: list[int]  # index into the offsets file's shards
    layouts: list[int]
    first: list[int]  # bytes: where the first needed part begins in the shard
    spans: list[int]  # bytes from there to the end of the last
    cuts: list[list[int]]  # start and end of every needed part, from `first`

    def __len__(self) -> int:
        return len(self.rows)


class Source:
    """The samples of one split of one dataset. `number` tells sources of one loader apart."""

    def __init__(
        self,
        root: str,
        offsets: Offsets,
        selection: Selection,
        config: DatasetConfig,
        decoder: SampleDecoder | None,
        *,
        number: int = 0,
        storage: Storage | None = None,
    ) -> None:
        self.dataset_path = root
        self.offsets = offsets
        self.selection = selection
        self.number = number
        self.bytes_read = 0
        self._paths = [os.path.join(root, shard.path) for shard in offsets.shards]
        self._shard_ids = np.array([shard.id for shard in offsets.shards], np.int64)
        sizes = {path: shard.size for path, shard in zip(self._paths, offsets.shards, strict=True)}
        self._storage: Storage = storage if storage is not None else LocalStorage(sizes)
        self._subflavors = dict(config.subflavors) or None
        self.memories: list[BatchMemory] = []
        functions = _Functions(decoder, self.memories)
        self._layouts: list[Layout] = [compile_layout(names, config, functions, root) for names in offsets.layouts]

    @property
    def n(self) -> int:
        return self.selection.n

    def block(self, positions: Ints, epoch: int) -> Block:
        """References to the samples at these positions of the selection, in their order."""
        rows = self.selection.rows(positions)
        shards = np.searchsorted(self.offsets.shard_row, rows, side="right") - 1
        ids = (self._shard_ids[shards] << INDEX_BITS) | (rows - self.offsets.shard_row[shards])
        first, spans, cuts, layouts = self._spans(rows)
        return Block(
            source=self,
            epoch=epoch,
            rows=rows.tolist(),
            keys=self._keys(rows),
            ids=ids.tolist(),
            shards=shards.tolist(),
            layouts=layouts,
            first=first,
            spans=spans,
            cuts=cuts,
        )

    def load(self, block: Block, i: int) -> Any:
        """Read, decode and build one sample. Raises WdsctlError that names dataset, shard, key and part."""
        try:
            layout = self._layouts[block.layouts[i]]
            return layout.build(
                block.keys[i],
                (self.number, block.epoch, block.ids[i]),
                self._subflavors,
                (source_at(self, block.rows[i]),),
                self._read(block, i),
            )
        except WdsctlError as error:
            raise self._located(error, block, i) from error

    def ranges(self, slices: Ints) -> Iterator[Range]:
        """What the positions [start, stop) of these slices cover, as ranges of bytes: a shard at a time."""
        for start, stop in slices.tolist():
            rows = self.selection.rows(np.array([start, stop - 1]))
            shards = (np.searchsorted(self.offsets.shard_row, rows, side="right") - 1).tolist()
            for shard in range(shards[0], shards[1] + 1):
                low = max(int(rows[0]), int(self.offsets.shard_row[shard]))
                high = min(int(rows[1]), int(self.offsets.shard_row[shard + 1]) - 1)
                begin, end = self.offsets.first_part(low), self.offsets.first_part(high + 1) - 1
                offset = int(self.offsets.part_offset[begin])
                size = int(self.offsets.part_offset[end] + self.offsets.part_size[end]) - offset
                yield Range(self._paths[shard], offset, size)

    def will_need(self, slices: Ints, most_bytes: int) -> None:
        """Ask the storage to fetch these slices ahead, up to so many bytes."""
        ranges, total = [], 0
        for each in self.ranges(slices):
            total += each.size
            if total > most_bytes:
                break
            ranges.append(each)
        self._storage.will_need(ranges)

    def close(self) -> None:
        self._storage.close()

    # What `SourceInfo` asks for, when somebody reads it.

    def shard_name(self, index: int) -> str:
        return self.offsets.shards[self.offsets.shard_of(index)].path

    def file_names(self, index: int) -> tuple[str, ...]:
        key = self.offsets.key(index)
        return tuple(f"{key}.{name}" for name, _, _ in self.offsets.parts(index))

    def _read(self, block: Block, i: int) -> Sequence[Any]:
        """The needed parts of one sample, in the order its layout wants them."""
        span = block.spans[i]
        if span > LARGE or span < 0:
            return self._read_apart(block, i)
        self.bytes_read += span
        data = self._storage.read(self._paths[block.shards[i]], block.first[i], span)
        cuts = iter(block.cuts[i])
        return [data[start:end] for start, end in zip(cuts, cuts, strict=True)]

    def _read_apart(self, block: Block, i: int) -> list[Any]:
        """Part by part, where there is much between them; a large part is a handle that reads when it is asked to."""
        path, first, cuts = self._paths[block.shards[i]], block.first[i], block.cuts[i]
        parts: list[Any] = []
        for start, end in zip(cuts[::2], cuts[1::2], strict=True):
            if end - start > LARGE:
                parts.append(LazyPart(path, first + start, end - start, self._storage))
            else:
                self.bytes_read += end - start
                parts.append(self._storage.read(path, first + start, end - start))
        return parts

    def _keys(self, rows: Ints) -> list[str]:
        starts, ends = self.offsets.key_start[rows].tolist(), self.offsets.key_start[rows + 1].tolist()
        text = self.offsets.key_text
        return [str(text[start:end], "utf-8") for start, end in zip(starts, ends, strict=True)]

    def _spans(self, rows: Ints) -> tuple[list[int], list[int], list[list[int]], list[int]]:
        """Where the needed parts of each row are: first byte, bytes in all, and the cuts between, by layout."""
        if self.offsets.layout is None:
            cuts = self._cuts(rows, 0)
            return (*_as_lists(*cuts), [0] * len(rows))
        layouts = self.offsets.layout[rows]
        first, spans = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        parts: list[list[int]] = [[]] * len(rows)
        for number in np.unique(layouts).tolist():
            mine = np.flatnonzero(layouts == number)
            first[mine], spans[mine], table = self._cuts(rows[mine], number)
            for place, row in zip(mine.tolist(), table.tolist(), strict=True):
                parts[place] = row
        return first.tolist(), spans.tolist(), parts, layouts.tolist()

    def _cuts(self, rows: Ints, number: int) -> tuple[Ints, Ints, Ints]:
        """For rows of one layout: first byte, span (-1 where parts lie too far apart), cuts (rows, 2 x parts)."""
        needed = np.array(self._layouts[number].needed, np.int64)
        if len(needed) == 0:
            zeros = np.zeros(len(rows), np.int64)
            return zeros, zeros, np.empty((len(rows), 0), np.int64)
        begins = (
            rows * len(self.offsets.layouts[0]) if self.offsets.part_start is None else self.offsets.part_start[rows]
        )
        places = begins[:, None] + needed
        starts, sizes = self.offsets.part_offset[places], self.offsets.part_size[places]
        ends = starts + sizes
        first = starts.min(axis=1)
        spans = ends.max(axis=1) - first
        apart = spans - sizes.sum(axis=1) > GAP
        spans[apart] = -1
        cuts = np.stack((starts - first[:, None], ends - first[:, None]), axis=2).reshape(len(rows), -1)
        return first, spans, cuts

    def _located(self, error: WdsctlError, block: Block, i: int) -> WdsctlError:
        shard = self.offsets.shards[block.shards[i]].path
        where = f"dataset {self.dataset_path}, shard {shard}, key {block.keys[i]}"
        where = f"{where}, {error.where}" if error.where else where
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)


def _as_lists(first: Ints, spans: Ints, cuts: Ints) -> tuple[list[int], list[int], list[list[int]]]:
    return first.tolist(), spans.tolist(), cuts.tolist()


class _Functions:
    """Decode functions by part name, one of each, with the memory that a batch of its images shares."""

    def __init__(self, decoder: SampleDecoder | None, memories: list[BatchMemory]) -> None:
        self._decoder = decoder
        self._memories = memories
        self._known: dict[str, Any] = {}

    def __call__(self, part: str) -> Any:
        """What decodes this part, or None where its bytes are handed out."""
        if self._decoder is None:
            return None
        if part not in self._known:
            memory = self._decoder.memory_for(part)
            if memory is not None:
                self._memories.append(memory)
            function = self._decoder.function_for(part, memory)
            self._known[part] = None if function is as_bytes else function
        return self._known[part]
