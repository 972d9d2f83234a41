"""Check whether a catalog is up to date with its shards: all shards, or a subset if there are many."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from wdsctl.core.catalog.totals import CatalogSummary
from wdsctl.core.catalog.values import MISSING_STATUS, ShardRow, read_exclude_patterns, read_generation, read_selection
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError
from wdsctl.core.index.changes import compare_shards
from wdsctl.core.index.missing import vanished_finding
from wdsctl.core.offsets.probe import probes_of
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.shards.list import is_linked_outside, list_shards, outside_finding, some_shards
from wdsctl.core.shards.scan_unit import ShardFile
from wdsctl.core.storage.open import storage_for
from wdsctl.core.storage.storage import Storage
from wdsctl.core.tar_header import TAR_BLOCK_BYTES
from wdsctl.core.urls import is_url

#: The largest number of shards to check. A larger dataset is sampled; at a URL, one of ten of these shards is checked.
MAX_CHECKED_SHARDS = 1_000
_REMOTE_STRIDE = 10

FindUnchanged = Callable[[Sequence[ShardRow]], set[str]]  # returns the paths of those shards that have not changed

_UNREAD_STATUSES = (MISSING_STATUS, "unreadable")  # the content at the time of indexing is unknown

#: Messages for a changed shard: one that was present, one that was missing.
_CHANGED_MESSAGES = ("has changed since it was indexed", "exists, but was missing in the last run of index")


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
        *(
            (row.path, _CHANGED_MESSAGES[row.status == MISSING_STATUS])
            for row, _ in changes.changed
            if row.path not in stayed
        ),
        *(
            (row.path, "is in the catalog, but its file is missing")
            for row in changes.vanished
            if row.path not in outside
        ),
    ]
    found = [outside_finding(root, path) for path in outside]
    found += [Finding(code="WDS305", severity="error", message=message, shard=path) for path, message in failures]
    if stayed:
        message = (
            "only the modification times of shards have changed since they were indexed, for example by a copy; the "
            "content is the same"
        )
        found.append(Finding(code="WDS305", severity="note", message=message, count=len(stayed)))
    return found


def _find_with_same_ends(location: DatasetLocation, summary: CatalogSummary, rows: Sequence[ShardRow]) -> set[str]:
    """The paths of shards whose first and last members are at the indexed positions. The loader checks the same.

    JSONL files are not read: an equal size is enough. Cost: two reads per tar.
    """
    try:
        offsets = Offsets(location.offsets_path(read_generation(location.catalog, summary.facts)))
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
    path = os.path.join(location.root, offsets.shards[shard_index].path)
    try:
        return all(
            probe.fits(storage.read(path, probe.offset, TAR_BLOCK_BYTES)) for probe in probes_of(offsets, shard_index)
        )
    except (StorageError, PermissionDenied):
        return False


def _list_current_shards(location: DatasetLocation, summary: CatalogSummary) -> Sequence[ShardFile]:
    exclude, selection = (
        read_exclude_patterns(location.catalog, summary.facts),
        read_selection(location.catalog, summary.facts),
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
