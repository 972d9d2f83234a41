"""Facts of media into the catalog: shard by shard on processes, resumable, and only what is new or has changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.identity import damaged
from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.errors import UsageError
from wdsctl.core.files import make_folder, remove_tree
from wdsctl.core.findings import Finding
from wdsctl.core.lock import check_held
from wdsctl.core.media.found import load_found
from wdsctl.core.media.selection import parse_selection
from wdsctl.core.media.shard_unit import ShardUnit, found_in, run_shard_unit
from wdsctl.core.offsets import Offsets
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.stores import workers_for
from wdsctl.core.verbs.media_report import MediaReport, State, media_report
from wdsctl.core.verbs.media_request import MediaRequest

FORMAT = 2  # raise it when facts come out otherwise than before: all media are then looked at again

_MARK = 16  # bytes


def settings_of(request: MediaRequest, before: MediaSettings | None) -> MediaSettings | None:
    """What is asked now. Raises UsageError where the request makes no sense."""
    if request.drop and (request.selection is not None or request.keyframes):
        raise UsageError("media are asked for and dropped at once", hint="give --media, or --drop-media")
    if request.drop:
        return None
    if request.selection is None and request.keyframes:
        if before is None:
            raise UsageError("--media-index needs media", hint="say which, such as --media mp4, or all: --media")
        return MediaSettings(before.selection, keyframes=True)
    if request.selection is None:
        return before
    return MediaSettings(parse_selection(request.selection).text, request.keyframes)


def check_media(place: Place, request: MediaRequest) -> None:
    """Refuse what makes no sense, before anything else is done. Raises UsageError."""
    before = None
    if request.keyframes and request.selection is None and os.path.exists(place.catalog):
        with Catalog(place.catalog) as catalog:
            before = catalog.media_settings()
    settings_of(request, before)


def settle_media(
    place: Place, request: MediaRequest, *, workers: int, dry_run: bool, progress: Progress
) -> tuple[MediaReport | None, list[Finding]]:
    """Bring the facts of media up to date, as they are asked for now or were asked for before.

    The caller holds the lock, unless it is a `dry_run`. Cost: a ranged read or a few of every medium in shards that are
    new or have changed, and a copy of the catalog where anything is.
    """
    if dry_run and not os.path.exists(place.catalog):
        asked = settings_of(request, None)
        return (_told(asked, "would be made") if asked else None), []
    with Catalog(place.catalog) as catalog:
        before = catalog.media_settings()
        settings = settings_of(request, before)
        if before is None and settings is None:
            return None, []
        rows, generation = catalog.shards(), catalog.generation
        marks = catalog.media.marks() if before is not None else {}
    if dry_run:
        return _foreseen(place, before, settings), []
    if settings is None:
        return (_dropped(place, before) if before else None), []
    lacking = [row for row in rows if row.samples and marks.get(row.id) != mark_of(row, settings)]
    gone = [row.id for row in lacking if row.status == MISSING]
    jobs = _jobs(place, generation, settings, [row for row in lacking if row.status != MISSING])
    if not jobs and settings == before:
        forget_media_units(place)
        return reported(place, "incomplete" if gone else "current"), []
    failures = _read(place, jobs, workers_for(place.root, workers), progress)
    progress.phase("finish")
    found = _publish(place, settings, jobs, {*gone, *failures})
    report = reported(place, "incomplete" if failures or gone else "made", read=len(jobs) - len(failures))
    return report, [*failures.values(), *found, *nothing_matched(place.shown, report)]


def nothing_matched(root: str, report: MediaReport) -> list[Finding]:
    """One finding where what was asked for is nowhere: it is never taken for success."""
    if report.counts or report.state != "made":
        return []
    message = f"nothing that is there is a medium by --media {report.selection}"
    return [Finding(code="WDS323", severity="error", message=message, shard=root)]


@dataclass(frozen=True, slots=True)
class _Job:
    """One shard that is to be looked at."""

    row: ShardRow
    mark: bytes
    unit: ShardUnit


def _jobs(place: Place, generation: int, settings: MediaSettings, rows: Sequence[ShardRow]) -> list[_Job]:
    """A job for each of these shards, which are not in the catalog as they are now and as it is asked for."""
    offsets = place.offsets(generation)
    places = {shard.id: i for i, shard in enumerate(Offsets(offsets).shards)}
    jobs = []
    for row in rows:
        mark = mark_of(row, settings)
        result = os.path.join(media_units(place), mark.hex())
        unit = ShardUnit(place.root, offsets, places[row.id], settings.selection, result, keyframes=settings.keyframes)
        jobs.append(_Job(row, mark, unit))
    return jobs


def _read(place: Place, jobs: Sequence[_Job], workers: int, progress: Progress) -> dict[int, Finding]:
    """Look at what no earlier run has looked at. Returns why shards could not be read, by their ids."""
    todo = [job for job in jobs if not os.path.exists(job.unit.result)]
    failures: dict[int, Finding] = {}
    if not todo:
        return failures
    make_folder(media_units(place))
    progress.phase("media", items=len(todo), size_bytes=sum(job.row.size for job in todo))
    units = [job.unit for job in todo]
    with closing(map_units(run_shard_unit, units, workers, preload=("wdsctl.core.media.shard_unit",))) as results:
        for i, failure in results:
            if failure is not None:
                failures[todo[i].row.id] = failure
            progress.advance(items=1, size_bytes=todo[i].row.size)
    return failures


def _publish(place: Place, settings: MediaSettings, jobs: Sequence[_Job], unread: AbstractSet[int]) -> list[Finding]:
    """Put what was found into the next catalog. Returns what is wrong with the media. `unread`: the ids of shards that
    were to be looked at and could not be; what was known of them is not what is asked now.
    """
    findings: list[Finding] = []
    with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
        draft.media_settings = settings
        for shard_id in unread:
            draft.media.remove_shard(shard_id)
        for job in jobs:
            if job.row.id in unread:
                continue
            # Looked at again where the file was damaged: its machine went down before it was written out.
            found = load_found(job.unit.result) or found_in(job.unit)
            draft.media.put_shard(job.row.id, job.mark, found.media)
            findings += found.findings
    forget_media_units(place)
    return findings


def mark_of(row: ShardRow, settings: MediaSettings) -> bytes:
    """Names a shard's content and what is asked of it."""
    told = f"{FORMAT}\0{settings.as_text()}\0{row.path}\0{row.size}\0{row.mtime_ns}\0{row.layout_hash}"
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=_MARK).digest()


def media_units(place: Place) -> str:
    """The folder of finished units of a run that may be continued."""
    return os.path.join(place.meta, "media")


def forget_media_units(place: Place) -> None:
    remove_tree(media_units(place))


def _dropped(place: Place, before: MediaSettings) -> MediaReport:
    """Forget all facts of media."""
    with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
        draft.media_settings = None
        draft.media.clear()
    forget_media_units(place)
    return _told(before, "dropped")


def reported(place: Place, state: State, *, read: int = 0) -> MediaReport:
    """What the catalog has of media."""
    with Catalog(place.catalog) as catalog:
        report = media_report(catalog, state, read=read)
    if report is None:
        raise damaged(place.catalog, "what it says of media is gone")
    return report


def _foreseen(place: Place, before: MediaSettings | None, settings: MediaSettings | None) -> MediaReport | None:
    """What a dry run says."""
    if settings is not None and settings != before:
        return _told(settings, "would be made")
    return _told(before, "would be dropped") if settings is None and before else reported(place, "current")


def _told(settings: MediaSettings, state: State) -> MediaReport:
    return MediaReport(selection=settings.selection, keyframes=settings.keyframes, state=state)
