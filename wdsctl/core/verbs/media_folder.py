"""A folder of media files, without shards: a catalog of its own says of every file, by its name, what it is.

`docs/decisions/0014-a-folder-of-media-is-a-list-of-files.md` has the reasons.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from wdsctl.core.called import said
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.media_settings import FOLDER, MediaSettings
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.files import make_folder
from wdsctl.core.findings import Finding, at_least
from wdsctl.core.lock import check_held, locked
from wdsctl.core.media.file_unit import FileUnit, file_units, found_among, run_file_unit
from wdsctl.core.media.found import load_found
from wdsctl.core.media.selection import AUTO, parse_selection
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.shard_list import list_files
from wdsctl.core.stores import workers_for
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import shown
from wdsctl.core.verbs.index import say_where
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.media import (
    FORMAT,
    forget_media_units,
    media_units,
    nothing_matched,
    reported,
    settings_of,
)
from wdsctl.core.verbs.media_report import MediaReport, State
from wdsctl.core.verbs.media_request import MediaRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFolderReport:
    """What the catalog of a folder of media holds now, and what this run changed. Counts are of files."""

    root: str
    catalog: str
    generation: int
    files: int  # that the selection may mean; those that are no media are among them
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
    progress: Progress = SILENT,
) -> MediaFolderReport:
    """Bring the catalog of a folder of media files up to date; only files that are new or have changed are read.

    Without a selection, the one that was asked for before; at first, all that are media by name or content. Files that
    are gone are forgotten. Raises InputError WDS003 where there is no file that the selection may mean, UsageError.
    """
    place = locate(root, catalog, writing=True)
    request = media or MediaRequest()
    if request.drop:
        raise UsageError("a folder of media has nothing but facts of media", hint="remove its .wdsctl folder")
    if dry_run:
        return _index(place, request, exclude, 1, rebuild=rebuild, dry_run=True, progress=progress)
    if not os.path.exists(place.catalog):
        _listed(place, _asked(request, None), exclude)  # before anything is made: it may be refused
    say_where(place, catalog, progress)
    with (
        locked(place.lock, wait=wait, note=progress.note),
        journal(place, "index", [shown(root), *said(request)], progress) as entry,
    ):
        report = _index(place, request, exclude, workers, rebuild=rebuild, dry_run=False, progress=progress)
        entry.findings += report.findings
        return report


def _index(
    place: Place,
    request: MediaRequest,
    exclude: Sequence[str],
    workers: int,
    *,
    rebuild: bool,
    dry_run: bool,
    progress: Progress,
) -> MediaFolderReport:
    started = time.monotonic()
    progress.phase("list")
    before = _published(place)
    settings = _asked(request, before.settings)
    exclude = tuple(filter(None, exclude)) if exclude else before.exclude
    files, findings = _listed(place, settings, exclude)
    known = {file.path: file for file in before.files}
    anew = rebuild or settings != before.settings
    todo = [file for file in files if anew or known.get(file.path) != file]
    gone = sorted(known.keys() - {file.path for file in files})
    is_whole = True
    is_current = not todo and not gone and exclude == before.exclude
    generation = before.generation
    if not (is_current or dry_run):
        generation += 1
        units = _read(place, settings, todo, workers, progress)
        progress.phase("finish")
        found = _publish(place, settings, exclude, units, gone, generation, anew=anew)
        is_whole = not at_least(found, "error")
        findings += found
    state: State = "current" if is_current else "would be made" if dry_run else "made" if is_whole else "incomplete"
    made = _reported(place, settings, state, len(todo))
    return MediaFolderReport(
        root=place.shown,
        catalog=place.catalog,
        generation=generation,
        files=len(files),
        size_bytes=sum(file.size for file in files),
        added=sum(file.path not in known for file in files),
        changed=sum(file.path in known for file in todo),
        removed=len(gone),
        unchanged=len(files) - len(todo),
        findings=(*findings, *nothing_matched(place.shown, made)),
        up_to_date=is_current,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
        media=made,
    )


@dataclass(frozen=True, slots=True)
class _Published:
    """What the catalog in force says."""

    files: tuple[ShardFile, ...] = ()
    settings: MediaSettings | None = None
    exclude: tuple[str, ...] = ()
    generation: int = 0


def _published(place: Place) -> _Published:
    if not os.path.exists(place.catalog):
        return _Published()
    with Catalog(place.catalog) as catalog:
        files = tuple(catalog.media.files())
        return _Published(files, catalog.media_settings(), catalog.exclude(), catalog.generation)


def _asked(request: MediaRequest, before: MediaSettings | None) -> MediaSettings:
    """At first, and with nothing said, all that are media."""
    asked = settings_of(request, before) if request.selection is not None or before else None
    return asked or MediaSettings(AUTO, request.keyframes)


def _listed(place: Place, settings: MediaSettings, exclude: Sequence[str]) -> tuple[list[ShardFile], list[Finding]]:
    """The files that the selection may mean."""
    listing = list_files(place.root, exclude)
    wanted = parse_selection(settings.selection)
    files = [file for file in listing.shards if wanted.claim(os.path.basename(file.path)) != "no"]
    if not files:
        raise InputError(
            "there are no shards and no media files here"
            if wanted.text == AUTO
            else f"no file here is a medium by --media {wanted.text}",
            where=place.shown,
            hint="check the path, and what --media says",
            code="WDS003",
        )
    return files, list(listing.findings)


def _read(
    place: Place, settings: MediaSettings, todo: Sequence[ShardFile], workers: int, progress: Progress
) -> list[FileUnit]:
    """Look at what no earlier run has looked at."""
    folder = media_units(place)
    units = list(file_units(place.root, todo, folder, settings.selection, keyframes=settings.keyframes, version=FORMAT))
    left = [unit for unit in units if not os.path.exists(unit.result)]
    if left:
        make_folder(folder)
        size_bytes = sum(file.size for unit in left for file in unit.files)
        progress.phase("media files", items=sum(len(unit.files) for unit in left), size_bytes=size_bytes)
    count, preload = workers_for(place.root, workers), ("wdsctl.core.media.file_unit",)
    with closing(map_units(run_file_unit, left, count, preload=preload)) as results:
        for i, _ in results:
            files = left[i].files
            progress.advance(items=len(files), size_bytes=sum(file.size for file in files))
    return units


def _publish(
    place: Place,
    settings: MediaSettings,
    exclude: Sequence[str],
    units: Sequence[FileUnit],
    gone: Sequence[str],
    generation: int,
    *,
    anew: bool,
) -> list[Finding]:
    """Write the next catalog. Files that could not be read are left out of it, so that the next run tries again."""
    findings: list[Finding] = []
    with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
        draft.kind, draft.media_settings, draft.generation = FOLDER, settings, generation
        draft.exclude = tuple(exclude)
        if anew:
            draft.media.clear()
        draft.media.remove_files(gone)
        for unit in units:
            # Looked at again where the file was damaged: its machine went down before it was written out.
            found = load_found(unit.result) or found_among(unit)
            draft.media.put_files(unit.files, found.media)
            draft.media.remove_files([unit.files[i].path for i in found.failed])
            findings += found.findings
        draft.media.count_files()
    forget_media_units(place)
    return findings


def _reported(place: Place, settings: MediaSettings, state: State, read: int) -> MediaReport:
    if state == "would be made":
        return MediaReport(selection=settings.selection, keyframes=settings.keyframes, state=state)
    return reported(place, state, read=read)
