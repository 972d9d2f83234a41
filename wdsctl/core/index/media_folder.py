"""Index a folder of media files without shards: its catalog lists every file with its media facts.

`docs/decisions/0014-a-folder-of-media-is-a-list-of-files.md` gives the reasons.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from wdsctl.core.catalog.values import MEDIA_FOLDER_KIND, MediaSettings
from wdsctl.core.dataset.location import DatasetLocation, note_catalog_location
from wdsctl.core.dataset.lock import after_publication
from wdsctl.core.errors import Finding, InputError, OptionConflict, findings_at_least
from wdsctl.core.files import remove_tree
from wdsctl.core.index.media import (
    no_media_findings,
    report_media,
    resolve_media_settings,
)
from wdsctl.core.index.media_unit import MediaFilesUnit, files_results, probe_files, split_into_units
from wdsctl.core.index.report import MediaReport, MediaState
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.invocation import describe_request
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.media.selection import AUTO, parse_media_selection
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.opened.writing import writing
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.shards.list import ShardFile, list_files
from wdsctl.core.storage.open import workers_for
from wdsctl.core.urls import redact_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFolderReport:
    """The contents of a media folder's catalog after the run, and what the run changed. Counts are of files."""

    root: str
    catalog: str
    generation: int
    files: int  # candidates of the selection by name; some may not be media by content
    size_bytes: int
    added: int
    changed: int
    removed: int
    unchanged: int
    findings: tuple[Finding, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    media: MediaReport


def index_media_folder(
    root: str,
    *,
    catalog: str | None = None,
    media: MediaRequest | None = None,
    exclude: Sequence[str] = (),
    rebuild: bool = False,
    workers: int = 1,
    dry_run: bool = False,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> MediaFolderReport:
    """Update the catalog of a folder of media files, reading only new and changed files.

    Without a selection in `media`, the catalog's selection applies; in a new catalog, all files that are media by name
    or content. Removes deleted files from the catalog. `wait`: seconds to wait for another writer. Raises InputError
    WDS003 if no file matches the selection, UsageError.
    """
    request = media or MediaRequest()
    if request.drop:
        raise OptionConflict(
            "without media facts, the catalog of a media folder would be empty",
            options=("--drop-media",),
            hint="omit --drop-media",
        )
    with open_dataset(root, catalog, writing=True) as dataset:
        if dry_run:
            return _index(dataset, request, exclude, 1, rebuild=rebuild, dry_run=True, progress=progress)
        if not dataset.has_catalog():
            # Raises for a folder without media, before `index` creates a catalog in it.
            _list_media_files(dataset.location, _folder_settings(request, None), exclude)
        note_catalog_location(dataset.location, catalog, progress)
        arguments = [redact_secrets(root), *describe_request(request)]
        with writing(dataset, "index", arguments, progress, wait=wait) as entry:
            report = _index(dataset, request, exclude, workers, rebuild=rebuild, dry_run=False, progress=progress)
            entry.findings += report.findings
            return report


def _index(
    dataset: OpenDataset,
    request: MediaRequest,
    exclude: Sequence[str],
    workers: int,
    *,
    rebuild: bool,
    dry_run: bool,
    progress: Progress,
) -> MediaFolderReport:
    location = dataset.location
    started = time.monotonic()
    progress.phase("list")
    known: dict[str, ShardFile] = {}
    settings_before: MediaSettings | None = None
    exclude_before: tuple[str, ...] = ()
    generation = 0
    if dataset.has_catalog():
        catalog = dataset.catalog
        known = {file.path: file for file in catalog.media_reader.files()}
        settings_before, exclude_before = catalog.media_settings(), catalog.exclude_patterns()
        generation = catalog.generation
    settings = _folder_settings(request, settings_before)
    exclude = tuple(filter(None, exclude)) if exclude else exclude_before
    files, findings = _list_media_files(location, settings, exclude)
    from_scratch = rebuild or settings != settings_before
    to_probe = [file for file in files if from_scratch or known.get(file.path) != file]
    removed = sorted(known.keys() - {file.path for file in files})
    is_complete = True
    is_current = not to_probe and not removed and exclude == exclude_before
    if not (is_current or dry_run):
        generation += 1
        units = _probe(location, settings, to_probe, workers, progress)
        progress.phase("finish")
        found = _publish(dataset, settings, exclude, units, removed, generation, from_scratch=from_scratch)
        is_complete = not findings_at_least(found, "error")
        findings += found
    state: MediaState = (
        "current" if is_current else "would be made" if dry_run else "made" if is_complete else "incomplete"
    )
    if state == "would be made":
        media = MediaReport(selection=settings.selection, keyframes=settings.keyframes, state=state)
    else:
        media = report_media(dataset, state, shards_read=len(to_probe))
    is_remembered = state == "current" and request.selection is None
    unmatched = [] if is_remembered else no_media_findings(location.display_path, media)
    return MediaFolderReport(
        root=location.display_path,
        catalog=location.catalog_path,
        generation=generation,
        files=len(files),
        size_bytes=sum(file.size for file in files),
        added=sum(file.path not in known for file in files),
        changed=sum(file.path in known for file in to_probe),
        removed=len(removed),
        unchanged=len(files) - len(to_probe),
        findings=(*findings, *unmatched),
        up_to_date=is_current,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
        media=media,
    )


def _folder_settings(request: MediaRequest, before: MediaSettings | None) -> MediaSettings:
    """The requested settings, else those of the catalog, else the automatic selection."""
    resolved = resolve_media_settings(request, before) if request.selection is not None or before else None
    return resolved or MediaSettings(AUTO, request.keyframes)


def _list_media_files(
    location: DatasetLocation, settings: MediaSettings, exclude: Sequence[str]
) -> tuple[list[ShardFile], list[Finding]]:
    """The files that are media by name, or may be by content. Raises InputError WDS003 if there are none."""
    listing = list_files(location.root, exclude)
    selection = parse_media_selection(settings.selection)
    files = [file for file in listing.shards if selection.guess_by_name(os.path.basename(file.path)) != "no"]
    if not files:
        raise InputError(
            "the folder has no shards and no media files"
            if selection.text == AUTO
            else f"--media {selection.text} matches no file",
            where=location.display_path,
            hint="check the path and --media",
            code="WDS003",
        )
    return files, list(listing.findings)


def _probe(
    location: DatasetLocation,
    settings: MediaSettings,
    files: Sequence[ShardFile],
    workers: int,
    progress: Progress,
) -> list[MediaFilesUnit]:
    """Probe the files that no earlier run has probed."""
    units = list(split_into_units(location.root, files, settings.selection, keyframes=settings.keyframes))
    finished = run_units(
        probe_files,
        units,
        make_executor(workers_for(location.root, workers), ("wdsctl.core.index.media_unit",)),
        results=files_results(location.media_work_folder),
        phase="media files",
        progress=progress,
        size=lambda unit: UnitSize(len(unit.files), sum(file.size for file in unit.files)),
        reads=(location.root,),
    )
    with closing(finished):
        for _ in finished:
            pass
    return units


def _publish(
    dataset: OpenDataset,
    settings: MediaSettings,
    exclude: Sequence[str],
    units: Sequence[MediaFilesUnit],
    removed_paths: Sequence[str],
    generation: int,
    *,
    from_scratch: bool,
) -> list[Finding]:
    """Write the next catalog. It leaves out files that could not be read, so that the next run tries them again."""
    location = dataset.location
    findings: list[Finding] = []
    results = files_results(location.media_work_folder)
    with change_catalog(dataset) as draft:
        draft.kind, draft.media_settings, draft.generation = MEDIA_FOLDER_KIND, settings, generation
        draft.exclude = tuple(exclude)
        if from_scratch:
            draft.media.clear()
        draft.media.remove_files(removed_paths)
        for unit in units:
            found = results.load_or_run(unit, probe_files)
            draft.media.put_files(unit.files, found.media)
            draft.media.remove_files([unit.files[i].path for i in found.failed_rows])
            findings += found.findings
        draft.media.count_files()
    after_publication(location, partial(remove_tree, location.media_work_folder))
    return findings
