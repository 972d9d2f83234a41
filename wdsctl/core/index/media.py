"""Update the media facts of a catalog: shard by shard, resumable, and only for new and changed shards."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from hashlib import blake2b

from wdsctl.core.catalog.open_catalog import damaged_catalog_error
from wdsctl.core.catalog.values import MISSING_STATUS, MediaSettings, ShardRow
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import Finding, OptionConflict
from wdsctl.core.index.media_unit import (
    MEDIA_FORMAT_VERSION,
    MediaShardUnit,
    probe_shard,
    run_media_unit,
    shard_results,
)
from wdsctl.core.index.report import MediaReport, MediaState, media_report
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.media.kinds import part_kind
from wdsctl.core.media.selection import parse_media_selection
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.progress import Progress
from wdsctl.core.storage.open import workers_for

_DIGEST_BYTES = 16


def resolve_media_settings(request: MediaRequest, before: MediaSettings | None) -> MediaSettings | None:
    """The settings that are valid after the request: the requested ones, else those of the catalog; None for none.

    Raises UsageError for contradicting options.
    """
    if request.drop and (request.selection is not None or request.keyframes):
        raise OptionConflict(
            "--media contradicts --drop-media",
            options=("--media", "--media-index", "--drop-media"),
            are_exclusive=True,
            hint="pass only one of them",
        )
    if request.drop:
        return None
    if request.selection is None and request.keyframes:
        if before is None:
            raise OptionConflict(
                "--media-index needs media",
                options=("--media-index",),
                hint="pass `--media` for all media, or a part such as `--media mp4`",
            )
        return MediaSettings(before.selection, keyframes=True)
    if request.selection is None:
        return before
    selection = parse_media_selection(request.selection)
    kinds = {part_kind(extension) for extension in selection.extensions}
    if request.keyframes and not selection.globs and kinds and kinds <= {"image", "audio"}:
        raise OptionConflict(
            f"--media-index has no effect with --media {selection.text}, which selects no videos",
            options=("--media-index",),
            hint=f"add videos, for example `--media {selection.text},mp4`, or omit --media-index",
        )
    return MediaSettings(selection.text, request.keyframes)


def check_media_request(dataset: OpenDataset, request: MediaRequest) -> None:
    """Check the request before any work begins. Raises UsageError."""
    before = None
    if request.keyframes and request.selection is None and dataset.has_catalog():
        before = dataset.catalog.media_settings()
    resolve_media_settings(request, before)


def update_media(
    dataset: OpenDataset,
    request: MediaRequest,
    *,
    workers: int,
    dry_run: bool,
    progress: Progress,
    has_unread_shards: bool = False,
) -> tuple[MediaReport | None, list[Finding]]:
    """Update the media facts of a catalog with the requested settings or, by default, those of the catalog.

    `has_unread_shards`: in a dry run, whether shards are new or changed, which the catalog does not show.

    The caller holds the lock, except for a dry run, and removes `media_work_folder` after it has published the catalog:
    until then, a rerun needs the results in it. Cost: one or a few ranged reads per medium in new and changed shards,
    and a copy of the catalog if any fact changes.
    """
    location = dataset.location
    if dry_run and not dataset.has_catalog():
        requested = resolve_media_settings(request, None)
        return (_report_without_counts(requested, "would be made") if requested else None), []
    catalog = dataset.catalog
    before = catalog.media_settings()
    settings = resolve_media_settings(request, before)
    if before is None and settings is None:
        return None, []
    rows, generation = catalog.shards(), catalog.generation
    digests = catalog.media_reader.shard_digests() if before is not None else {}
    if settings is None:
        drop = _report_without_counts(before, "would be dropped") if dry_run and before else None
        return (drop or (_drop_media(dataset, before) if before else None)), []
    outdated = [row for row in rows if row.samples and digests.get(row.id) != media_shard_digest(row, settings)]
    missing = [row.id for row in outdated if row.status == MISSING_STATUS]
    present = [row for row in outdated if row.status != MISSING_STATUS]
    if not present and settings == before and not has_unread_shards:
        report = report_media(dataset, "incomplete" if missing else "current")
        # Said again to the command that names the selection, and not to those that only take it from the catalog.
        return report, no_media_findings(location.display_path, report) if request.selection is not None else []
    if dry_run:
        return _report_without_counts(settings, "would be made"), []
    units = _units(location, generation, settings, present)
    failures = _probe(location, present, units, workers_for(location.root, workers), progress)
    progress.phase("finish")
    findings = _publish(dataset, settings, present, units, {*missing, *failures})
    state: MediaState = "incomplete" if failures or missing else "made"
    report = report_media(dataset, state, shards_read=len(units) - len(failures))
    return report, [*failures.values(), *findings, *no_media_findings(location.display_path, report)]


def no_media_findings(root: str, report: MediaReport) -> list[Finding]:
    """Report an error if the selection matches no media, so that a wrong selection does not look like success."""
    if report.counts or report.state not in ("made", "current"):
        return []
    message = f"--media {report.selection} matches no part"
    return [Finding(code="WDS323", severity="error", message=message, shard=root)]


def _units(
    location: DatasetLocation, generation: int, settings: MediaSettings, rows: Sequence[ShardRow]
) -> list[MediaShardUnit]:
    offsets_path = location.offsets_path(generation)
    indices = {shard.id: i for i, shard in enumerate(Offsets(offsets_path).shards)}
    return [
        MediaShardUnit(
            location.root,
            offsets_path,
            indices[row.id],
            settings.selection,
            media_shard_digest(row, settings).hex(),
            keyframes=settings.keyframes,
        )
        for row in rows
    ]


def _probe(
    location: DatasetLocation,
    rows: Sequence[ShardRow],
    units: Sequence[MediaShardUnit],
    workers: int,
    progress: Progress,
) -> dict[int, Finding]:
    """Probe the shards that no earlier run has probed. Returns shard id -> finding for shards that cannot be read."""
    size_by_index = {unit.shard_index: row.size for row, unit in zip(rows, units, strict=True)}
    finished = run_units(
        run_media_unit,
        units,
        make_executor(workers, ("wdsctl.core.index.media_unit",)),
        results=shard_results(location.media_work_folder),
        phase="media",
        progress=progress,
        size=lambda unit: UnitSize(1, size_by_index[unit.shard_index]),
        reads=(location.root, *(unit.offsets_path for unit in units[:1])),
    )
    with closing(finished):
        return {rows[each.index].id: each.result().findings[0] for each in finished if not each.is_saved}


def _publish(
    dataset: OpenDataset,
    settings: MediaSettings,
    rows: Sequence[ShardRow],
    units: Sequence[MediaShardUnit],
    unread_ids: AbstractSet[int],
) -> list[Finding]:
    """Write the facts into the next catalog. Returns findings about unreadable media.

    `unread_ids`: shards that could not be read. Their stored facts are of older content or settings, and are removed.
    """
    findings: list[Finding] = []
    results = shard_results(dataset.location.media_work_folder)
    with change_catalog(dataset) as draft:
        draft.media_settings = settings
        for shard_id in unread_ids:
            draft.media.remove_shard(shard_id)
        for row, unit in zip(rows, units, strict=True):
            if row.id not in unread_ids:
                found = results.load_or_run(unit, probe_shard)
                draft.media.put_shard(row.id, bytes.fromhex(unit.digest), found.media)
                findings += found.findings
    return findings


def media_shard_digest(row: ShardRow, settings: MediaSettings) -> bytes:
    """A digest of a shard's content and of the media settings."""
    facts = f"{MEDIA_FORMAT_VERSION}\0{settings.as_text()}\0{row.path}\0{row.size}\0{row.mtime_ns}\0{row.layout_hash}"
    return blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _drop_media(dataset: OpenDataset, before: MediaSettings) -> MediaReport:
    """Remove all media facts from the catalog."""
    with change_catalog(dataset) as draft:
        draft.media_settings = None
        draft.media.clear()
    return _report_without_counts(before, "dropped")


def report_media(dataset: OpenDataset, state: MediaState, *, shards_read: int = 0) -> MediaReport:
    """Report the media facts in the catalog. Raises CatalogError WDS302 if the catalog has no media settings."""
    report = media_report(dataset.catalog, state, read=shards_read)
    if report is None:
        raise damaged_catalog_error(dataset.location.catalog_path, "the media settings are missing")
    return report


def _report_without_counts(settings: MediaSettings, state: MediaState) -> MediaReport:
    return MediaReport(selection=settings.selection, keyframes=settings.keyframes, state=state)
