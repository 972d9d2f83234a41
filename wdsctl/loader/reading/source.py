"""`SplitSource`: one split of one dataset, which resolves positions to references and loads their samples.

Only parts that the field map uses are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.catalog.keyframe_file import open_keyframes
from wdsctl.core.columns.column_file import CheckedValues, digest_values, find_column
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import InputError, LoaderError, StorageDown, StorageError, WdsctlError
from wdsctl.core.media.kinds import MEDIA_KINDS, part_kind
from wdsctl.core.offsets.probe import Probe, probes_of
from wdsctl.core.offsets.read import ShardIndex
from wdsctl.core.samples.crude_fields import complete_crude_fields
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.samples.types import CRUDE
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.read_ahead import CachedRanges
from wdsctl.core.storage.storage import FileRange, RemoteStorage, Storage
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url, redact_secrets
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.layout import RawMode
from wdsctl.loader.reading.mapped_storage import MappedStorage
from wdsctl.loader.reading.part_reader import PartReader
from wdsctl.loader.reading.reference_blocks import MAX_PART_GAP_BYTES, ReferenceBlock, ReferenceResolver
from wdsctl.loader.reading.selection import SampleSelection
from wdsctl.loader.reading.user_code import field_facts
from wdsctl.loader.runtime.failures import is_changed_shard
from wdsctl.loader.runtime.logs import logger
from wdsctl.loader.samples.build import lazy_source_info
from wdsctl.loader.workers.status_page import heartbeat_on_retry, log_silence

if TYPE_CHECKING:
    from wdsctl.core.storage.storage import ReadCounts
    from wdsctl.loader.stores.store import FileStore


SampleRef = tuple["SplitSource", ReferenceBlock, int]  # (source, block, index in it)
SampleRefRange = tuple["SplitSource", ReferenceBlock, int, int]  # (source, block, start, stop)
SampleKinds = frozenset[tuple[str, frozenset[str]]]  # (sample type, fields of crude samples)
MAX_EXAMINED_SAMPLES = 1 << 20  # whose fields are compared before the first batch
PlainSampleType = tuple[str, tuple[str, ...]]  # (sample type, fields)


class PrefetchUnit(NamedTuple):
    """A unit of a cache: the samples at neighbouring positions, which are read and cached as a whole."""

    positions: Int64Array
    is_cached: bool
    load: Callable[[Sequence[FileRange]], Sequence[bytes] | None]
    collector: Callable[[Sequence[FileRange]], Callable[[FileRange, bytes], None]]


def _collect(
    collectors: Mapping[FileRange, Callable[[FileRange, bytes], None]], fetched: Sequence[tuple[FileRange, bytes]]
) -> None:
    for each, data in fetched:
        if each in collectors:
            collectors[each](each, data)


def take_read_counts(sources: Iterable[SplitSource]) -> dict[str, ReadCounts]:
    """What these sources have read from stores since the last call, by dataset."""
    found: dict[str, ReadCounts] = {}
    for source in sources:
        counts = source.take_read_counts()
        if counts is not None:
            found[source.dataset_path] = (
                found[source.dataset_path].plus(counts) if source.dataset_path in found else counts
            )
    return found


class SplitSource:
    """The samples of one split of one dataset. Immutable.

    - `root`: the folder or URL of the shards. `number`: identifies the source in its loader.
    - `split_name`: in the catalog; empty if a file defines the split. `selection`: its samples; of a view or a join
      only some of those in `full_selection`. `view_hash`: of the view.
    - `aux`: stores for its cooker, by name. `subflavors` override those of the dataset.
    - `storage`: closed with the source; several sources may share one. `decode_functions`: shared by the sources of a
      batch.
    - `is_member`: of a join, which alone reads it.
    - `last_shard`: the last one that the generation of the source has, if `offsets` are of a later generation.

    Attributes: `memories` of images, on which the batch stage calls `begin`; `decode_in_parallel`, a context in which
    images may be decoded at the end; `shard_sizes`, bytes by path; `unused_parts`, which no field uses.

    The constructor reads no sample. It raises what `compile_layout` and `open_keyframes` raise.
    """

    def __init__(
        self,
        root: str,
        offsets: ShardIndex,
        selection: SampleSelection,
        config: DatasetConfig,
        decoder: SampleDecoder | None,
        *,
        number: int = 0,
        location: DatasetLocation | None = None,
        split_name: str = "",
        subflavors: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        decode_functions: DecodeFunctions | None = None,
        raw: RawMode = "bytes",
        aux: Mapping[str, FileStore] | None = None,
        view_hash: str = "",
        full_selection: SampleSelection | None = None,
        is_member: bool = False,
        last_shard: int | None = None,
    ) -> None:
        self.root = root
        self._last_shard = last_shard
        self.aux = dict(aux or {})
        self.decoder = decoder
        self.location = location
        self.split_name = split_name
        self.is_member = is_member
        self.view_hash = view_hash
        self.full_selection = selection if full_selection is None else full_selection
        self._columns: dict[str, CheckedValues] = {}
        self._changed_shards: set[int] = set()  # ids of shards that are missing or changed
        self.dataset_path = redact_secrets(root) if location is None else location.display_path
        self.raw = raw
        self.offsets = offsets
        self.selection = selection
        self.number = number
        decode_functions = decode_functions or DecodeFunctions(decoder)
        self.memories = decode_functions.memories
        self.decode_in_parallel = decode_functions.decode_in_parallel
        layouts = [decode_functions.layout(names, config, self.dataset_path) for names in offsets.layouts]
        needed = [layout.part_indices for layout in layouts]
        self.references = ReferenceResolver(root, offsets, selection, needed, [layout.lazy_parts for layout in layouts])
        self._builds = [layout.build for layout in layouts]
        #: Of crude samples, by layout: the fields, in which the samples of a batch must agree. Otherwise None.
        self.batch_fields: Sequence[frozenset[str] | None] = [layout.batch_fields for layout in layouts]
        self._plain_types = [
            None if layout.plain_fields is None else (config.sample_type, layout.plain_fields) for layout in layouts
        ]
        self.sample_type = config.sample_type
        self._field_map = config.field_map
        self.field_facts = field_facts(config)
        self.subflavors = {**config.subflavors, **(subflavors or {})}
        self._paths, lazy_parts = self.references.paths, self.references.lazy_parts
        self.shard_sizes = {path: shard.size for path, shard in zip(self._paths, offsets.shards, strict=True)}
        self.probes = dict.fromkeys(self._paths, self._probes_of)
        self._has_lazy_parts = any(lazy_parts)
        keyframes = (
            open_keyframes(location, offsets.generation) if location is not None and self._has_lazy_parts else None
        )
        if storage is None:
            storage = (
                MappedStorage(root, self.shard_sizes, self.probes)
                if raw == "view"
                else storage_for(
                    root, self.shard_sizes, self.probes, on_retry=heartbeat_on_retry, on_silence=log_silence
                )
            )
        self._storage: Storage = storage
        parts = [[names[i] for i in each] for names, each in zip(offsets.layouts, needed, strict=True)]
        self.sample_kinds: SampleKinds | None = _sample_kinds(config, self.batch_fields)
        self._reader = PartReader(storage, self._paths, self.shard_sizes, parts, lazy_parts, keyframes)
        self._remote = cast("RemoteStorage", storage) if is_url(root) else None
        # With a sample loader, the user decides which parts to use.
        self.unused_parts = () if config.sample_loader else _unused_parts(offsets.layouts, needed)

    @property
    def n(self) -> int:
        """The number of samples: positions are 0 to n - 1."""
        return self.selection.n

    @property
    def stores(self) -> Mapping[str, FileStore]:
        """All stores that samples are read from, by name."""
        return self.aux

    @cached_property
    def digest(self) -> str:
        """A digest of the data: see `SampleSelection.digest`."""
        return self.selection.digest(self.offsets)

    @property
    def split_digest(self) -> str:
        """A digest of the full split, of which a join or a view has only some samples."""
        return self.digest if self.full_selection is self.selection else self.full_selection.digest(self.offsets)

    def whole_parts(self, layout: int) -> frozenset[str]:
        """The parts of samples of a layout that are read as a whole, and so decoded at once."""
        names, lazy = self._reader.part_names[layout], self._reader.lazy_parts[layout]
        return frozenset(name for i, name in enumerate(names) if not (lazy and lazy[i]))

    def propose_crude_fields(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """(field map, optional fields) with which all crude samples can be batched; ({}, ()) if none is found."""
        return complete_crude_fields(self.offsets.layouts, self._field_map) if self.sample_type == CRUDE else ({}, ())

    def layouts_at(self, positions: Int64Array) -> Int64Array:
        """The numbers of the layouts of the samples at these positions. Checks the layouts of all samples: 0.3 ms per
        MB, and 4 bytes a sample."""
        layout, rows = self.offsets.layout, self.selection.rows(positions)
        return np.zeros(len(rows), np.int64) if layout is None else layout[rows].astype(np.int64)

    def describe_position(self, position: int) -> str:
        """Shard and key of the sample at a position, for messages."""
        block = self.references.block_of_rows(self.selection.rows(np.array([position])), np.zeros(1, np.int64))
        return f"{self.offsets.shards[block.shards[0]].path}, key {block.keys[0]}"

    def column(self, name: str) -> CheckedValues:
        """A column by row of the offsets file. Raises InputError if it was not computed."""
        if name not in self._columns:
            location, generation = self._require_location(name), self.offsets.generation
            self._columns[name] = find_column(location, name, generation, shards=self.offsets.shards).checked_values
        return self._columns[name]

    @property
    def last_shard(self) -> int:
        """The highest id of a shard in the generation of the source."""
        return max(shard.id for shard in self.offsets.shards) if self._last_shard is None else self._last_shard

    def column_digest(self, name: str) -> str:
        """A digest of a column's values, which can change within one generation. With `last_shard`, it is that of the
        shards up to it, and costs 3 ms per million samples."""
        column = find_column(self._require_location(name), name, self.offsets.generation)
        if self._last_shard is None:
            return column.facts.digest
        shards = sum(shard.id <= self._last_shard for shard in self.offsets.shards)
        return digest_values(column.checked_values[: int(self.offsets.shard_row[shards])])

    def _require_location(self, name: str) -> DatasetLocation:
        if self.location is None:
            raise InputError(
                f"the dataset has no column {name!r}",
                where=self.dataset_path,
                hint="run `wdsctl prepare` on the dataset first: columns need a catalog",
            )
        return self.location

    def _probes_of(self, path: str) -> list[Probe]:
        return probes_of(self.offsets, self._shards_by_path[path])

    @cached_property
    def _shards_by_path(self) -> dict[str, int]:
        return {path: i for i, path in enumerate(self._paths)}

    def describe_reference(self, block: ReferenceBlock, i: int) -> str:
        """Dataset, shard and key of a reference, for messages."""
        shard = self.offsets.shards[block.shards[i]].path
        return f"dataset {self.dataset_path}, shard {shard}, key {block.keys[i]}"

    def block(self, positions: Int64Array, passes: Int64Array) -> ReferenceBlock:
        """References to the samples at these positions. Remote storage prefetches their bytes."""
        return self.block_of_rows(self.selection.rows(positions), passes)

    def block_of_rows(self, rows: Int64Array, passes: Int64Array) -> ReferenceBlock:
        """References to rows of the offsets file. Remote storage prefetches their bytes."""
        block = self.references.block_of_rows(rows, passes)
        if self._remote is not None:
            block.announcement = self._remote.announce(self.references.reads(block))
        return block

    @property
    def parts_read(self) -> list[Any]:
        """Which parts of samples are read together, by layout: values for JSON."""
        return self.references.parts_read()

    @property
    def is_remote(self) -> bool:
        """Whether samples are read from a store, so that it helps to `prefetch` them."""
        return self._remote is not None

    @property
    def lead_seconds(self) -> float:
        """How long before its first sample is used a window should be prefetched; 0 for local data."""
        return 0.0 if self._remote is None else self._remote.lead_seconds

    def prefetch(
        self, positions: Int64Array, units: Sequence[PrefetchUnit] = (), *, starts: bool = True, due: float = 0.0
    ) -> object:
        """Fetch the samples at these positions in the background, in their order, for as long as the result is kept.

        `units`: of a cache, each of which is read as a whole. `starts`: begin now, or when the first sample is read.
        `due`: when the first one is used; those with lower numbers are fetched first.
        """
        return self.prefetch_rows(self.selection.rows(positions), units, starts=starts, due=due)

    def prefetch_rows(
        self, rows: Int64Array, units: Sequence[PrefetchUnit] = (), *, starts: bool = True, due: float = 0.0
    ) -> object:
        """`prefetch` for rows of the offsets file. Does nothing for local data."""
        if self._remote is None:
            return None
        ranges = self._reads_of_rows(rows)
        cached: list[CachedRanges] = []
        collectors: dict[FileRange, Callable[[FileRange, bytes], None]] = {}
        for unit in units:
            of_unit = list(dict.fromkeys(each for each in self._reads_of(unit.positions) if each.size))
            ranges += of_unit
            if unit.is_cached:
                cached.append(CachedRanges(of_unit, partial(unit.load, of_unit)))
            else:
                collectors.update(dict.fromkeys(of_unit, unit.collector(of_unit)))
        sink = partial(_collect, collectors) if collectors else None
        return self._remote.announce(ranges, starts=starts, cached=cached, sink=sink, due=due)

    def _reads_of(self, positions: Int64Array) -> list[FileRange]:
        return self._reads_of_rows(self.selection.rows(positions))

    def _reads_of_rows(self, rows: Int64Array) -> list[FileRange]:
        return list(self.references.reads(self.references.block_of_rows(rows, np.zeros_like(rows))))

    def block_of_sample(self, pass_number: int, sample_id: int) -> ReferenceBlock:
        """A reference to one sample by its id, in pass `pass_number`. Raises LoaderError WDS502 if it is missing."""
        shard, index = sample_id >> INDEX_BITS, sample_id & ((1 << INDEX_BITS) - 1)
        for i, entry in enumerate(self.offsets.shards):
            row = int(self.offsets.shard_row[i]) + index
            if entry.id == shard and row < int(self.offsets.shard_row[i + 1]):
                return self.references.block_of_rows(np.array([row], np.int64), np.array([pass_number], np.int64))
        raise LoaderError(
            f"the dataset has no sample {sample_id}",
            where=self.dataset_path,
            hint="use restore keys of this dataset and generation",
            code="WDS502",
        )

    def take_read_counts(self) -> ReadCounts | None:
        """What was read from the store since the last call; None if nothing was, and for local data."""
        counts = None if self._remote is None else self._remote.take_counts()
        return counts if counts is not None and any(counts) else None

    def load(self, block: ReferenceBlock, i: int) -> Any:
        """Read, decode and build one sample. Raises WdsctlError that names dataset, shard, key and part."""
        try:
            return self._builds[block.layouts[i]](
                block.keys[i],
                (self.number, block.passes[i], block.ids[i]),
                self.subflavors,
                (lazy_source_info(self, block.rows[i]),),
                *self._reader.read(block, i),
            )
        except WdsctlError as error:
            raise self._locate_error(error, block, i) from error

    def append_range(self, block: ReferenceBlock, start: int, stop: int, columns: Sequence[list[Any]]) -> None:
        """Append samples of one plain layout to columns: keys, restore keys, sources, and each needed part.

        Raises what `load` raises for the first sample that fails.
        """
        block_slice, read, paths = slice(start, stop), self._storage.read, self._paths
        keys, restore_keys, sources, *parts = columns
        bounds = block.part_bounds[block.common_layout]
        fill = [(part.append, starts, ends) for part, (starts, ends) in zip(parts, bounds, strict=True)]
        i = start
        try:
            for i in range(start, stop):
                # Sliced at once, while the data is in the processor's cache: this halves the cost of the copy.
                data = read(paths[block.shards[i]], block.first_bytes[i], block.spans[i])
                for append, starts, ends in fill:
                    append(data[starts[i] : ends[i]])
        except WdsctlError as error:
            raise self._locate_error(error, block, i) from error
        keys += block.keys[block_slice]
        restore_keys += zip(repeat(self.number), block.passes[block_slice], block.ids[block_slice], strict=False)
        sources += [lazy_source_info(self, row) for row in block.rows[block_slice]]

    def append_sample(self, block: ReferenceBlock, i: int, columns: Sequence[list[Any]]) -> None:
        """`append_range` for one sample, in half the time: blends have ranges of one sample."""
        keys, restore_keys, sources, *parts = columns
        try:
            data = self._storage.read(self._paths[block.shards[i]], block.first_bytes[i], block.spans[i])
        except WdsctlError as error:
            raise self._locate_error(error, block, i) from error
        for part, (starts, ends) in zip(parts, block.part_bounds[block.common_layout], strict=True):
            part.append(data[starts[i] : ends[i]])
        keys.append(block.keys[i])
        restore_keys.append((self.number, block.passes[i], block.ids[i]))
        sources.append(lazy_source_info(self, block.rows[i]))

    def read_range_into(
        self, block: ReferenceBlock, start: int, stop: int, memory: memoryview, offset: int
    ) -> list[int]:
        """Read samples of one plain layout into memory from `offset` on, contiguously; returns their offsets.

        Raises what `load` raises for the first sample that fails.
        """
        block_slice, read, paths = slice(start, stop), self._storage.read_into, self._paths
        offsets: list[int] = []
        try:
            for shard, first, span in zip(
                block.shards[block_slice], block.first_bytes[block_slice], block.spans[block_slice], strict=True
            ):
                read(paths[shard], first, memory[offset : offset + span])
                offsets.append(offset)
                offset += span
        except WdsctlError as error:
            raise self._locate_error(error, block, start + len(offsets)) from error
        return offsets

    def plain_type(self, layout: int) -> PlainSampleType | None:
        """(sample type, fields) of a layout whose parts fill the fields unchanged; None for other layouts."""
        return self._plain_types[layout] if layout >= 0 else None

    def will_need(self, slices: Int64Array, most_bytes: int) -> None:
        """Hint to the storage to read ahead these slices of positions, at most `most_bytes`. Remote storage is hinted
        by `block` instead."""
        # Nearly all bytes of samples with video are video, of which the used ranges are unknown.
        if self._remote is not None or self._has_lazy_parts:
            return
        ranges = self.references.byte_ranges(slices, MAX_PART_GAP_BYTES)
        ends = accumulate(each.size for each in ranges)
        self._storage.will_need(each for each, end in zip(ranges, ends, strict=True) if end <= most_bytes)

    def close(self) -> None:
        """Close storage and stores, also for other sources that share them. The next read opens them again."""
        self._storage.close()
        for store in self.stores.values():
            store.close()

    # For `SourceInfo`, on access.

    def shard_name(self, index: int) -> str:
        return self.offsets.shards[self.offsets.shard_of(index)].path

    def file_names(self, index: int) -> tuple[str, ...]:
        key = self.offsets.key(index)
        return tuple(f"{key}.{name}" for name, _, _ in self.offsets.parts(index))

    def byte_range(self, index: int) -> tuple[int, int]:
        """(first byte in the shard, number of bytes) of all parts of a sample."""
        parts = self.offsets.parts(index)
        begin = min((offset for _, offset, _ in parts), default=0)
        return begin, max((offset + size for _, offset, size in parts), default=begin) - begin

    def _locate_error(self, error: WdsctlError, block: ReferenceBlock, i: int) -> WdsctlError:
        where = self.describe_reference(block, i)
        where = f"{where}, {error.where}" if error.where else where
        if is_changed_shard(error):
            self._log_changed_shard(block.shards[i])
        if isinstance(error, StorageError) and error.code == StorageError.code and self._is_dataset_gone():
            return StorageDown(
                f"{error.message}; no other shard of the dataset can be found either",
                where=where,
                hint="check that the file system is mounted and the dataset has not moved, then resume",
            )
        return type(error)(error.message, hint=error.hint, where=where, code=error.code)

    def _log_changed_shard(self, i: int) -> None:
        """Log which share of the samples is lost with the missing and changed shards, each time their number doubles:
        every process that reads finds out for itself."""
        shard = self.offsets.shards[i]
        if shard.id in self._changed_shards:
            return
        self._changed_shards.add(shard.id)
        if (len(self._changed_shards) & len(self._changed_shards) - 1) == 0:
            lost = self.selection.count_samples(self._changed_shards)
            logger.warning(
                "%s of %s cannot be read (missing or changed, such as %s): %s skipped, %.3g%% of the split; "
                "restore the shards, or run `wdsctl index` and start a new run",
                pluralize(len(self._changed_shards), "shard"),
                self.dataset_path,
                shard.path,
                pluralize(lost, "sample"),
                100 * lost / max(1, self.selection.n),
            )

    def _is_dataset_gone(self) -> bool:
        """Whether all shards are missing, as of a folder that was unmounted or removed."""
        sampled_paths = {self._paths[0], self._paths[len(self._paths) // 2], self._paths[-1]}
        return not any(self._storage.exists(path) for path in sampled_paths)


def _unused_parts(layouts: Sequence[Sequence[str]], part_indices: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """The parts that no sample uses and somebody may miss, of layouts that can be read.

    JSON beside a text or a label often records only the origin of a sample: nobody misses this JSON.
    """
    readable = [(names, each) for names, each in zip(layouts, part_indices, strict=True) if each]
    used = {names[i] for names, each in readable for i in each}
    unused = {name for names, _ in readable for name in names} - used
    if not MEDIA_KINDS.issuperset(map(part_kind, used)):
        unused = {name for name in unused if part_kind(name) != "json"}
    return tuple(sorted(unused))


def _sample_kinds(config: DatasetConfig, fields: Sequence[frozenset[str] | None]) -> SampleKinds | None:
    """(type, fields) of the samples; None if only reading them tells. `fields`: of crude samples, by layout."""
    if config.sample_loader:
        return None
    if config.sample_type == CRUDE:
        return frozenset((CRUDE, each or frozenset()) for each in fields)
    return frozenset({(config.sample_type, frozenset())})
