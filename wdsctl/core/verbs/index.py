"""`index`: what is in the shards, into the catalog. Incremental, resumable, and nothing half-done is ever seen."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.catalog.catalog import Catalog, Held, ShardRow
from wdsctl.core.catalog.draft import drafting
from wdsctl.core.codes import CODES
from wdsctl.core.dataset_yaml import SplitRule, load
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.findings import Finding
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.shard_list import ShardListing, list_shards
from wdsctl.core.units import ShardFile
from wdsctl.core.verbs.fold import Folding, fold, last_generation, set_aside, sweep, tidy
from wdsctl.core.verbs.journal import journal

Missing = Literal["error", "keep", "drop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What the catalog holds now, and what this run changed. Counts are of shards unless they say otherwise."""

    root: str
    catalog: str
    generation: int
    shards: int
    samples: int
    parts: int
    size_bytes: int  # of all shards
    added: int
    changed: int
    removed: int
    unchanged: int
    findings: tuple[Finding, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """What `index` was asked to do; see there."""

    workers: int = 1
    rebuild: bool = False
    missing: Missing = "error"
    exclude: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """How the shards on disk differ from the catalog's."""

    added: tuple[ShardFile, ...]
    changed: tuple[tuple[ShardRow, ShardFile], ...]
    vanished: tuple[ShardRow, ...]
    same: tuple[ShardRow, ...]


@dataclass(frozen=True, slots=True)
class _Published:
    """What the catalog in force says."""

    rows: list[ShardRow]
    rule: SplitRule | None = None
    generation: int = 0
    last_shard_id: int = 0
    is_damaged: bool = False
    forgotten: Sequence[ShardRow] = ()  # what a rebuild hands on of the old catalog: rows, and who has them
    held: Mapping[str, Held] = field(default_factory=dict)


def index(
    root: str,
    *,
    catalog: str | None = None,
    workers: int = 1,
    rebuild: bool = False,
    missing: Missing = "error",
    exclude: Sequence[str] = (),
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> IndexReport:
    """Bring the catalog up to date with the shards below `root`; only new and changed shards are read.

    `missing` says what to do about shards that have vanished: raise CatalogError WDS306, keep their rows, or drop them.
    `rebuild` reads all shards again. A catalog that can be read hands on its splits and the shards' numbers; of one
    that is damaged the file is kept, and splits are made by the rule in dataset.yaml.
    Cost: about 2 µs of one core a member. Memory: the largest shard's index, and a few tens of MB.
    """
    place = locate(root, catalog, writing=True)
    request = IndexRequest(workers=workers, rebuild=rebuild, missing=missing, exclude=tuple(exclude), dry_run=dry_run)
    if dry_run:
        return index_at(place, request, progress)
    check_shards(place, exclude)
    say_where(place, catalog, progress)
    with locked(place.lock), journal(place, "index", [root], progress) as entry:
        report = index_at(place, request, progress)
        entry.findings += report.findings
        return report


def index_at(place: Place, request: IndexRequest, progress: Progress) -> IndexReport:
    """What `index` does, for a caller that holds the lock."""
    started = time.monotonic()
    progress.phase("list")
    listing = list_shards(place.root, request.exclude)
    published = _published(place, rebuild=request.rebuild)
    changes = compare(listing.shards, published.rows)
    _check(place, listing, published)
    if changes.vanished and request.missing == "error":
        raise _vanished(place, changes.vanished, len(published.rows))
    keep = request.missing == "keep"
    kept = (*changes.same, *(changes.vanished if keep else ()))
    removed = () if keep else changes.vanished
    current = not (changes.added or changes.changed or removed or request.rebuild)
    current = current and os.path.exists(place.offsets(published.generation))
    report = _Counts(place, changes, len(removed), started, listing.findings)
    if request.dry_run or current:
        return report.of(published.generation, kept, (), up_to_date=current, dry_run=request.dry_run)
    work = _folding(place, published, changes, kept, removed)
    sweep(place)
    if published.is_damaged:
        set_aside(place.catalog)
    with drafting(place.catalog, anew=request.rebuild) as draft:
        draft.generation = max(draft.generation, published.generation)
        draft.last_shard_id = max(draft.last_shard_id, published.last_shard_id)
        draft.exclude = request.exclude
        rows, findings = fold(place, draft, work, request.workers, progress)
    tidy(place, draft.generation)
    return report.of(draft.generation, (*kept, *rows), findings, up_to_date=False, dry_run=False)


def _folding(
    place: Place, published: _Published, changes: Changes, kept: Sequence[ShardRow], removed: Sequence[ShardRow]
) -> Folding:
    again = [row.id for row, _ in changes.changed]
    held = published.held
    if again:
        with Catalog(place.catalog) as catalog:
            held = catalog.held(again)
    known = {(row.path, row.size, row.mtime_ns): row.id for row in published.forgotten}
    ids = {
        shard.path: known[shard.path, shard.size, shard.mtime_ns]
        for shard in changes.added
        if (shard.path, shard.size, shard.mtime_ns) in known
    }
    return Folding(kept, changes.added, changes.changed, removed, published.rule, ids, held)


def compare(shards: Sequence[ShardFile], rows: Sequence[ShardRow]) -> Changes:
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
    return Changes(tuple(added), tuple(changed), tuple(known.values()), tuple(same))


def say_where(place: Place, asked: str | None, progress: Progress) -> None:
    """Tell the user, once, when the catalog is not where they would look for it."""
    if not place.is_inside and asked is None and not os.path.exists(place.catalog):
        progress.note(f"the catalog is kept in {place.meta}")


def still_damaged(rows: Sequence[ShardRow]) -> list[Finding]:
    """What earlier runs found wrong with shards that have not changed since."""
    return [
        Finding(
            code=row.code,
            severity="error",
            message=f"{CODES[row.code].title}, as when it was indexed",
            shard=row.path,
        )
        for row in rows
        if row.code is not None
    ]


def _published(place: Place, *, rebuild: bool) -> _Published:
    try:
        with Catalog(place.catalog) as catalog:
            rows, rule, generation = catalog.shards(), catalog.split_rule(), catalog.generation
            last = catalog.last_shard_id
            if not rebuild:
                return _Published(rows, rule, generation, last)
            held = catalog.held([row.id for row in rows])
            return _Published([], rule, generation, last, forgotten=rows, held=held)
    except CatalogError as error:
        is_damaged = error.code == "WDS302"
        if error.code == "WDS301" or (rebuild and is_damaged):
            return _Published([], _authored_rule(place), last_generation(place), is_damaged=is_damaged)
        raise


def _authored_rule(place: Place) -> SplitRule | None:
    """The split that dataset.yaml asks for: a catalog can be made again from the tars and it."""
    return load(place.dataset_yaml).split if os.path.exists(place.dataset_yaml) else None


def check_shards(place: Place, exclude: Sequence[str]) -> None:
    """Refuse a folder without shards before anything is written into it. Raises InputError WDS003 or WDS113."""
    if not os.path.exists(place.catalog):
        _check(place, list_shards(place.root, exclude), _Published([]))


def _check(place: Place, listing: ShardListing, published: _Published) -> None:
    if listing.shards or published.rows:
        return
    compressed = sum(finding.code == "WDS113" for finding in listing.findings)
    raise InputError(
        f"no tar files here, only {compressed} compressed ones" if compressed else "no tar files here",
        where=place.root,
        hint="decompress them first" if compressed else "raw files become shards by `wdsctl prepare SOURCE DEST`",
        code="WDS113" if compressed else "WDS003",
    )


def _vanished(place: Place, vanished: Sequence[ShardRow], shards: int) -> CatalogError:
    names = ", ".join(row.path for row in vanished[:3])
    more = f" and {len(vanished) - 3} more" if len(vanished) > 3 else ""
    return CatalogError(
        f"{len(vanished)} of {shards} shards have vanished: {names}{more}",
        where=place.root,
        hint="bring them back, or say `--missing drop` to forget them or `--missing keep` to keep their rows",
        code="WDS306",
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    place: Place
    changes: Changes
    removed: int
    started: float
    listed: tuple[Finding, ...]

    def of(
        self,
        generation: int,
        rows: Sequence[ShardRow],
        findings: Sequence[Finding],
        *,
        up_to_date: bool,
        dry_run: bool,
    ) -> IndexReport:
        fresh = {shard.path for shard in self.changes.added} | {shard.path for _, shard in self.changes.changed}
        return IndexReport(
            root=self.place.root,
            catalog=self.place.catalog,
            generation=generation,
            shards=len(rows),
            samples=sum(row.samples for row in rows),
            parts=sum(row.parts for row in rows),
            size_bytes=sum(row.size for row in rows),
            added=len(self.changes.added),
            changed=len(self.changes.changed),
            removed=self.removed,
            unchanged=len(self.changes.same),
            findings=(*self.listed, *still_damaged([row for row in rows if row.path not in fresh]), *findings),
            up_to_date=up_to_date,
            dry_run=dry_run,
            seconds=time.monotonic() - self.started,
        )
