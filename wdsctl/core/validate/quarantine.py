"""`validate --quarantine` and `--release`: exclude broken samples from all splits, and include them again.

Never changes shards: the ledger stores the quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import (
    QuarantineEntry,
    add_to_quarantine,
    delete_quarantine_entries,
    read_quarantine,
)
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.errors import PermissionDenied
from wdsctl.core.index.first_use import open_indexed
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.writing import RunRecord, writing
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.split.reapply import reapply_splits
from wdsctl.core.urls import redact_secrets
from wdsctl.core.validate.request import QuarantineReport, ReleaseReport, match_shards
from wdsctl.core.validate.run_checks import CheckOutcome

QUARANTINE_SCOPE = "in quarantine"  # where `validate --release --shards` looks, for its errors


def quarantine_samples(
    dataset: OpenDataset,
    record: RunRecord,
    rows: Sequence[ShardRow],
    outcome: CheckOutcome,
    stale: AbstractSet[str],
    incomplete_samples: Mapping[str, Sequence[int]],
    workers: int,
    progress: Progress,
) -> QuarantineReport:
    """Quarantine every sample with a finding of severity `error`, and update the splits.

    `incomplete_samples`: the positions of samples without a required part, by shard. `stale`: shards that have
    changed since they were indexed (WDS305). Their positions differ from the catalog, so only findings about the
    whole shard count. The caller must hold the lock.
    """
    ledger = _require_ledger(dataset.location, record)
    known = {row.path: row for row in rows}
    entries = [
        *_entries_of_findings(known, outcome, stale, record.run_id),
        *(
            _entry(known[shard], "WDS108", record.run_id, position)
            for shard, positions in incomplete_samples.items()
            if shard in known
            for position in positions
        ),
    ]
    before = _active_quarantine(ledger, known)
    add_to_quarantine(ledger, _add_keys(dataset, entries))
    after = _active_quarantine(ledger, known)
    return QuarantineReport(
        samples=sum(position is not None for _, position in after - before),
        shards=sum(position is None for _, position in after - before),
        all_samples=sum(position is not None for _, position in after),
        all_shards=sum(position is None for _, position in after),
        splits=_update_splits(dataset, workers, progress),
    )


def release_from_quarantine(
    root: str,
    *,
    shards: Sequence[str] = (),
    catalog: str | None = None,
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT_PROGRESS,
) -> ReleaseReport:
    """Release samples of these shards (by default all) from quarantine, and update the splits.

    `shards`: patterns, as for `validate`. `wait`: seconds to wait for another writer. Raises UsageError if a pattern
    matches no shard in quarantine, and the ledger's error if it cannot be written.
    """
    with open_indexed(root, catalog, writing=True, wait=wait, progress=progress) as dataset:
        location = dataset.location
        dataset.catalog.check_not_media_folder()
        arguments = [redact_secrets(root), "--release"]
        with writing(dataset, "validate", arguments, progress, wait=wait) as record:
            ledger = _require_ledger(location, record)
            selected = match_shards(list_quarantined_shards(ledger), shards, QUARANTINE_SCOPE) if shards else None
            count = delete_quarantine_entries(ledger, shards=selected)
            splits = _update_splits(dataset, workers, progress)
            return ReleaseReport(root=location.display_path, released=count, splits=splits)


def list_quarantined_shards(ledger: Ledger) -> list[str]:
    """Return the shards that are in quarantine, as a whole or with some samples."""
    return sorted({each.shard for each in read_quarantine(ledger)})


def _require_ledger(location: DatasetLocation, record: RunRecord) -> Ledger:
    if record.ledger is None:
        raise record.ledger_error or PermissionDenied(
            "cannot write the ledger, which stores the quarantine",
            where=location.ledger_path,
            hint="ask the owner of the dataset for write permission, or pass `--catalog DIR` to use another catalog",
        )
    return record.ledger


def _active_quarantine(ledger: Ledger, known: Mapping[str, ShardRow]) -> set[tuple[str, int | None]]:
    """Return (shard, position) of each entry for the current version of a shard; position None for a whole shard."""
    entries = ((entry, known.get(entry.shard)) for entry in read_quarantine(ledger))
    return {
        (entry.shard, entry.position)
        for entry, row in entries
        if row is not None and row.layout_hash == entry.layout_hash
    }


def _entries_of_findings(
    known: Mapping[str, ShardRow], outcome: CheckOutcome, stale: AbstractSet[str], run_id: int
) -> Iterator[QuarantineEntry]:
    for shard, located_findings in outcome.located_findings.items():
        row = known.get(shard)
        if row is None:
            continue
        for located in located_findings:
            code = located.finding.code
            if located.finding.severity != "error" or code == "WDS305":
                continue
            if located.covers_shard:
                yield _entry(row, code, run_id)
            for position in () if shard in stale else located.positions:
                if position < row.samples:
                    yield _entry(row, code, run_id, position)


def _entry(row: ShardRow, code: str, run_id: int, position: int | None = None) -> QuarantineEntry:
    return QuarantineEntry(shard=row.path, layout_hash=row.layout_hash, position=position, code=code, run_id=run_id)


def _add_keys(dataset: OpenDataset, entries: Sequence[QuarantineEntry]) -> list[QuarantineEntry]:
    """Add the keys of the samples, for users and for rules that read the quarantine."""
    offsets = Offsets(dataset.location.offsets_path(dataset.catalog.generation))
    shard_starts = {shard.path: int(offsets.shard_row[i]) for i, shard in enumerate(offsets.shards)}
    return [
        entry
        if entry.position is None or entry.shard not in shard_starts
        else replace(entry, key=offsets.key(shard_starts[entry.shard] + entry.position))
        for entry in entries
    ]


def _update_splits(dataset: OpenDataset, workers: int, progress: Progress) -> dict[str, int]:
    """Reapply the split rules, and return the samples of each split. The caller must hold the lock."""
    for finding in reapply_splits(dataset, workers, progress).findings:
        progress.note(f"{finding.code}: {finding.message}")
    return {split.name: split.samples for split in dataset.catalog.splits()}
