"""Show single samples with readable parts: `inspect --samples`, `--random` and `--key`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.samples import draw_numbers, open_sample_pool
from wdsctl.core.catalog.values import PartLocation, SampleLocation, SplitMembers
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.shard_names import is_tar_name
from wdsctl.core.errors import PermissionDenied, StorageDown, StorageError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.inspect.get import MAX_LISTED_CANDIDATES, find_sample, find_samples, select_members
from wdsctl.core.media.byte_range import MAX_KEPT_PAGES, ByteRangeFile
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.core.media.thumbnail import MAX_SOURCE_BYTES, RgbImage, make_thumbnail
from wdsctl.core.offsets.probe import Probe
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.preview import PART_HEAD_BYTES, InspectedPart, inspect_part, unreadable_part
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES

SelectionMethod = Literal["first", "random", "key"]

#: (index of the sample, index of its part) -> thumbnail, or the reason why there is none.
Thumbnails = Mapping[tuple[int, int], RgbImage | Unreadable]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """Selects all samples with `key`, the first `count` samples, or `count` samples drawn by `seed`."""

    count: int = 3
    key: str | None = None
    seed: int | None = None
    split: str | None = None
    shard: str | None = None

    @property
    def method(self) -> SelectionMethod:
        if self.key is not None:
            return "key"
        return "first" if self.seed is None else "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    key: str
    id: int
    shard: str
    position: int  # in the shard, from 0
    size_bytes: int  # sum of all parts
    splits: tuple[str, ...]
    parts: tuple[InspectedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesReport:
    """The report. `view`: empty for the whole dataset. `samples`: the number that `shown` was chosen from.

    `shown`: at most 20 samples if a key is repeated.
    """

    root: str
    view: str
    catalog: str
    generation: int
    how: SelectionMethod
    seed: int | None
    split: str | None
    samples: int
    shown: tuple[SampleView, ...]


def inspect_samples(
    root: str, selection: SampleQuery, *, catalog: str | None = None, thumbnail_size: tuple[int, int] | None = None
) -> tuple[SamplesReport, Thumbnails]:
    """Return the selected samples; with `thumbnail_size`, also thumbnails of their images and videos.

    Reads the first 64 KiB of every part, and more of media, JSON and arrays if necessary. Reports parts that cannot
    be read. Raises InputError WDS004 and WDS211, StorageDown, and the errors of catalogs.
    """
    with open_indexed(root, catalog, takes_view=True) as dataset:
        location, browser = dataset.location, dataset.browser
        total, samples = _select_samples(dataset, selection, select_members(dataset, selection.split))
        catalog_facts = [dataset.catalog.media_reader.facts_of_sample(sample) for sample in samples]
        splits = [() if browser.is_media_folder else tuple(browser.splits_of(sample.id)) for sample in samples]
        generation = dataset.catalog.generation
    thumbnails: dict[tuple[int, int], RgbImage | Unreadable] = {}
    shown = []
    sizes = {os.path.join(location.root, sample.shard): sample.shard_size for sample in samples}
    headers = _headers_by_path(location, samples)
    with closing(storage_for(location.root, sizes, dict.fromkeys(headers, headers.__getitem__))) as storage:
        storage.will_need(
            FileRange(os.path.join(location.root, sample.shard), part.offset, min(part.size, PART_HEAD_BYTES))
            for sample in samples
            for part in sample.parts
        )
        for number, (sample, facts, names) in enumerate(zip(samples, catalog_facts, splits, strict=True)):
            path = os.path.join(location.root, sample.shard)
            parts = []
            for i, part in enumerate(sample.parts):
                inspected, thumbnail = _inspect_part(storage, path, part, facts.get(part.name), thumbnail_size)
                parts.append(inspected)
                if thumbnail is not None:
                    thumbnails[number, i] = thumbnail
            shown.append(
                SampleView(
                    key=sample.key,
                    id=sample.id,
                    shard=sample.shard,
                    position=sample.position,
                    size_bytes=sum(part.size for part in sample.parts),
                    splits=names,
                    parts=tuple(parts),
                )
            )
    report = SamplesReport(
        root=location.display_path,
        view=dataset.view,
        catalog=location.catalog_path,
        generation=generation,
        how=selection.method,
        seed=selection.seed,
        split=selection.split,
        samples=total,
        shown=tuple(shown),
    )
    return report, thumbnails


def _headers_by_path(location: DatasetLocation, samples: Sequence[SampleLocation]) -> dict[str, list[Probe]]:
    """The headers of the parts of these samples, for tars: a replaced shard often has the same size."""
    headers: dict[str, list[Probe]] = {}
    for sample in samples:
        if is_tar_name(sample.shard):
            found = headers.setdefault(os.path.join(location.root, sample.shard), [])
            found += [
                Probe(part.offset - TAR_BLOCK_BYTES, f"{sample.key}.{part.name}".encode("utf-8", "surrogatepass"))
                for part in sample.parts
                if part.offset >= TAR_BLOCK_BYTES
            ]
    return headers


def _select_samples(
    dataset: OpenDataset, selection: SampleQuery, members: SplitMembers | None
) -> tuple[int, list[SampleLocation]]:
    if selection.key is not None:
        found = [each for each in find_samples(dataset, selection.key) if members is None or members.has(each.id)]
        if not found or selection.shard is not None:
            found = [find_sample(dataset, selection.key, shard=selection.shard, members=members)]
        return len(found), found[:MAX_LISTED_CANDIDATES]
    pool = open_sample_pool(dataset.location, dataset.browser, members)
    numbers: Sequence[int] = range(min(selection.count, len(pool)))
    if selection.seed is not None:
        numbers = draw_numbers(selection.count, len(pool), selection.seed)
    return len(pool), [pool.at(number) for number in numbers]


def _inspect_part(
    storage: Storage,
    path: str,
    part: PartLocation,
    catalog_facts: MediumFacts | Unreadable | None,
    thumbnail_size: tuple[int, int] | None,
) -> tuple[InspectedPart, RgbImage | Unreadable | None]:
    """Inspect a part; without a thumbnail if `thumbnail_size` is None."""
    try:
        head = storage.read(path, part.offset, min(part.size, PART_HEAD_BYTES))
        source = ByteRangeFile.from_storage(storage, path, part.offset, part.size, head=head)
        source.max_read_bytes, source.max_kept_pages = MAX_SOURCE_BYTES, MAX_KEPT_PAGES
        inspected = inspect_part(part.name, part.offset, source, catalog_facts)
        is_readable = inspected.kind in ("image", "video") and not isinstance(inspected.facts, Unreadable)
        if thumbnail_size is None or not is_readable:
            return inspected, None
        return inspected, make_thumbnail(source, inspected.kind, inspected.format, *thumbnail_size)
    except StorageDown:
        raise
    except (StorageError, PermissionDenied) as error:
        return unreadable_part(part.name, part.offset, part.size, error), None
