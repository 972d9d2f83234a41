"""`repair`: write fixed copies of broken shards. Makes only fixes that need no guessing."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from wdsctl.core.catalog.presence import no_shards_error
from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow
from wdsctl.core.dataset.config import read_config_text
from wdsctl.core.dataset.destination import check_destination, check_destination_empty
from wdsctl.core.dataset.location import LOCK_FILE, META_FOLDER, DatasetLocation, locate, shell_command_at
from wdsctl.core.dataset.lock import hold_lock, lock_dataset
from wdsctl.core.dataset.root_spec import ALL_SHARDS
from wdsctl.core.dataset.shard_names import describe_format, is_jsonl_name, shard_format
from wdsctl.core.errors import CatalogError, Finding, InputError, OptionConflict, StorageError, UsageError
from wdsctl.core.files import make_folder, write_text
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.nesting import check_not_in_dataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.writing import hold_remote_marker
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.repair.members import read_indexed_members
from wdsctl.core.repair.unit import RepairedShard, RepairRequest, RepairUnit, repair_results, repair_shard
from wdsctl.core.shards.in_place.kinds import IN_PLACE_FORMATS
from wdsctl.core.shards.list import ShardFile, ShardListing, list_shards
from wdsctl.core.storage.open import workers_for
from wdsctl.core.text import escape_unprintable, pluralize
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

__all__ = ["RepairReport", "RepairRequest", "repair"]

_MAX_SHOWN_NAMES = 8  # missing members in a message
_RESULTS_FOLDER = "repair"  # subfolder of `.wdsctl` in DEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """The report of `repair`. `repaired`: every shard that is broken, was copied, or lacks members.

    `sound`: number of intact shards. `beyond_repair`: shards of which nothing could be saved. `lost_members`: number
    of names in `repaired[].lost`. `findings`: shards that the listing skips, problems that remain (WDS157), and
    missing members (WDS130).
    """

    root: str
    dest: str
    shards: int
    sound: int
    fixed: int
    beyond_repair: int
    lost_members: int
    copied: int
    repaired: tuple[RepairedShard, ...]
    findings: tuple[Finding, ...]
    dry_run: bool
    seconds: float


def repair(
    root: str,
    request: RepairRequest,
    *,
    catalog: str | None = None,
    workers: int = 1,
    progress: Progress = SILENT_PROGRESS,
) -> RepairReport:
    """Write fixed copies of the broken shards below `root`. Does not modify `root` unless `request.in_place` is set.

    Needs no catalog. With a catalog, reports every indexed member that is missing from a copy or an intact shard. A
    killed run continues where it stopped. Raises UsageError without a destination, InputError if there are no shards,
    PermissionDenied and StorageError if nothing can be written.
    """
    started = time.monotonic()
    location = open_dataset(root, catalog).location
    dest = _resolve_dest(location, request)
    listing, rows, offsets = _list_shards(location)
    shards = listing.shards
    _refuse_other_formats(location, shards)
    if request.encoding and not any(is_jsonl_name(shard.path) for shard in shards):
        raise OptionConflict(
            "--encoding applies to JSONL only, but the shards are tars",
            options=("--encoding",),
            where=location.display_path,
            hint="omit --encoding",
        )
    units = []
    for shard in shards:
        row = rows.get(shard.path)
        units.append(
            RepairUnit(
                root=location.root_to_write if request.in_place else location.root,
                shard=shard,
                target=os.path.join(dest, shard.path),
                request=request,
                row=row,
                offsets_path="" if row is None or is_jsonl_name(shard.path) else offsets,
                dest=dest,
                journal=locate(dest).upload_journal if is_url(dest) else "",
            )
        )
    meta = locate(dest).meta if is_url(dest) else os.path.join(dest, META_FOLDER)
    results_folder = os.path.join(meta, _RESULTS_FOLDER)
    with ExitStack() as stack:
        if request.in_place and not request.dry_run and os.path.isdir(location.meta):
            stack.enter_context(lock_dataset(location, wait=request.wait, note=progress.note))
        if not request.in_place and not request.dry_run:
            _check_dest_replaceable(dest, results_folder)
            if is_url(dest):
                _begin_remote(stack, locate(dest), shards, request, progress)
            stack.enter_context(hold_lock(os.path.join(meta, LOCK_FILE), wait=request.wait, note=progress.note))
            _check_dest_replaceable(dest, results_folder)  # again, since another writer may have held the lock
            make_folder(results_folder)
            config_copy = os.path.join(meta, "dataset.yaml")
            if os.path.exists(location.config_path) and not os.path.exists(config_copy):
                write_text(config_copy, read_config_text(location.config_path))
        keeps_results = not (request.in_place or request.dry_run)
        finished = run_units(
            repair_shard,
            units,
            make_executor(workers_for(dest, workers_for(location.root, workers)), ("wdsctl.core.repair.unit",)),
            results=repair_results(results_folder) if keeps_results else None,
            phase="repair",
            progress=progress,
            size=lambda unit: UnitSize(1, unit.shard.size),
            reads=(location.root, dest, *([offsets] if offsets else [])),
        )
        with closing(finished):
            results = [each.result() for each in finished]
    results += _find_missing_shards(location, shards, rows, offsets)
    results.sort(key=lambda each: each.shard)
    outcomes = Counter(each.became for each in results)
    return RepairReport(
        root=location.display_path,
        dest=redact_secrets(dest),
        shards=len(shards),
        sound=outcomes["sound"],
        fixed=outcomes["fixed"],
        beyond_repair=outcomes["lost"],
        lost_members=sum(len(each.lost) for each in results),
        copied=outcomes["copied"],
        repaired=tuple(each for each in results if each.became != "sound" or each.left or each.lost),
        findings=(*listing.findings, *_findings(results)),
        dry_run=request.dry_run,
        seconds=time.monotonic() - started,
    )


def _begin_remote(
    stack: ExitStack, location: DatasetLocation, shards: Sequence[ShardFile], request: RepairRequest, progress: Progress
) -> None:
    """Keep other machines from writing to a destination in a store, and abort uploads that a killed run left."""
    from wdsctl.core.storage.objects import ObjectStore
    from wdsctl.core.storage.upload_journal import abort_left_uploads

    stack.enter_context(hold_remote_marker(location, request.wait, progress.note))
    names = {shard.path for shard in shards}
    abort_left_uploads(ObjectStore(location.root), location.upload_journal, names.__contains__)


def _check_dest_replaceable(dest: str, results_folder: str) -> None:
    """Raise UsageError for a folder with files that `repair` did not write."""
    if not os.path.isdir(results_folder):
        check_destination_empty(dest)


def _resolve_dest(location: DatasetLocation, request: RepairRequest) -> str:
    """Return the absolute folder for copies. Raises UsageError if there is none, or it overlaps with the root."""
    hint = (
        "pass DEST to write fixed copies: `wdsctl repair ROOT DEST`; or pass `--in-place --yes` to replace the shards"
    )
    if request.in_place and request.dest:
        raise OptionConflict(
            "DEST and --in-place exclude each other", options=("DEST", "--in-place"), are_exclusive=True, hint=hint
        )
    if request.in_place and request.all_shards:
        raise OptionConflict(
            "--all has no effect with --in-place, where the intact shards are already",
            options=("--all", "--in-place"),
            are_exclusive=True,
            hint="omit --all; or pass DEST instead of --in-place to copy all shards",
        )
    if not (request.in_place or request.dest):
        raise UsageError("missing DEST for the fixed copies", hint=hint)
    if request.in_place:
        if is_url(location.root):
            raise UsageError(
                "shards at a URL cannot be repaired in place", hint="pass DEST, a folder or a URL, for fixed copies"
            )
        return location.root_to_write
    dest = normalize_root(request.dest)
    if is_url(dest):
        check_destination([location.path], dest)
        check_not_in_dataset(dest)
        return dest
    dest = os.path.abspath(dest)
    real, root = os.path.realpath(dest), location.root if is_url(location.root) else os.path.realpath(location.root)
    if os.path.exists(dest) and not os.path.isdir(dest):
        raise UsageError("DEST is a file", hint="pass a new or empty folder as DEST")
    overlaps = real == root if location.single_file else _is_below(real, root) or _is_below(root, real)
    if not is_url(root) and overlaps:
        raise UsageError(
            "DEST and ROOT contain one another: copies and shards would form one dataset",
            hint="pass a folder outside ROOT as DEST",
        )
    check_not_in_dataset(real)
    return real


def _is_below(folder: str, other: str) -> bool:
    """Whether `folder` is `other` or below it."""
    return f"{folder}/".startswith(f"{other}/")


def _refuse_other_formats(location: DatasetLocation, shards: Sequence[ShardFile]) -> None:
    form = shard_format(shards[0].path) if shards else None
    if form in IN_PLACE_FORMATS:
        raise InputError(
            f"the dataset has {describe_format(shards[0].path)}, and repair writes tars and JSONL files",
            where=location.display_path,
            hint=f"{shell_command_at(location, 'validate')} names the damaged shards: copy them again from their "
            "origin, or exclude them with `--exclude`",
        )


def _list_shards(location: DatasetLocation) -> tuple[ShardListing, dict[str, ShardRow], str]:
    """List the shards that the catalog selects. Return also their catalog rows by path, and the offsets file.

    Without a readable catalog, returns all shards and no rows. Without a usable offsets file, its path is empty.
    """
    exclude: tuple[str, ...] = ()
    selection = ALL_SHARDS
    rows: list[ShardRow] = []
    offsets = ""
    try:
        with OpenDataset(location) as dataset:
            if dataset.has_catalog():
                dataset.catalog.check_not_media_folder()
                exclude, selection = dataset.catalog.exclude_patterns(), dataset.catalog.selection()
                rows, offsets = dataset.catalog.shards(), location.offsets_path(dataset.catalog.generation)
                dataset.offsets()
    except (CatalogError, StorageError):
        offsets = ""
    paths = [row.path for row in rows]
    listing = list_shards(location.root, exclude, only=location.single_file, catalog_paths=paths, selection=selection)
    if not listing.shards:
        raise no_shards_error(location)
    return listing, {row.path: row for row in rows if row.status not in (MISSING_STATUS, "unreadable")}, offsets


def _find_missing_shards(
    location: DatasetLocation, shards: Sequence[ShardFile], rows: Mapping[str, ShardRow], offsets: str
) -> list[RepairedShard]:
    """Return the indexed shards whose files are missing, with the names of their members.

    If there are at least as many new files of the same size as missing ones, they count as renamed, not missing.
    """
    if location.single_file:
        return []
    present = {shard.path for shard in shards}
    new_sizes = Counter(shard.size for shard in shards if shard.path not in rows)
    missing = [row for path, row in rows.items() if path not in present]
    missing_sizes = Counter(row.size for row in missing)
    results = []
    for row in missing:
        if new_sizes[row.size] >= missing_sizes[row.size]:
            continue
        if is_jsonl_name(row.path):
            lost = [f"line {number}" for number in range(1, row.samples + 1)]
        else:
            lost = [each.name for each in read_indexed_members(offsets, row.id)] if offsets else []
        message = f"the file of {pluralize(row.samples, 'indexed sample')} is missing"
        results.append(
            RepairedShard(
                shard=row.path, became="lost", left=(message,), lost=tuple(lost), size_bytes=row.size, error="WDS130"
            )
        )
    return results


def _findings(results: Sequence[RepairedShard]) -> Iterator[Finding]:
    for each in results:
        for message in each.left:
            yield Finding(
                code=each.error or "WDS157",
                severity="error" if each.became == "lost" else "warning",
                message=message,
                shard=each.shard,
            )
        if each.lost:
            kind = "line" if is_jsonl_name(each.shard) else "member"
            yield Finding(
                code="WDS130",
                severity="error",
                message=f"{pluralize(len(each.lost), kind)} missing: {_format_names(each.lost)}",
                shard=each.shard,
            )


def _format_names(names: Sequence[str]) -> str:
    more = (
        f" and {len(names) - _MAX_SHOWN_NAMES:,} more (--json names them all)" if len(names) > _MAX_SHOWN_NAMES else ""
    )
    return ", ".join(map(escape_unprintable, names[:_MAX_SHOWN_NAMES])) + more
