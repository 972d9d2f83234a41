"""`validate --release` of a blend file: what of its datasets is in quarantine is let in again."""

from __future__ import annotations

from collections.abc import Sequence

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.place import locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.verbs.validate_blend import datasets_of
from wdsctl.core.verbs.validate_chosen import IN_QUARANTINE, matched, matching
from wdsctl.core.verbs.validate_quarantine import ReleaseReport, held_shards, release_from_quarantine


def release_blend(
    path: str,
    *,
    shards: Sequence[str] = (),
    workers: int = 1,
    wait: float = 0.0,
    progress: Progress = SILENT,
) -> ReleaseReport:
    """Let in again what is of these shards, all of it by default, in every dataset of the file that has a quarantine.

    The others are not touched. `splits` of the report have their dataset before the name. `wait`: seconds to wait for
    another writer of each dataset. Raises as `release_from_quarantine`, and what reading a blend file raises.
    """
    held = {root: _held(root) for root in datasets_of(path)}
    matched([shard for found in held.values() for shard in found], shards, IN_QUARANTINE)
    reports = []
    for root, found in held.items():
        mine = [text for text in shards if matching(text, found)]
        if not found or (shards and not mine):
            continue
        progress.note(f"releasing {root}")
        reports.append(release_from_quarantine(root, shards=mine, workers=workers, wait=wait, progress=progress))
    return ReleaseReport(
        root=path,
        released=sum(report.released for report in reports),
        splits={f"{report.root}: {name}": count for report in reports for name, count in report.splits.items()},
    )


def _held(root: str) -> list[str]:
    with Ledger.peek(locate(root).ledger) as ledger:
        return held_shards(ledger)
