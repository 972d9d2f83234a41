"""How the shards of a dataset differ from what its catalog says of them: all, or where there are many, some."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

from wdsctl.core.catalog.facts import exclude_of, generation_of, selection_of
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.catalog.summary import Summary
from wdsctl.core.errors import CatalogError, PermissionDenied, StorageError
from wdsctl.core.findings import Finding
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.shard_list import leads_out_of, list_shards, outside_finding, some_shards
from wdsctl.core.shard_probe import probes_of
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for
from wdsctl.core.tar import BLOCK
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.changes import compare
from wdsctl.core.verbs.index_listing import vanished_finding

#: Datasets of up to so many shards are looked at as a whole; of others so many shards, at a URL every tenth of these.
LOOKED_AT = 1_000
_AT_A_URL = 10

HaveStayed = Callable[[Sequence[ShardRow]], set[str]]  # of these shards, the paths of those that have not changed

_NOT_READ = (MISSING, "unreadable")  # of which nobody knows what they held

#: What is said of a shard that is not as the catalog has it: one that was there, one that was missing.
_CHANGED = ("has changed since it was indexed", "is there again: it was missing when it was indexed")


def look_at(place: Place, summary: Summary) -> tuple[int, list[Finding]]:
    """How many shards were looked at, and what differs. New ones are found only where that is all of them.

    Cost: a listing of the folder, or a stat for each that is looked at; at a URL a request, for its size.
    """
    rows: Sequence[ShardRow] = summary.spread
    if summary.has_all:
        there = _listed(place, summary)
    elif is_url(place.root):
        rows = rows[::_AT_A_URL]
        there = _remote(place, rows)
    else:
        there = some_shards(place.root, [row.path for row in rows])
    missing = summary.totals.statuses.get(MISSING, 0)
    return len(rows), differences(place, there, rows, missing, partial(_have_their_ends, place, summary))


def _stale(root: str, shards: Sequence[ShardFile], rows: Sequence[ShardRow], have_stayed: HaveStayed) -> list[Finding]:
    """Shards that are new, have changed or are gone since the catalog was made; and once, that times are others.

    One that is a link which leads out, and was allowed when it was indexed, is not gone.
    """
    changes = compare(shards, rows)
    retimed = [row for row, shard in changes.changed if row.size == shard.size and row.status not in _NOT_READ]
    stayed = have_stayed(retimed) if retimed else set()
    outside = [row.path for row in changes.vanished if not is_url(root) and leads_out_of(root, row.path)]
    said = [
        *((shard.path, "is new: it is not in the catalog") for shard in changes.added),
        *((row.path, _CHANGED[row.status == MISSING]) for row, _ in changes.changed if row.path not in stayed),
        *((row.path, "is gone, and still in the catalog") for row in changes.vanished if row.path not in outside),
    ]
    found = [outside_finding(root, path) for path in outside]
    found += [Finding(code="WDS305", severity="error", message=words, shard=path) for path, words in said]
    if stayed:
        words = "times of shards are others than when they were indexed, as after a copy, and what they hold is not"
        found.append(Finding(code="WDS305", severity="note", message=words, count=len(stayed)))
    return found


def _have_their_ends(place: Place, summary: Summary, rows: Sequence[ShardRow]) -> set[str]:
    """Those that begin and end with the members that were indexed, which is how the loader tells. Of files of lines the
    size has to do. Cost: two reads a shard.
    """
    try:
        offsets = Offsets(place.offsets(generation_of(place.catalog, summary.facts)))
    except (CatalogError, StorageError, PermissionDenied):
        return set()
    numbers = {shard.id: i for i, shard in enumerate(offsets.shards)}
    storage = storage_for(place.root)
    try:
        return {
            row.path for row in rows if row.id in numbers and _has_its_ends(place, storage, offsets, numbers[row.id])
        }
    finally:
        storage.close()


def _has_its_ends(place: Place, storage: Storage, offsets: Offsets, i: int) -> bool:
    path = os.path.join(place.root, offsets.shards[i].path)
    try:
        return all(probe.fits(storage.read(path, probe.at, BLOCK)) for probe in probes_of(offsets, i))
    except (StorageError, PermissionDenied):
        return False


def _listed(place: Place, summary: Summary) -> Sequence[ShardFile]:
    exclude, selection = exclude_of(place.catalog, summary.facts), selection_of(place.catalog, summary.facts)
    known = [row.path for row in summary.spread]
    return list_shards(place.root, exclude, only=place.only, known=known, selection=selection).shards


def _remote(place: Place, rows: Sequence[ShardRow]) -> list[ShardFile]:
    """Sizes alone: stores may spell an etag otherwise in a list than of a file."""
    from wdsctl.core.remote_storage import FsspecStorage

    sizes = FsspecStorage(place.root).sizes([os.path.join(place.root, row.path) for row in rows])
    told = zip(rows, sizes, strict=True)
    return [ShardFile(row.path, size, row.mtime_ns) for row, size in told if size is not None]


def differences(
    place: Place, there: Sequence[ShardFile], rows: Sequence[ShardRow], missing: int, have_stayed: HaveStayed
) -> list[Finding]:
    """Shards that are new, have changed or are gone; those of the `missing` that were kept as such, and are, are one
    warning.

    Bytes decide, and not times: `have_stayed` gets the shards of the same size and another time, and says which of them
    have not changed.
    """
    paths = {shard.path for shard in there}
    gone = [row for row in rows if row.status == MISSING and row.path not in paths]
    back = sum(row.status == MISSING and row.path in paths for row in rows)
    ids = {row.id for row in gone}
    found = _stale(place.root, there, [row for row in rows if row.id not in ids], have_stayed)
    return [*found, vanished_finding(place, gone[0].path if gone else "", missing - back)] if missing > back else found
