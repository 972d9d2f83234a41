"""How the shards on disk differ from the catalog's: by path, size and time; where only time differs, by content."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from wdsctl.core.catalog.catalog import ShardRow
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.shard_list import is_excluded
from wdsctl.core.units import ShardFile
from wdsctl.core.verbs.fold import scans


@dataclass(frozen=True, slots=True)
class Changes:
    """Every shard on disk is added, changed or the same; every other row has vanished or is excluded."""

    added: tuple[ShardFile, ...]
    changed: tuple[tuple[ShardRow, ShardFile], ...]
    vanished: tuple[ShardRow, ...]
    same: tuple[ShardRow, ...]
    excluded: tuple[ShardRow, ...] = ()  # in the catalog, and matched by a pattern
    touched: tuple[ShardRow, ...] = ()  # those of `same` with another time than the catalog says, as it is now


def compare(shards: Sequence[ShardFile], rows: Sequence[ShardRow], exclude: Sequence[str] = ()) -> Changes:
    """Which shards are new, changed, gone or the same, by path, size and time. Once unreadable, looked at again."""
    known = {row.path: row for row in rows}
    added, changed, same = [], [], []
    for shard in shards:
        row = known.pop(shard.path, None)
        if row is None:
            added.append(shard)
        elif (row.size, row.mtime_ns) != (shard.size, shard.mtime_ns) or (
            row.status == "unreadable" and shard.readable
        ):
            changed.append((row, shard))
        else:
            same.append(row)
    excluded = tuple(row for row in known.values() if is_excluded(row.path, exclude))
    vanished = tuple(row for row in known.values() if not is_excluded(row.path, exclude))
    return Changes(tuple(added), tuple(changed), vanished, tuple(same), excluded)


def settled(place: Place, changes: Changes, workers: int, progress: Progress, *, key: str = "") -> Changes:
    """Read the changed shards that have their old size: those in which nothing has moved are the same after all.

    What is read of the others is kept in the work folder, and not read again. `key`: as `scans` has it.
    """
    alike = [(row, shard) for row, shard in changes.changed if row.size == shard.size]
    if not alike:
        return changes
    same: list[ShardRow] = []
    touched: list[ShardRow] = []
    with closing(scans(place, [shard for _, shard in alike], workers, progress, key=key)) as found:
        for (row, _), (shard, scan) in zip(alike, found, strict=True):
            if (scan.status, scan.code, scan.layout_hash()) == (row.status, row.code, row.layout_hash):
                same.append(replace(row, mtime_ns=shard.mtime_ns))
                if row.mtime_ns != shard.mtime_ns:
                    touched.append(same[-1])
    settled_paths = {row.path for row in same}
    return replace(
        changes,
        changed=tuple((row, shard) for row, shard in changes.changed if row.path not in settled_paths),
        same=(*changes.same, *same),
        touched=tuple(touched),
    )
