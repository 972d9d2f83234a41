"""Compare the files of shards with the rows of the catalog, and check whether a catalog is up to date.

A check compares all shards, or a subset if there are many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.core.catalog.totals import CatalogSummary
from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow, read_exclude_patterns, read_generation, read_selection
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError
from wdsctl.core.records import Records
from wdsctl.core.shards.list import ShardFile, is_excluded, is_linked_outside, list_shards, outside_finding, some_shards
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES
from wdsctl.core.text import pluralize
from wdsctl.core.urls import is_url

if TYPE_CHECKING:
    from wdsctl.core.offsets.read import Offsets

#: The largest number of shards to check. A larger dataset is sampled; at a URL, one of ten of these shards is checked.
MAX_CHECKED_SHARDS = 1_000
_REMOTE_STRIDE = 10

FindUnchanged = Callable[[Sequence[ShardRow]], set[str]]  # returns the paths of those shards that have not changed

_UNREAD_STATUSES = (MISSING_STATUS, "unreadable")  # the content at the time of indexing is unknown

_CHANGED_MESSAGE = "has changed since it was indexed"
_BACK_MESSAGE = "exists, but was missing in the last run of index"
_UNREAD_MESSAGE = "could not be read in the last run of index"
_GONE_MESSAGE = "is in the catalog, but its file is missing"


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between disk and catalog.

    Every shard on disk is in `added`, `changed` or `same`. Every other row of the catalog is in `vanished` or
    `excluded`.
    """

    added: Sequence[ShardFile]
    changed: tuple[tuple[ShardRow, ShardFile], ...]
    vanished: tuple[ShardRow, ...]
    same: tuple[ShardRow, ...]
    excluded: tuple[ShardRow, ...] = ()  # rows to remove: no longer selected, or a renamed shard took their path
    touched: tuple[ShardRow, ...] = ()  # rows that stay with a new mtime, path, hash or status
    renamed: tuple[tuple[ShardRow, ShardRow], ...] = ()  # (old row, new row); the new row is also in `same`


def compare_shards(
    shards: Sequence[ShardFile],
    rows: Sequence[ShardRow],
    exclude: Sequence[str] = (),
    selection: ShardSelection = ALL_SHARDS,
) -> Changes:
    """Compare shards with the rows of the catalog by path, size and mtime. Reads no shard.

    A shard that was missing, or was unreadable and can now be read, counts as changed.
    """
    if not rows:
        return Changes(shards, (), (), ())
    known = {row.path: row for row in rows}
    added, changed, same = Records(ShardFile), [], []
    for shard in shards:
        row = known.pop(shard.path, None)
        if row is None:
            added.append(shard)
        elif (
            (row.size, row.mtime_ns) != (shard.size, shard.mtime_ns)
            or (row.status == "unreadable" and shard.readable)
            or row.status == MISSING_STATUS
        ):
            changed.append((row, shard))
        else:
            same.append(row)
    unwanted = {path for path in known if is_excluded(path, exclude) or not selection.includes(path)}
    excluded = tuple(row for row in known.values() if row.path in unwanted)
    vanished = tuple(row for row in known.values() if row.path not in unwanted)
    return Changes(added, tuple(changed), vanished, tuple(same), excluded)


def vanished_finding(location: DatasetLocation, first: str, count: int) -> Finding:
    """A finding for `count` missing shards whose rows are kept. `first`: the path of one; empty if unknown."""
    message = f"{pluralize(count, 'shard')} {'has' if count == 1 else 'have'} vanished, and "
    message += f"{'its' if count == 1 else 'their'} rows are kept"
    message += f" ({shell_command_at(location, 'index', '--missing', 'drop')} forgets them)"
    return Finding(code="WDS306", severity="warning", message=message, shard=first, count=count)


def check_freshness(location: DatasetLocation, summary: CatalogSummary) -> tuple[int, list[Finding]]:
    """Compare shards with the catalog. Returns (number of checked shards, findings).

    Finds new shards only if it checks all shards.

    Cost: if all shards are checked, a listing of the folder; otherwise a stat per checked shard, or at a URL a request
    for its size. Also two reads for each shard whose mtime alone differs.
    """
    rows: Sequence[ShardRow] = summary.spread
    if summary.has_all:
        there = _list_current_shards(location, summary)
    elif is_url(location.root):
        from wdsctl.core.storage.remote import FsspecStorage

        rows = rows[::_REMOTE_STRIDE]
        sizes = FsspecStorage(location.root).sizes([os.path.join(location.root, row.path) for row in rows])
        # Without etags: a store may spell these differently in a listing.
        pairs = zip(rows, sizes, strict=True)
        there = [ShardFile(row.path, size, row.mtime_ns) for row, size in pairs if size is not None]
    else:
        there = some_shards(location.root, [row.path for row in rows])
    missing = summary.totals.statuses.get(MISSING_STATUS, 0)
    return len(rows), freshness_findings(
        location, there, rows, missing, partial(_find_with_same_ends, location, summary)
    )


def _stale_findings(
    root: str, shards: Sequence[ShardFile], rows: Sequence[ShardRow], find_unchanged: FindUnchanged
) -> list[Finding]:
    """Report shards that are new, changed or gone since indexing, and once, that shards have other mtimes.

    A shard behind a link that leads out of the dataset is not reported as gone, but as WDS409.
    """
    changes = compare_shards(shards, rows)
    retimed = [row for row, shard in changes.changed if row.size == shard.size and row.status not in _UNREAD_STATUSES]
    stayed = find_unchanged(retimed) if retimed else set()
    outside = [row.path for row in changes.vanished if not is_url(root) and is_linked_outside(root, row.path)]
    failures = [
        *((shard.path, "is new: it is not in the catalog") for shard in changes.added),
        *((row.path, _changed_message(row, shard)) for row, shard in changes.changed if row.path not in stayed),
        *((row.path, _GONE_MESSAGE) for row in changes.vanished if row.path not in outside),
    ]
    found = [outside_finding(root, path) for path in outside]
    found += [Finding(code="WDS305", severity="error", message=message, shard=path) for path, message in failures]
    if stayed:
        message = (
            "shards have other modification times than when they were indexed, for example after a copy; their sizes "
            "and headers are the same (`wdsctl validate --level hashes` compares the content)"
        )
        found.append(Finding(code="WDS305", severity="note", message=message, count=len(stayed)))
    return found


def _changed_message(row: ShardRow, shard: ShardFile) -> str:
    if row.status == MISSING_STATUS:
        return _BACK_MESSAGE
    is_same_file = (row.size, row.mtime_ns) == (shard.size, shard.mtime_ns)
    return _UNREAD_MESSAGE if row.status == "unreadable" and is_same_file else _CHANGED_MESSAGE


def changed_statuses(findings: Iterable[Finding]) -> dict[str, str]:
    """Path -> "missing" or "changed", for the shards that findings of `check_freshness` say have changed."""
    status = {_GONE_MESSAGE: MISSING_STATUS, _CHANGED_MESSAGE: "changed", _BACK_MESSAGE: "changed"}
    return {each.shard: status[each.message] for each in findings if each.message in status}


def _find_with_same_ends(location: DatasetLocation, summary: CatalogSummary, rows: Sequence[ShardRow]) -> set[str]:
    """The paths of shards whose first and last members are at the indexed positions. The loader checks the same.

    JSONL files are not read: an equal size is enough. Cost: two reads per tar.
    """
    from wdsctl.core.offsets.read import Offsets  # brings numpy, which a check of names and sizes does not need

    try:
        offsets = Offsets(location.offsets_path(read_generation(location.catalog_path, summary.facts)))
    except (CatalogError, StorageError, PermissionDenied):
        return set()
    numbers = {shard.id: i for i, shard in enumerate(offsets.shards)}
    storage = storage_for(location.root)
    try:
        return {
            row.path
            for row in rows
            if row.id in numbers and _has_same_ends(location, storage, offsets, numbers[row.id])
        }
    finally:
        storage.close()


def _has_same_ends(location: DatasetLocation, storage: Storage, offsets: Offsets, shard_index: int) -> bool:
    from wdsctl.core.offsets.probe import probes_of

    path = os.path.join(location.root, offsets.shards[shard_index].path)
    try:
        return all(
            probe.fits(storage.read(path, probe.offset, TAR_BLOCK_BYTES)) for probe in probes_of(offsets, shard_index)
        )
    except (StorageError, PermissionDenied):
        return False


def _list_current_shards(location: DatasetLocation, summary: CatalogSummary) -> Sequence[ShardFile]:
    exclude, selection = (
        read_exclude_patterns(location.catalog_path, summary.facts),
        read_selection(location.catalog_path, summary.facts),
    )
    known = [row.path for row in summary.spread]
    return list_shards(
        location.root, exclude, only=location.single_file, catalog_paths=known, selection=selection
    ).shards


def freshness_findings(
    location: DatasetLocation,
    shards: Sequence[ShardFile],
    rows: Sequence[ShardRow],
    missing: int,
    find_unchanged: FindUnchanged,
) -> list[Finding]:
    """Report shards that are new, changed or gone. All shards that are still missing are one warning.

    `missing`: the number of shards that the catalog keeps as missing. `find_unchanged` receives the shards with the
    same size and another mtime, and returns the paths of those with the same content: content decides, not the mtime.
    """
    paths = {shard.path for shard in shards}
    gone = [row for row in rows if row.status == MISSING_STATUS and row.path not in paths]
    back = sum(row.status == MISSING_STATUS and row.path in paths for row in rows)
    ids = {row.id for row in gone}
    found = _stale_findings(location.root, shards, [row for row in rows if row.id not in ids], find_unchanged)
    return (
        [*found, vanished_finding(location, gone[0].path if gone else "", missing - back)] if missing > back else found
    )
