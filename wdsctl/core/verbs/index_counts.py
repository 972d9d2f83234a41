"""What the next catalog is to be like, and what is told of the one that is made."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.findings import Finding
from wdsctl.core.place import Place
from wdsctl.core.selected_shards import Selection
from wdsctl.core.verbs.changes import Changes
from wdsctl.core.verbs.index_listing import missing_finding
from wdsctl.core.verbs.index_request import IndexReport, Renamed
from wdsctl.core.verbs.presence import no_samples
from wdsctl.core.verbs.published import Published, still_damaged


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the next catalog is to be like: as asked, or else as the one in force is."""

    exclude: tuple[str, ...]
    selection: Selection
    hashed: bool
    sample_rows: bool = True
    key: str = ""
    key_until: str = ""

    def is_as(self, before: Published) -> bool:
        """Whether the catalog in force is like that; its `key` makes other samples, and so another generation."""
        return (self.exclude, self.selection, self.sample_rows, self.hashed, self.key_until) == (
            before.exclude,
            before.selection,
            before.has_sample_rows,
            before.is_hashed,
            before.key_until,
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """What `index` has looked at; `of` adds what the catalog has then.

    `removed`: how many shards go. `listed`: what was found by the names of files alone.
    """

    place: Place
    changes: Changes
    removed: int
    started: float
    listed: tuple[Finding, ...]
    wanted: Wanted

    def of(
        self,
        generation: int,
        rows: Sequence[ShardRow],
        findings: Sequence[Finding],
        *,
        up_to_date: bool,
        dry_run: bool = False,
    ) -> IndexReport:
        """`rows`: what the catalog has then. A dry run knows of shards that are to be read only how large they are."""
        unread = (*self.changes.added, *(shard for _, shard in self.changes.changed)) if dry_run else ()
        fresh = {shard.path for shard in self.changes.added} | {shard.path for _, shard in self.changes.changed}
        known = [row for row in rows if row.path not in fresh]
        said = (*self.listed, *missing_finding(self.place, rows), *still_damaged(self.place, known), *findings)
        return IndexReport(
            root=self.place.shown,
            catalog=self.place.catalog,
            generation=generation,
            shards=len(rows) + len(unread),
            samples=sum(row.samples for row in rows),
            parts=sum(row.parts for row in rows),
            size_bytes=sum(row.size for row in rows) + sum(shard.size for shard in unread),
            added=len(self.changes.added),
            changed=len(self.changes.changed),
            removed=self.removed,
            unchanged=len(self.changes.same),
            findings=said if unread else (*said, *no_samples(self.place, rows, said)),
            up_to_date=up_to_date,
            dry_run=dry_run,
            seconds=time.monotonic() - self.started,
            renamed=tuple(Renamed(was=was.path, now=now.path) for was, now in self.changes.renamed),
            selection="" if self.wanted.selection.is_all else self.wanted.selection.said(),
            hashed=sum(row.sha256 is not None for row in rows),
            sample_rows=self.wanted.sample_rows,
            catalog_bytes=_size(self.place.catalog) + _size(self.place.offsets(generation)),
        )


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0
