"""One dataset as a training reads it: references to samples become samples. Only the parts that are mapped are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, repeat
from typing import Any

import numpy as np

from wdsctl.core.columns import Values, find_column
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import InputError, LoaderError, StorageDown, StorageError, WdsctlError
from wdsctl.core.keyframe_file import open_keyframes
from wdsctl.core.place import Place
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.shard_probe import Probe, probes_of
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url, shown
from wdsctl.loader.asking import heard
from wdsctl.loader.decode_functions import Functions
from wdsctl.loader.decoding import SampleDecoder
from wdsctl.loader.failures import is_changed_shard
from wdsctl.loader.logs import log
from wdsctl.loader.mapped import MappedStorage
from wdsctl.loader.part_reader import PartReader
from wdsctl.loader.raw import Raw
from wdsctl.loader.references import GAP, Block, Ints, References
from wdsctl.loader.sample_code import facts_of
from wdsctl.loader.samples.source_info import source_at
from wdsctl.loader.selection import Selection
from wdsctl.loader.stores.store import FileStore

Ref = tuple["Source", Block, int]  # which of the references in a block, and who loads it
RefRange = tuple["Source", Block, int, int]  # those from one to before another
Kinds = frozenset[tuple[str, frozenset[str]]]  # sample types, and of crude samples the parts they have
PlainType = tuple[str, tuple[str, ...]]  # a sample type and some of its fields


class Source:
    """The samples of one split of one dataset. `number` tells the sources of one loader apart.

    `root`: the folder or URL that shards are named from. `split`: its name in the catalog, or nothing where it is of a
    file. `aux`: stores that its cooker looks things up in, by name. `subflavors` lie over those of the dataset.
    `storage` is closed with the source, and may be shared by several. `memories`: where images of a batch are decoded
    side by side; whoever makes batches begins them. `together`: within it, images may be decoded at its end. `sizes`:
    bytes of the shards, by path. `unused_parts`: that no field takes. `whole`: the split, of which a view or a join has
    only a `selection`; `view`: the hash of the view. `is_member`: of a join, and read by nobody but that. All of it
    stays as it is made.

    Raises what `compile_layout` raises, and of datasets with films what `open_keyframes` does. No sample is read.
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
        aux: Mapping[str, FileStore] | None = None,
        view: str = "",
        whole: Selection | None = None,
        is_member: bool = False,
    ) -> None:
        self.root = root
        self.aux = dict(aux or {})
        self.decoder = decoder
        self.place = place
        self.split = split
        self.is_member = is_member
        self.view = view
        self.whole = selection if whole is None else whole
        self._columns: dict[str, Values] = {}
        self._changed: set[int] = set()  # ids of shards that are gone, or not what was indexed
        self.dataset_path = shown(root) if place is None else place.shown
        self.raw = raw
        self.offsets = offsets
        self.selection = selection
        self.number = number
        functions = functions or Functions(decoder)
        self.memories = functions.memories
        self.together = functions.together
        layouts = [functions.layout(names, config, self.dataset_path) for names in offsets.layouts]
        needed = [layout.needed for layout in layouts]
        self.references = References(root, offsets, selection, needed, [layout.ranged for layout in layouts])
        self._builds = [layout.build for layout in layouts]
        self._plain = [None if layout.plain is None else (config.sample_type, layout.plain) for layout in layouts]
        self.sample_type = config.sample_type
        self.field_map = facts_of(config)
        self.subflavors = {**config.subflavors, **(subflavors or {})}
        self._paths, ranged = self.references.paths, self.references.ranged
        self.sizes = {path: shard.size for path, shard in zip(self._paths, offsets.shards, strict=True)}
        self.probes = dict.fromkeys(self._paths, self._probes_of)
        self._has_ranged = any(ranged)
        films = open_keyframes(place, offsets.generation) if place is not None and self._has_ranged else None
        if storage is None:
            storage = (
                MappedStorage(root, self.sizes, self.probes)
                if raw == "view"
                else storage_for(root, self.sizes, self.probes, hear=heard)
            )
        self._storage: Storage = storage
        parts = [[names[i] for i in each] for names, each in zip(offsets.layouts, needed, strict=True)]
        self.kinds: Kinds | None = _kinds(config, parts)
        self._reader = PartReader(storage, self._paths, self.sizes, parts, ranged, films)
        self._is_far = is_url(root)
        # Those that a sample loader does not ask for were left out by hand.
        self.unused_parts = () if config.sample_loader else _unused(offsets.layouts, needed)

    @property
    def n(self) -> int:
        """How many samples are read: positions are 0 to n - 1."""
        return self.selection.n

    @cached_property
    def digest(self) -> str:
        """Names the data: see `Selection.digest`."""
        return self.selection.digest(self.offsets)

    @property
    def split_digest(self) -> str:
        """Names the split, of which a join or a view has only some samples."""
        return self.digest if self.whole is self.selection else self.whole.digest(self.offsets)

    def column(self, name: str) -> Values:
        """A column of the catalog by row of the offsets. Raises InputError where it has not been made."""
        if name not in self._columns:
            place, generation = self._known_place(name), self.offsets.generation
            self._columns[name] = find_column(place, name, generation, shards=self.offsets.shards).checked
        return self._columns[name]

    def column_digest(self, name: str) -> str:
        """Names the values of a column: it can be made anew, by another function, within one generation."""
        return find_column(self._known_place(name), name, self.offsets.generation).facts.digest

    def _known_place(self, name: str) -> Place:
        if self.place is None:
            raise InputError(
                f"there is no column {name!r}", where=self.dataset_path, hint="columns belong to prepared datasets"
            )
        return self.place

    def _probes_of(self, path: str) -> list[Probe]:
        return probes_of(self.offsets, self._shards_by_path[path])

    @cached_property
    def _shards_by_path(self) -> dict[str, int]:
        return {path: i for i, path in enumerate(self._paths)}

    def where(self, block: Block, i: int) -> str:
        """Dataset, shard and key of a reference, for people."""
        shard = self.offsets.shards[block.shards[i]].path
        return f"dataset {self.dataset_path}, shard {shard}, key {block.keys[i]}"

    def block(self, positions: Ints, passes: Ints) -> Block:
        """References to the samples at these positions of the split. A store far away is told what they need."""
        return self.block_of_rows(self.selection.rows(positions), passes)

    def block_of_rows(self, rows: Ints, passes: Ints) -> Block:
        """The same for rows of the offsets."""
        block = self.references.of_rows(rows, passes)
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
            return self._builds[block.layouts[i]](
                block.keys[i],
                (self.number, block.passes[i], block.ids[i]),
                self.subflavors,
                (source_at(self, block.rows[i]),),
                *self._reader.read(block, i),
            )
        except WdsctlError as error:
            raise self._located(error, block, i) from error

    def load_run(self, block: Block, start: int, stop: int, columns: Sequence[list[Any]]) -> None:
        """Add samples that are `alike` and plain to columns: keys, restore keys, sources, and each needed part.

        Raises what `load` raises for the first of them that fails.
        """
        run, read, paths = slice(start, stop), self._storage.read, self._paths
        keys, restore_keys, sources, *parts = columns
        cuts = block.cuts[block.alike]
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
        keys += block.keys[run]
        restore_keys += zip(repeat(self.number), block.passes[run], block.ids[run], strict=False)
        sources += [source_at(self, row) for row in block.rows[run]]

    def load_one(self, block: Block, i: int, columns: Sequence[list[Any]]) -> None:
        """`load_run` of one sample, in half the time: what a blend is made of."""
        keys, restore_keys, sources, *parts = columns
        try:
            data = self._storage.read(self._paths[block.shards[i]], block.first[i], block.spans[i])
        except WdsctlError as error:
            raise self._located(error, block, i) from error
        for part, (starts, ends) in zip(parts, block.cuts[block.alike], strict=True):
            part.append(data[starts[i] : ends[i]])
        keys.append(block.keys[i])
        restore_keys.append((self.number, block.passes[i], block.ids[i]))
        sources.append(source_at(self, block.rows[i]))

    def read_run(self, block: Block, start: int, stop: int, memory: memoryview, at: int) -> list[int]:
        """Read samples that are `alike` and plain into memory from `at` on, one behind the other. Where each begins.

        Raises what `load` raises for the first of them that fails.
        """
        run, read, paths = slice(start, stop), self._storage.read_into, self._paths
        begins: list[int] = []
        try:
            for shard, first, span in zip(block.shards[run], block.first[run], block.spans[run], strict=True):
                read(paths[shard], first, memory[at : at + span])
                begins.append(at)
                at += span
        except WdsctlError as error:
            raise self._located(error, block, start + len(begins)) from error
        return begins

    def plain_type(self, layout: int) -> PlainType | None:
        """The sample type and the fields that the needed parts of a layout are as they are; None where they are not."""
        return self._plain[layout] if layout >= 0 else None

    def will_need(self, slices: Ints, most_bytes: int) -> None:
        """Ask the storage to fetch these slices of positions ahead, up to so many bytes. `block` tells one far away."""
        # Of samples with films nearly all bytes are the films', of which nobody knows what will be read.
        if self._is_far or self._has_ranged:
            return
        ranges = self.references.ranges(slices, GAP)
        ends = accumulate(each.size for each in ranges)
        self._storage.will_need(each for each, end in zip(ranges, ends, strict=True) if end <= most_bytes)

    def close(self) -> None:
        """Close its storage and its stores: what is shared is closed for all. What is read next opens it again."""
        self._storage.close()
        for store in self.aux.values():
            store.close()

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

    def _located(self, error: WdsctlError, block: Block, i: int) -> WdsctlError:
        where = self.where(block, i)
        where = f"{where}, {error.where}" if error.where else where
        if is_changed_shard(error):
            self._note_changed(block.shards[i])
        if isinstance(error, StorageError) and error.code == StorageError.code and self._is_gone():
            return StorageDown(
                f"{error.message}; no other shard of the dataset is there either",
                where=where,
                hint="look whether the file system is mounted and the dataset where it was, and go on",
            )
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)

    def _note_changed(self, i: int) -> None:
        """Say how large a part of the data is lost with the i-th shard and those before it: where their number doubles,
        as every process that reads finds out for itself."""
        shard = self.offsets.shards[i]
        if shard.id in self._changed:
            return
        self._changed.add(shard.id)
        if (len(self._changed) & len(self._changed) - 1) == 0:
            lost = self.selection.samples_of(self._changed)
            log.warning(
                "%s of %s cannot be read (gone, or not what was indexed; such as %s): %s, %.3g%% of what is read of it,"
                " left out; restore what is gone, or run `wdsctl index` and begin a new run",
                counted(len(self._changed), "shard"),
                self.dataset_path,
                shard.path,
                counted(lost, "sample"),
                100 * lost / max(1, self.selection.n),
            )

    def _is_gone(self) -> bool:
        """Whether nothing is left of the dataset: a folder that was unmounted or removed loses all shards at once."""
        some = {self._paths[0], self._paths[len(self._paths) // 2], self._paths[-1]}
        return not any(self._storage.exists(path) for path in some)


def _unused(layouts: Sequence[Sequence[str]], needed: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """The parts that no sample is made of, of those that can be made."""
    made = [(names, each) for names, each in zip(layouts, needed, strict=True) if each]
    used = {names[i] for names, each in made for i in each}
    return tuple(sorted({name for names, _ in made for name in names} - used))


def _kinds(config: DatasetConfig, layouts: Sequence[Sequence[str]]) -> Kinds | None:
    """What samples with these parts are, by type and by name, where all of it is known without reading one."""
    if config.sample_loader:
        return None
    if config.sample_type == CRUDE:
        return frozenset((CRUDE, frozenset(parts)) for parts in layouts)
    return frozenset({(config.sample_type, frozenset())})
