"""`inspect`: what a dataset holds, from the catalog alone; only the few samples that are shown are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.catalog import Catalog, PartCount, SplitCount
from wdsctl.core.catalog.schema import INDEX_BITS
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.catalog.view_reader import stored_views
from wdsctl.core.dataset_yaml import load
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.preview import HEAD, Preview, preview, preview_of
from wdsctl.core.sample_types import CRUDE
from wdsctl.core.selected_shards import Selection
from wdsctl.core.shard_list import ShardListing, list_shards
from wdsctl.core.storage import Range, Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.verbs.changes import compare
from wdsctl.core.verbs.column import column_reports
from wdsctl.core.verbs.column_report import ColumnReport
from wdsctl.core.verbs.index_listing import missing_finding
from wdsctl.core.verbs.media_report import MediaReport, media_report
from wdsctl.core.verbs.presence import check_catalog, no_samples


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
    parts: tuple[PartCount, ...]
    splits: tuple[SplitCount, ...]
    shard_list: tuple[ShardLine, ...]
    first: tuple[SampleLine, ...]
    stale: tuple[Finding, ...]  # how the folder differs from the catalog, and what of the catalog cannot be read
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None  # None: nobody has asked for facts of media
    excluded: int = 0  # samples that are in no split, since a rule or a quarantine excludes them
    views: tuple[ViewCount, ...] = ()


#: What is said of a shard that is not as the catalog has it: one that was there, one that was missing.
_CHANGED = ("has changed since it was indexed", "is there again: it was missing when it was indexed")

#: Facts of media, by sample id and part.
Known = Mapping[tuple[int, str], Facts | Unreadable]


def inspect(root: str, *, catalog: str | None = None, samples: int = 3) -> InspectReport:
    """What is in the dataset at `root`, and its first `samples` samples. Cost: a row a shard, whatever it holds."""
    place = locate(root, catalog)
    check_catalog(place)
    with Catalog(place.catalog) as published:
        rows, parts, splits = published.shards(), published.parts(), published.splits()
        generation, exclude, selection = published.generation, published.exclude(), published.selection()
        media = media_report(published, "current")
        if media is not None and {row.id for row in rows if row.samples} - published.media.marks().keys():
            media = replace(media, state="incomplete")
    with Browser(place.catalog) as browser:
        excluded = browser.excluded()
    views, unread = _views(place)
    sample_type, field_map = CRUDE, {}
    if os.path.exists(place.dataset_yaml):
        config = load(place.dataset_yaml)
        sample_type, field_map = config.sample_type, dict(config.field_map)
    offsets = open_offsets(place, generation)
    columns, damaged = column_reports(place, generation, offsets if isinstance(offsets, Offsets) else None)
    known = _known(place, offsets, samples) if media is not None and isinstance(offsets, Offsets) else {}
    stale = [*_stale(place, _listed(place, exclude, selection, rows), rows), *damaged, *unread]
    return InspectReport(
        root=place.shown,
        catalog=place.catalog,
        catalog_bytes=os.path.getsize(place.catalog),
        generation=generation,
        sample_type=sample_type,
        field_map=field_map,
        shards=len(rows),
        samples=sum(row.samples for row in rows),
        size_bytes=sum(row.size for row in rows),
        parts=tuple(parts),
        splits=tuple(splits),
        shard_list=tuple(
            ShardLine(path=row.path, samples=row.samples, size_bytes=row.size, status=row.status) for row in rows
        ),
        first=tuple(_first(place, offsets, samples, known)) if isinstance(offsets, Offsets) else (),
        stale=(*(() if isinstance(offsets, Offsets) else (offsets,)), *stale, *no_samples(place, rows)),
        columns=tuple(columns),
        media=media,
        excluded=excluded,
        views=views,
    )


def _listed(place: Place, exclude: Sequence[str], selection: Selection, rows: Sequence[ShardRow]) -> ShardListing:
    return list_shards(place.root, exclude, only=place.only, known=[row.path for row in rows], selection=selection)


def _stale(place: Place, listing: ShardListing, rows: Sequence[ShardRow]) -> list[Finding]:
    """`stale_findings`, but that shards which were kept as missing, and are, are what the catalog says."""
    there = {shard.path for shard in listing.shards}
    missing = [row for row in rows if row.status == MISSING and row.path not in there]
    gone = {row.id for row in missing}
    return [*stale_findings(listing, [row for row in rows if row.id not in gone]), *missing_finding(place, missing)]


def stale_findings(listing: ShardListing, rows: list[ShardRow]) -> list[Finding]:
    """Shards that are new, have changed or are gone since the catalog was made."""
    changes = compare(listing.shards, rows)
    said = [
        *((shard.path, "is new: it is not in the catalog") for shard in changes.added),
        *((row.path, _CHANGED[row.status == MISSING]) for row, _ in changes.changed),
        *((row.path, "is gone, and still in the catalog") for row in changes.vanished),
    ]
    return [Finding(code="WDS305", severity="error", message=words, shard=path) for path, words in said]


def _views(place: Place) -> tuple[tuple[ViewCount, ...], list[Finding]]:
    """The views, and what is wrong with the ledger that has them: all else can be told without."""
    try:
        return tuple(ViewCount(name=view.name, samples=view.samples) for view in stored_views(place.ledger)), []
    except (CatalogError, PermissionDenied) as error:
        return (), [Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")]


def open_offsets(place: Place, generation: int) -> Offsets | Finding:
    """The offsets file, or what is wrong with it: everything else can be told without."""
    try:
        return Offsets(place.offsets(generation))
    except (CatalogError, StorageError, PermissionDenied) as error:
        return Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")


def _known(place: Place, offsets: Offsets, samples: int) -> Known:
    """What the catalog has of the media of the first samples."""
    with Catalog(place.catalog) as published:
        return published.media.facts([_id_of(offsets, row) for row in range(min(samples, offsets.samples))])


def _id_of(offsets: Offsets, row: int) -> int:
    i = offsets.shard_of(row)
    return offsets.shards[i].id << INDEX_BITS | (row - int(offsets.shard_row[i]))


def _first(place: Place, offsets: Offsets, samples: int, known: Known) -> list[SampleLine]:
    storage = storage_for(place.root)
    try:
        lines = []
        shown = [(row, offsets.shards[offsets.shard_of(row)].path) for row in range(min(samples, offsets.samples))]
        storage.will_need(
            Range(os.path.join(place.root, shard), at, min(size, HEAD))
            for row, shard in shown
            for name, at, size in offsets.parts(row)
            if (_id_of(offsets, row), name) not in known
        )
        for row, shard in shown:
            path = os.path.join(place.root, shard)
            sample = _id_of(offsets, row)
            parts = [
                _part(storage, path, name, at, size, known.get((sample, name))) for name, at, size in offsets.parts(row)
            ]
            lines.append(SampleLine(key=offsets.key(row), shard=shard, parts=tuple(parts)))
        return lines
    finally:
        storage.close()


def _part(storage: Storage, path: str, name: str, at: int, size: int, known: Facts | Unreadable | None) -> PartLine:
    found = _preview(storage, path, at, size) if known is None else preview_of(known)
    return PartLine(name=name, size_bytes=size, preview=found.line, facts=found.facts)


def _preview(storage: Storage, path: str, at: int, size: int) -> Preview:
    """What a part is. A shard that is gone or has changed is told of elsewhere, and stops nothing."""
    try:
        head = storage.read(path, at, min(size, HEAD))
        return preview(ByteRange.of(storage, path, at, size, head=head))
    except (StorageError, PermissionDenied):
        return Preview("cannot be read" if storage.exists(path) else "gone")
