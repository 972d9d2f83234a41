"""One dataset as a training reads it: references to samples become samples. Only the parts that are mapped are read."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import WdsctlError
from wdsctl.core.sample_types import Kind
from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.storage import LocalStorage, Storage
from wdsctl.loader.dataset import Raw
from wdsctl.loader.decoding import BatchMemory, SampleDecoder, as_bytes
from wdsctl.loader.layout import Decode, compile_layout
from wdsctl.loader.lazy_part import LARGE, LazyPart
from wdsctl.loader.mapped import MappedStorage
from wdsctl.loader.references import Block, Ints, References
from wdsctl.loader.samples.source_info import source_at
from wdsctl.loader.selection import Selection

Ref = tuple["Source", Block, int]  # which of the references in a block, and who loads it


class Source:
    """The samples of one split of one dataset. `number` tells the sources of one loader apart.

    `memories`: where images of a batch are decoded side by side; whoever makes batches begins them.
    """

    def __init__(
        self,
        root: str,
        offsets: ShardIndex,
        selection: Selection,
        config: DatasetConfig,
        decoder: SampleDecoder | None,
        *,
        number: int = 0,
        storage: Storage | None = None,
        raw: Raw = "bytes",
    ) -> None:
        self.dataset_path = root
        self.offsets = offsets
        self.selection = selection
        self.number = number
        functions = _Functions(decoder)
        self.memories = functions.memories
        self._layouts = [compile_layout(names, config, functions, root) for names in offsets.layouts]
        self.references = References(root, offsets, selection, [layout.needed for layout in self._layouts])
        self._paths = self.references.paths
        self._builds = [layout.build for layout in self._layouts]
        self.sample_type = config.sample_type
        self.field_map = dict(config.field_map)
        self.subflavors = dict(config.subflavors) or None
        sizes = {path: shard.size for path, shard in zip(self._paths, offsets.shards, strict=True)}
        local = MappedStorage(sizes) if raw == "view" else LocalStorage(sizes)
        self._storage: Storage = storage if storage is not None else local

    @property
    def n(self) -> int:
        return self.selection.n

    def block(self, positions: Ints, epoch: int) -> Block:
        """References to the samples at these positions of the split."""
        return self.references.block(positions, epoch)

    def load(self, block: Block, i: int) -> Any:
        """Read, decode and build one sample. Raises WdsctlError that names dataset, shard, key and part."""
        try:
            layout, span = block.layouts[i], block.spans[i]
            if 0 <= span <= LARGE:
                data = self._storage.read(self._paths[block.shards[i]], block.first[i], span)
                parts: list[Any] = [data[starts[i] : ends[i]] for starts, ends in block.cuts[layout]]
            else:
                parts = self._read_apart(block, i)
            return self._builds[layout](
                block.keys[i],
                (self.number, block.epoch, block.ids[i]),
                self.subflavors,
                (source_at(self, block.rows[i]),),
                *parts,
            )
        except WdsctlError as error:
            raise self._located(error, block, i) from error

    def load_run(self, block: Block, start: int, stop: int) -> list[list[Any]]:
        """Samples that are `alike` and plain, as columns: keys, restore keys, sources, and each needed part.

        Raises what `load` raises for the first of them that fails.
        """
        run, read, paths = slice(start, stop), self._storage.read, self._paths
        cuts = block.cuts[block.alike]
        parts: list[list[bytes]] = [[] for _ in cuts]
        fill = [(part.append, starts, ends) for part, (starts, ends) in zip(parts, cuts, strict=True)]
        i = start
        try:
            for i in range(start, stop):
                # Cut at once, while what was read is in the processor's cache: it halves the cost of the copy.
                data = read(paths[block.shards[i]], block.first[i], block.spans[i])
                for append, starts, ends in fill:
                    append(data[starts[i] : ends[i]])
        except WdsctlError as error:
            raise self._located(error, block, i) from error
        restore_keys = list(zip(repeat(self.number), repeat(block.epoch), block.ids[run], strict=False))
        return [block.keys[run], restore_keys, [source_at(self, row) for row in block.rows[run]], *parts]

    def plain_fields(self, layout: int) -> tuple[str, ...] | None:
        """The fields that the needed parts of a layout are, as they are; None where they are not."""
        return self._layouts[layout].plain if layout >= 0 else None

    def will_need(self, slices: Ints, most_bytes: int) -> None:
        """Ask the storage to fetch these slices of positions ahead, up to so many bytes."""
        ranges = self.references.ranges(slices)
        total = np.cumsum([each.size for each in ranges])
        self._storage.will_need(ranges[: int(np.searchsorted(total, most_bytes, side="right"))])

    def close(self) -> None:
        self._storage.close()

    # What `SourceInfo` asks for, when somebody reads it.

    def shard_name(self, index: int) -> str:
        return self.offsets.shards[self.offsets.shard_of(index)].path

    def file_names(self, index: int) -> tuple[str, ...]:
        key = self.offsets.key(index)
        return tuple(f"{key}.{name}" for name, _, _ in self.offsets.parts(index))

    def _read_apart(self, block: Block, i: int) -> list[Any]:
        """Part by part, where there is much between them; a large part is a handle that reads when it is asked to."""
        path, first = self._paths[block.shards[i]], block.first[i]
        parts: list[Any] = []
        for starts, ends in block.cuts[block.layouts[i]]:
            at, size = first + starts[i], ends[i] - starts[i]
            is_large = size > LARGE
            parts.append(LazyPart(path, at, size, self._storage) if is_large else self._storage.read(path, at, size))
        return parts

    def _located(self, error: WdsctlError, block: Block, i: int) -> WdsctlError:
        shard = self.offsets.shards[block.shards[i]].path
        where = f"dataset {self.dataset_path}, shard {shard}, key {block.keys[i]}"
        where = f"{where}, {error.where}" if error.where else where
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)


class _Functions:
    """Decode functions by part name, one of each, with the memory that the images of a batch share."""

    def __init__(self, decoder: SampleDecoder | None) -> None:
        self.memories: list[BatchMemory] = []
        self._decoder = decoder
        self._known: dict[tuple[str, Kind], Decode | None] = {}

    def __call__(self, part: str, kind: Kind) -> Decode | None:
        """What decodes this part for a field of this kind, or None where its bytes are handed out."""
        if self._decoder is None:
            return None
        if (part, kind) not in self._known:
            memory = self._decoder.memory_for(part, kind)
            if memory is not None:
                self.memories.append(memory)
            function = self._decoder.function_for(part, memory, kind)
            self._known[part, kind] = None if function is as_bytes else function
        return self._known[part, kind]
