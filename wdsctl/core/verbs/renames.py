"""Shards that have another name: told from those that are new and those that have vanished by what is in them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.renamed_offsets import rename_shards
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.units import ShardFile
from wdsctl.core.verbs.changes import Changes, Content, content_of, is_as_it_was, scanned_here
from wdsctl.core.verbs.fold import offsets_files, scans


def told_apart(
    place: Place,
    changes: Changes,
    workers: int,
    progress: Progress,
    *,
    key: str = "",
    hashed: bool = False,
    dry_run: bool = False,
) -> Changes:
    """The changes with renamed shards found out: the same size, the same layout and, where it is known, the same hash.

    Layouts are alike by chance where keys and sizes are: without hashes the time must be the same, too, or nothing else
    in the dataset be laid out so. Only new shards as large as one that is gone are read, and what is read is kept in
    the work folder. A name may have gone to another shard, as in a series that was numbered anew.
    """
    old = [*changes.vanished, *(row for row, _ in changes.changed)]
    sizes = {row.size for row in old}
    new = [shard for shard in (*changes.added, *(file for _, file in changes.changed)) if shard.size in sizes]
    if not changes.vanished or not new:
        return changes
    hashed = hashed or any(row.sha256 for row in old)
    reads = scanned_here if dry_run else partial(scans, workers=workers)
    with closing(reads(place, new, progress=progress, key=key, hashed=hashed)) as found:
        pairs = _pairs(old, found, changes)
    return _without(changes, pairs) if pairs else changes


def _pairs(
    old: Sequence[ShardRow], new: Iterable[tuple[ShardFile, ShardScan]], changes: Changes
) -> list[tuple[ShardRow, ShardRow]]:
    """Who is who: as the catalog has it, and as it is now. In the order of paths, whatever order they are read in."""
    seen = sorted(((shard, content_of(scan)) for shard, scan in new), key=lambda pair: pair[0].path)
    layouts = Counter(row.layout_hash for row in (*old, *changes.same))
    layouts_now = Counter(content.layout_hash for _, content in seen)
    by_mark: dict[tuple[object, ...], list[ShardRow]] = {}
    for row in sorted(old, key=lambda row: row.path, reverse=True):
        for mark in _marks(row.path, row.size, row.mtime_ns, row.layout_hash, row.sha256):
            by_mark.setdefault(mark, []).append(row)
    taken: set[int] = set()
    pairs: list[tuple[ShardRow, ShardRow]] = []
    for shard, content in seen:
        marks = _marks(shard.path, shard.size, shard.mtime_ns, content.layout_hash, content.sha256)
        if not layouts[content.layout_hash] == layouts_now[content.layout_hash] == 1:
            marks.pop()
        was = _first(by_mark, marks, taken, content)
        if was is not None:
            taken.add(was.id)
            now = replace(
                was,
                path=shard.path,
                mtime_ns=shard.mtime_ns,
                sha256=content.sha256 or was.sha256,
                status=content.status,
            )
            pairs.append((was, now))
    return pairs


def _marks(path: str, size: int, mtime_ns: int, layout: str, sha256: str | None) -> list[tuple[object, ...]]:
    """What shows that it is the same shard, the surest first. The last is enough only where nothing else has it."""
    name = path.rpartition("/")[2]
    hashed: list[tuple[object, ...]] = [(sha256, size, layout, name), (sha256, size, layout)] if sha256 else []
    return [*hashed, (mtime_ns, size, layout, name), (mtime_ns, size, layout), (size, layout)]


def _first(
    by_mark: dict[tuple[object, ...], list[ShardRow]],
    marks: Sequence[tuple[object, ...]],
    taken: set[int],
    content: Content,
) -> ShardRow | None:
    for mark in marks:
        rows = by_mark.get(mark, [])
        while rows:
            row = rows.pop()
            if row.id not in taken and is_as_it_was(row, content):
                return row
    return None


def _without(changes: Changes, pairs: Sequence[tuple[ShardRow, ShardRow]]) -> Changes:
    left, come = {row.id for row, _ in pairs}, {now.path for _, now in pairs}
    changed = [(row, file) for row, file in changes.changed if row.id not in left and file.path not in come]
    # Of a name that two shards had, one after the other: what became of the first, and what the second is.
    added = [file for row, file in changes.changed if row.id in left and file.path not in come]
    replaced = [row for row, file in changes.changed if row.id not in left and file.path in come]
    return replace(
        changes,
        added=(*(shard for shard in changes.added if shard.path not in come), *added),
        changed=tuple(changed),
        vanished=tuple(row for row in changes.vanished if row.id not in left),
        excluded=(*changes.excluded, *replaced),
        same=(*changes.same, *(now for _, now in pairs)),
        touched=(*changes.touched, *(now for _, now in pairs)),
        renamed=tuple(pairs),
    )


def carry_over(place: Place, renamed: Sequence[tuple[ShardRow, ShardRow]]) -> None:
    """Tell the offsets files of all generations and the ledger of the new names: states and views go on with them.

    Before the catalog is published: killed in between, the next run finds the same names once more.
    """
    if not renamed:
        return
    names = {row.id: now.path for row, now in renamed}
    with translated(place.meta):
        for path in offsets_files(place):
            with suppress(CatalogError):  # one that is damaged is made again, or nobody's
                rename_shards(path, names)
    if os.path.exists(place.ledger):
        from wdsctl.core.catalog.ledger import Ledger
        from wdsctl.core.catalog.ledger_renames import rename_shards as rename_in_ledger

        with suppress(CatalogError, PermissionDenied, StorageError), closing(Ledger.open(place.ledger)) as ledger:
            paths = {row.path: now.path for row, now in renamed}
            rename_in_ledger(ledger, paths, _mark(place, paths))


def _mark(place: Place, paths: Mapping[str, str]) -> bytes:
    """Names a renaming of the shards of the catalog that is in force."""
    with translated(place.catalog, "read"):
        stat = os.stat(place.catalog)
    told = [stat.st_ino, stat.st_size, stat.st_mtime_ns, sorted(paths.items())]
    return blake2b(json.dumps(told).encode("utf-8", "surrogatepass"), digest_size=16).digest()
