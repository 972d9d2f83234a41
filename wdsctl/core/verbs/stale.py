"""How the shards of a dataset differ from what its catalog says of them: all, or where there are many, some."""

from __future__ import annotations

import os
from collections.abc import Sequence

from wdsctl.core.catalog.facts import exclude_of, selection_of
from wdsctl.core.catalog.shard_row import MISSING, ShardRow
from wdsctl.core.catalog.summary import Summary
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.shard_list import list_shards, some_shards
from wdsctl.core.units import ShardFile
from wdsctl.core.urls import is_url
from wdsctl.core.verbs.changes import compare
from wdsctl.core.verbs.index_listing import vanished_finding

#: Datasets of up to so many shards are looked at as a whole; of others so many shards, at a URL every tenth of these.
LOOKED_AT = 1_000
_AT_A_URL = 10

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
    return len(rows), differences(place, there, rows, summary.totals.statuses.get(MISSING, 0))


def _stale(shards: Sequence[ShardFile], rows: Sequence[ShardRow]) -> list[Finding]:
    """Shards that are new, have changed or are gone since the catalog was made."""
    changes = compare(shards, rows)
    said = [
        *((shard.path, "is new: it is not in the catalog") for shard in changes.added),
        *((row.path, _CHANGED[row.status == MISSING]) for row, _ in changes.changed),
        *((row.path, "is gone, and still in the catalog") for row in changes.vanished),
    ]
    return [Finding(code="WDS305", severity="error", message=words, shard=path) for path, words in said]


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


def differences(place: Place, there: Sequence[ShardFile], rows: Sequence[ShardRow], missing: int) -> list[Finding]:
    """Shards that are new, have changed or are gone; those of the `missing` that were kept as such, and are, are one
    warning.
    """
    paths = {shard.path for shard in there}
    gone = [row for row in rows if row.status == MISSING and row.path not in paths]
    back = sum(row.status == MISSING and row.path in paths for row in rows)
    ids = {row.id for row in gone}
    found = _stale(there, [row for row in rows if row.id not in ids])
    return [*found, vanished_finding(place, gone[0].path if gone else "", missing - back)] if missing > back else found
