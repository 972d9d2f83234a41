"""`split`: which samples are for training, which for validation. Exact counts, nothing lost, nothing silently empty."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.catalog.catalog import Catalog, ShardRow, SplitCount
from wdsctl.core.catalog.draft import drafting
from wdsctl.core.catalog.identity import check
from wdsctl.core.dataset_yaml import SplitRule, update_split
from wdsctl.core.errors import UsageError
from wdsctl.core.files import write_text
from wdsctl.core.lock import locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By, apportion
from wdsctl.core.splitting import Dealt, Shard, by_sample, by_shard, resolved
from wdsctl.core.verbs.journal import journal


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    root: str
    by: Literal["shard", "sample"]
    seed: int
    splits: tuple[SplitCount, ...]
    dry_run: bool


def split(
    root: str,
    ratios: Mapping[str, float],
    *,
    by: By = "auto",
    seed: int = 0,
    catalog: str | None = None,
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> SplitReport:
    """Divide the dataset by `ratios`, whole shards or sample by sample, in place of the splits it had.

    `auto` takes whole shards, which read fastest, unless a split would stay empty. Raises UsageError WDS210 where a
    split would be empty all the same. The rule goes into dataset.yaml, if there is one, and new shards follow it.
    """
    place = locate(root, catalog, writing=True)
    if dry_run:
        return split_at(place, ratios, by, seed, progress, dry_run=True)
    check(place.catalog)  # before anything is written beside it
    with locked(place.lock), journal(place, "split", [root, repr(dict(ratios)), by, str(seed)], progress):
        return split_at(place, ratios, by, seed, progress)


def split_at(
    place: Place, ratios: Mapping[str, float], by: By, seed: int, progress: Progress, *, dry_run: bool = False
) -> SplitReport:
    """What `split` does, for a caller that holds the lock."""
    progress.phase("split")
    with Catalog(place.catalog) as published:
        rows = published.shards()
    chosen, dealt = deal_all(rows, ratios, by, seed)
    if not dry_run:
        with drafting(place.catalog) as draft:
            draft.replace_splits(ratios, chosen, seed)
            for name, parts in dealt.items():
                draft.add_to_split(name, parts)
        _record(place.dataset_yaml, SplitRule(shares=dict(ratios), by=chosen, seed=seed))
    splits = tuple(
        SplitCount(name, ratios[name], len(parts), sum(part.samples for part in parts)) for name, parts in dealt.items()
    )
    return SplitReport(root=place.root, by=chosen, seed=seed, splits=splits, dry_run=dry_run)


def deal_all(
    rows: list[ShardRow], ratios: Mapping[str, float], by: By, seed: int
) -> tuple[Literal["shard", "sample"], Dealt]:
    """How the ratios come out, and by which unit. Raises UsageError WDS210."""
    shards = [Shard(row.id, row.path, row.samples) for row in rows if row.samples]
    samples = sum(shard.samples for shard in shards)
    by = resolved(by, len(shards), ratios)
    _check_counts(ratios, apportion(len(shards) if by == "shard" else samples, ratios), by, len(shards), samples)
    return by, (by_shard if by == "shard" else by_sample)(shards, ratios, seed, {})


def _check_counts(ratios: Mapping[str, float], counts: Mapping[str, int], by: str, shards: int, samples: int) -> None:
    empty = [name for name, count in counts.items() if count == 0]
    if not empty:
        return
    names = " and ".join(empty)
    have = f"{shards} shards" if by == "shard" else f"{samples} samples"
    raise UsageError(
        f"{names} would be empty: {have} do not go round",
        where=",".join(f"{name}={share}" for name, share in ratios.items()),
        hint="divide it by samples: `--by sample`" if by == "shard" else "give it a larger share, or leave it out",
        code="WDS210",
    )


def _record(dataset_yaml: str, rule: SplitRule) -> None:
    if os.path.exists(dataset_yaml):
        with open(dataset_yaml, encoding="utf-8", newline="") as file:
            text = file.read()
        write_text(dataset_yaml, update_split(text, rule, path=dataset_yaml))
