"""A dataset of shards, or of lines, as a source: all of it, a split, or a view. Parts are found by its offsets file."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import blake2b
from operator import attrgetter
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.convert.source import Entry, Known, LargePart, Options, Part, Recognised
from wdsctl.core.errors import UsageError, WdsctlError
from wdsctl.core.line_files import is_lines
from wdsctl.core.offsets import Offsets
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.selections import Selected, intersected, of_split, selected
from wdsctl.core.shard_list import holds_shards
from wdsctl.core.splitting_bits import flags_of
from wdsctl.core.storage import Range
from wdsctl.core.stores import storage_for
from wdsctl.core.urls import is_url

LARGE = 64 << 20  # bytes: such a part of a local shard is handed on by its range
MOST_SPLITS = 62  # that a sample's bits have room for
_GAP = 1 << 16  # bytes between parts of a sample that are read along rather than left out
OPTIONS = ("catalog", "generation", "split", "view")

Flags = NDArray[np.bool_]


class ShardsSource:
    """Places are rows of the offsets file of one generation. Reading one sample is one ranged read."""

    def __init__(self, place: Place, options: Options) -> None:
        self._place = place
        generation = int(options["generation"]) if "generation" in options else current_generation(place.catalog)
        self._offsets = Offsets(place.offsets(generation))
        self._options = options
        shards = self._offsets.shards
        self._paths = [os.path.join(place.root, shard.path) for shard in shards]
        sizes = {path: shard.size for path, shard in zip(self._paths, shards, strict=True)}
        self._storage = storage_for(place.root, sizes)
        self._is_local = not is_url(place.root)
        self._shard_row: list[int] = self._offsets.shard_row.tolist()
        self._splits: tuple[str, ...] | None = None
        self._restricted: Selected | None = None

    @property
    def place(self) -> Place:
        return self._place

    @property
    def offsets(self) -> Offsets:
        """Those of the generation that places are rows of."""
        return self._offsets

    def restrict(self, chosen: Selected) -> None:
        """List none but these samples. Those that listed are read alike by who does not know of it."""
        self._restricted = chosen

    def __enter__(self) -> ShardsSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._storage.close()

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits of the catalog, in its order."""
        if self._splits is None:
            with Catalog(self._place.catalog) as catalog:
                self._splits = tuple(split.name for split in catalog.splits())
        return self._splits

    def mark(self) -> bytes:
        """Of the files, of what is chosen, and of the splits that go along."""
        digest = blake2b(self.files_mark(), digest_size=16)
        _add(digest, self._chosen() or {})
        for name in self.split_names:
            digest.update(f"\0{name}\0".encode("utf-8", "surrogatepass"))
            _add(digest, of_split(self._place, name))
        return digest.digest()

    def files_mark(self) -> bytes:
        """Names what the shards are like now."""
        return files_mark(self._place, self._offsets)

    def entries(self) -> Iterator[Entry]:
        for known in self.known():
            yield Entry(known.key, sum(size for _, size in known.parts))

    def known(self) -> Iterator[Known]:
        chosen, splits = self._chosen(), self._memberships()
        for i, shard in enumerate(self._offsets.shards):
            if chosen is None or shard.id in chosen:
                flags = None if chosen is None else flags_of(chosen[shard.id], shard.samples)
                yield from self._rows(self._shard_row[i], self._shard_row[i + 1], flags, splits.get(shard.id))

    def _rows(self, first: int, stop: int, flags: Flags | None, bits: NDArray[np.int64] | None) -> Iterator[Known]:
        offsets = self._offsets
        columns = offsets.checked_range(first, stop)
        starts = columns.key_start[first : stop + 1].tolist()
        text, base = bytes(columns.key_text[starts[0] : starts[-1]]), starts[0]
        layouts = [0] * (stop - first) if columns.layout is None else columns.layout[first:stop].tolist()
        at = offsets.first_part(first)
        counts = [len(layout) for layout in offsets.layouts]
        sizes: list[int] = columns.part_size[at : at + sum(counts[which] for which in layouts)].tolist()
        done = 0
        for i, which in enumerate(layouts):
            end = done + counts[which]
            if flags is None or flags[i]:
                key = text[starts[i] - base : starts[i + 1] - base].decode("utf-8", "surrogatepass")
                parts = tuple(zip(offsets.layouts[which], sizes[done:end], strict=True))
                yield Known(first + i, key, parts, int(bits[i]) if bits is not None else 0)
            done = end

    def read(self, place: int) -> tuple[Part, ...]:
        parts = self.read_some(place, _all)
        return tuple(part if isinstance(part, Part) else Part(part.name, part.data) for part in parts)

    def read_some(self, place: int, wanted: Callable[[str], bool]) -> tuple[Part | LargePart, ...]:
        path = self._path(place)
        parts = [part for part in self._offsets.parts(place) if wanted is _all or wanted(part[0])]
        made: list[Part | LargePart] = []
        if self._is_local and any(part[2] >= LARGE for part in parts):
            made = [LargePart(name, path, at, size, self._place.root) for name, at, size in parts if size >= LARGE]
            parts = [part for part in parts if part[2] < LARGE]
        if parts:
            start, end = parts[0][1], parts[-1][1] + parts[-1][2]
            read = self._storage.read
            if 0 < end - start <= len(parts) * _GAP + sum(part[2] for part in parts):
                data = read(path, start, end - start)
                made += [Part(name, data[at - start : at - start + size]) for name, at, size in parts]
            else:
                made += [Part(name, read(path, at, size) if size else b"") for name, at, size in parts]
        return tuple(sorted(made, key=_by_name))

    def will_need(self, places: list[int]) -> None:
        """Told to the storage sample by sample, in the order they will be read."""
        ranges = []
        for place in places:
            parts = self._offsets.parts(place)
            if parts:
                start = parts[0][1]
                ranges.append(Range(self._path(place), start, parts[-1][1] + parts[-1][2] - start))
        self._storage.will_need(ranges)

    def _path(self, place: int) -> str:
        return self._paths[bisect_right(self._shard_row, place) - 1]

    def _chosen(self) -> Selected | None:
        """The samples that were asked for, by shard; None for all."""
        chosen = self._restricted
        if "view" in self._options:
            view = selected(self._place, self._options["view"])
            chosen = view if chosen is None else intersected(chosen, view)
        if "split" not in self._options:
            return chosen
        split = of_split(self._place, self._options["split"])
        return split if chosen is None else intersected(chosen, split)

    def _memberships(self) -> dict[int, NDArray[np.int64]]:
        """By shard, a number a sample: bit b is set where it is in the b-th split."""
        counts = {shard.id: shard.samples for shard in self._offsets.shards}
        found: dict[int, NDArray[np.int64]] = {}
        for b, name in enumerate(self.split_names[:MOST_SPLITS]):
            for part in of_split(self._place, name).values():
                if part.shard in counts:
                    numbers = found.setdefault(part.shard, np.zeros(counts[part.shard], np.int64))
                    numbers[flags_of(part, counts[part.shard])] |= 1 << b
        return found


def files_mark(place: Place, offsets: Offsets) -> bytes:
    """Names what these shards are like now. Those of one size may hold other samples, which their times tell.

    In a store that is not mounted, what they were like when they were indexed.
    """
    digest = blake2b(digest_size=16)
    for shard, (size, time) in zip(offsets.shards, _sizes_and_times(place, offsets), strict=True):
        told = f"{shard.path}\0{shard.layout_hash}\0{size}\0{time}\0"
        digest.update(told.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _sizes_and_times(place: Place, offsets: Offsets) -> Iterator[tuple[int, int]]:
    if is_url(place.root):
        with Catalog(place.catalog) as catalog:
            times = {row.path: row.mtime_ns for row in catalog.shards()}
        yield from ((shard.size, times.get(shard.path, 0)) for shard in offsets.shards)
        return
    for shard in offsets.shards:
        path = os.path.join(place.root, shard.path)
        with translated(path, "read"):
            status = os.stat(path)
        yield status.st_size, status.st_mtime_ns


def _add(digest: blake2b, chosen: Selected) -> None:
    for part in chosen.values():
        digest.update(b"%d %d" % (part.shard, part.samples) + (part.bits or b""))


_by_name = attrgetter("name")


def _all(_name: str) -> bool:
    return True


class ShardsImporter:
    """`-O catalog=DIR`, `split=NAME`, `view=NAME`; `generation=N` is what the engine pins."""

    name = "shards"
    about = "a folder of .tar shards, or a prepared dataset: tars or lines"

    def recognise(self, path: str) -> Recognised | None:
        """By its shards, or by its catalog."""
        try:
            place = locate(path)
            if os.path.exists(place.catalog):
                return Recognised(1.0, "it has a catalog")
            if place.only and not is_lines(place.only):
                return Recognised(0.9, "it is a tar")
            if not place.only and holds_shards(place.root):
                return Recognised(0.9, "there are .tar or .jsonl files in it")
        except (WdsctlError, OSError, ValueError):
            return None  # it is another form, if any
        return None

    def open(self, path: str, options: Options) -> ShardsSource:
        """Of a dataset that has a catalog. Raises InputError, CatalogError, UsageError."""
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise UsageError(
                f"shards have no option {unknown[0]!r}", hint=f"the options of shards are {', '.join(OPTIONS)}"
            )
        return ShardsSource(locate(path, options.get("catalog")), options)


IMPORTER = ShardsImporter()
