"""Keeps label ratios: divides each stratum by the shares, sample by sample or in whole groups.

Alone, a stratum is divided exactly, by largest remainder. With groups, a greedy algorithm like scikit-learn's
StratifiedGroupKFold assigns the largest groups first, each to the split whose label counts it brings nearest to the
shares, by Pearson's chi-squared over labels and over all samples. Groups whose sizes differ by less than an eighth are
ordered by hash. The result depends on seed, groups and labels, not on the order of samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.array_types import Uint64Array
from wdsctl.core.catalog.splits import NO_SPLIT_LABEL, AssignmentHistory, SplitLabels
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import UsageError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.split.assignment import NO_VALUE, AssignmentBuilder, LabelledShards, SplitProblem, merge_histories
from wdsctl.core.split.values import hash_value, shard_hashes, values_by_shard
from wdsctl.core.split_rules.shares import allocate_new_items

MAX_STRATA = 100_000
MAX_STORED_GROUPS = 10_000_000  # groups whose split the catalog stores
_MAX_PENDING_PAIRS = 1 << 22  # (group, label) pairs that wait to be counted: 100 MB

_NO_GROUP = 0  # the hash of samples without a group


class LabelCounts(NamedTuple):
    """How many samples of each label every group has: (pairs,) each, by group and label, every pair once."""

    groups: Uint64Array
    labels: Uint64Array
    samples: NDArray[np.int64]


class GroupSplits(NamedTuple):
    """The split of every group: hashes in order, and the index of the split of each."""

    groups: Uint64Array
    splits: SplitLabels

    def labels_of(self, groups: Uint64Array) -> SplitLabels:
        """The splits of these groups, NO_SPLIT_LABEL for unknown ones."""
        if not len(self.groups):
            return np.full(len(groups), NO_SPLIT_LABEL, np.int16)
        i = np.minimum(np.searchsorted(self.groups, groups), len(self.groups) - 1)
        return np.where(self.groups[i] == groups, self.splits[i], np.int16(NO_SPLIT_LABEL))


def assign_by_stratum(builder: AssignmentBuilder) -> LabelledShards:
    """Two passes over the values: the first counts the samples of each stratum, the second assigns them."""
    context, rule, history = builder.context, builder.rule, builder.assignment.history
    counts: dict[int, int] = {}
    texts = {0: ""}
    for row, values in values_by_shard(context, rule.stratify, builder.rows, with_texts=True, keep=True):
        texts |= values.texts
        strata, samples = np.unique(_selected(builder, row, values.hashes), return_counts=True)
        for stratum, count in zip(strata.tolist(), samples.tolist(), strict=True):
            counts[stratum] = counts.get(stratum, 0) + count
        _check_stratum_count(builder, counts)
    _check_has_values(builder, counts)
    quotas = allocate_strata(counts, _history_by_hash(history), rule.shares)
    added = {texts[stratum]: dict(zip(rule.shares, quota, strict=True)) for stratum, quota in quotas.items()}
    builder.assignment.history = merge_histories(history, AssignmentHistory(added))
    for row in sorted(builder.rows, key=lambda row: row.path):
        hashes = shard_hashes(context, rule.stratify, row, with_texts=True)
        seed = derive_seed("stratum", rule.seed, row.path)
        selected = builder.only_samples.get(row.id, slice(None))
        labels = np.zeros(row.samples, np.int16)  # the builder ignores samples that are not selected
        labels[selected] = labels_by_quota(hashes[selected], quotas, seed)
        yield row, labels


def allocate_strata(
    counts: Mapping[int, int], existing: Mapping[int, Mapping[str, int]], shares: Mapping[str, float]
) -> dict[int, list[int]]:
    """By stratum, how many of the new samples each split gets, so that all of its samples come nearest to the shares.

    `counts`: new samples of each stratum; `existing`: those that splits have.
    """
    return {
        stratum: list(
            allocate_new_items(
                count + sum(existing.get(stratum, {}).values()), existing.get(stratum, {}), shares
            ).values()
        )
        for stratum, count in sorted(counts.items())
    }


def labels_by_quota(hashes: Uint64Array, quotas: Mapping[int, list[int]], seed: int) -> SplitLabels:
    """(samples,): the splits of one shard's samples with these strata. Reduces `quotas` by what it assigns.

    Each split gets its exact share rounded down; hashes decide who gets the remaining samples. Counts are exact once
    all shards are assigned, and the order of shards favors no split.
    """
    labels = np.zeros(len(hashes), np.int16)
    if not len(hashes):
        return labels
    draws = hash_values(seed, np.arange(len(hashes), dtype=np.uint64))
    order = np.lexsort((draws, hashes))
    ordered = hashes[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        members = order[start:stop]
        quota = quotas[int(ordered[start])]
        counts = _take_from_quota(quota, len(members), draws[members].tolist())
        labels[members] = np.repeat(np.arange(len(quota)), counts)
    return labels


def _take_from_quota(quota: list[int], count: int, draws: list[int]) -> list[int]:
    """How many of `count` samples each split gets. Reduces `quota`."""
    total = sum(quota)
    counts = [count * remaining // total for remaining in quota] if total else [0] * len(quota)
    for i, taken in enumerate(counts):
        quota[i] -= taken
    for draw in draws[: count - sum(counts)]:
        position = draw % (sum(quota) or 1)
        i = 0
        while position >= quota[i]:
            position -= quota[i]
            i += 1
        quota[i] -= 1
        counts[i] += 1
    return counts


def assign_balanced(builder: AssignmentBuilder) -> LabelledShards:
    """Assign whole groups, so that each stratum comes as near to the shares as the groups allow.

    Three passes over the values: groups, strata, and the splits. Memory: 24 bytes for each stratum of each group.
    """
    context, rule, history = builder.context, builder.rule, builder.assignment.history
    names = tuple(rule.shares_to_assign)
    rest = names.index(rule.rest) if rule.rest in names else None  # the split of samples without a group
    texts, strata = {0: ""}, set[int]()
    for _ in values_by_shard(context, rule.group_by, builder.rows, keep=True):
        pass  # stores the values that `shard_hashes` returns below

    def pairs() -> Iterable[tuple[Uint64Array, Uint64Array]]:
        for row, values in values_by_shard(context, rule.stratify, builder.rows, with_texts=True, keep=True):
            groups = _selected(builder, row, shard_hashes(context, rule.group_by, row))
            labels = _selected(builder, row, values.hashes)
            texts.update(values.texts)
            strata.update(np.unique(labels).tolist())
            _check_stratum_count(builder, strata)
            has_split = (groups != _NO_GROUP) | (rest is not None)
            yield groups[has_split], labels[has_split]

    counts = count_labels(pairs())
    _check_has_values(builder, strata)
    known = group_splits_of(history.groups, names)
    if rest is not None:  # samples without a group belong to the rest, and the groups balance them
        known = GroupSplits(np.append(np.uint64(_NO_GROUP), known.groups), np.append(np.int16(rest), known.splits))
    existing = {
        stratum: [samples.get(name, 0) for name in names] for stratum, samples in _history_by_hash(history).items()
    }
    shares = list(rule.shares_to_assign.values())
    found, added = assign_groups(counts, known, existing, shares, rule.seed, fill_empty=not rule.allow_empty)
    stored = GroupSplits(*(column[found.groups != _NO_GROUP] for column in found))
    if len(stored.groups) > MAX_STORED_GROUPS:
        raise UsageError(
            f"{rule.group_by} has more than {MAX_STORED_GROUPS:,} different values, the limit for stratified groups",
            hint="omit --stratify: without strata, any number of groups is allowed",
        )
    by_split = {name: stored.groups[stored.splits == number] for number, name in enumerate(names)}
    by_text = {texts[stratum]: dict(zip(names, samples, strict=True)) for stratum, samples in added.items()}
    builder.assignment.history = merge_histories(history, AssignmentHistory(by_text, by_split))
    for row in builder.rows:
        labels = stored.labels_of(shard_hashes(context, rule.group_by, row))
        if rule.fold is not None:  # 1, `val`, for this fold
            labels = np.where(labels == NO_SPLIT_LABEL, labels, labels == rule.fold[0]).astype(np.int16)
        yield row, labels


def count_labels(pairs: Iterable[tuple[Uint64Array, Uint64Array]]) -> LabelCounts:
    """Count samples, given as (groups, labels), in memory that grows with the pairs that occur."""
    empty = np.empty(0, np.uint64)
    total = LabelCounts(empty, empty, np.empty(0, np.int64))
    pending: list[LabelCounts] = []
    pending_size = 0
    for groups, labels in pairs:
        pending.append(_sum_equal_pairs([LabelCounts(groups, labels, np.ones(len(groups), np.int64))]))
        pending_size += len(pending[-1].groups)
        if pending_size > max(_MAX_PENDING_PAIRS, len(total.groups)):
            total, pending, pending_size = _sum_equal_pairs([total, *pending]), [], 0
    return _sum_equal_pairs([total, *pending])


def _sum_equal_pairs(counts: Sequence[LabelCounts]) -> LabelCounts:
    groups, labels, samples = (np.concatenate(columns) for columns in zip(*counts, strict=True))
    if not len(groups):
        return LabelCounts(groups, labels, samples)
    order = np.lexsort((labels, groups))
    groups, labels, samples = groups[order], labels[order], samples[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (labels[1:] != labels[:-1])))
    return LabelCounts(groups[starts], labels[starts], np.add.reduceat(samples, starts))


def group_splits_of(groups_by_split: Mapping[str, Uint64Array], names: Sequence[str]) -> GroupSplits:
    """The groups that the catalog stores, for the splits that still exist."""
    by_split = [groups_by_split.get(name, np.empty(0, np.uint64)) for name in names]
    groups = np.concatenate(by_split) if by_split else np.empty(0, np.uint64)
    splits = np.repeat(np.arange(len(names), dtype=np.int16), [len(each) for each in by_split])
    order = np.argsort(groups, kind="stable")
    return GroupSplits(groups[order], splits[order])


def assign_groups(
    counts: LabelCounts,
    known: GroupSplits,
    existing: Mapping[int, Sequence[int]],
    shares: Sequence[float],
    seed: int,
    *,
    fill_empty: bool = True,
) -> tuple[GroupSplits, dict[int, list[int]]]:
    """The split of every group, and by label how many of the counted samples each split gets.

    `known` groups keep their splits. `existing`: by label, the samples that splits had before. `fill_empty`: the last
    and smallest groups go to splits that are still empty. Cost: about 15 µs a group.
    """
    labels, columns = np.unique(counts.labels, return_inverse=True)
    none = [0] * len(shares)
    before = np.array([existing.get(label, none) for label in labels.tolist()], np.int64).reshape(-1, len(shares))
    # A row for each label, and one more for all samples, those of labels without new samples included.
    totals = np.vstack([before, np.array([none, *existing.values()], np.int64).sum(axis=0)])
    added = np.zeros((len(labels) + 1, 1), np.int64)
    np.add.at(added, columns, counts.samples[:, np.newaxis])
    added[-1] = counts.samples.sum()
    targets = ((totals.sum(axis=1, keepdims=True) + added) * np.array(shares) / sum(shares)).tolist()
    current: list[list[int]] = totals.tolist()  # lists: faster than arrays for a few splits

    groups, starts = np.unique(counts.groups, return_index=True)
    splits = known.labels_of(groups)
    new = np.flatnonzero(splits == NO_SPLIT_LABEL)
    sizes = np.add.reduceat(counts.samples, starts)[new] if len(new) else np.empty(0, np.int64)
    fractions, exponents = np.frexp(sizes)
    size_classes = exponents * 8 + (fractions * 16).astype(np.int64)  # eight for each power of two
    order = new[np.lexsort((hash_values(derive_seed("groups", seed), groups[new]), -size_classes))]
    bounds = [*starts.tolist(), len(counts.groups)]
    for number, i in enumerate([*np.flatnonzero(splits != NO_SPLIT_LABEL).tolist(), *order.tolist()]):
        pairs = slice(bounds[i], bounds[i + 1])
        rows, samples = [*columns[pairs].tolist(), -1], counts.samples[pairs].tolist()
        samples.append(sum(samples))
        split = int(splits[i])
        if split == NO_SPLIT_LABEL:
            empty = [candidate for candidate, count in enumerate(current[-1]) if not count]
            must_fill = fill_empty and len(groups) - number <= len(empty)
            candidates = empty if must_fill else range(len(shares))
            split = min(candidates, key=lambda candidate: _cost(current, targets, rows, samples, candidate))
            splits[i] = split
        for row, count in zip(rows, samples, strict=True):
            current[row][split] += count
    every = np.union1d(known.groups, groups)
    merged = known.labels_of(every)
    merged[np.searchsorted(every, groups)] = splits
    gained = (np.array(current, np.int64)[:-1] - before).tolist()
    return GroupSplits(every, merged), dict(zip(labels.tolist(), gained, strict=True))


def _cost(
    current: Sequence[Sequence[int]],
    targets: Sequence[Sequence[float]],
    rows: Sequence[int],
    samples: Sequence[int],
    split: int,
) -> float:
    """By how much chi-squared, the sum of (current - target)^2 / target, grows if a split gets these samples."""
    cost = 0.0
    for row, count in zip(rows, samples, strict=True):  # in order: the sum must be the same everywhere
        target = targets[row][split]
        cost += count * (2 * (current[row][split] - target) + count) / target
    return cost


def _history_by_hash(history: AssignmentHistory) -> dict[int, Mapping[str, int]]:
    return {hash_value(text) if text else 0: samples for text, samples in history.strata.items()}


def _check_has_values(builder: AssignmentBuilder, strata: Collection[int]) -> None:
    """Add a problem if all samples of a new set lack the value: the name of the value may be wrong."""
    spec = builder.rule.stratify
    if set(strata) == {0} and not builder.assignment.history.strata and not builder.rule.allow_empty:
        hint = f"check that {spec} is the right name, or pass `--allow-empty` to put all samples into one stratum"
        builder.assignment.problems.append(SplitProblem(NO_VALUE, f"no sample has {spec}", hint))


def _check_stratum_count(builder: AssignmentBuilder, strata: Collection[int]) -> None:
    if len(strata) > MAX_STRATA:
        spec = builder.rule.stratify
        raise UsageError(
            f"{spec} has more than {MAX_STRATA:,} different values, the limit for strata",
            hint=f"choose a value with fewer classes; or pass `--group-by {quote_shell_word(spec)}` to keep equal "
            "values in one split",
        )


def _selected(builder: AssignmentBuilder, row: ShardRow, hashes: Uint64Array) -> Uint64Array:
    """The values of the samples to assign."""
    selected = builder.only_samples.get(row.id)
    return hashes if selected is None else hashes[selected]
