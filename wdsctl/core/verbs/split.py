"""`split`: which samples are for training, which for validation. Exact counts, nothing lost, nothing silently empty."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from wdsctl.core.catalog.catalog import Catalog, ShardRow, SplitCount
from wdsctl.core.catalog.draft import drafting
from wdsctl.core.catalog.identity import check
from wdsctl.core.command_line import command_at
from wdsctl.core.counted import counted
from wdsctl.core.dataset_yaml import SplitRule, load, read, update_split
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.files import write_text
from wdsctl.core.lock import check_held, locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By, apportion
from wdsctl.core.splitting import Dealt, Shard, by_sample, by_shard, resolved
from wdsctl.core.urls import shown
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_catalog

WHOLE = {"train": 1.0}  # the split of those who ask for none: everything is for training


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
        check_catalog(place)
        return split_at(place, ratios, by, seed, progress, dry_run=True)
    check_catalog(place)
    check(place.catalog)  # before anything is written beside it
    with locked(place.lock), journal(place, "split", [shown(root), repr(dict(ratios)), by, str(seed)], progress):
        return split_at(place, ratios, by, seed, progress)


def split_at(
    place: Place, ratios: Mapping[str, float], by: By, seed: int, progress: Progress, *, dry_run: bool = False
) -> SplitReport:
    """What `split` does, for a caller that holds the lock."""
    progress.phase("split")
    with Catalog(place.catalog) as published:
        rows = published.shards()
    if not any(row.samples for row in rows):
        raise DatasetError(
            "the dataset has no samples to divide",
            where=place.shown,
            hint=f"{command_at(place, 'validate')} tells why",
            code="WDS119",
        )
    chosen, dealt = deal_all(rows, ratios, by, seed)
    rule = SplitRule(shares=dict(ratios), by=chosen, seed=seed)
    text = _with_rule(place.dataset_yaml, rule)  # before anything is changed: the file may be broken
    if not dry_run:
        with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
            draft.replace_splits(ratios, chosen, seed)
            for name, parts in dealt.items():
                draft.add_to_split(name, parts)
        if text is not None:
            write_text(place.dataset_yaml, text)
    splits = tuple(
        SplitCount(name, ratios[name], len(parts), sum(part.samples for part in parts)) for name, parts in dealt.items()
    )
    return SplitReport(root=place.shown, by=chosen, seed=seed, splits=splits, dry_run=dry_run)


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
    have = counted(shards, "shard") if by == "shard" else counted(samples, "sample")
    do = "does" if (shards if by == "shard" else samples) == 1 else "do"
    raise UsageError(
        f"{names} would be empty: {have} {do} not go round",
        where=",".join(f"{name}={share}" for name, share in ratios.items()),
        hint="divide it by samples: `--by sample`" if by == "shard" else "give it a larger share, or leave it out",
        code="WDS210",
    )


def _with_rule(dataset_yaml: str, rule: SplitRule) -> str | None:
    """What dataset.yaml is to say once the rule is in force; None where it says so, or where there is none."""
    if not os.path.exists(dataset_yaml):
        return None
    text = read(dataset_yaml)
    new = update_split(text, rule, path=dataset_yaml)
    return new if new != text else None


def settle_split(
    place: Place, wanted: Mapping[str, float] | None, by: By, seed: int, progress: Progress
) -> tuple[SplitReport, bool]:
    """Make the split that is asked for unless it is there, for `prepare`: (what there is, whether it was written).

    Where none is asked for (`wanted` is None), the one that there is stays; a dataset without any is divided as
    dataset.yaml says, and otherwise everything is `train`.
    """
    with Catalog(place.catalog) as catalog:
        made, counts = catalog.split_rule(), catalog.splits()
    authored = load(place.dataset_yaml).split if os.path.exists(place.dataset_yaml) else None
    asked = SplitRule(dict(wanted), by, seed) if wanted is not None else None
    if made is None or (asked is not None and not asked.asks_for(made)):
        rule = asked or authored or SplitRule(WHOLE, by, seed)
        return split_at(place, rule.shares, rule.by, rule.seed, progress), True
    is_new = False
    if authored is None or asked is not None:
        # A run that was killed between the catalog and the file has left the file behind.
        text = _with_rule(place.dataset_yaml, made) if authored is None or not authored.asks_for(made) else None
        if text is not None:
            write_text(place.dataset_yaml, text)
            is_new = True
    elif not authored.asks_for(made):
        progress.note(_differs(place, authored, made))
    unit: Literal["shard", "sample"] = "sample" if made.by == "sample" else "shard"
    return SplitReport(root=place.shown, by=unit, seed=made.seed, splits=tuple(counts), dry_run=False), is_new


def _differs(place: Place, authored: SplitRule, made: SplitRule) -> str:
    def said(rule: SplitRule) -> str:
        return f"{_ratios(rule)} by {rule.by}, seed {rule.seed}"

    command = ["wdsctl", "split", place.shown, _ratios(authored), "--by", authored.by, "--seed", str(authored.seed)]
    return (
        f"dataset.yaml says {said(authored)}; the catalog has {said(made)}, which stays: "
        f"`{shlex.join(command)}` applies the other"
    )


def _ratios(rule: SplitRule) -> str:
    return ",".join(f"{name}={share!r}".removesuffix(".0") for name, share in rule.shares.items())
