"""Folds scanned shards into the next catalog and its offsets file, in path order whatever order they come in."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from wdsctl.core.catalog.draft import Draft
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.shard_row import Held, ShardRow
from wdsctl.core.command_line import command_at
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.files import make_folder, remove_file, remove_tree
from wdsctl.core.findings import Finding
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.lock import check_held
from wdsctl.core.offsets import Offsets, ShardRows
from wdsctl.core.offsets_bounds import ShardEntry
from wdsctl.core.offsets_writer import OffsetsWriter
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.saved_scan import load_scans, saved_scans
from wdsctl.core.shard_record import FormerKeys
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.split_rules import SplitRule
from wdsctl.core.units import (
    ScanUnit,
    ShardFile,
    are_quick,
    batched,
    helpers,
    run_scans,
    scan_file,
    scan_here,
    scan_unit,
)
from wdsctl.core.verbs.origins import Origins

KEPT_GENERATIONS = 3  # offsets files that stay, so that trainings on an older generation go on

LOCKING = 600.0  # seconds after which a draft of a lock is no longer about to be put in its place

_MANY = 100_000  # samples from which on it is worth a thread to hash a layout

_PARTIAL = re.compile(r"\.(catalog\.sqlite|offsets-\d+\.bin|(?:names|keyframes)-\d+\.bin|dataset\.yaml)\.\d+\.partial")
_LOCK = re.compile(r"lock\.([0-9a-f]{32}|unreadable)(\.dead)?")
_OFFSETS = re.compile(r"offsets-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class Folding:
    """What is to be folded in: rows that stay as they are, shards to be read, rows that go."""

    kept: Sequence[ShardRow]
    added: Sequence[ShardFile]
    changed: Sequence[tuple[ShardRow, ShardFile]]
    removed: Sequence[ShardRow]
    rule: SplitRule | None  # of the set without a name; rules of others are facts of the draft
    ids: Mapping[str, int]  # of shards that a new catalog knows from the old one, by path: they keep their numbers
    held: Mapping[str, Held]  # which splits had the shards that are read again, by path
    gone: Mapping[str, Sequence[Held]]  # the same of shards that were there once, the last first
    is_new: bool = True  # whether shards come or go: it is then a generation of its own
    key: str = ""  # the field that keys of lines come from
    hashed: bool = False  # hash the shards that are read


def fold(
    place: Place, draft: Draft, work: Folding, workers: int, progress: Progress
) -> tuple[list[ShardRow], list[Finding]]:
    """Scan what is new, write draft and offsets. Returns the new rows, in id order, and what was found."""
    before = draft.generation
    if work.is_new:
        draft.generation += 1
    fresh_bytes = sum(shard.size for shard in (*work.added, *(shard for _, shard in work.changed)))
    draft.expect(fresh_bytes / max(1, sum(row.size for row in work.kept)))
    for row in work.removed:
        draft.remove_shard(row.id, remembers=True)
    for row, _ in work.changed:
        draft.remove_shard(row.id)
    rows: list[ShardRow] = []
    findings: list[Finding] = []
    origins = Origins(place, before, work.held, _former_keys(place) if work.held else {})
    with translated(place.meta):
        make_folder(place.work)
        writer = OffsetsWriter(place.work)
        try:
            _copy_kept(place, work, before, draft, writer)
            fresh = _numbered(draft, work)
            shards = [shard for _, shard in fresh]
            with (
                closing(scans(place, shards, workers, progress, key=work.key, hashed=work.hashed)) as found,
                ThreadPoolExecutor(1, thread_name_prefix="wdsctl-hash") as pool,
            ):
                for (shard_id, _), (shard, scan) in zip(fresh, found, strict=True):
                    rows.append(_add(draft, writer, pool, shard_id, shard, scan))
                    findings += scan.findings
                    origins.look(shard.path, scan)
            progress.phase("finish")
            if work.rule is not None or draft.split_facts:
                from wdsctl.core.verbs.deal import deal_new

                findings += deal_new(place, draft, rows, work, origins)
            check_held(place.lock)
            writer.finish(place.offsets(draft.generation), draft.generation, draft.extensions)
        finally:
            writer.close()
    return rows, findings


def _add(
    draft: Draft, writer: OffsetsWriter, pool: Executor, shard_id: int, shard: ShardFile, scan: ShardScan
) -> ShardRow:
    """One shard into draft and offsets. The layout of a large one is hashed by `pool` while its columns are written."""
    layout = pool.submit(scan.layout_hash) if scan.layout is None and scan.samples >= _MANY else None
    writer.add_rows(_rows(scan, draft))
    row = draft.add_shard(shard_id, shard, scan if layout is None else replace(scan, layout=layout.result()))
    writer.name(_entry(row))
    return row


def _former_keys(place: Place) -> dict[str, FormerKeys]:
    """What the ledger has of samples whose raw files were renamed. Nothing where it cannot be read: it is a journal."""
    with suppress(CatalogError, PermissionDenied, StorageError), Ledger.peek(place.ledger) as ledger:
        return ledger.former_keys()
    return {}


def _numbered(draft: Draft, work: Folding) -> list[tuple[int, ShardFile]]:
    """The shards to be read, with their ids, in the order of these: known ones first, then new ones by path."""
    shards = [*work.added, *(shard for _, shard in work.changed)]
    known = sorted((work.ids[shard.path], shard) for shard in shards if shard.path in work.ids)
    new = sorted((shard for shard in shards if shard.path not in work.ids), key=lambda shard: shard.path)
    return [*known, *((draft.next_shard_id(), shard) for shard in new)]


def sweep(place: Place) -> None:
    """Before writing: remove what killed runs had begun. The caller holds the lock, so nobody else is at it now.

    But for drafts of locks: somebody may be about to find out that the lock is taken.
    """
    with translated(place.meta):
        for name in os.listdir(place.meta) if os.path.isdir(place.meta) else []:
            path = os.path.join(place.meta, name)
            with suppress(FileNotFoundError):
                if _PARTIAL.fullmatch(name) or (_LOCK.fullmatch(name) and _is_old(path)):
                    remove_file(path)


def tidy(place: Place, generation: int) -> None:
    """After publishing: the units are no longer needed, nor are offsets older than the last few generations."""
    forget_units(place)
    with translated(place.meta):
        for name in os.listdir(place.meta):
            match = _OFFSETS.fullmatch(name)
            if match and int(match[1]) <= generation - KEPT_GENERATIONS:
                remove_file(os.path.join(place.meta, name))


def forget_units(place: Place) -> None:
    remove_tree(place.work)


def is_whole(place: Place, generation: int, rows: Iterable[ShardRow]) -> bool:
    """Whether the offsets file of a generation is there and sound, all of it, and names these shards: a run that was
    killed may have given them names that were taken back since. Cost: the file is read, 15 ms a million samples.
    """
    try:
        offsets = Offsets(place.offsets(generation))
        offsets.check()
    except (OSError, CatalogError):
        return False
    names = {shard.id: shard.path for shard in offsets.shards}
    return offsets.generation == generation and names == {row.id: row.path for row in rows}


def offsets_files(place: Place) -> list[str]:
    """The offsets files that there are, of all generations."""
    return [os.path.join(place.meta, name) for name in sorted(_names(place)) if _OFFSETS.fullmatch(name)]


def last_generation(place: Place) -> int:
    """The highest generation that left an offsets file: a new catalog counts on from there."""
    return max((int(match[1]) for name in _names(place) if (match := _OFFSETS.fullmatch(name))), default=0)


def _names(place: Place) -> list[str]:
    with translated(place.meta, "list"):
        return os.listdir(place.meta) if os.path.isdir(place.meta) else []


def _is_old(path: str) -> bool:
    return time.time() - os.stat(path).st_mtime > LOCKING


def scans(
    place: Place,
    shards: Sequence[ShardFile],
    workers: int,
    progress: Progress,
    *,
    key: str = "",
    hashed: bool = False,
) -> Generator[tuple[ShardFile, ShardScan], None, None]:
    """Every shard with its scan, in the order given. Finished units of an earlier run are not scanned again.

    `key`: the field that keys of lines come from, if they do. `hashed`: read all of each, for its SHA-256.
    """
    keys = LineKeys(key, is_alone=bool(place.only))
    units = [scan_unit(place.root, shard, place.work, keys, hashed=hashed) for shard in shards]
    files = saved_scans(place.work)  # by the name of the unit
    waiting = [i for i, unit in enumerate(units) if unit.name not in files]
    left = set(waiting)
    done = set(range(len(units))) - left
    progress.phase("scan", items=len(units), size_bytes=sum(shard.size for shard in shards))
    if done:
        progress.advance(items=len(done), size_bytes=sum(shards[i].size for i in done))
    runs = batched([units[i] for i in waiting], workers)
    is_quick = are_quick([units[i] for i in waiting])
    is_here = is_quick or workers <= 1 or len(runs) < 2
    threads = helpers(workers, 1 if is_here else len(runs))
    todo = ([replace(units[i], threads=threads) for i in waiting[first:end]] for first, end in runs)
    held: dict[str, ShardScan] = {}  # those that were scanned in this process, or loaded with another
    with closing(_run(todo, 1 if is_here else workers)) as results:
        at = 0
        while at < len(units):
            while at in done:
                if units[at].name not in held:
                    held |= load_scans(files[units[at].name])
                yield shards[at], _result(units[at], held.pop(units[at].name, None), is_old=at not in left)
                done.discard(at)
                at += 1
            if at < len(units):
                i, found = next(results)
                ready = waiting[slice(*runs[i])]
                done.update(ready)
                names = [units[place].name for place in ready]
                held.update(zip(names, found, strict=False))
                files.update(dict.fromkeys(names, units[ready[0]].result))
                progress.advance(items=len(ready), size_bytes=sum(shards[place].size for place in ready))


def _run(todo: Iterator[list[ScanUnit]], workers: int) -> Generator[tuple[int, list[ShardScan]], None, None]:
    """(place in `todo`, its scans) as they are ready; no scans where another process has made them."""
    if workers <= 1:
        yield from ((i, scan_here(units)) for i, units in enumerate(todo))
        return
    from wdsctl.core.parallel import map_units

    with closing(map_units(run_scans, todo, workers, preload=("wdsctl.core.units",))) as results:
        yield from ((i, []) for i, _ in results)


def _is_within(scan: ShardScan, size: int) -> bool:
    """Whether all parts of what somebody left as a scan of a shard of this size are in it."""
    most = max(int(scan.part_offsets.max(initial=0)), int(scan.part_sizes.max(initial=0)))
    return most <= size and int((scan.part_offsets + scan.part_sizes).max(initial=0)) <= size


def _result(unit: ScanUnit, scan: ShardScan | None, *, is_old: bool) -> ShardScan:
    """What a unit left. Scanned again if it is damaged, or could not be read when an earlier run tried."""
    if scan is None or (is_old and (scan.status == "unreadable" or not _is_within(scan, unit.shard.size))):
        return scan_file(unit.root, unit.shard, unit.keys, hashed=unit.hashed)
    return scan


def _copy_kept(place: Place, work: Folding, generation: int, draft: Draft, writer: OffsetsWriter) -> None:
    """Copy the kept shards' columns from the last offsets file; what is not in it is taken from the catalog.

    Where that has no rows of samples, the shard is read again.
    """
    entries: dict[int, int] = {}
    with suppress(OSError, CatalogError):
        old = Offsets(place.offsets(generation))
        entries = {entry.id: i for i, entry in enumerate(old.shards)}
    numbers = {name: i for i, name in enumerate(draft.extensions)}
    for row in sorted(work.kept, key=lambda row: row.id):
        i = entries.get(row.id)
        rows = None
        if i is not None and old.shards[i].layout_hash == row.layout_hash:
            with suppress(
                CatalogError
            ):  # a block of the old file is damaged: it is made again like one that is not there
                rows = old.shard_rows(i, numbers)
        if rows is not None:
            writer.add(_entry(row), rows)
        elif draft.has_sample_rows:
            writer.add(_entry(row), draft.rows_of(row.id))
        else:
            writer.add(_entry(row), _read_again(place, row, draft, work.key))


def _read_again(place: Place, row: ShardRow, draft: Draft, key: str) -> ShardRows:
    shard = ShardFile(row.path, row.size, row.mtime_ns)
    scan = scan_file(place.root, shard, LineKeys(key, is_alone=bool(place.only)))
    if scan.layout_hash() != row.layout_hash:
        raise CatalogError(
            "the offsets of a shard are lost, and it is not there to be read again as it was",
            where=f"{place.shown} ({row.path})",
            hint=f"bring it back, or forget it: {command_at(place, 'index', '--rebuild', '--missing', 'drop')}",
            code="WDS302",
        )
    return _rows(scan, draft)


def _rows(scan: ShardScan, draft: Draft) -> ShardRows:
    named = draft.numbers_of(scan)[scan.part_names]
    return ShardRows(scan.keys, scan.key_sizes, scan.counts, named, scan.part_offsets, scan.part_sizes)


def _entry(row: ShardRow) -> ShardEntry:
    return ShardEntry(row.id, row.path, row.size, row.samples, row.layout_hash)
