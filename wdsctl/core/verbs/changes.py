"""How the shards on disk differ from the catalog's: by path, size and time; where only time differs, by content."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.line_keys import LineKeys
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.selected_shards import EVERYTHING, Selection
from wdsctl.core.shard_list import is_excluded
from wdsctl.core.shard_scan import ShardScan
from wdsctl.core.units import ShardFile, scan_file
from wdsctl.core.verbs.fold import scans


@dataclass(frozen=True, slots=True)
class Changes:
    """Every shard on disk is added, changed or the same; every other row has vanished or goes."""

    added: tuple[ShardFile, ...]
    changed: tuple[tuple[ShardRow, ShardFile], ...]
    vanished: tuple[ShardRow, ...]
    same: tuple[ShardRow, ...]
    excluded: tuple[ShardRow, ...] = ()  # in the catalog, and no longer wanted, or with another shard in their place
    touched: tuple[ShardRow, ...] = ()  # rows that stay, and are another time, path, hash or status from now on
    renamed: tuple[tuple[ShardRow, ShardRow], ...] = ()  # as they were, and as they are, which is among `same`


def compare(
    shards: Sequence[ShardFile],
    rows: Sequence[ShardRow],
    exclude: Sequence[str] = (),
    selection: Selection = EVERYTHING,
) -> Changes:
    """Which shards are new, changed, gone or the same, by path, size and time. Once unreadable or missing, looked at
    again.
    """
    known = {row.path: row for row in rows}
    added, changed, same = [], [], []
    for shard in shards:
        row = known.pop(shard.path, None)
        if row is None:
            added.append(shard)
        elif (
            (row.size, row.mtime_ns) != (shard.size, shard.mtime_ns)
            or (row.status == "unreadable" and shard.readable)
            or row.status == MISSING
        ):
            changed.append((row, shard))
        else:
            same.append(row)
    unwanted = {path for path in known if is_excluded(path, exclude) or not selection.has(path)}
    excluded = tuple(row for row in known.values() if row.path in unwanted)
    vanished = tuple(row for row in known.values() if row.path not in unwanted)
    return Changes(tuple(added), tuple(changed), vanished, tuple(same), excluded)


def settled(
    place: Place,
    changes: Changes,
    workers: int,
    progress: Progress,
    *,
    key: str = "",
    hashed: bool = False,
    again: Collection[str] = (),
    dry_run: bool = False,
) -> Changes:
    """Read the changed shards that have their old size: those in which nothing has moved are the same after all.

    What is read of the others is kept in the work folder, and not read again; a dry run keeps nothing. `key`, `hashed`:
    as `scans` has them. `again`: paths of shards that look the same and are to be read all the same.
    """
    alike = [(row, shard) for row, shard in changes.changed if row.size == shard.size]
    alike += [(row, ShardFile(row.path, row.size, row.mtime_ns)) for row in changes.same if row.path in again]
    if not alike:
        return changes
    same: dict[str, ShardRow] = {row.path: row for row in changes.same}
    changed = {row.path: (row, shard) for row, shard in changes.changed}
    touched: list[ShardRow] = []
    shards = [shard for _, shard in alike]
    reads = scanned_here if dry_run else partial(scans, workers=workers)
    with closing(reads(place, shards, progress=progress, key=key, hashed=hashed)) as found:
        for (row, _), (shard, scan) in zip(alike, found, strict=True):
            if not is_as_it_was(row, content_of(scan)):
                same.pop(row.path, None)
                changed[row.path] = (row, shard)
                continue
            # The hash of a shard that was written to is not known, unless it was made just now.
            known = row.sha256 if row.mtime_ns == shard.mtime_ns else None
            now = replace(row, mtime_ns=shard.mtime_ns, sha256=scan.sha256 or known, status=scan.status)
            changed.pop(row.path, None)
            same[row.path] = now
            if now != row:
                touched.append(now)
    return replace(
        changes, changed=tuple(changed.values()), same=tuple(same.values()), touched=(*changes.touched, *touched)
    )


def scanned_here(
    place: Place, shards: Sequence[ShardFile], *, progress: Progress, key: str = "", hashed: bool = False
) -> Generator[tuple[ShardFile, ShardScan], None, None]:
    """What `scans` gives, with nothing written: for dry runs."""
    keys = LineKeys(key, is_alone=bool(place.only))
    progress.phase("scan", items=len(shards), size_bytes=sum(shard.size for shard in shards))
    for shard in shards:
        yield shard, scan_file(place.root, shard, keys, hashed=hashed)
        progress.advance(items=1, size_bytes=shard.size)


class Content(NamedTuple):
    """What a scan says of a shard as a whole."""

    status: str
    code: str | None
    layout_hash: str
    sha256: str | None


def content_of(scan: ShardScan) -> Content:
    return Content(scan.status, scan.code, scan.layout_hash(), scan.sha256)


def is_as_it_was(row: ShardRow, now: Content) -> bool:
    """Whether nothing in a shard has moved; and nothing at all has changed, where the hashes are known."""
    status = now.status if row.status == MISSING else row.status
    is_alike = (status, row.code, row.layout_hash) == now[:3]
    return is_alike and (row.sha256 is None or now.sha256 is None or row.sha256 == now.sha256)
