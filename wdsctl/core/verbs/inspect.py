"""`inspect`: what a dataset holds, from the catalog alone; only the few samples that are shown are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.facts import generation_of
from wdsctl.core.catalog.placed import PartPlace, Placed
from wdsctl.core.catalog.summary import read_summary
from wdsctl.core.catalog.totals import PartCount, SplitCount, Totals
from wdsctl.core.catalog.view_reader import stored_views
from wdsctl.core.dataset_yaml import load
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.offsets_head import check_head
from wdsctl.core.place import Place, locate
from wdsctl.core.preview import HEAD, Preview, preview, preview_of
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.column_report import ColumnReport, column_reports
from wdsctl.core.verbs.media_report import MediaReport, media_now
from wdsctl.core.verbs.presence import check_catalog, no_samples
from wdsctl.core.verbs.stale import LOOKED_AT, look_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLine:
    path: str
    samples: int
    size_bytes: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLine:
    name: str
    size_bytes: int
    preview: str
    facts: Facts | Unreadable | None = None  # of an image, a sound or a video


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLine:
    key: str
    shard: str
    parts: tuple[PartLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewCount:
    name: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectReport:
    root: str
    catalog: str
    catalog_bytes: int
    generation: int
    sample_type: str
    field_map: dict[str, str]
    shards: int
    samples: int
    size_bytes: int  # of all shards
    statuses: dict[str, int]  # how many shards are ok, partial, bad, unreadable or missing
    looked_at: int  # shards that were compared with what is there now; new ones are found where that is all
    parts: tuple[PartCount, ...]
    splits: tuple[SplitCount, ...]
    shard_list: tuple[ShardLine, ...]  # the first 1,000
    first: tuple[SampleLine, ...]
    stale: tuple[Finding, ...]  # how the folder differs from the catalog, and what of the catalog cannot be read
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None  # None: nobody has asked for facts of media
    excluded: int = 0  # samples that are in no split, since a rule or a quarantine excludes them
    views: tuple[ViewCount, ...] = ()


#: Facts of media, by part.
Known = Mapping[str, Facts | Unreadable]


def inspect(root: str, *, catalog: str | None = None, samples: int = 3) -> InspectReport:
    """What is in the dataset at `root`, and its first `samples` samples.

    Cost: a row a shard for up to 1,000 shards, and no more for more. But where samples have no rows, the header of the
    offsets file, some 4 µs a shard; and of a catalog from before there were totals, their sums.
    """
    place = locate(root, catalog)
    check_catalog(place)
    summary = read_summary(place.catalog, first=LOOKED_AT, spread=LOOKED_AT)
    totals, generation = summary.totals, generation_of(place.catalog, summary.facts)
    views, unread = _views(place)
    sample_type, field_map = CRUDE, {}
    if os.path.exists(place.dataset_yaml):
        config = load(place.dataset_yaml)
        sample_type, field_map = config.sample_type, dict(config.field_map)
    columns, damaged = column_reports(place, generation, totals.digest)
    first, unusable = _first(place, samples)
    looked_at, stale = look_at(place, summary)
    return InspectReport(
        root=place.shown,
        catalog=place.catalog,
        catalog_bytes=os.path.getsize(place.catalog),
        generation=generation,
        sample_type=sample_type,
        field_map=field_map,
        shards=totals.shards,
        samples=totals.samples,
        size_bytes=totals.size_bytes,
        statuses=totals.statuses,
        looked_at=looked_at,
        parts=totals.parts,
        splits=totals.splits,
        shard_list=tuple(
            ShardLine(path=row.path, samples=row.samples, size_bytes=row.size, status=row.status)
            for row in summary.first
        ),
        first=tuple(first),
        stale=(*unusable, *stale, *damaged, *unread, *_emptiness(place, totals)),
        columns=tuple(columns),
        media=media_now(place.catalog, summary.facts, totals),
        excluded=totals.excluded,
        views=views,
    )


def _emptiness(place: Place, totals: Totals) -> list[Finding]:
    """What is said where there are no samples at all, of which every shard has a part."""
    if totals.samples:
        return []
    return no_samples(place, read_summary(place.catalog, first=totals.shards, spread=0).first)


def _views(place: Place) -> tuple[tuple[ViewCount, ...], list[Finding]]:
    """The views, and what is wrong with the ledger that has them: all else can be told without."""
    try:
        return tuple(ViewCount(name=view.name, samples=view.samples) for view in stored_views(place.ledger)), []
    except (CatalogError, PermissionDenied) as error:
        return (), [Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")]


def _chosen(place: Place, browser: Browser, count: int) -> tuple[list[Placed], list[Finding]]:
    """The first samples, and what is wrong with the offsets file, from which they are where samples have no rows."""
    try:
        check_head(place.offsets(browser.generation))
        if not browser.has_rows:
            from wdsctl.core.stored_samples import StoredSamples

            stored = StoredSamples(place, browser.generation)
            return [stored.at(row) for row in range(min(count, len(stored)))], []
    except (CatalogError, StorageError, PermissionDenied) as error:
        wrong = Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")
        return list(islice(browser.samples(), count)), [wrong]
    return list(islice(browser.samples(), count)), []


def _first(place: Place, count: int) -> tuple[list[SampleLine], list[Finding]]:
    with Browser(place.catalog) as browser:
        chosen, wrong = _chosen(place, browser, count)
        known = [browser.facts(sample) for sample in chosen]
    with closing(storage_for(place.root)) as storage:
        storage.will_need(
            Range(os.path.join(place.root, sample.shard), part.offset, min(part.size, HEAD))
            for sample, facts in zip(chosen, known, strict=True)
            for part in sample.parts
            if part.name not in facts
        )
        return [_sample(storage, place, *each) for each in zip(chosen, known, strict=True)], wrong


def _sample(storage: Storage, place: Place, sample: Placed, known: Known) -> SampleLine:
    path = os.path.join(place.root, sample.shard)
    parts = tuple(_part(storage, path, part, known.get(part.name)) for part in sample.parts)
    return SampleLine(key=sample.key, shard=sample.shard, parts=parts)


def _part(storage: Storage, path: str, part: PartPlace, known: Facts | Unreadable | None) -> PartLine:
    found = _preview(storage, path, part.offset, part.size) if known is None else preview_of(known)
    return PartLine(name=part.name, size_bytes=part.size, preview=found.line, facts=found.facts)


def _preview(storage: Storage, path: str, at: int, size: int) -> Preview:
    """What a part is. A shard that is gone or has changed is told of elsewhere, and stops nothing."""
    try:
        head = storage.read(path, at, min(size, HEAD))
        return preview(ByteRange.of(storage, path, at, size, head=head))
    except (StorageError, PermissionDenied):
        return Preview("cannot be read" if storage.exists(path) else "gone")
