"""What `split` reports: the splits of a set, the samples that moved, and the drift of strata.

`show_splits` and `export_split` report on the splits that a dataset has.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wdsctl.core.catalog.presence import check_catalog_exists
from wdsctl.core.catalog.splits import NO_SPLIT_LABEL, SplitShards, sample_flags, split_labels
from wdsctl.core.catalog.totals import SplitCount
from wdsctl.core.directories import resolve_parent
from wdsctl.core.energon.split_yaml import divided_shards_error, format_split_yaml, repeated_key_error
from wdsctl.core.errors import Finding, UsageError
from wdsctl.core.files import write_text
from wdsctl.core.invocation import current_invocation
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.assignment import Assignment, add_samples
from wdsctl.core.split.context import (
    SplitContext,
    missing_set_error,
    open_split_context,
    read_split_state,
)
from wdsctl.core.split.excludes import read_ledger_exclusions
from wdsctl.core.split_rules.excludes import excludes_to_plain
from wdsctl.core.split_rules.names import qualified_split_name
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.text import pluralize

MAX_MOVED_KEYS = 3  # keys that a move names
MAX_ERROR_MOVES = 6  # moves that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Samples of a set that change their split; "" is no split. `keys`: the first of them, as SHARD/KEY."""

    before: str
    after: str
    samples: int
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumSummary:
    """How a stratum was divided. `drift`: the largest difference of a split's share of it from the rule, 0 to 1."""

    stratum: str  # "" for samples that have no value
    samples: int
    splits: dict[str, int]  # of folds, by set: the samples of its `val`
    drift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSetSummary:
    """One set of splits."""

    name: str
    rule: str
    splits: tuple[SplitCount, ...]
    without: int  # samples that are neither in a split of the set nor excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """The result of `split`. `by`: the kind of the rule (`SplitRuleKind`); empty if only excludes changed.

    `splits` have their full names. `excluded`: samples that are in no split of any set, by rule or quarantine. `moved`:
    samples that change their split. `reassigned`: those of them, and of excluded samples that will return, that leave
    one of several splits for another or for none: a sample that a model was trained on may now be in its test split.
    They only move if the request allows it: `consents` is then ("allow_split_changes",). `findings`: samples that are
    in no split, because their value names none.
    """

    root: str
    by: str
    seed: int
    splits: tuple[SplitCount, ...]
    dry_run: bool
    rule: str = ""
    sets: tuple[str, ...] = ()  # sets that were made or dropped
    excluded: int = 0
    moved: tuple[Move, ...] = ()
    reassigned: tuple[Move, ...] = ()
    strata: tuple[StratumSummary, ...] = ()
    drift: float = 0.0  # the largest of the strata
    findings: tuple[Finding, ...] = ()
    consents: tuple[str, ...] = ()


class SamplesWouldMoveError(UsageError):
    """Samples would leave their split, and the request does not allow it. `report`: as of a dry run."""

    code = "WDS238"

    def __init__(self, report: SplitReport) -> None:
        self.report = replace(report, dry_run=True)
        samples = sum(move.samples for move in report.reassigned)
        moves = ", ".join(
            f"{move.samples:,} from {move.before} to {move.after or 'no split'} (such as {move.keys[0]})"
            for move in report.reassigned[:MAX_ERROR_MOVES]
        )
        more = ", ..." if len(report.reassigned) > MAX_ERROR_MOVES else ""
        is_prepare = current_invocation("split", ()).command == "prepare"  # which has no split sets
        super().__init__(
            f"{pluralize(samples, 'sample')} would leave {'its' if samples == 1 else 'their'} split: {moves}{more}",
            where=report.root,
            hint="omit `--split` to keep the splits, or pass `--allow-split-changes` to move the samples"
            if is_prepare
            else "pass `--set NAME` to create another split set and keep this one; `--dry-run` lists all moves, and "
            "`--allow-split-changes` makes them",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSetsReport:
    """All sets of a dataset, and what is excluded from them."""

    root: str
    sets: tuple[SplitSetSummary, ...]
    samples: int
    excluded: int
    excludes: dict[str, list[str]]
    quarantine: int  # entries of the ledger's quarantine


def count_split_shards(split_set: str, rule: SplitRule, split_shards: SplitShards) -> tuple[SplitCount, ...]:
    """Shards and samples of the splits of a set, by their full names."""
    return tuple(
        SplitCount(
            name=qualified_split_name(split_set, name),
            share=rule.share(name),
            shards=len(shards),
            samples=sum(part.samples for part in shards.values()),
        )
        for name, shards in split_shards.items()
    )


def find_moves(split_set: str, before: SplitShards, after: SplitShards, context: SplitContext) -> list[Move]:
    """Count the samples that change their split, the most frequent move first.

    Names the first keys of samples that were in a split before.
    """
    names = list(dict.fromkeys((*before, *after)))
    full_names = [*(qualified_split_name(split_set, name) for name in names), ""]  # NO_SPLIT_LABEL is the last
    counts: Counter[tuple[int, int]] = Counter()
    keys: dict[tuple[int, int], list[str]] = {}
    for row in context.rows:
        parts_before = [before.get(name, {}).get(row.id) for name in names]
        parts_after = [after.get(name, {}).get(row.id) for name in names]
        if parts_before == parts_after:
            continue
        labels_before = split_labels(parts_before, row.samples).astype(np.int64)
        labels_after = split_labels(parts_after, row.samples)
        moves = (labels_before - NO_SPLIT_LABEL) * len(full_names) + (labels_after - NO_SPLIT_LABEL)
        for number, samples in zip(*(each.tolist() for each in np.unique(moves, return_counts=True)), strict=True):
            move = number // len(full_names) + NO_SPLIT_LABEL, number % len(full_names) + NO_SPLIT_LABEL
            if move[0] == move[1]:
                continue
            counts[move] += samples
            move_keys = keys.setdefault(move, [])
            if move[0] != NO_SPLIT_LABEL and len(move_keys) < MAX_MOVED_KEYS:
                positions = np.flatnonzero(moves == number)[: MAX_MOVED_KEYS - len(move_keys)].tolist()
                move_keys += [context.sample_name(row, position) for position in positions]
    return [
        Move(before=full_names[move[0]], after=full_names[move[1]], samples=samples, keys=tuple(keys[move]))
        for move, samples in counts.most_common()
    ]


def find_reassigned(split_set: str, before: Assignment, after: Assignment, context: SplitContext) -> list[Move]:
    """The samples that leave a split for another or for none, those that return to their split included.

    A set that had one split has none: taking samples from it is how a dataset is divided for the first time.
    """
    splits_before, splits_after = (_splits_with_former(each, context) for each in (before, after))
    if sum(bool(shards) for shards in splits_before.values()) < 2:
        return []
    return [move for move in find_moves(split_set, splits_before, splits_after, context) if move.before]


def _splits_with_former(assignment: Assignment, context: SplitContext) -> SplitShards:
    """The samples of each split, and those that return to it."""
    splits: SplitShards = {name: dict(shards) for name, shards in assignment.split_shards.items()}
    for name, former in assignment.former_shards.items():
        shards = splits.setdefault(name, {})
        for shard in former.keys() & context.sample_counts.keys():
            add_samples(shards, shard, sample_flags(former[shard], context.sample_counts[shard]))
    return splits


def summarize_strata(
    strata: Mapping[str, Mapping[str, int]], shares: Mapping[str, float]
) -> tuple[StratumSummary, ...]:
    """The strata, by falling drift."""
    total = sum(shares.values())
    summaries = []
    for stratum, splits in strata.items():
        samples = sum(splits.values())
        drifts = (abs(splits.get(name, 0) / max(samples, 1) - share / total) for name, share in shares.items())
        drift = max(drifts, default=0.0) if samples else 0.0
        summaries.append(StratumSummary(stratum=stratum, samples=samples, splits=dict(splits), drift=drift))
    return tuple(sorted(summaries, key=lambda summary: (-summary.drift, summary.stratum)))


def show_splits(root: str, *, split_set: str = "", catalog: str | None = None) -> SplitSetsReport:
    """The sets of a dataset, or only `split_set`, with their rules. Cost: a few rows of the catalog a shard.

    Raises InputError WDS211 if there is no such set.
    """
    with open_dataset(root, catalog) as dataset:
        location = dataset.location
        check_catalog_exists(location)
        dataset.catalog.check_not_media_folder()
        state = read_split_state(dataset)
        if split_set and split_set not in state.rules:
            raise missing_set_error(split_set, state, location.display_path)
        samples = sum(row.samples for row in dataset.catalog.shards())
        excluded = sum(part.samples for part in state.excluded.values())
        sets = []
        for name, rule in state.rules.items():
            if split_set in ("", name):
                splits = count_split_shards(name, rule, dataset.catalog.split_reader.split_shards(name))
                without = samples - excluded - sum(split.samples for split in splits)
                sets.append(SplitSetSummary(name=name, rule=rule.description, splits=splits, without=without))
        return SplitSetsReport(
            root=location.display_path,
            sets=tuple(sets),
            samples=samples,
            excluded=excluded,
            excludes=excludes_to_plain(state.excludes),
            quarantine=len(read_ledger_exclusions(dataset, ()).quarantine),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitExportReport:
    """`path`: the file; empty if the text is only returned."""

    root: str
    set: str
    path: str
    text: str
    splits: dict[str, int]  # shards of each
    excluded: int  # entries of the section `exclude`


def export_split(
    root: str, path: str, *, split_set: str = "", catalog: str | None = None, overwrite: bool = False
) -> SplitExportReport:
    """Write the splits of a set as Energon's split.yaml; an empty `path` only returns the text.

    Raises DatasetError WDS217 if the format cannot express them (a shard in several splits, names with braces),
    UsageError if the file exists, InputError WDS211 if there is no such set.
    """
    with open_dataset(root, catalog) as dataset:
        location = dataset.location
        check_catalog_exists(location)
        dataset.catalog.check_not_media_folder()
        state = read_split_state(dataset)
        if split_set not in state.rules:
            raise missing_set_error(split_set, state, location.display_path)
        if path and os.path.exists(path) and not overwrite:
            raise UsageError(
                "the output file exists", where=path, hint="choose another path, or pass `--yes` to overwrite it"
            )
        found = read_shard_splits(dataset, split_set)
    text = format_split_yaml(found.splits, found.excluded_shards, found.excluded_samples)
    if path:
        write_text(resolve_parent(path), text)
    return SplitExportReport(
        root=location.display_path,
        set=split_set,
        path=path,
        text=text,
        splits={name: len(paths) for name, paths in found.splits.items()},
        excluded=len(found.excluded_shards) + len(found.excluded_samples),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSplits:
    """The splits of a set whose shards are each in one split at most, by paths in the order of the loader.

    `excluded_shards` are in no split. `excluded_samples`, SHARD/KEY, are in no split, but their shard is in one.
    """

    splits: dict[str, tuple[str, ...]]
    samples: dict[str, int]  # of each split, without the excluded ones
    excluded_shards: tuple[str, ...]
    excluded_samples: tuple[str, ...]


def read_shard_splits(dataset: OpenDataset, split_set: str) -> ShardSplits:
    """Read a set that has splits of whole shards, apart from samples in no split. Raises DatasetError WDS217."""
    context = open_split_context(dataset, 1, SILENT_PROGRESS, keeps_results=False)
    split_shards = dataset.catalog.split_reader.split_shards(split_set)
    shards, samples = _find_unassigned(context, split_shards)
    return ShardSplits(
        splits={
            name: tuple(row.path for row in context.rows if row.id in parts) for name, parts in split_shards.items()
        },
        samples={name: sum(part.samples for part in parts.values()) for name, parts in split_shards.items()},
        excluded_shards=tuple(shards),
        excluded_samples=tuple(samples),
    )


def _find_unassigned(context: SplitContext, split_shards: SplitShards) -> tuple[list[str], list[str]]:
    """The shards that no split has samples of, and by SHARD/KEY the samples of other shards that are in no split."""
    shards: list[str] = []
    samples: list[str] = []
    divided = [row.path for row in context.rows if sum(row.id in parts for parts in split_shards.values()) > 1]
    if divided:
        raise divided_shards_error(len(divided), divided[0])
    for row in context.rows:
        part = next((parts[row.id] for parts in split_shards.values() if row.id in parts), None)
        if part is None:
            shards.append(row.path)
        elif part.bits is not None:
            first = context.first_row(row)
            keys = [context.offsets.key(first + i) for i in range(row.samples)]
            flags = sample_flags(part, row.samples)
            counts = Counter(keys)
            unassigned_counts = Counter(key for key, is_in in zip(keys, flags, strict=True) if not is_in)
            partial = next((key for key, count in unassigned_counts.items() if counts[key] != count), None)
            if partial is not None:
                raise repeated_key_error(f"{row.path}/{partial}")
            samples += [f"{row.path}/{key}" for key in unassigned_counts]
    return shards, samples
