"""Scan shards in parallel, and merge them into the next catalog and its offsets file.

The result does not depend on the order in which scans finish.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise

from wdsctl.core.catalog.draft import CatalogDraft
from wdsctl.core.catalog.values import ShardRow, SplitMembership
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.lock import after_publication, check_lock_held
from wdsctl.core.errors import CatalogError, Finding, translate_os_errors
from wdsctl.core.files import make_folder, remove_file, remove_tree
from wdsctl.core.jobs import UnitSize, make_executor, run_units
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import Offsets, ShardColumns
from wdsctl.core.offsets.write import OffsetsWriter
from wdsctl.core.progress import Progress
from wdsctl.core.records import LazySequence, Records
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import (
    DEFAULT_SCAN,
    SCAN_BATCH,
    ScanOptions,
    ScanUnit,
    are_quick_scans,
    run_scan_unit,
    scan_file,
    scan_results,
    threads_per_file,
)
from wdsctl.core.shards.shard_scan import ShardScan
from wdsctl.core.split.allocate import SampleOrigins
from wdsctl.core.split_rules.rule import SplitRule

KEPT_GENERATIONS = 3  # offsets files that are kept, so that running trainings can use an older generation

LOCK_DRAFT_SECONDS = 600.0  # older drafts of a lock file belong to no running process

_PARALLEL_HASH_SAMPLES = 100_000  # shards with at least this many samples have their layout hashed in a thread

_PARTIAL = re.compile(r"\.(catalog\.sqlite|offsets-\d+\.bin|(?:names|keyframes)-\d+\.bin|dataset\.yaml)\.\d+\.partial")
_LOCK_DRAFT_NAME = re.compile(r"lock\.([0-9a-f]{32}|unreadable)(\.dead)?")
_OFFSETS_NAME = re.compile(r"offsets-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The changes for the next catalog: rows to keep, shards to scan, rows to remove."""

    kept: Sequence[ShardRow]
    added: Sequence[ShardFile]
    changed: Sequence[tuple[ShardRow, ShardFile]]
    removed: Sequence[ShardRow]
    rule: SplitRule | None  # of the default split set; the draft has the rules of named sets
    #: Path -> id of shards that keep their id in a rebuilt catalog, or have an earlier one again.
    known_ids: Mapping[str, int]
    #: Path -> split membership of the shards that are scanned again.
    held_by_path: Mapping[str, SplitMembership]
    #: Path -> split memberships of removed shards, the latest first.
    held_by_gone_path: Mapping[str, Sequence[SplitMembership]]
    is_new_generation: bool = True  # whether shards are added, changed or removed
    scan: ScanOptions = DEFAULT_SCAN


def merge_scans(
    location: DatasetLocation, draft: CatalogDraft, plan: MergePlan, workers: int, progress: Progress
) -> tuple[Sequence[ShardRow], list[Finding]]:
    """Scan added and changed shards, and write the draft and the offsets file. Returns (new rows by id, findings).

    Raises CatalogError if the lock is lost or a kept shard has no readable offsets, StorageError, PermissionDenied.
    """
    before = draft.generation
    if plan.is_new_generation:
        draft.generation += 1
    fresh_bytes = sum(shard.size for shard in chain(plan.added, (shard for _, shard in plan.changed)))
    draft.drop_index_before_growth(fresh_bytes / max(1, sum(row.size for row in plan.kept)))
    for row in plan.removed:
        draft.remove_shard(row.id, remember_splits=True)
    for row, _ in plan.changed:
        draft.remove_shard(row.id)
    rows = Records(ShardRow)
    findings: list[Finding] = []
    origins = SampleOrigins(location, before, plan.held_by_path)
    with translate_os_errors(location.meta):
        make_folder(location.work_folder)
        writer = OffsetsWriter(location.work_folder)
        try:
            kept = deque(sorted(plan.kept, key=lambda row: row.id))
            read_columns = _kept_columns_reader(location, plan, before, draft)
            ids, shards = _number_shards(draft, plan)
            with (
                closing(scan_shards(location, shards, workers, progress, plan.scan)) as found,
                ThreadPoolExecutor(1, thread_name_prefix="wdsctl-hash") as pool,
            ):
                for shard_id, (shard, scan) in zip(ids, found, strict=True):
                    while kept and kept[0].id < shard_id:
                        row = kept.popleft()
                        writer.add(_entry(row), read_columns(row))
                    rows.append(_add(draft, writer, pool, shard_id, shard, scan))
                    findings += scan.findings
                    origins.add_scan(shard.path, scan)
            for row in kept:
                writer.add(_entry(row), read_columns(row))
            progress.phase("finish")
            if plan.rule is not None or draft.split_facts:
                from wdsctl.core.split.allocate import allocate_new_shards

                findings += allocate_new_shards(location, draft, rows, plan, origins)
            check_lock_held(location.lock)
            writer.finish(location.offsets_path(draft.generation), draft.generation, draft.extensions)
        finally:
            writer.close()
    return rows, findings


def _add(
    draft: CatalogDraft, writer: OffsetsWriter, pool: Executor, shard_id: int, shard: ShardFile, scan: ShardScan
) -> ShardRow:
    """Add one shard to draft and offsets file. For a large shard, `pool` hashes the layout during the writing."""
    layout = (
        pool.submit(scan.layout_hash)
        if scan.known_layout_hash is None and scan.samples >= _PARALLEL_HASH_SAMPLES
        else None
    )
    writer.add_shard_columns(_rows(scan, draft))
    row = draft.add_shard(shard_id, shard, scan if layout is None else replace(scan, known_layout_hash=layout.result()))
    writer.add_shard_entry(_entry(row))
    return row


def _number_shards(draft: CatalogDraft, plan: MergePlan) -> tuple[Sequence[int], Sequence[ShardFile]]:
    """(ids, shards to scan), in the order of their ids: known ids first, then new ids in path order."""
    is_sorted = all(before.path <= shard.path for before, shard in pairwise(plan.added))
    if is_sorted and not (plan.changed or plan.known_ids):
        return draft.next_shard_ids(len(plan.added)), plan.added
    shards = [*plan.added, *(shard for _, shard in plan.changed)]
    known = sorted((plan.known_ids[shard.path], shard) for shard in shards if shard.path in plan.known_ids)
    new = sorted((shard for shard in shards if shard.path not in plan.known_ids), key=lambda shard: shard.path)
    ids = [*(number for number, _ in known), *draft.next_shard_ids(len(new))]
    return ids, [*(shard for _, shard in known), *new]


def remove_partial_files(location: DatasetLocation) -> None:
    """Remove temporary files of killed runs. The caller holds the lock, so no other process is writing them.

    Drafts of lock files are removed only if they are old: another process may be trying to take the lock.
    """
    with translate_os_errors(location.meta):
        for name in os.listdir(location.meta) if os.path.isdir(location.meta) else []:
            path = os.path.join(location.meta, name)
            with suppress(FileNotFoundError):
                is_partial = _PARTIAL.fullmatch(name) or (
                    _LOCK_DRAFT_NAME.fullmatch(name) and time.time() - os.stat(path).st_mtime > LOCK_DRAFT_SECONDS
                )
                if is_partial:
                    remove_file(path)


def clean_up(location: DatasetLocation, generation: int) -> None:
    """Remove unit results, and offsets files older than the last KEPT_GENERATIONS. Call it after publishing."""
    forget_units(location)
    with translate_os_errors(location.meta):
        for name in os.listdir(location.meta):
            match = _OFFSETS_NAME.fullmatch(name)
            if match and int(match[1]) <= generation - KEPT_GENERATIONS:
                remove_file(os.path.join(location.meta, name))


def forget_units(location: DatasetLocation) -> None:
    """Remove the results of finished units, whose catalog is published."""
    after_publication(location, partial(remove_tree, location.work_folder))


def has_sound_offsets(location: DatasetLocation, generation: int, rows: Iterable[ShardRow]) -> bool:
    """Whether the offsets file of a generation exists, is sound, and has the paths of these shards.

    The paths can differ after a kill: a run writes renames to offsets files first, and the user may have undone the
    renames since. Cost: reads the file, 15 ms per million samples.
    """
    try:
        offsets = Offsets(location.offsets_path(generation))
        offsets.check_all()
    except (OSError, CatalogError):
        return False
    if offsets.generation != generation:
        return False
    names = {shard.id: shard.path for shard in offsets.shards}
    return names == {row.id: row.path for row in rows}


def offsets_files(location: DatasetLocation) -> list[str]:
    """The paths of the offsets files of all generations, by name."""
    return [os.path.join(location.meta, name) for name in sorted(_names(location)) if _OFFSETS_NAME.fullmatch(name)]


def last_offsets_generation(location: DatasetLocation) -> int:
    """The highest generation with an offsets file, from which a new catalog continues to count; 0 if there is none."""
    return max((int(match[1]) for name in _names(location) if (match := _OFFSETS_NAME.fullmatch(name))), default=0)


def _names(location: DatasetLocation) -> list[str]:
    with translate_os_errors(location.meta, "list"):
        return os.listdir(location.meta) if os.path.isdir(location.meta) else []


def scan_shards(
    location: DatasetLocation,
    shards: Sequence[ShardFile],
    workers: int,
    progress: Progress,
    options: ScanOptions,
) -> Generator[tuple[ShardFile, ShardScan], None, None]:
    """Yield each shard with its scan, in the given order. Reuses the scans of an earlier run."""
    if are_quick_scans(location.root, shards, options):
        threads, workers = threads_per_file(workers, 1), 1
    else:
        threads = threads_per_file(workers, len(shards))
    executor = make_executor(workers, ("wdsctl.core.shards.scan_unit",))
    with_layout_hash = min(workers, len(shards)) > 1 or not executor.shares_files
    units = LazySequence(
        len(shards), lambda i: ScanUnit(location.root, shards[i], options, threads, with_layout_hash=with_layout_hash)
    )
    finished = run_units(
        run_scan_unit,
        units,
        executor,
        results=scan_results(location.work_folder),
        batch=SCAN_BATCH,
        is_ordered=True,
        phase="scan",
        progress=progress,
        size=lambda unit: UnitSize(1, unit.shard.size),
        reads=(location.root, *(os.path.join(location.root, shard.path) for shard in shards[:1])),
    )
    with closing(finished):
        for each in finished:
            yield each.unit.shard, each.result()


def _kept_columns_reader(
    location: DatasetLocation, plan: MergePlan, generation: int, draft: CatalogDraft
) -> Callable[[ShardRow], ShardColumns]:
    """A function that reads the columns of a kept shard from the last offsets file.

    If that file lacks a shard, its columns come from the sample rows of the catalog or, without such rows, from a new
    scan of the shard.
    """
    entries: dict[int, int] = {}
    with suppress(OSError, CatalogError):
        old = Offsets(location.offsets_path(generation))
        entries = {entry.id: i for i, entry in enumerate(old.shards)}
    numbers = {name: i for i, name in enumerate(draft.extensions)}

    def read(row: ShardRow) -> ShardColumns:
        i = entries.get(row.id)
        if i is not None and old.shards[i].layout_hash == row.layout_hash:
            # A damaged block of the old file is replaced like a missing one.
            with suppress(CatalogError):
                return old.shard_columns(i, numbers)
        if draft.has_sample_rows:
            return draft.read_shard_columns(row.id)
        return _rescan(location, row, draft, plan.scan)

    return read


def _rescan(location: DatasetLocation, row: ShardRow, draft: CatalogDraft, options: ScanOptions) -> ShardColumns:
    shard = ShardFile(row.path, row.size, row.mtime_ns)
    scan = scan_file(location.root, shard, replace(options, with_sha256=False))
    if scan.layout_hash() != row.layout_hash:
        raise CatalogError(
            "the offsets of a shard are lost, and the shard is missing or has changed",
            where=f"{location.display_path} ({row.path})",
            hint="restore the shard, or drop it from the catalog: "
            f"{shell_command_at(location, 'index', '--rebuild', '--missing', 'drop')}",
            code="WDS302",
        )
    return _rows(scan, draft)


def _rows(scan: ShardScan, draft: CatalogDraft) -> ShardColumns:
    named = draft.part_numbers(scan)[scan.part_names]
    return ShardColumns(scan.keys, scan.key_sizes, scan.counts, named, scan.part_offsets, scan.part_sizes)


def _entry(row: ShardRow) -> ShardEntry:
    return ShardEntry(row.id, row.path, row.size, row.samples, row.layout_hash)
