"""Index shards: list them, compare them with the catalog, scan new and changed ones, write the next catalog."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.presence import no_samples_findings
from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow
from wdsctl.core.dataset.location import DatasetLocation, shell_command
from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.dataset.shard_names import describe_format, is_jsonl_name, shard_format
from wdsctl.core.errors import DatasetError, Finding, InputError, OptionConflict, UsageError
from wdsctl.core.files import remove_file, set_aside
from wdsctl.core.index.changes import (
    apply_renames_to_files,
    confirm_changes,
    detect_renames,
    find_returned_shards,
)
from wdsctl.core.index.freshness import Changes, compare_shards
from wdsctl.core.index.key_until import agreed_rule, check_suspicious_keys, check_tar_rule
from wdsctl.core.index.left_out import note_left_out
from wdsctl.core.index.merge import (
    MergePlan,
    forget_units,
    has_sound_offsets,
    merge_scans,
    remove_partial_files,
    scan_shards,
)
from wdsctl.core.index.missing import (
    CatalogSnapshot,
    check_named_shards,
    damaged_shard_findings,
    missing_findings,
    needs_sample_rows,
    read_snapshot,
    require_shards,
    vanished_error,
)
from wdsctl.core.index.report import IndexReport, ShardRename
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import CatalogStage
from wdsctl.core.progress import Progress
from wdsctl.core.shards.in_place.errors import UNSUPPORTED_CODE
from wdsctl.core.shards.in_place.kinds import IN_PLACE_FORMATS
from wdsctl.core.shards.jsonl_keys import JsonlKeyRule
from wdsctl.core.shards.list import ShardFile, ShardListing, list_shards
from wdsctl.core.shards.scan_unit import ScanOptions
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.storage.open import check_range_requests, workers_for


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of the next catalog: as requested, else as in the published catalog."""

    exclude: tuple[str, ...]
    selection: ShardSelection
    scan: ScanOptions
    sample_rows: bool = True
    key_until: str = ""

    def matches(self, snapshot: CatalogSnapshot) -> bool:
        """Whether the published catalog has these settings.

        The key field is not compared: a new one counts all shards as changed (`_reread_all`).
        """
        return (self.exclude, self.selection, self.sample_rows, self.scan.with_sha256, self.key_until) == (
            snapshot.exclude,
            snapshot.selection,
            snapshot.has_sample_rows,
            snapshot.is_hashed,
            snapshot.key_until,
        )


@dataclass(frozen=True, slots=True)
class IndexReportBuilder:
    """What is known of a run before it writes; `build` adds the contents of the catalog.

    `started_seconds`: by the monotonic clock. `listing_findings`: findings of the listing, which reads no shard.
    """

    stage: CatalogStage
    changes: Changes
    removed_shards: int
    started_seconds: float
    listing_findings: tuple[Finding, ...]
    settings: CatalogSettings

    def build(
        self,
        generation: int,
        kept: Sequence[ShardRow],
        new: Sequence[ShardRow],
        findings: Sequence[Finding],
        *,
        up_to_date: bool,
        dry_run: bool = False,
    ) -> IndexReport:
        """`kept`, `new`: the rows of the catalog after the run. A dry run knows only the sizes of new and changed
        shards.
        """
        unread = [*self.changes.added, *(shard for _, shard in self.changes.changed)] if dry_run else []
        location = self.stage.location
        warnings = (
            *self.listing_findings,
            *missing_findings(location, kept),
            *damaged_shard_findings(location, kept),
            *findings,
        )
        samples = parts = size_bytes = hashed = 0
        for row in chain(kept, new):
            samples, parts, size_bytes = samples + row.samples, parts + row.parts, size_bytes + row.size
            hashed += row.sha256 is not None
        if not (samples or unread):
            warnings = (*warnings, *no_samples_findings(location, [*kept, *new], warnings))
        return IndexReport(
            root=location.display_path,
            catalog=location.catalog_path,
            generation=generation,
            shards=len(kept) + len(new) + len(unread),
            samples=samples,
            parts=parts,
            size_bytes=size_bytes + sum(shard.size for shard in unread),
            added=len(self.changes.added),
            changed=len(self.changes.changed),
            removed=self.removed_shards,
            unchanged=len(self.changes.same),
            findings=warnings,
            up_to_date=up_to_date,
            dry_run=dry_run,
            seconds=time.monotonic() - self.started_seconds,
            renamed=tuple(ShardRename(was=was.path, now=now.path) for was, now in self.changes.renamed),
            selection="" if self.settings.selection.is_all else self.settings.selection.describe(),
            hashed=hashed,
            sample_rows=self.settings.sample_rows,
            catalog_bytes=self.stage.dataset.catalog_bytes() + _size(location.offsets_path(generation)),
        )


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0


def index_shards(stage: CatalogStage, request: IndexRequest, progress: Progress) -> IndexReport:
    """Stage a catalog that is up to date with the shards. The caller holds the lock, except for a dry run.

    The caller calls `clean_up` after it has published the stage: until then, a rerun needs the unit results.
    """
    location = stage.location
    started = time.monotonic()
    request = replace(request, workers=workers_for(location.root, request.workers))
    progress.phase("list")
    snapshot = read_snapshot(stage.dataset, rebuild=request.rebuild)
    if snapshot.has_sample_rows is None and snapshot.rule is not None:
        _note_counted_rule(snapshot.rule, progress)
    settings = CatalogSettings(
        tuple(filter(None, request.exclude)) if request.exclude else snapshot.exclude,
        snapshot.selection if request.selection is None else request.selection,
        ScanOptions(with_sha256=snapshot.is_hashed if request.hashed is None else request.hashed),
    )
    if request.selection is None and not settings.selection.is_all:
        progress.note(
            f"indexing only the shards that an earlier run selected: {settings.selection.describe()} (pass "
            f"'{location.display_path}/**' to select all)"
        )
    known = [row.path for row in snapshot.rows]
    listing = list_shards(
        location.root, settings.exclude, only=location.single_file, catalog_paths=known, selection=settings.selection
    )
    require_shards(location, listing, snapshot.rows)
    if request.exclude and (unused := [each for each in listing.unused_excludes if each]):
        progress.note(f"nothing matches --exclude {', '.join(unused)}")
    if settings.selection.is_all and not location.single_file:
        note_left_out(location.root, listing, progress)
    listing = check_named_shards(location, listing, request, known)
    for first in listing.shards[:1]:
        check_range_requests(location.root, os.path.join(location.root, first.path), first.size)
    key = _key_field(location, request.key, listing, snapshot)
    has_rows = needs_sample_rows(listing, request, snapshot.has_sample_rows, known)
    keys = JsonlKeyRule(key, is_single_file=bool(location.single_file))
    scan = replace(settings.scan, key_rule=keys)
    rule = _key_rule(stage.dataset, request, listing, snapshot)
    settings = replace(settings, scan=scan, sample_rows=has_rows, key_until=rule)
    changes = _changes(location, listing, snapshot, settings, request, progress)
    ids = {row.path: row.id for row in changes.same} if request.rebuild else {}
    renamed = changes.renamed
    if request.rebuild:
        changes = replace(changes, added=listing.shards, changed=(), same=(), touched=changes.vanished)
    if not request.dry_run:
        ids |= find_returned_shards(stage.dataset, changes, request.workers, progress, settings.scan)
    plan = _plan_merge(stage.dataset, snapshot, changes, ids, request, settings)
    current = (
        not plan.is_new_generation
        and settings.matches(snapshot)
        and has_sound_offsets(location, snapshot.generation, snapshot.rows)
    )
    report = IndexReportBuilder(stage, changes, len(plan.removed), started, listing.findings, settings)
    if request.dry_run:
        return report.build(
            snapshot.generation, plan.kept, (), (), up_to_date=current and not changes.touched, dry_run=True
        )
    if current and not changes.touched:
        forget_units(location)
        return report.build(snapshot.generation, plan.kept, (), (), up_to_date=True)
    apply_renames_to_files(location, renamed)
    rows, findings, generation = _draft(stage, snapshot, plan, changes, request, settings, progress)
    is_only_touched = current and not renamed and len(changes.touched) == _count_retimed(snapshot, changes)
    return report.build(generation, plan.kept, rows, findings, up_to_date=is_only_touched)


def check_has_shards(
    location: DatasetLocation, exclude: Sequence[str], selection: ShardSelection | None = None
) -> None:
    """Raise InputError WDS003, WDS008 or WDS113 for a folder without shards, before anything is written into it.

    Do not call it while another process holds the lock: that process may be about to write the shards.
    """
    listing = list_shards(location.root, exclude, only=location.single_file, selection=selection or ALL_SHARDS)
    require_shards(location, listing, ())


def _changes(
    location: DatasetLocation,
    listing: ShardListing,
    snapshot: CatalogSnapshot,
    settings: CatalogSettings,
    request: IndexRequest,
    progress: Progress,
) -> Changes:
    """Find all changes, reading shards only if size and mtime do not decide.

    Raises InputError WDS306 for vanished shards if `request.missing` is `error`.
    """
    changes = compare_shards(listing.shards, snapshot.rows, settings.exclude, settings.selection)
    is_dry = request.dry_run
    reread = () if is_dry else _paths_to_reread(changes, snapshot, settings)
    # A dry run compares only layouts: hashing would read every byte.
    scan = replace(settings.scan, with_sha256=settings.scan.with_sha256 and not is_dry)
    changes = confirm_changes(location, changes, request.workers, progress, scan, reread=reread, dry_run=is_dry)
    changes = detect_renames(location, changes, request.workers, progress, settings.scan, dry_run=is_dry)
    gone = [row for row in changes.vanished if row.status != MISSING_STATUS]
    if gone and request.missing == "error":
        raise vanished_error(location, gone, len(snapshot.rows))
    if request.missing != "drop":  # keep the rows of vanished shards, with the status `missing`
        noted = tuple(row._replace(status=MISSING_STATUS) for row in changes.vanished)
        new = (now for now, row in zip(noted, changes.vanished, strict=True) if now != row)
        changes = replace(changes, vanished=noted, touched=(*changes.touched, *new))
    if settings.scan.key_rule.field == snapshot.key:
        return changes
    # A new key field changes every sample, so all present shards count as changed.
    files = {shard.path: shard for shard in listing.shards}
    reread_rows = tuple((row, files[row.path]) for row in changes.same)
    return replace(changes, changed=(*changes.changed, *reread_rows), same=(), touched=changes.vanished)


def _paths_to_reread(changes: Changes, snapshot: CatalogSnapshot, settings: CatalogSettings) -> set[str]:
    """The unchanged shards to read nevertheless, because the catalog lacks their hashes or sample rows."""
    if settings.sample_rows and not snapshot.has_sample_rows:
        return {row.path for row in changes.same}
    if not settings.scan.with_sha256:
        return set()
    return {row.path for row in changes.same if row.sha256 is None and row.status != "unreadable"}


def _count_retimed(snapshot: CatalogSnapshot, changes: Changes) -> int:
    """The number of touched shards whose mtime has changed."""
    times = {row.id: row.mtime_ns for row in snapshot.rows}
    return sum(times[row.id] != row.mtime_ns for row in changes.touched if row.id in times)


def _draft(
    stage: CatalogStage,
    snapshot: CatalogSnapshot,
    plan: MergePlan,
    changes: Changes,
    request: IndexRequest,
    settings: CatalogSettings,
    progress: Progress,
) -> tuple[Sequence[ShardRow], list[Finding], int]:
    """Write the draft of the next catalog. Returns (new rows, findings, generation).

    If no shard was added, changed or removed, the generation stays, so that saved states stay valid; a missing or
    damaged offsets file is then written again.
    """
    location = stage.location
    rows: Sequence[ShardRow] = ()
    findings: list[Finding] = []
    remove_partial_files(location)
    if snapshot.is_damaged:
        aside = set_aside(location.catalog_path, "damaged")
        progress.note(f"the damaged catalog is now {aside}; building a new one")
    with stage.begin(from_scratch=request.rebuild) as draft:
        draft.generation = max(draft.generation, snapshot.generation)
        draft.last_shard_id = max(draft.last_shard_id, snapshot.last_shard_id)
        draft.exclude, draft.selection = settings.exclude, settings.selection
        draft.is_hashed = settings.scan.with_sha256
        draft.media_settings = snapshot.media
        draft.key_field, draft.key_until = settings.scan.key_rule.field, settings.key_until
        draft.split_facts |= snapshot.split_facts
        if draft.has_sample_rows and not settings.sample_rows:
            draft.forget_sample_rows()
        draft.has_sample_rows = settings.sample_rows
        if request.rebuild and (plan.kept or plan.removed or snapshot.held_by_gone_path):
            draft.copy_shards(location.catalog_path, [row.id for row in (*plan.kept, *plan.removed)])
        _refresh(draft, snapshot, changes)
        if snapshot.has_sample_rows is False and settings.sample_rows:
            _add_rows(location, draft, plan, request.workers, progress)
        if plan.is_new_generation or not has_sound_offsets(location, draft.generation, plan.kept):
            rows, findings = merge_scans(location, draft, plan, request.workers, progress)
            if not snapshot.rows:
                _check_readable_in_place(location, rows, findings, draft.generation)
            if not (settings.key_until or request.skip_key_checks):
                _check_keys(location, draft.generation, is_new=draft.generation != snapshot.generation)
    return rows, findings, draft.generation


def _check_readable_in_place(
    location: DatasetLocation, rows: Sequence[ShardRow], findings: Sequence[Finding], generation: int
) -> None:
    """Raise InputError WDS167 if no shard can be read in place, before the first catalog of a dataset is published."""
    refused = [finding for finding in findings if finding.code == UNSUPPORTED_CODE]
    if not refused or len(refused) < len(rows):
        return
    remove_file(location.offsets_path(generation))
    form = shard_format(refused[0].shard)
    command = (
        shell_command("prepare", location.display_path, "DEST")
        if form is None or form == "zip"
        else shell_command("convert", "--from", IN_PLACE_FORMATS[form].importer, location.display_path, "DEST")
    )
    reason = refused[0].message.rpartition(": it cannot")[0]
    raise InputError(
        f"{describe_format(refused[0].shard)} cannot be read in place: {reason}",
        where=f"{location.display_path} ({refused[0].shard})",
        hint=f"{command} copies the samples into tars",
        code=UNSUPPORTED_CODE,
    )


def _check_keys(location: DatasetLocation, generation: int, *, is_new: bool) -> None:
    """Raise DatasetError WDS245 for suspicious keys, before the catalog is published.

    `is_new`: the generation is new, so its offsets file is removed.
    """
    try:
        check_suspicious_keys(location, Offsets(location.offsets_path(generation)))
    except DatasetError:
        if is_new:
            remove_file(location.offsets_path(generation))
        raise


def _refresh(draft: CatalogDraft, snapshot: CatalogSnapshot, changes: Changes) -> None:
    """Update the rows of touched shards. Renamed shards keep their media facts, under a new digest."""
    draft.update_shards(changes.touched)
    if snapshot.media is not None:
        from wdsctl.core.index.media import media_shard_digest

        for was, now in changes.renamed:
            draft.media.update_shard_digest(
                was.id, media_shard_digest(was, snapshot.media), media_shard_digest(now, snapshot.media)
            )


def _add_rows(
    location: DatasetLocation, draft: CatalogDraft, plan: MergePlan, workers: int, progress: Progress
) -> None:
    """Add sample rows for the kept shards, from the scans in the work folder.

    Raises InputError WDS306 if a shard has changed or is missing.
    """
    files = [ShardFile(row.path, row.size, row.mtime_ns) for row in plan.kept]
    found = scan_shards(location, files, workers, progress, plan.scan)
    with closing(found):
        for row, (_, scan) in zip(plan.kept, found, strict=True):
            if scan.layout_hash() != row.layout_hash:
                raise InputError(
                    "cannot add sample rows: a shard is missing or has changed",
                    where=f"{location.display_path} ({row.path})",
                    hint="restore the shard, or pass `--missing drop` to drop it from the catalog",
                    code="WDS306",
                )
            draft.add_sample_rows(row.id, scan)


def _plan_merge(
    dataset: OpenDataset,
    snapshot: CatalogSnapshot,
    changes: Changes,
    known_ids: Mapping[str, int],
    request: IndexRequest,
    settings: CatalogSettings,
) -> MergePlan:
    keep = request.missing != "drop"
    kept = (*changes.same, *(changes.vanished if keep else ()))
    removed = (*changes.excluded, *(() if keep else changes.vanished))
    held = snapshot.held_by_path
    if changes.changed:
        held = dataset.catalog.split_membership([row.id for row, _ in changes.changed])
    if changes.renamed and request.rebuild:
        names = {was.path: now.path for was, now in changes.renamed}
        held = {names.get(path, path): samples for path, samples in held.items()}
    is_new = bool(changes.added or changes.changed or removed or request.rebuild)
    return MergePlan(
        kept,
        changes.added,
        changes.changed,
        removed,
        snapshot.rule,
        known_ids,
        held,
        snapshot.held_by_gone_path,
        is_new,
        settings.scan,
    )


def _key_field(
    location: DatasetLocation, requested: str | None, listing: ShardListing, snapshot: CatalogSnapshot
) -> str:
    """The JSONL field with the key: as requested, else as in the catalog.

    Raises UsageError for a requested field if some shards are tars, or if the field has an empty name.
    """
    if requested and any(not is_jsonl_name(shard.path) for shard in listing.shards):
        raise OptionConflict(
            "--key only applies to JSONL: in tars, the file names are the keys",
            options=("--key",),
            where=location.display_path,
            hint="omit --key",
        )
    if requested and not all(requested.split(".")):
        raise UsageError(
            f"--key {requested}: a name is empty",
            hint="write a field such as id, or meta.id for a nested field",
        )
    return snapshot.key if requested is None else requested


def _note_counted_rule(rule: SplitRule, progress: Progress) -> None:
    """Say that a new catalog may have other splits than one that is gone."""
    if rule.is_counted and len(rule.names) > 1:
        progress.note(
            f"the catalog is new: the splits are made again by the rule in dataset.yaml ({rule.description}). If "
            "samples were added or removed since the dataset was first split, some samples are now in another split. "
            "`wdsctl split --by key` makes splits that do not depend on that"
        )


def _key_rule(dataset: OpenDataset, request: IndexRequest, listing: ShardListing, snapshot: CatalogSnapshot) -> str:
    """The key rule: as requested, else as stored; empty if there is neither.

    Raises UsageError for lines, whose keys are no file names; and what `agreed_rule` and, unless the request skips the
    checks of keys, `check_tar_rule` raise.
    """
    kept = agreed_rule(dataset, snapshot.key_until)
    if request.key_until and listing.shards and all(is_jsonl_name(shard.path) for shard in listing.shards):
        raise OptionConflict(
            "--key-until applies to names of files only, and the keys of JSONL are fields or line numbers",
            options=("--key-until",),
            where=dataset.location.display_path,
            hint="omit --key-until; `--key FIELD` names the field that holds the key",
        )
    if not request.skip_key_checks:
        check_tar_rule(dataset.location, request.key_until, kept)
    return request.key_until or kept or ""
