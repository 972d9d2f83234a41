"""One dataset as a training reads it: references to samples become samples. Only the parts that are mapped are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import InputError, LoaderError, WdsctlError
from wdsctl.core.place import Place
from wdsctl.core.sample_types import Kind
from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url, shown
from wdsctl.loader.column import column_of, digests_of
from wdsctl.loader.decoding import BatchMemory, SampleDecoder, as_bytes
from wdsctl.loader.layout import Decode, compile_layout
from wdsctl.loader.lazy_part import LARGE, LazyPart
from wdsctl.loader.mapped import MappedStorage
from wdsctl.loader.raw import Raw
from wdsctl.loader.references import INDEX_BITS, Block, Ints, References
from wdsctl.loader.samples.source_info import source_at
from wdsctl.loader.selection import Selection

Ref = tuple["Source", Block, int]  # which of the references in a block, and who loads it


class Source:
    """The samples of one split of one dataset. `number` tells the sources of one loader apart.

    `subflavors` lie over those of the dataset. `storage` is closed with the source, and may be shared by several.
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
        place: Place | None = None,
        split: str = "",
        subflavors: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        functions: Functions | None = None,
        raw: Raw = "bytes",
    ) -> None:
        self.root = root
        self.place = place
        self.split = split
        self._columns: dict[str, Ints] = {}
        self.dataset_path = shown(root)
        self.offsets = offsets
        self.selection = selection
        self.number = number
        functions = functions or Functions(decoder)
        self.memories = functions.memories
        self._layouts = [compile_layout(names, config, functions, self.dataset_path) for names in offsets.layouts]
        self.references = References(root, offsets, selection, [layout.needed for layout in self._layouts])
        self._paths = self.references.paths
        self._builds = [layout.build for layout in self._layouts]
        self.sample_type = config.sample_type
        self.field_map = dict(config.field_map)
        self.subflavors = {**config.subflavors, **(subflavors or {})} or None
        self.sizes = {path: shard.size for path, shard in zip(self._paths, offsets.shards, strict=True)}
        if storage is None:
            storage = MappedStorage(self.sizes) if raw == "view" else storage_for(root, self.sizes)
        self._storage: Storage = storage
        self._is_far = is_url(root)

    @property
    def n(self) -> int:
        return self.selection.n

    @cached_property
    def digest(self) -> str:
        """Names the data: see `Selection.digest`."""
        return self.selection.digest(self.offsets)

    def column(self, name: str) -> Ints:
        """A column of the catalog by row of the offsets. Raises InputError where it has not been made."""
        if name not in self._columns:
            self._columns[name] = column_of(
                self._known_place(name), self.offsets.generation, name, shards=self.offsets.shards
            )
        return self._columns[name]

    def column_digest(self, name: str) -> str:
        """Names the values of a column: it can be made anew, by another function, within one generation."""
        return next(iter(digests_of(self._known_place(name), self.offsets.generation, [name]).values()))

    def _known_place(self, name: str) -> Place:
        if self.place is None:
            raise InputError(
                f"there is no column {name!r}", where=self.dataset_path, hint="columns belong to prepared datasets"
            )
        return self.place

    def where(self, block: Block, i: int) -> str:
        """Dataset, shard and key of a reference, for people."""
        shard = self.offsets.shards[block.shards[i]].path
        return f"dataset {self.dataset_path}, shard {shard}, key {block.keys[i]}"

    def block(self, positions: Ints, passes: Ints) -> Block:
        """References to the samples at these positions of the split. A store far away is told what they need."""
        block = self.references.block(positions, passes)
        if self._is_far:
            self._storage.will_need(self.references.reads(block))
        return block

    def block_of(self, number: int, sample: int) -> Block:
        """A reference to one sample, by its id, in pass `number`. Raises LoaderError WDS502 where it is not there."""
        shard, index = sample >> INDEX_BITS, sample & ((1 << INDEX_BITS) - 1)
        for i, entry in enumerate(self.offsets.shards):
            row = int(self.offsets.shard_row[i]) + index
            if entry.id == shard and row < int(self.offsets.shard_row[i + 1]):
                return self.references.of_rows(np.array([row], np.int64), np.array([number], np.int64))
        raise LoaderError(
            f"there is no sample {sample} in the dataset",
            where=self.dataset_path,
            hint="the restore key is of another dataset, or of another generation of it",
            code="WDS502",
        )

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
                (self.number, block.passes[i], block.ids[i]),
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
        restore_keys = list(zip(repeat(self.number), block.passes[run], block.ids[run], strict=False))
        return [block.keys[run], restore_keys, [source_at(self, row) for row in block.rows[run]], *parts]

    def plain_fields(self, layout: int) -> tuple[str, ...] | None:
        """The fields that the needed parts of a layout are, as they are; None where they are not."""
        return self._layouts[layout].plain if layout >= 0 else None

    def will_need(self, slices: Ints, most_bytes: int) -> None:
        """Ask the storage to fetch these slices of positions ahead, up to so many bytes. `block` tells one far away."""
        if self._is_far:
            return
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

    def byte_range(self, index: int) -> tuple[int, int]:
        """Of all parts of a sample: the first byte in the shard, and how many to the end of the last part."""
        parts = self.offsets.parts(index)
        begin = min((offset for _, offset, _ in parts), default=0)
        return begin, max((offset + size for _, offset, size in parts), default=begin) - begin

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
        where = self.where(block, i)
        where = f"{where}, {error.where}" if error.where else where
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)


class Functions:
    """Decode functions by part name, one of each, with the memory that the images of a batch share.

    Sources whose samples meet in a batch share one of these.
    """

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
