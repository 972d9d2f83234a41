"""Folds scanned shards into the next catalog and its offsets file, in path order whatever order they come in."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wdsctl.core.catalog.catalog import ShardRow
from wdsctl.core.catalog.draft import Draft
from wdsctl.core.dataset_yaml import SplitRule
from wdsctl.core.errors import CatalogError
from wdsctl.core.findings import Finding
from wdsctl.core.offsets import Offsets, OffsetsWriter, ShardEntry, ShardRows
from wdsctl.core.os_errors import translated
from wdsctl.core.parallel import map_units
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.scan import ShardScan
from wdsctl.core.splitting import Shard, SplitShard, by_sample, by_shard, resolved
from wdsctl.core.units import ShardFile, load_scan, run_scan, scan_file, scan_unit

KEPT_GENERATIONS = 3  # offsets files that stay, so that trainings on an older generation go on

_OFFSETS = re.compile(r"offsets-(\d+)\.bin")


@dataclass(frozen=True, slots=True)
class Folding:
    """What is to be folded in: rows that stay as they are, shards to be read, rows that go."""

    kept: Sequence[ShardRow]
    added: Sequence[ShardFile]
    changed: Sequence[tuple[ShardRow, ShardFile]]
    removed: Sequence[ShardRow]
    rule: SplitRule | None


def fold(
    place: Place, draft: Draft, work: Folding, generation: int, workers: int, progress: Progress
) -> tuple[list[ShardRow], list[Finding]]:
    """Scan what is new, write draft and offsets. Returns the new rows, in id order, and what was found."""
    draft.generation = generation
    draft.next_generation()
    first = draft.next_shard_id()
    was_in = {row.path: draft.splits_of(row.id) for row, _ in work.changed}
    for row in (*work.removed, *(row for row, _ in work.changed)):
        draft.remove_shard(row.id)
    fresh = sorted((*work.added, *(shard for _, shard in work.changed)), key=lambda shard: shard.path)
    rows: list[ShardRow] = []
    findings: list[Finding] = []
    with translated(place.meta):
        os.makedirs(place.work, exist_ok=True)
        writer = OffsetsWriter(place.work)
        try:
            for row in _copy_kept(place, work.kept, generation, draft, writer):
                scan = scan_file(place.root, ShardFile(row.path, row.size, row.mtime_ns))
                writer.add(_entry(row), _rows(scan, draft))
            for shard_id, (shard, scan) in enumerate(_scans(place, fresh, workers, progress), first):
                draft.add_shard(shard_id, shard, scan)
                rows.append(_row(shard_id, shard, scan))
                writer.add(_entry(rows[-1]), _rows(scan, draft))
                findings += scan.findings
            progress.phase("finish")
            if work.rule is not None:
                _deal(draft, rows, work.rule, was_in)
            writer.finish(place.offsets(draft.generation), draft.generation, draft.extensions)
        finally:
            writer.close()
    return rows, findings


def tidy(place: Place, generation: int) -> None:
    """After publishing: the units are no longer needed, nor are offsets older than the last few generations."""
    shutil.rmtree(place.work, ignore_errors=True)
    for name in os.listdir(place.meta):
        match = _OFFSETS.fullmatch(name)
        if match and int(match[1]) <= generation - KEPT_GENERATIONS:
            os.unlink(os.path.join(place.meta, name))


def last_generation(place: Place) -> int:
    """The highest generation that left an offsets file: a new catalog counts on from there."""
    names = os.listdir(place.meta) if os.path.isdir(place.meta) else []
    return max((int(match[1]) for name in names if (match := _OFFSETS.fullmatch(name))), default=0)


def set_aside(path: str) -> None:
    """Keep a catalog that cannot be read, under another name."""
    from wdsctl.core.catalog.identity import check

    try:
        check(path)
    except CatalogError as error:
        if error.code == "WDS302":
            with translated(path):
                os.replace(path, path + ".damaged")


def _scans(
    place: Place, shards: Sequence[ShardFile], workers: int, progress: Progress
) -> Iterator[tuple[ShardFile, ShardScan]]:
    """Every shard with its scan, in the order given. Finished units of an earlier run are not scanned again."""
    units = [scan_unit(place.root, shard, place.work) for shard in shards]
    waiting = [i for i, unit in enumerate(units) if not unit.is_done]
    done = {i for i, unit in enumerate(units) if unit.is_done}
    progress.phase("scan", items=len(units), size_bytes=sum(shard.size for shard in shards))
    if done:
        progress.advance(items=len(done), size_bytes=sum(shards[i].size for i in done))
    results = map_units(run_scan, [units[i] for i in waiting], workers, preload=("wdsctl.core.units",))
    at = 0
    while at < len(units):
        while at in done:
            scan = load_scan(units[at].result)
            yield shards[at], scan if scan is not None else scan_file(place.root, shards[at])
            done.discard(at)
            at += 1
        if at < len(units):
            i, _ = next(results)
            done.add(waiting[i])
            progress.advance(items=1, size_bytes=shards[waiting[i]].size)


def _copy_kept(
    place: Place, kept: Sequence[ShardRow], generation: int, draft: Draft, writer: OffsetsWriter
) -> Iterator[ShardRow]:
    """Copy the kept shards' columns from the last offsets file; yields those that are not in it (it may be lost)."""
    try:
        old = Offsets(place.offsets(generation))
    except (OSError, CatalogError):
        yield from sorted(kept, key=lambda row: row.id)
        return
    numbers = {name: i for i, name in enumerate(draft.extensions)}
    at = {entry.id: i for i, entry in enumerate(old.shards)}
    for row in sorted(kept, key=lambda row: row.id):
        i = at.get(row.id)
        if i is None or old.shards[i].layout_hash != row.layout_hash:
            yield row
        else:
            writer.add(_entry(row), old.shard_rows(i, numbers))


def _rows(scan: ShardScan, draft: Draft) -> ShardRows:
    named = draft.numbers_of(scan)[scan.part_names]
    return ShardRows(scan.keys, scan.key_sizes, scan.counts, named, scan.part_offsets, scan.part_sizes)


def _row(shard_id: int, shard: ShardFile, scan: ShardScan) -> ShardRow:
    return ShardRow(
        id=shard_id,
        path=shard.path,
        size=shard.size,
        mtime_ns=shard.mtime_ns,
        samples=scan.samples,
        parts=len(scan.part_sizes),
        status=scan.status,
        code=scan.code,
        layout_hash=scan.layout_hash(),
    )


def _entry(row: ShardRow) -> ShardEntry:
    return ShardEntry(row.id, row.path, row.size, row.samples, row.layout_hash)


def _deal(draft: Draft, rows: Sequence[ShardRow], rule: SplitRule, was_in: dict[str, list[str]]) -> None:
    """New shards go to the splits; one that changed stays where it was, so that nothing moves from one to another."""
    shards = [Shard(row.id, row.path, row.samples) for row in rows]
    by = resolved(rule.by, len(shards), rule.shares)
    if not draft.has_splits:
        draft.replace_splits(rule.shares, by, rule.seed)
    if by == "shard":
        stay = [shard for shard in shards if was_in.get(shard.path)]
        for shard in stay:
            draft.add_to_split(was_in[shard.path][0], [SplitShard(shard.id, shard.samples)])
        shards = [shard for shard in shards if not was_in.get(shard.path)]
    if shards:
        deal = by_shard if by == "shard" else by_sample
        for name, parts in deal(shards, rule.shares, rule.seed, draft.split_totals(by)).items():
            draft.add_to_split(name, parts)
