"""`inspect`: summarise a dataset from its catalog. Reads only the few samples that it shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from wdsctl.core.catalog.presence import no_samples_findings
from wdsctl.core.catalog.totals import PartCount, SplitCount, Totals
from wdsctl.core.catalog.values import PartLocation, SampleLocation, read_generation
from wdsctl.core.dataset.config import DatasetConfig, load_config
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import find_folder_of_primary
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.index.freshness import MAX_CHECKED_SHARDS, changed_statuses, check_freshness
from wdsctl.core.index.report import ColumnReport, MediaReport, column_reports, current_media_report
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import MediumFacts, Unreadable
from wdsctl.core.offsets.head import check_offsets_head
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.field_map import parse_field_map
from wdsctl.core.samples.preview import PREVIEW_HEAD_BYTES, PartPreview, preview_facts, preview_part
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import FileRange, Storage
from wdsctl.core.urls import redact_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedShard:
    path: str
    samples: int
    size_bytes: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    name: str
    size_bytes: int
    preview: str
    facts: MediumFacts | Unreadable | None = None  # for an image, audio or video


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSummary:
    key: str
    shard: str
    parts: tuple[PartSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewCount:
    name: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolylithicSummary:
    """The media dataset of a primary. `sample_type`, `field_map`: of the samples with their media."""

    media: str
    sample_type: str
    field_map: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectReport:
    """The summary. `statuses`: numbers of shards that were ok, partial, bad, unreadable or missing when indexed.

    `looked_at`: the number of shards compared with the files; unless it is all, new shards are not found.
    `shard_list`: the first 1,000 shards; `missing` and `changed` are those whose files have changed since. `stale`:
    differences between the files and the catalog, and shards and parts of the catalog that cannot be read. `media`:
    None if the dataset was indexed without `--media`. `excluded`: the number of samples that a rule or a quarantine
    keeps out of all splits. `polylithic`: for a primary with its media beside it. `absent_fields`: mapped field -> the
    number of samples without any of its parts, if there are any.
    """

    root: str
    catalog: str
    catalog_bytes: int
    generation: int
    sample_type: str
    field_map: dict[str, str]
    shards: int
    samples: int
    size_bytes: int  # sum of all shards
    statuses: dict[str, int]
    looked_at: int
    parts: tuple[PartCount, ...]
    splits: tuple[SplitCount, ...]
    shard_list: tuple[InspectedShard, ...]
    first: tuple[SampleSummary, ...]
    stale: tuple[Finding, ...]
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None
    excluded: int = 0
    views: tuple[ViewCount, ...] = ()
    polylithic: PolylithicSummary | None = None
    absent_fields: dict[str, int] = field(default_factory=dict)


def inspect(root: str, *, catalog: str | None = None, samples: int = 3) -> InspectReport:
    """`inspect_dataset` of the dataset at `root`."""
    with open_indexed(root, catalog) as dataset:
        dataset.catalog.check_not_media_folder()
        return inspect_dataset(dataset, samples=samples)


def inspect_dataset(dataset: OpenDataset, *, samples: int = 3) -> InspectReport:
    """Summarise a dataset, and its first `samples` samples.

    Reads the catalog rows of at most 1,000 shards. If samples have no rows in the catalog, also reads the header of
    the offsets file, which takes about 4 µs per shard.
    """
    location, published = dataset.location, dataset.catalog
    summary = published.summary(first=MAX_CHECKED_SHARDS, spread=MAX_CHECKED_SHARDS)
    totals, generation = summary.totals, read_generation(location.catalog_path, summary.facts)
    views, ledger_findings = _count_views(dataset)
    config = dataset.config
    columns, column_findings = column_reports(location, generation, totals.digest)
    # Fewer shards are all compared with the catalog by `check_freshness`.
    sizes = {} if summary.has_all else {os.path.join(location.root, row.path): row.size for row in summary.first}
    first, offsets_findings, unread = _summarize_first_samples(dataset, samples, sizes)
    looked_at, stale = check_freshness(location, summary)
    changed = changed_statuses(stale)
    stale = [*stale, *(finding for finding in unread if finding.shard not in changed)]
    empty_findings = [] if totals.samples else no_samples_findings(location, published.shards())
    return InspectReport(
        root=location.display_path,
        catalog=location.catalog_path,
        catalog_bytes=os.path.getsize(location.catalog_path),
        generation=generation,
        sample_type=config.sample_type,
        field_map=dict(config.field_map),
        shards=totals.shards,
        samples=totals.samples,
        size_bytes=totals.size_bytes,
        statuses=totals.statuses,
        looked_at=looked_at,
        parts=totals.parts,
        splits=totals.splits,
        shard_list=tuple(
            InspectedShard(
                path=row.path, samples=row.samples, size_bytes=row.size, status=changed.get(row.path, row.status)
            )
            for row in summary.first
        ),
        first=tuple(first),
        stale=(*offsets_findings, *stale, *column_findings, *ledger_findings, *empty_findings),
        columns=tuple(columns),
        media=current_media_report(published, summary.facts, totals),
        excluded=totals.excluded,
        views=views,
        polylithic=_summarize_polylithic(location),
        absent_fields=_count_absent_fields(location, generation, config, totals),
    )


def _count_absent_fields(
    location: DatasetLocation, generation: int, config: DatasetConfig, totals: Totals
) -> dict[str, int]:
    """See `InspectReport`. Opens the offsets file only if not every part of the field map is in all samples."""
    complete = {part.name for part in totals.parts if part.samples == totals.samples}
    if all(
        any(access.part in complete for access in path.alternatives)
        for path in parse_field_map(config.field_map).values()
    ):
        return {}
    from wdsctl.core.catalog.consistency import absent_fields, open_offsets

    offsets = open_offsets(location, generation)
    return {} if isinstance(offsets, Finding) else absent_fields(offsets, config)


def _summarize_polylithic(location: DatasetLocation) -> PolylithicSummary | None:
    """Return None for a dataset that is not a primary, or whose complete samples have no dataset.yaml yet."""
    folder = find_folder_of_primary(location.path)
    if folder is None or not os.path.exists(folder.config):
        return None
    config = load_config(folder.config)
    return PolylithicSummary(
        media=redact_secrets(folder.media), sample_type=config.sample_type, field_map=dict(config.field_map)
    )


def _count_views(dataset: OpenDataset) -> tuple[tuple[ViewCount, ...], list[Finding]]:
    """Return the views, and a finding if the ledger, which stores them, cannot be read."""
    try:
        return tuple(ViewCount(name=view.name, samples=view.samples) for view in dataset.ledger.views()), []
    except (CatalogError, PermissionDenied) as error:
        return (), [Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")]


def _choose_first_samples(dataset: OpenDataset, count: int) -> tuple[list[SampleLocation], list[Finding]]:
    """Return the first samples, and a finding if the offsets file is unusable.

    If samples have no rows in the catalog, takes them from the offsets file.
    """
    browser, generation = dataset.browser, dataset.catalog.generation
    try:
        check_offsets_head(dataset.location.offsets_path(generation))
        if not browser.has_rows:
            from wdsctl.core.catalog.samples import StoredSamples

            stored = StoredSamples(dataset.location, generation)
            return [stored.at(row) for row in range(min(count, len(stored)))], []
    except (CatalogError, StorageError, PermissionDenied) as error:
        finding = Finding(code=error.code, severity="error", message=f"{error.message}; {error.hint}")
        return list(islice(browser.samples(), count)), [finding]
    return list(islice(browser.samples(), count)), []


def _summarize_first_samples(
    dataset: OpenDataset, count: int, sizes: Mapping[str, int]
) -> tuple[list[SampleSummary], list[Finding], list[Finding]]:
    """Return the first samples, findings about the offsets file, and one for each shard that cannot be read.

    `sizes`: that shards must have, by their path or URL.
    """
    root = dataset.location.root
    samples, findings = _choose_first_samples(dataset, count)
    facts_of_samples = [dataset.catalog.media_reader.facts_of_sample(sample) for sample in samples]
    summaries = []
    unread: dict[str, Finding] = {}
    with closing(storage_for(root, sizes)) as storage:
        storage.will_need(
            FileRange(os.path.join(root, sample.shard), part.offset, min(part.size, PREVIEW_HEAD_BYTES))
            for sample, facts in zip(samples, facts_of_samples, strict=True)
            for part in sample.parts
            if part.name not in facts
        )
        for sample, facts in zip(samples, facts_of_samples, strict=True):
            path = os.path.join(root, sample.shard)
            parts = []
            for part in sample.parts:
                summary, error = _summarize_part(storage, path, part, facts.get(part.name))
                parts.append(summary)
                if error is not None:
                    unread.setdefault(
                        sample.shard,
                        Finding(code=error.code, severity="error", message=error.message, shard=sample.shard),
                    )
            summaries.append(SampleSummary(key=sample.key, shard=sample.shard, parts=tuple(parts)))
    return summaries, findings, list(unread.values())


def _summarize_part(
    storage: Storage, path: str, part: PartLocation, known_facts: MediumFacts | Unreadable | None
) -> tuple[PartSummary, StorageError | PermissionDenied | None]:
    """Preview a part. Returns the error of a shard that exists and cannot be read; `check_freshness` reports others."""
    failure: StorageError | PermissionDenied | None = None
    try:
        if known_facts is not None:
            preview = preview_facts(known_facts)
        else:
            head = storage.read(path, part.offset, min(part.size, PREVIEW_HEAD_BYTES))
            source = ByteRangeFile.from_storage(storage, path, part.offset, part.size, head=head)
            preview = preview_part(source, part.name)
    except (StorageError, PermissionDenied) as error:
        failure = error if storage.exists(path) else None
        preview = PartPreview("missing" if failure is None else "cannot be read")
    return PartSummary(name=part.name, size_bytes=part.size, preview=preview.line, facts=preview.facts), failure
