"""`validate --quarantine` and `--release`: keep what is broken out of all splits, let it in again. No file moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_quarantine import Quarantined, add_to_quarantine, quarantined, release
from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.errors import PermissionDenied
from wdsctl.core.lock import locked
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.urls import shown
from wdsctl.core.verbs.journal import Entry, journal
from wdsctl.core.verbs.presence import check_catalog, wait_for_catalog
from wdsctl.core.verbs.split_settle import settle_splits
from wdsctl.core.verbs.validate_chosen import IN_QUARANTINE, matched
from wdsctl.core.verbs.validate_request import QuarantineReport
from wdsctl.core.verbs.validate_shards import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """How much was let in again, and how many samples each split has now."""

    root: str
    released: int
    splits: dict[str, int]


def keep_out(
    place: Place,
    entry: Entry,
    rows: Sequence[ShardRow],
    outcome: Outcome,
    stale: AbstractSet[str],
    lacking: Mapping[str, Sequence[int]],
    workers: int,
    progress: Progress,
) -> QuarantineReport:
    """Put every sample that a finding of severity `error` is about into quarantine, and bring the splits up to date.

    `lacking`: by shard, the places of samples without a part that they need. `stale`: shards that are not as they were
    indexed, which are told of as WDS305: a place in one is another sample in the catalog, so nothing less than all of
    it is kept out. For a caller that holds the lock.
    """
    ledger = _writable(place, entry)
    known = {row.path: row for row in rows}
    bad = [*_of_findings(known, outcome, stale, entry.run), *_of_parts(known, lacking, entry.run)]
    before = _in_force(ledger, known)
    add_to_quarantine(ledger, _with_keys(place, bad))
    now = _in_force(ledger, known)
    return QuarantineReport(
        samples=sum(at is not None for _, at in now - before),
        shards=sum(at is None for _, at in now - before),
        all_samples=sum(at is not None for _, at in now),
        all_shards=sum(at is None for _, at in now),
        splits=updated_splits(place, workers, progress),
    )


def release_from_quarantine(
    root: str,
    *,
    shards: Sequence[str] = (),
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT,
) -> ReleaseReport:
    """Let in again what is of these shards, all of it by default, and bring the splits up to date.

    `shards`: patterns, as of `validate`. `wait`: seconds to wait for another writer. Raises UsageError where a pattern
    matches nothing in quarantine, and what the ledger raises where it cannot be written.
    """
    place = locate(root, catalog, writing=True)
    wait_for_catalog(place, wait, progress.note)
    check_catalog(place)
    with (
        locked(place.lock, wait=wait, note=progress.note),
        journal(place, "validate", [shown(root), "--release"], progress) as entry,
    ):
        ledger = _writable(place, entry)
        chosen = matched(held_shards(ledger), shards, IN_QUARANTINE) if shards else None
        count = release(ledger, shards=chosen)
        return ReleaseReport(root=place.shown, released=count, splits=updated_splits(place, workers, progress))


def held_shards(ledger: Ledger) -> list[str]:
    """The shards of which something is in quarantine."""
    return sorted({each.shard for each in quarantined(ledger)})


def _writable(place: Place, entry: Entry) -> Ledger:
    if entry.ledger is None:
        raise entry.refused or PermissionDenied(
            "the ledger cannot be written, and it has what is in quarantine",
            where=place.ledger,
            hint="ask the owner of the dataset, or make a catalog of your own: `--catalog DIR`",
        )
    return entry.ledger


def _in_force(ledger: Ledger, known: Mapping[str, ShardRow]) -> set[tuple[str, int | None]]:
    """(shard, place) of what is kept out, place None for a whole shard; not what is of shards as they once were."""
    rows = ((each, known.get(each.shard)) for each in quarantined(ledger))
    return {(each.shard, each.place) for each, row in rows if row is not None and row.layout_hash == each.layout_hash}


def _of_findings(
    known: Mapping[str, ShardRow], outcome: Outcome, stale: AbstractSet[str], run: int
) -> Iterator[Quarantined]:
    for shard, found in outcome.placed.items():
        row = known.get(shard)
        if row is None:
            continue
        for placed in found:
            if placed.finding.severity != "error" or placed.finding.code == "WDS305":
                continue
            code = placed.finding.code
            if placed.is_whole:
                yield Quarantined(shard=shard, layout_hash=row.layout_hash, code=code, run_id=run)
            for place in () if shard in stale else placed.places:
                if place < row.samples:
                    yield Quarantined(shard=shard, layout_hash=row.layout_hash, place=place, code=code, run_id=run)


def _of_parts(known: Mapping[str, ShardRow], lacking: Mapping[str, Sequence[int]], run: int) -> Iterator[Quarantined]:
    for shard, places in lacking.items():
        row = known.get(shard)
        if row is None:
            continue
        for place in places:
            yield Quarantined(shard=shard, layout_hash=row.layout_hash, place=place, code="WDS108", run_id=run)


def _with_keys(place: Place, rows: Sequence[Quarantined]) -> list[Quarantined]:
    """The same with the keys of the samples: a person reads them, and so may a rule."""
    with Catalog(place.catalog) as published:
        offsets = Offsets(place.offsets(published.generation))
    firsts = {shard.path: int(offsets.shard_row[i]) for i, shard in enumerate(offsets.shards)}
    return [
        row
        if row.place is None or row.shard not in firsts
        else replace(row, key=offsets.key(firsts[row.shard] + row.place))
        for row in rows
    ]


def updated_splits(place: Place, workers: int, progress: Progress) -> dict[str, int]:
    """Bring the splits up to date, and say how many samples each has now. For a caller that holds the lock."""
    settled = settle_splits(place, workers, progress)
    for finding in settled.findings:
        progress.note(f"{finding.code}: {finding.message}")
    with Catalog(place.catalog) as published:
        return {split.name: split.samples for split in published.splits()}
