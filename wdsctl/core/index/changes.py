"""Confirm by content how the shards on disk differ from the catalog, and detect renamed shards.

A shard whose content the catalog has under another path was renamed. It counts neither as new nor as missing.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError, translate_os_errors
from wdsctl.core.index.freshness import Changes
from wdsctl.core.index.merge import offsets_files, scan_shards
from wdsctl.core.offsets.write import rename_offsets_shards
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.progress import Progress
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.shards.scan_unit import ScanOptions, scan_file
from wdsctl.core.shards.shard_scan import ShardScan


def confirm_changes(
    location: DatasetLocation,
    changes: Changes,
    workers: int,
    progress: Progress,
    options: ScanOptions,
    *,
    reread: Collection[str] = (),
    dry_run: bool = False,
) -> Changes:
    """Scan changed shards of unchanged size, and count those with unchanged content as the same.

    The scans stay in the work folder, so that a shard is not scanned twice; a dry run keeps nothing.
    `reread`: paths of shards in `changes.same` to scan as well.
    """
    unclear = [(row, shard) for row, shard in changes.changed if row.size == shard.size]
    unclear += [(row, ShardFile(row.path, row.size, row.mtime_ns)) for row in changes.same if row.path in reread]
    if not unclear:
        return changes
    same: dict[str, ShardRow] = {row.path: row for row in changes.same}
    changed = {row.path: (row, shard) for row, shard in changes.changed}
    touched: list[ShardRow] = []
    shards = [shard for _, shard in unclear]
    reads = scan_in_process if dry_run else partial(scan_shards, workers=workers)
    with closing(reads(location, shards, progress=progress, options=options)) as found:
        for (row, _), (shard, scan) in zip(unclear, found, strict=True):
            if not is_unchanged(row, summarize_scan(scan)):
                same.pop(row.path, None)
                changed[row.path] = (row, shard)
                continue
            # A new mtime makes the stored hash doubtful, even if no part has moved.
            known = row.sha256 if row.mtime_ns == shard.mtime_ns else None
            now = row._replace(mtime_ns=shard.mtime_ns, sha256=scan.sha256 or known, status=scan.status)
            changed.pop(row.path, None)
            same[row.path] = now
            if now != row:
                touched.append(now)
    return replace(
        changes, changed=tuple(changed.values()), same=tuple(same.values()), touched=(*changes.touched, *touched)
    )


def scan_in_process(
    location: DatasetLocation,
    shards: Sequence[ShardFile],
    *,
    progress: Progress,
    options: ScanOptions,
) -> Generator[tuple[ShardFile, ShardScan], None, None]:
    """As `scan_shards`, but in this process and without writing results: for dry runs."""
    progress.phase("scan", items=len(shards), size_bytes=sum(shard.size for shard in shards))
    for shard in shards:
        yield shard, scan_file(location.root, shard, options)
        progress.advance(items=1, size_bytes=shard.size)


def find_returned_shards(
    dataset: OpenDataset, changes: Changes, workers: int, progress: Progress, options: ScanOptions
) -> dict[str, int]:
    """Path -> the id of an earlier shard, for changed shards that have its content again, as after a restore.

    States, views and traces name shards by id, so they can be used again. A shard that was missing in between gets a
    new id: jobs that began without it read all shards up to the last one that they know. Cost: scans the changed
    shards that are as large as an earlier one. The scans stay in the work folder.
    """
    if not changes.changed:
        return {}
    replaced = dataset.catalog.replaced_shards()
    earlier = {
        file.path: [row for row in replaced.get(file.path, ()) if row.size == file.size] for _, file in changes.changed
    }
    shards = [file for _, file in changes.changed if earlier[file.path]]
    if not shards:
        return {}
    returned: dict[str, int] = {}
    with closing(scan_shards(dataset.location, shards, workers, progress, options)) as found:
        for shard, scan in found:
            summary = summarize_scan(scan)
            same = next((row for row in earlier[shard.path] if is_unchanged(row, summary)), None)
            if same is not None:
                returned[shard.path] = same.id
    return returned


class ScanSummary(NamedTuple):
    """The result of a scan for the shard as a whole."""

    status: str
    code: str | None
    layout_hash: str
    sha256: str | None


def summarize_scan(scan: ShardScan) -> ScanSummary:
    return ScanSummary(scan.status, scan.error_code, scan.layout_hash(), scan.sha256)


def is_unchanged(row: ShardRow, summary: ScanSummary) -> bool:
    """Whether status, code and layout of a shard are unchanged and, if both hashes are known, also its SHA-256."""
    status = summary.status if row.status == MISSING_STATUS else row.status
    is_same_content = (status, row.code, row.layout_hash) == summary[:3]
    return is_same_content and (row.sha256 is None or summary.sha256 is None or row.sha256 == summary.sha256)


def detect_renames(
    location: DatasetLocation,
    changes: Changes,
    workers: int,
    progress: Progress,
    options: ScanOptions,
    *,
    dry_run: bool = False,
) -> Changes:
    """Return the changes with renamed shards recognised: same size, same layout and, if known, same SHA-256.

    Different shards with the same keys and sizes have the same layout. So without hashes the mtime must match, too, or
    the layout must be unique in the dataset. A path may now belong to another shard, for example after the shards were
    renumbered.

    Cost: scans the new and changed shards that are as large as a vanished or changed one. The scans stay in the work
    folder, except in a dry run.
    """
    if not changes.vanished:
        return changes
    old = [*changes.vanished, *(row for row, _ in changes.changed)]
    sizes = {row.size for row in old}
    new = [shard for shard in (*changes.added, *(file for _, file in changes.changed)) if shard.size in sizes]
    if not new:
        return changes
    options = replace(options, with_sha256=options.with_sha256 or any(row.sha256 for row in old))
    reads = scan_in_process if dry_run else partial(scan_shards, workers=workers)
    with closing(reads(location, new, progress=progress, options=options)) as found:
        pairs = _match_renames(old, found, changes)
    return _apply_renames(changes, pairs) if pairs else changes


def _match_renames(
    old: Sequence[ShardRow], new: Iterable[tuple[ShardFile, ShardScan]], changes: Changes
) -> list[tuple[ShardRow, ShardRow]]:
    """Pair catalog rows with the shards that they became: (old row, new row).

    Matches in path order, so that the result does not depend on the order of the scans.
    """
    seen = sorted(((shard, summarize_scan(scan)) for shard, scan in new), key=lambda pair: pair[0].path)
    layouts = Counter(row.layout_hash for row in (*old, *changes.same))
    layouts_now = Counter(content.layout_hash for _, content in seen)
    by_mark: dict[tuple[object, ...], list[ShardRow]] = {}
    for row in sorted(old, key=lambda row: row.path, reverse=True):
        for mark in _identities(row.path, row.size, row.mtime_ns, row.layout_hash, row.sha256):
            by_mark.setdefault(mark, []).append(row)
    taken: set[int] = set()
    pairs: list[tuple[ShardRow, ShardRow]] = []
    for shard, content in seen:
        marks = _identities(shard.path, shard.size, shard.mtime_ns, content.layout_hash, content.sha256)
        if not layouts[content.layout_hash] == layouts_now[content.layout_hash] == 1:
            marks.pop()
        was = _first_match(by_mark, marks, taken, content)
        if was is not None:
            taken.add(was.id)
            now = was._replace(
                path=shard.path,
                mtime_ns=shard.mtime_ns,
                sha256=content.sha256 or was.sha256,
                status=content.status,
            )
            pairs.append((was, now))
    return pairs


def _identities(path: str, size: int, mtime_ns: int, layout: str, sha256: str | None) -> list[tuple[object, ...]]:
    """Keys by which to recognise a shard, the most reliable first.

    The last one, (size, layout), counts only if the layout is unique.
    """
    name = path.rpartition("/")[2]
    hashed: list[tuple[object, ...]] = [(sha256, size, layout, name), (sha256, size, layout)] if sha256 else []
    return [*hashed, (mtime_ns, size, layout, name), (mtime_ns, size, layout), (size, layout)]


def _first_match(
    by_identity: dict[tuple[object, ...], list[ShardRow]],
    identities: Sequence[tuple[object, ...]],
    taken: set[int],
    summary: ScanSummary,
) -> ShardRow | None:
    for mark in identities:
        rows = by_identity.get(mark, [])
        while rows:
            row = rows.pop()
            if row.id not in taken and is_unchanged(row, summary):
                return row
    return None


def _apply_renames(changes: Changes, renames: Sequence[tuple[ShardRow, ShardRow]]) -> Changes:
    left, come = {row.id for row, _ in renames}, {now.path for _, now in renames}
    changed = [(row, file) for row, file in changes.changed if row.id not in left and file.path not in come]
    # A path in `changes.changed` stands for two shards: the row's and the file's. If only the row's shard was renamed,
    # the file is new; if only the file is a renamed shard, the row is replaced.
    added = [file for row, file in changes.changed if row.id in left and file.path not in come]
    replaced = [row for row, file in changes.changed if row.id not in left and file.path in come]
    return replace(
        changes,
        added=(*(shard for shard in changes.added if shard.path not in come), *added),
        changed=tuple(changed),
        vanished=tuple(row for row in changes.vanished if row.id not in left),
        excluded=(*changes.excluded, *replaced),
        same=(*changes.same, *(now for _, now in renames)),
        touched=(*changes.touched, *(now for _, now in renames)),
        renamed=tuple(renames),
    )


def apply_renames_to_files(location: DatasetLocation, renamed: Sequence[tuple[ShardRow, ShardRow]]) -> None:
    """Write new paths to the offsets files of all generations and to the ledger, so that states and views stay valid.

    The caller publishes the catalog afterwards: after a kill in between, the next run detects the same renames again.
    """
    if not renamed:
        return
    names = {row.id: now.path for row, now in renamed}
    with translate_os_errors(location.meta):
        for path in offsets_files(location):
            with suppress(CatalogError):  # a damaged file is written again if it is current, and otherwise unused
                rename_offsets_shards(path, names)
    if os.path.exists(location.ledger_path):
        from wdsctl.core.catalog.ledger import Ledger
        from wdsctl.core.catalog.ledger_checks import rename_ledger_shards as rename_in_ledger

        with (
            suppress(CatalogError, PermissionDenied, StorageError),
            closing(Ledger.open(location.ledger_path)) as ledger,
        ):
            paths = {row.path: now.path for row, now in renamed}
            rename_in_ledger(ledger, paths, _renames_digest(location, paths))


def _renames_digest(location: DatasetLocation, new_paths: Mapping[str, str]) -> bytes:
    """A digest of the new paths and of the published catalog to which they apply."""
    with translate_os_errors(location.catalog_path, "read"):
        stat = os.stat(location.catalog_path)
    facts = [stat.st_ino, stat.st_size, stat.st_mtime_ns, sorted(new_paths.items())]
    return blake2b(json.dumps(facts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
