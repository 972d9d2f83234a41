"""`index`: what is in the shards, into the catalog. Incremental, resumable, and nothing half-done is ever seen."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from wdsctl.core.catalog.catalog import Catalog, Held, ShardRow
from wdsctl.core.catalog.draft import drafting
from wdsctl.core.catalog.media_settings import MediaSettings
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import SplitRule, load
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.files import set_aside
from wdsctl.core.findings import Finding
from wdsctl.core.line_files import is_lines
from wdsctl.core.lock import check_held, locked, writer
from wdsctl.core.place import Place, locate
from wdsctl.core.printable import named
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.shard_list import ShardListing, list_shards
from wdsctl.core.stores import workers_for
from wdsctl.core.urls import shown
from wdsctl.core.verbs.changes import Changes, compare, settled
from wdsctl.core.verbs.column import check_columns, settle_columns
from wdsctl.core.verbs.column_job import ColumnRequest, OnError
from wdsctl.core.verbs.column_report import ColumnReport
from wdsctl.core.verbs.fold import Folding, fold, forget_units, is_whole, last_generation, sweep, tidy
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.media import MediaRequest, check_media, settle_media
from wdsctl.core.verbs.media_report import MediaReport
from wdsctl.core.verbs.presence import no_samples, no_shards

Missing = Literal["error", "keep", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What the catalog holds now, and what this run changed. Counts are of shards unless they say otherwise."""

    root: str
    catalog: str
    generation: int
    shards: int
    samples: int  # a dry run knows only those of shards that need not be read
    parts: int
    size_bytes: int  # of all shards
    added: int
    changed: int
    removed: int
    unchanged: int
    findings: tuple[Finding, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None  # None: nobody has asked for facts of media


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """What `index` was asked to do; see there."""

    workers: int = 1
    rebuild: bool = False
    missing: Missing = "error"
    exclude: tuple[str, ...] | None = None  # None or empty: the patterns that the catalog has
    dry_run: bool = False
    columns: ColumnRequest = field(default_factory=ColumnRequest)
    media: MediaRequest = field(default_factory=MediaRequest)
    key: str | None = None  # None: the field that the catalog has, if any; empty: numbers


@dataclass(frozen=True, slots=True)
class _Published:
    """What the catalog in force says."""

    rows: list[ShardRow]
    rule: SplitRule | None = None
    generation: int = 0
    last_shard_id: int = 0
    exclude: tuple[str, ...] = ()
    media: MediaSettings | None = None
    is_damaged: bool = False
    held: Mapping[str, Held] = field(default_factory=dict)  # for a rebuild: who has the samples, by shard
    key: str = ""  # the field that keys of lines come from


def index(
    root: str,
    *,
    catalog: str | None = None,
    workers: int = 1,
    rebuild: bool = False,
    missing: Missing = "error",
    exclude: Sequence[str] | None = None,
    dry_run: bool = False,
    columns: Mapping[str, str] | None = None,
    drop_columns: Sequence[str] = (),
    on_error: OnError = "error",
    media: MediaRequest | None = None,
    key: str | None = None,
    progress: Progress = SILENT,
) -> IndexReport:
    """Bring the catalog up to date with the shards below `root`; only new and changed shards are read.

    `missing` says what to do about shards that have vanished: raise CatalogError WDS306, keep their rows, or drop them.
    `exclude` are patterns of shards to leave out. They are kept in the catalog, and stay where none are given; an empty
    pattern takes them back.
    `rebuild` reads all shards again. A catalog that can be read hands on its splits and the shards' numbers; of one
    that is damaged the file is kept, and splits are made by the rule in dataset.yaml.
    `columns`: name -> function, numbers that are worked out for every sample (docs/columns.md). Columns of functions
    that need no code are brought along without being named. `on_error`: "zero" gives a sample 0 for which a function
    fails; otherwise the column is not published, and the samples are findings.
    `media`: facts of images, sounds and videos, by header (docs/media.md); those that were asked for before are brought
    along.
    `key`: for files of lines, the field of their objects that keys come from; kept in the catalog, and taken back by an
    empty one (docs/jsonl.md).
    Cost: about 2 µs of one core a member. Memory: the largest shard's index, and a few tens of MB.
    """
    place = locate(root, catalog, writing=True)
    patterns = None if exclude is None else tuple(exclude)
    asked = ColumnRequest(wanted=dict(columns or {}), drop=tuple(drop_columns), on_error=on_error)
    request = IndexRequest(
        workers=workers,
        rebuild=rebuild,
        missing=missing,
        exclude=patterns,
        dry_run=dry_run,
        columns=asked,
        media=media or MediaRequest(),
        key=key,
    )
    check_columns(place, asked)
    check_media(place, request.media)
    if dry_run:
        return index_at(place, request, progress)
    check_shards(place, exclude or ())
    say_where(place, catalog, progress)
    with locked(place.lock), journal(place, "index", [shown(root)], progress) as entry:
        report = index_at(place, request, progress)
        entry.findings += report.findings
        return report


def index_at(place: Place, request: IndexRequest, progress: Progress) -> IndexReport:
    """What `index` does, for a caller that holds the lock."""
    started = time.monotonic()
    report = _index_shards(place, request, progress)
    media, wrong = settle_media(
        place, request.media, workers=request.workers, dry_run=request.dry_run, progress=progress
    )
    columns, found = settle_columns(
        place,
        report.generation,
        request.columns,
        workers=request.workers,
        anew=request.rebuild,
        dry_run=request.dry_run,
        progress=progress,
    )
    return replace(
        report,
        columns=tuple(columns),
        media=media,
        findings=(*report.findings, *wrong, *found),
        up_to_date=report.up_to_date
        and all(each.state in ("current", "outdated") for each in columns)
        and (media is None or media.state == "current"),
        seconds=time.monotonic() - started,
    )


def _index_shards(place: Place, request: IndexRequest, progress: Progress) -> IndexReport:
    started = time.monotonic()
    request = replace(request, workers=workers_for(place.root, request.workers))
    progress.phase("list")
    published = _published(place, rebuild=request.rebuild)
    exclude = tuple(filter(None, request.exclude)) if request.exclude else published.exclude
    known = [row.path for row in published.rows]
    listing = list_shards(place.root, exclude, only=place.only, known=known)
    _check(place, listing, published)
    key = _key_field(place, request.key, listing, published)
    changes = compare(listing.shards, published.rows, exclude)
    if changes.vanished and request.missing == "error":
        raise _vanished(place, changes.vanished, len(published.rows))
    if not request.dry_run:
        changes = settled(place, changes, request.workers, progress, key=key)
    if key != published.key:
        changes = _all_changed(changes, listing)
    ids = {row.path: row.id for row in changes.same} if request.rebuild else {}
    if request.rebuild:
        changes = replace(changes, added=listing.shards, changed=(), same=(), touched=())
    work = replace(_folding(place, published, changes, ids, request), key=key)
    current = not work.is_new and exclude == published.exclude and is_whole(place, published.generation)
    report = _Counts(place, changes, len(work.removed), started, listing.findings)
    if request.dry_run:
        return report.of(published.generation, work.kept, (), up_to_date=current, dry_run=True)
    if current and not changes.touched:
        forget_units(place)
        return report.of(published.generation, work.kept, (), up_to_date=True)
    rows, findings, generation = _publish(place, published, work, changes, replace(request, exclude=exclude), progress)
    return report.of(generation, (*work.kept, *rows), findings, up_to_date=current)


def _publish(
    place: Place,
    published: _Published,
    work: Folding,
    changes: Changes,
    request: IndexRequest,
    progress: Progress,
) -> tuple[list[ShardRow], list[Finding], int]:
    """Write the next catalog: the rows that are new, what was found, and the generation.

    Where shards neither come nor go it is the same generation still, so that states that were saved on it go on; its
    offsets file is made again if it is not whole.
    """
    rows: list[ShardRow] = []
    findings: list[Finding] = []
    sweep(place)
    if published.is_damaged:
        aside = set_aside(place.catalog, "damaged")
        progress.note(f"the catalog was damaged; it is now {aside}, and a new one is made")
    with drafting(place.catalog, anew=request.rebuild, ready=partial(check_held, place.lock)) as draft:
        draft.generation = max(draft.generation, published.generation)
        draft.last_shard_id = max(draft.last_shard_id, published.last_shard_id)
        draft.exclude = request.exclude or ()
        draft.media_settings = published.media
        draft.key_field = work.key
        draft.retime(changes.touched)
        if request.rebuild and work.kept:
            draft.adopt(place.catalog, [row.id for row in work.kept])
        if work.is_new or not is_whole(place, draft.generation):
            rows, findings = fold(place, draft, work, request.workers, progress)
    tidy(place, draft.generation)
    return rows, findings, draft.generation


def _folding(
    place: Place, published: _Published, changes: Changes, ids: Mapping[str, int], request: IndexRequest
) -> Folding:
    keep = request.missing == "keep"
    kept = (*changes.same, *(changes.vanished if keep else ()))
    removed = (*changes.excluded, *(() if keep else changes.vanished))
    held = published.held
    if changes.changed:
        with Catalog(place.catalog) as catalog:
            held = catalog.held([row.id for row, _ in changes.changed])
    is_new = bool(changes.added or changes.changed or removed or request.rebuild)
    return Folding(kept, changes.added, changes.changed, removed, published.rule, ids, held, is_new)


def _key_field(place: Place, asked: str | None, listing: ShardListing, published: _Published) -> str:
    """The field that keys come from from now on. Raises UsageError where there are no lines to have one."""
    if asked and any(not is_lines(shard.path) for shard in listing.shards):
        raise UsageError(
            "--key takes keys from a field of JSONL, and the keys of samples in tars are the names of their files",
            where=place.shown,
            hint="leave --key out",
        )
    if asked and not all(asked.split(".")):
        raise UsageError(f"--key {asked}: an empty name", hint="such as id, or meta.id for one inside another object")
    return published.key if asked is None else asked


def _all_changed(changes: Changes, listing: ShardListing) -> Changes:
    """With other keys, every shard is read again."""
    files = {shard.path: shard for shard in listing.shards}
    again = tuple((row, files[row.path]) for row in changes.same)
    return replace(changes, changed=(*changes.changed, *again), same=(), touched=())


def say_where(place: Place, asked: str | None, progress: Progress) -> None:
    """Tell the user, once, when the catalog is not where they would look for it."""
    if not place.is_inside and asked is None and not os.path.exists(place.catalog):
        progress.note(f"the catalog is kept in {place.meta}")


def still_damaged(place: Place, rows: Sequence[ShardRow]) -> list[Finding]:
    """The shards with which earlier runs found something gravely wrong, and which have not changed since.

    The catalog has only the first code of each: how much else is wrong, another scan would tell.
    """
    words = f"found when it was indexed, and not mended: {command_at(place, 'validate')} tells all"
    return [
        Finding(
            code=row.code,
            severity="error",
            message=words,
            shard=row.path,
        )
        for row in rows
        if row.code is not None
    ]


def _published(place: Place, *, rebuild: bool) -> _Published:
    try:
        with Catalog(place.catalog) as catalog:
            rows = catalog.shards()
            return _Published(
                rows=rows,
                rule=catalog.split_rule(),
                generation=catalog.generation,
                last_shard_id=catalog.last_shard_id,
                exclude=catalog.exclude(),
                media=catalog.media_settings(),
                held=catalog.held([row.id for row in rows]) if rebuild else {},
                key=catalog.key_field,
            )
    except CatalogError as error:
        is_damaged = error.code == "WDS302"
        if error.code == "WDS301" or (rebuild and is_damaged):
            return _Published([], _authored_rule(place), last_generation(place), is_damaged=is_damaged)
        raise


def _authored_rule(place: Place) -> SplitRule | None:
    """The split that dataset.yaml asks for: a catalog can be made again from the tars and it."""
    return load(place.dataset_yaml).split if os.path.exists(place.dataset_yaml) else None


def check_shards(place: Place, exclude: Sequence[str]) -> None:
    """Refuse a folder without shards before anything is written into it. Raises InputError WDS003 or WDS113.

    Not while somebody else is at it: they may be about to write the shards, and the lock tells of them.
    """
    if not os.path.exists(place.catalog) and not writer(place.lock):
        _check(place, list_shards(place.root, exclude, only=place.only), _Published([]))


def _check(place: Place, listing: ShardListing, published: _Published) -> None:
    if listing.shards or published.rows:
        return
    compressed = sum(finding.code == "WDS113" for finding in listing.findings)
    if not compressed:
        raise no_shards(place)
    raise InputError(
        f"no tar files here, and no JSONL, only {counted(compressed, 'compressed one')}",
        where=place.shown,
        hint="decompress them first, such as by `gunzip`",
        code="WDS113",
    )


def _vanished(place: Place, vanished: Sequence[ShardRow], shards: int) -> CatalogError:
    names = ", ".join(named(row.path) for row in vanished[:3])
    more = f" and {len(vanished) - 3:,} more" if len(vanished) > 3 else ""
    have = "has" if len(vanished) == 1 else "have"
    return CatalogError(
        f"{len(vanished):,} of {counted(shards, 'shard')} {have} vanished: {names}{more}",
        where=place.shown,
        hint="bring them back, or say `--missing drop` to forget them or `--missing keep` to keep their rows",
        code="WDS306",
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    place: Place
    changes: Changes
    removed: int
    started: float
    listed: tuple[Finding, ...]

    def of(
        self,
        generation: int,
        rows: Sequence[ShardRow],
        findings: Sequence[Finding],
        *,
        up_to_date: bool,
        dry_run: bool = False,
    ) -> IndexReport:
        """`rows`: what the catalog has then. A dry run knows of shards that are to be read only how large they are."""
        unread = (*self.changes.added, *(shard for _, shard in self.changes.changed)) if dry_run else ()
        fresh = {shard.path for shard in self.changes.added} | {shard.path for _, shard in self.changes.changed}
        known = [row for row in rows if row.path not in fresh]
        said = (*self.listed, *still_damaged(self.place, known), *findings)
        return IndexReport(
            root=self.place.shown,
            catalog=self.place.catalog,
            generation=generation,
            shards=len(rows) + len(unread),
            samples=sum(row.samples for row in rows),
            parts=sum(row.parts for row in rows),
            size_bytes=sum(row.size for row in rows) + sum(shard.size for shard in unread),
            added=len(self.changes.added),
            changed=len(self.changes.changed),
            removed=self.removed,
            unchanged=len(self.changes.same),
            findings=said if unread else (*said, *no_samples(self.place, rows, said)),
            up_to_date=up_to_date,
            dry_run=dry_run,
            seconds=time.monotonic() - self.started,
        )
