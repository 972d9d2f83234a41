"""The shards' part of `index`: what is there is compared with the catalog, what is new is read, and the next catalog is
published.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.files import remove_file, set_aside
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.lock import check_held
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.shard_list import ShardListing, list_shards
from wdsctl.core.stores import workers_for
from wdsctl.core.units import ShardFile
from wdsctl.core.verbs.changes import Changes, compare, settled
from wdsctl.core.verbs.fold import Folding, fold, forget_units, is_whole, scans, sweep, tidy
from wdsctl.core.verbs.index_counts import Counts, Wanted
from wdsctl.core.verbs.index_listing import all_there, check_any, keeps_rows, vanished_error
from wdsctl.core.verbs.index_request import IndexReport, IndexRequest
from wdsctl.core.verbs.key_until import agreed_rule, check_keys, check_of_tars
from wdsctl.core.verbs.published import Published, published
from wdsctl.core.verbs.renames import carry_over, told_apart


def index_shards(place: Place, request: IndexRequest, progress: Progress) -> IndexReport:
    """Bring the catalog up to date with the shards, for a caller that holds the lock unless it is a dry run."""
    started = time.monotonic()
    request = replace(request, workers=workers_for(place.root, request.workers))
    progress.phase("list")
    before = published(place, rebuild=request.rebuild)
    wanted = _wanted(request, before)
    if request.selection is None and not wanted.selection.is_all:
        progress.note(f"only the shards chosen before: {wanted.selection.said()} (all: name '{place.shown}/**')")
    known = [row.path for row in before.rows]
    listing = list_shards(place.root, wanted.exclude, only=place.only, known=known, selection=wanted.selection)
    check_any(place, listing, before.rows)
    if request.exclude and (unused := [each for each in listing.unused if each]):
        progress.note(f"nothing matches --exclude {', '.join(unused)}")
    listing = all_there(place, listing, request, known)
    key = _key_field(place, request.key, listing, before)
    has_rows = keeps_rows(listing, request, before.has_sample_rows, known)
    wanted = replace(wanted, key=key, sample_rows=has_rows, key_until=_rule(place, request, before))
    changes = _changes(place, listing, before, wanted, request, progress)
    ids = {row.path: row.id for row in changes.same} if request.rebuild else {}
    renamed = changes.renamed
    if request.rebuild:
        changes = replace(changes, added=listing.shards, changed=(), same=(), touched=changes.vanished)
    work = _folding(place, before, changes, ids, request, wanted)
    current = not work.is_new and wanted.is_as(before) and is_whole(place, before.generation, before.rows)
    report = Counts(place, changes, len(work.removed), started, listing.findings, wanted)
    if request.dry_run:
        return report.of(before.generation, work.kept, (), up_to_date=current and not changes.touched, dry_run=True)
    if current and not changes.touched:
        forget_units(place)
        return report.of(before.generation, work.kept, (), up_to_date=True)
    carry_over(place, renamed)
    rows, findings, generation = _publish(place, before, work, changes, request, wanted, progress)
    is_only_touched = current and not renamed and len(changes.touched) == _timed(before, changes)
    return report.of(generation, (*work.kept, *rows), findings, up_to_date=is_only_touched)


def check_shards(place: Place, exclude: Sequence[str], selection: Selection | None = None) -> None:
    """Refuse a folder without shards before anything is written into it. Raises InputError WDS003, WDS008 or WDS113.

    Not while somebody else is at it: they may be about to write the shards, and the lock tells of them.
    """
    listing = list_shards(place.root, exclude, only=place.only, selection=selection or EVERYTHING)
    check_any(place, listing, ())


def _wanted(request: IndexRequest, before: Published) -> Wanted:
    return Wanted(
        tuple(filter(None, request.exclude)) if request.exclude else before.exclude,
        before.selection if request.selection is None else request.selection,
        hashed=before.is_hashed if request.hashed is None else request.hashed,
    )


def _changes(
    place: Place,
    listing: ShardListing,
    before: Published,
    wanted: Wanted,
    request: IndexRequest,
    progress: Progress,
) -> Changes:
    """What has changed. Shards are read for it where size and time do not tell."""
    changes = compare(listing.shards, before.rows, wanted.exclude, wanted.selection)
    key, hashed = wanted.key, wanted.hashed
    is_dry = request.dry_run
    again = () if is_dry else _to_be_read(changes, before, wanted)
    # To read every byte for its hash is too much for a dry run: where things lie has to do.
    reads_all = hashed and not is_dry
    changes = settled(place, changes, request.workers, progress, key=key, hashed=reads_all, again=again, dry_run=is_dry)
    changes = told_apart(place, changes, request.workers, progress, key=key, hashed=hashed, dry_run=request.dry_run)
    gone = [row for row in changes.vanished if row.status != MISSING]
    if gone and request.missing == "error":
        raise vanished_error(place, gone, len(before.rows))
    if request.missing != "drop":
        changes = _kept_as_missing(changes)
    return _all_changed(changes, listing) if key != before.key else changes


def _kept_as_missing(changes: Changes) -> Changes:
    """What has vanished stays, and is known to be missing from now on."""
    noted = tuple(replace(row, status=MISSING) for row in changes.vanished)
    new = (now for now, row in zip(noted, changes.vanished, strict=True) if now != row)
    return replace(changes, vanished=noted, touched=(*changes.touched, *new))


def _to_be_read(changes: Changes, before: Published, wanted: Wanted) -> set[str]:
    """Shards that look as they were, and whose hashes or rows of samples are asked for and are not there."""
    if wanted.sample_rows and not before.has_sample_rows:
        return {row.path for row in changes.same}
    if not wanted.hashed:
        return set()
    return {row.path for row in changes.same if row.sha256 is None and row.status != "unreadable"}


def _timed(before: Published, changes: Changes) -> int:
    """How many shards have another time, and no more."""
    times = {row.id: (row.mtime_ns, row.sha256) for row in before.rows}
    return sum(times[row.id][0] != row.mtime_ns for row in changes.touched if row.id in times)


def _publish(
    place: Place,
    before: Published,
    work: Folding,
    changes: Changes,
    request: IndexRequest,
    wanted: Wanted,
    progress: Progress,
) -> tuple[list[ShardRow], list[Finding], int]:
    """Write the next catalog: the rows that are new, what was found, and the generation.

    Where shards neither come nor go it is the same generation still, so that states that were saved on it go on; its
    offsets file is made again if it is not whole.
    """
    rows: list[ShardRow] = []
    findings: list[Finding] = []
    sweep(place)
    if before.is_damaged:
        aside = set_aside(place.catalog, "damaged")
        progress.note(f"the catalog was damaged; it is now {aside}, and a new one is made")
    with drafting(place.catalog, anew=request.rebuild, ready=partial(check_held, place.lock)) as draft:
        draft.generation = max(draft.generation, before.generation)
        draft.last_shard_id = max(draft.last_shard_id, before.last_shard_id)
        draft.exclude, draft.selection, draft.is_hashed = wanted.exclude, wanted.selection, wanted.hashed
        draft.media_settings = before.media
        draft.key_field, draft.key_until = work.key, wanted.key_until
        draft.split_facts |= before.split_facts
        if draft.has_sample_rows and not wanted.sample_rows:
            draft.forget_sample_rows()
        draft.has_sample_rows = wanted.sample_rows
        if request.rebuild and (work.kept or work.removed or before.gone):
            draft.adopt(place.catalog, [row.id for row in (*work.kept, *work.removed)])
        _refresh(draft, before, changes)
        if before.has_sample_rows is False and wanted.sample_rows:
            _add_rows(place, draft, work, request.workers, progress)
        if work.is_new or not is_whole(place, draft.generation, work.kept):
            rows, findings = fold(place, draft, work, request.workers, progress)
            if not (wanted.key_until or request.is_ours):
                _check_keys(place, draft.generation, is_new=draft.generation != before.generation)
    tidy(place, draft.generation)
    return rows, findings, draft.generation


def _check_keys(place: Place, generation: int, *, is_new: bool) -> None:
    """Refuse samples that look like several in one, before the catalog that has them is published."""
    try:
        check_keys(place, Offsets(place.offsets(generation)))
    except DatasetError:
        if is_new:
            remove_file(place.offsets(generation))
        raise


def _refresh(draft: Draft, before: Published, changes: Changes) -> None:
    """Times, names and hashes; facts of media stay those of a shard that has another name."""
    draft.refresh(changes.touched)
    if before.media is not None:
        from wdsctl.core.verbs.media import mark_of

        for was, now in changes.renamed:
            draft.media.mark_again(was.id, mark_of(was, before.media), mark_of(now, before.media))


def _add_rows(place: Place, draft: Draft, work: Folding, workers: int, progress: Progress) -> None:
    """Rows of samples for the shards that stay. They were read just now: what was found lies in the work folder."""
    files = [ShardFile(row.path, row.size, row.mtime_ns) for row in work.kept]
    found = scans(place, files, workers, progress, key=work.key, hashed=work.hashed)
    with closing(found):
        for row, (_, scan) in zip(work.kept, found, strict=True):
            if scan.layout_hash() != row.layout_hash:
                raise InputError(
                    "the samples of a shard are to get rows, and it is not there to be read as it was",
                    where=f"{place.shown} ({row.path})",
                    hint="bring it back, or forget it: `--missing drop`",
                    code="WDS306",
                )
            draft.add_sample_rows(row.id, scan)


def _folding(
    place: Place,
    before: Published,
    changes: Changes,
    ids: Mapping[str, int],
    request: IndexRequest,
    wanted: Wanted,
) -> Folding:
    keep = request.missing != "drop"
    kept = (*changes.same, *(changes.vanished if keep else ()))
    removed = (*changes.excluded, *(() if keep else changes.vanished))
    held = before.held
    if changes.changed:
        from wdsctl.core.catalog.catalog import Catalog

        with Catalog(place.catalog) as catalog:
            held = catalog.held([row.id for row, _ in changes.changed])
    if changes.renamed and request.rebuild:
        names = {was.path: now.path for was, now in changes.renamed}
        held = {names.get(path, path): samples for path, samples in held.items()}
    is_new = bool(changes.added or changes.changed or removed or request.rebuild)
    return Folding(
        kept,
        changes.added,
        changes.changed,
        removed,
        before.rule,
        ids,
        held,
        before.gone,
        is_new,
        wanted.key,
        wanted.hashed,
    )


def _key_field(place: Place, asked: str | None, listing: ShardListing, before: Published) -> str:
    """The field that keys come from from now on. Raises UsageError where there are no lines to have one."""
    if asked and any(not is_lines(shard.path) for shard in listing.shards):
        raise UsageError(
            "--key takes keys from a field of JSONL, and the keys of samples in tars are the names of their files",
            where=place.shown,
            hint="leave --key out",
        )
    if asked and not all(asked.split(".")):
        raise UsageError(f"--key {asked}: an empty name", hint="such as id, or meta.id for one inside another object")
    return before.key if asked is None else asked


def _rule(place: Place, request: IndexRequest, before: Published) -> str:
    """The rule that keys end by from now on; empty where nothing has decided it."""
    kept = agreed_rule(place, before.key_until)
    if not request.is_ours:
        check_of_tars(place, request.key_until, kept)
    return request.key_until or kept or ""


def _all_changed(changes: Changes, listing: ShardListing) -> Changes:
    """With other keys, every shard that is there is read again."""
    files = {shard.path: shard for shard in listing.shards}
    again = tuple((row, files[row.path]) for row in changes.same)
    return replace(changes, changed=(*changes.changed, *again), same=(), touched=changes.vanished)
