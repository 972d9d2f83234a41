"""A dataset of tar or JSONL shards as a source: all samples, a split, or a view. The offsets file locates the parts."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import attrgetter
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.splits import sample_flags
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.sequences import IMAGE, VIDEO
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import StorageDown, UsageError, WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import FilePart, FormatMatch, Options, Part, SampleListing, SourceEntry
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.shards.list import remote_file, remote_files
from wdsctl.core.shards.survey import has_shards, has_tars, survey_folder
from wdsctl.core.split_rules.names import MAX_SPLITS
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange
from wdsctl.core.urls import is_url, protocol
from wdsctl.core.views.selections import SampleSelection, intersect_selections, read_view_samples, select_split

LARGE_PART_BYTES = 64 << 20  # parts of local shards of this size and more are returned as ranges
_MAX_GAP_BYTES = 1 << 16  # bytes per part that a single read may waste on gaps between the parts of a sample
SHARDS_OPTIONS = ("catalog", "generation", "split", "view")

SampleMask = NDArray[np.bool_]


class ShardsSource:
    """The samples of a dataset. Sample indexes are rows of the offsets file of one generation.

    Reading a sample is one ranged read, unless its parts are far apart or large.
    """

    def __init__(self, location: DatasetLocation, options: Options) -> None:
        self._location = location
        with OpenDataset(location) as dataset:
            self._offsets = dataset.offsets(int(options["generation"]) if "generation" in options else None)
        self._options = options
        shards = self._offsets.shards
        self._paths = [os.path.join(location.root, shard.path) for shard in shards]
        sizes = {path: shard.size for path, shard in zip(self._paths, shards, strict=True)}
        self._storage = storage_for(location.root, sizes)
        self._is_local = not is_url(location.root)
        self._shard_row: list[int] = self._offsets.shard_row.tolist()
        self._splits: tuple[str, ...] | None = None
        self._restricted: SampleSelection | None = None
        self._latest_files_digest = b""

    @property
    def location(self) -> DatasetLocation:
        return self._location

    @property
    def offsets(self) -> Offsets:
        """The offsets of the generation that the source reads."""
        return self._offsets

    def restrict(self, selection: SampleSelection) -> None:
        """List only these samples. It does not change sample indexes: workers read the same samples without it."""
        self._restricted = selection

    def __enter__(self) -> ShardsSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._storage.close()

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits of the catalog, in its order."""
        if self._splits is None:
            with OpenDataset(self._location) as dataset:
                self._splits = tuple(dataset.catalog.split_names())
        return self._splits

    def digest(self) -> bytes:
        """A digest of the files as `files_digest` last saw them, of the selected samples, and of all splits."""
        digest = blake2b(self._latest_files_digest or self.files_digest(), digest_size=16)
        with OpenDataset(self._location) as dataset:
            _update_digest(digest, self._selected_samples(dataset) or {})
            for name in self.split_names:
                digest.update(f"\0{name}\0".encode("utf-8", "surrogatepass"))
                _update_digest(digest, select_split(dataset, name))
        return digest.digest()

    def files_digest(self) -> bytes:
        """A digest of the current state of the shards."""
        self._latest_files_digest = shards_digest(self._location, self._offsets)
        return self._latest_files_digest

    def entries(self) -> Iterator[SourceEntry]:
        for known in self.list_samples():
            yield SourceEntry(known.key, sum(size for _, size in known.parts))

    def list_samples(self) -> Iterator[SampleListing]:
        with OpenDataset(self._location) as dataset:
            chosen, splits = self._selected_samples(dataset), self._split_bits(dataset)
        for i, shard in enumerate(self._offsets.shards):
            if chosen is None or shard.id in chosen:
                flags = None if chosen is None else sample_flags(chosen[shard.id], shard.samples)
                yield from self._list_shard(self._shard_row[i], self._shard_row[i + 1], flags, splits.get(shard.id))

    def _list_shard(
        self, first: int, stop: int, mask: SampleMask | None, bits: NDArray[np.int64] | None
    ) -> Iterator[SampleListing]:
        offsets = self._offsets
        columns = offsets.check_range(first, stop)
        starts = columns.key_start[first : stop + 1].tolist()
        text, base = bytes(columns.key_text[starts[0] : starts[-1]]), starts[0]
        layouts = [0] * (stop - first) if columns.layout is None else columns.layout[first:stop].tolist()
        at = offsets.first_part(first)
        counts = [len(layout) for layout in offsets.layouts]
        sizes: list[int] = columns.part_size[at : at + sum(counts[which] for which in layouts)].tolist()
        done = 0
        for i, which in enumerate(layouts):
            end = done + counts[which]
            if mask is None or mask[i]:
                key = text[starts[i] - base : starts[i + 1] - base].decode("utf-8", "surrogatepass")
                parts = tuple(zip(offsets.layouts[which], sizes[done:end], strict=True))
                yield SampleListing(first + i, key, parts, int(bits[i]) if bits is not None else 0)
            done = end

    def read(self, sample_index: int) -> tuple[Part, ...]:
        parts = self.read_selected(sample_index, _accept_all)
        return tuple(part if isinstance(part, Part) else Part(part.name, part.data) for part in parts)

    def read_selected(self, sample_index: int, is_selected: Callable[[str], bool]) -> tuple[Part | FilePart, ...]:
        path = self._shard_path(sample_index)
        parts = [
            part for part in self._offsets.parts(sample_index) if is_selected is _accept_all or is_selected(part[0])
        ]
        parts_read: list[Part | FilePart] = []
        if self._is_local and any(part[2] >= LARGE_PART_BYTES for part in parts):
            parts_read = [
                FilePart(name, path, at, size, self._location.root)
                for name, at, size in parts
                if size >= LARGE_PART_BYTES
            ]
            parts = [part for part in parts if part[2] < LARGE_PART_BYTES]
        if parts:
            start, end = parts[0][1], parts[-1][1] + parts[-1][2]
            read = self._storage.read
            if 0 < end - start <= len(parts) * _MAX_GAP_BYTES + sum(part[2] for part in parts):
                data = read(path, start, end - start)
                parts_read += [Part(name, data[at - start : at - start + size]) for name, at, size in parts]
            else:
                parts_read += [Part(name, read(path, at, size) if size else b"") for name, at, size in parts]
        return tuple(sorted(parts_read, key=_by_name))

    def prefetch(self, sample_indexes: list[int]) -> None:
        """Tell the storage the range of each sample, in reading order."""
        ranges = []
        for sample_index in sample_indexes:
            parts = self._offsets.parts(sample_index)
            if parts:
                start = parts[0][1]
                ranges.append(FileRange(self._shard_path(sample_index), start, parts[-1][1] + parts[-1][2] - start))
        self._storage.will_need(ranges)

    def shard_of(self, sample_index: int) -> str:
        return self._offsets.shards[bisect_right(self._shard_row, sample_index) - 1].path

    def _shard_path(self, sample_index: int) -> str:
        return self._paths[bisect_right(self._shard_row, sample_index) - 1]

    def _selected_samples(self, dataset: OpenDataset) -> SampleSelection | None:
        """The samples that the options and `restrict` select, by shard; None for all."""
        chosen = self._restricted
        if "view" in self._options:
            view = read_view_samples(dataset, self._options["view"])
            chosen = view if chosen is None else intersect_selections(chosen, view)
        if "split" not in self._options:
            return chosen
        split = select_split(dataset, self._options["split"])
        return split if chosen is None else intersect_selections(chosen, split)

    def _split_bits(self, dataset: OpenDataset) -> dict[int, NDArray[np.int64]]:
        """Shard id -> one integer per sample, in which bit b is set if the sample is in the b-th split."""
        counts = {shard.id: shard.samples for shard in self._offsets.shards}
        found: dict[int, NDArray[np.int64]] = {}
        for b, name in enumerate(self.split_names[:MAX_SPLITS]):
            for part in select_split(dataset, name).values():
                if part.shard in counts:
                    numbers = found.setdefault(part.shard, np.zeros(counts[part.shard], np.int64))
                    numbers[sample_flags(part, counts[part.shard])] |= 1 << b
        return found


def shards_digest(location: DatasetLocation, offsets: Offsets) -> bytes:
    """A digest of the current state of the shards: paths, sizes and modification times.

    The times, or ETags in a store, reveal shards of the same size with other samples. On a web server, sizes and times
    are those at the time of indexing, because machines with the same files may give them different ETags. Cost: a stat
    per shard, or a listing of the store.
    """
    digest = blake2b(digest_size=16)
    for shard, (size, time) in zip(offsets.shards, _sizes_and_times(location, offsets), strict=True):
        text = f"{shard.path}\0{shard.layout_hash}\0{size}\0{time}\0"
        digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _sizes_and_times(location: DatasetLocation, offsets: Offsets) -> Iterator[tuple[int, int]]:
    if protocol(location.root) in ("http", "https"):
        with OpenDataset(location) as dataset:
            times = {row.path: row.mtime_ns for row in dataset.catalog.shards()}
        yield from ((shard.size, times.get(shard.path, 0)) for shard in offsets.shards)
        return
    if is_url(location.root):
        name = location.single_file
        listed = [remote_file(location.root, name)] if name else remote_files(location.root)
        found = {file.path: (file.size, file.mtime_ns) for file in listed}
        yield from (found.get(shard.path, (-1, 0)) for shard in offsets.shards)
        return
    for shard in offsets.shards:
        path = os.path.join(location.root, shard.path)
        with translate_os_errors(path, "read"):
            status = os.stat(path)
        yield status.st_size, status.st_mtime_ns


def _update_digest(digest: blake2b, selection: SampleSelection) -> None:
    for part in selection.values():
        digest.update(b"%d %d" % (part.shard, part.samples) + (part.bits or b""))


_by_name = attrgetter("name")


def _accept_all(_name: str) -> bool:
    return True


class ShardsImporter:
    """Options: `-O catalog=DIR`, `split=NAME`, `view=NAME`; `convert` sets `generation=N`."""

    name = "shards"
    about = "a folder of .tar shards, or a prepared dataset of tar or JSONL files"

    def recognise(self, path: str) -> FormatMatch | None:
        """Match a catalog, or shards."""
        try:
            dataset = open_dataset(path)
            if _is_robot_data(dataset):
                return None  # of LeRobot, which speaks for itself
            if not dataset.has_catalog():
                return _match_by_names(dataset.location)
            if _names_files_in_lines(path, dataset):
                return FormatMatch(
                    0.3, "the folder has a catalog, but its lines name files, which only --from jsonl reads"
                )
            return FormatMatch(1.0, "the folder has a catalog")
        except StorageDown:
            raise
        except (WdsctlError, OSError, ValueError) as error:
            if isinstance(error, WdsctlError) and error.code == "WDS220":
                return FormatMatch(1.0, "the folder has a dataset.yaml")  # an invalid one, which opening reports
            return None  # not a dataset of shards

    def open(self, path: str, options: Options) -> ShardsSource:
        """Open a dataset that has a catalog. Raises InputError, CatalogError, UsageError."""
        unknown = sorted(set(options) - set(SHARDS_OPTIONS))
        if unknown:
            raise UsageError(f"shards have no option {unknown[0]!r}", hint=f"use one of {', '.join(SHARDS_OPTIONS)}")
        dataset = open_dataset(path, options.get("catalog"))
        location = dataset.location
        if _is_robot_data(dataset):
            raise UsageError(
                "the frames of a LeRobot dataset are not converted: their videos and images stay in the dataset",
                where=location.display_path,
                hint="train on the dataset where it is; views and splits select frames",
            )
        return ShardsSource(location, options)


IMPORTER = ShardsImporter()


def _match_by_names(location: DatasetLocation) -> FormatMatch | None:
    if location.single_file:
        return None if is_jsonl_name(location.single_file) else FormatMatch(0.9, "the file is a tar")
    has_any = has_shards(location.root) if is_url(location.root) else survey_folder(location.root).has_shards
    return FormatMatch(0.9, "the folder has .tar or .jsonl files") if has_any else None


def _is_robot_data(dataset: OpenDataset) -> bool:
    """Whether the shards are lines that name frames of videos, or images in other files."""
    sequences = None if is_url(dataset.location.root) else dataset.config.sequences
    return sequences is not None and not {IMAGE, VIDEO}.isdisjoint(sequences.features.values())


def _names_files_in_lines(path: str, dataset: OpenDataset) -> bool:
    """Whether a dataset consists of lines that name files beside them: its shards hold the lines alone.

    A dataset whose dataset.yaml names the stores of its media is a polylithic primary instead.
    """
    location = dataset.location
    is_lines = is_jsonl_name(location.single_file) if location.single_file else not has_tars(location.root)
    if is_url(location.root) or not is_lines or dataset.config.refs:
        return False
    from wdsctl.core.importers.jsonl import names_files

    return names_files(path)
