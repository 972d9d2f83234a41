"""Assigns samples to splits by a rule: by shard pattern, key file, hash of a key or group, stratum, or value.

`assign_all` makes a whole set. Shards are processed one after another, so that memory grows with the number of samples
only by bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

import numpy as np

from wdsctl.core.array_types import Uint64Array
from wdsctl.core.catalog.splits import (
    NO_SPLIT_LABEL,
    AssignmentHistory,
    SampleFlags,
    SplitLabels,
    SplitShard,
    sample_flags,
    shard_from_flags,
)
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.shard_patterns import ShardPatterns
from wdsctl.core.errors import StorageError, UsageError
from wdsctl.core.hashing import derive_seed, hash_values
from wdsctl.core.offsets.key_list import read_key_list
from wdsctl.core.offsets.key_table import hash_keys
from wdsctl.core.split.allocate import ShardToAllocate, allocate_samples, allocate_shards, resolve_by
from wdsctl.core.split.assignment import (
    EMPTY,
    NO_MATCH,
    NO_VALUE,
    OVERLAP,
    Assignment,
    AssignmentBuilder,
    LabelledShards,
    SplitProblem,
    add_samples,
    join_names,
    remove_excluded,
    set_shard,
    shards_for_rule,
    verb_for,
)
from wdsctl.core.split.context import SplitContext
from wdsctl.core.split.strata import assign_balanced, assign_by_stratum
from wdsctl.core.split.values import values_by_shard
from wdsctl.core.split_rules.names import MAX_SPLITS, NO_SPLIT, POSITIONAL_NAMES
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.split_rules.shares import check_fills_splits
from wdsctl.core.text import join_with_and, pluralize

MAX_SEEDS_TRIED = 1000  # to suggest one that leaves no split empty
MAX_SEED_SEARCH_GROUPS = 1000  # groups for which a seed is suggested
_HASH_SPACE = 1 << 64


def assign_all(
    context: SplitContext, rule: SplitRule, excluded: Mapping[int, SplitShard], before: Assignment | None = None
) -> Assignment:
    """Make the splits of a set by its rule. Raises UsageError WDS210.

    Does not allocate shards that are excluded completely. Allocates all samples of other shards, then takes excluded
    ones out, so that excluding a sample moves no other sample. `before`: the replaced set. Excluded samples that it had
    in a split get a split to return to.
    """
    excluded_shards = {shard for shard, part in excluded.items() if part.samples == context.sample_counts[shard]}
    rows = [row for row in context.rows if row.id not in excluded_shards]
    if rule.is_counted:
        assignment = _allocate(rows, rule)
    else:
        only_samples = {}
        if not rule.stratify:  # strata count their samples; with other rules, samples are independent
            only_samples = {
                shard: ~sample_flags(part, context.sample_counts[shard]) for shard, part in excluded.items()
            }
        assignment = assign_samples(context, rule, context.rows if rule.kind == "keys" else rows, only_samples)
    if rule.by_value and not (assignment.group_hashes or rule.allow_empty):
        assignment.problems.append(_no_value_problem(rule, sum(row.samples for row in rows)))
    remove_excluded(assignment, excluded, context.sample_counts)
    if before is not None:
        _remember_former(context, rule, assignment, excluded, before)
    empty = [name for name, shards in assignment.split_shards.items() if not shards]
    if empty and not rule.allow_empty and not assignment.problems:
        assignment.problems.append(_empty_problem(rule, empty, assignment.group_hashes))
    return assignment


def _allocate(rows: Sequence[ShardRow], rule: SplitRule) -> Assignment:
    """Allocate shards or samples by number. Raises UsageError WDS210."""
    shards = [ShardToAllocate(row.id, row.path, row.samples) for row in rows if row.samples]
    by = resolve_by(rule.by, len(shards), rule.shares)
    total = len(shards) if by == "shard" else sum(shard.samples for shard in shards)
    if not rule.allow_empty:
        check_fills_splits(rule.shares, by, total)
    allocated = (allocate_shards if by == "shard" else allocate_samples)(shards, rule.shares, rule.seed, {})
    return Assignment(shards_for_rule(allocated, rule), by=by)


def _remember_former(
    context: SplitContext,
    rule: SplitRule,
    assignment: Assignment,
    excluded: Mapping[int, SplitShard],
    before: Assignment,
) -> None:
    """Remember where excluded samples return to that were in a split of the set before.

    If the rule counts samples, they return to the split that they were in, if the set still has it. By every other rule
    they return to the split that the rule names: for example, all samples of a group share one split.
    """
    counts = context.sample_counts
    excluded_by_split = _excluded_by_split(counts, excluded, before)
    if rule.is_counted or rule.kind == "stratum":
        kept = {name: flags for name, flags in excluded_by_split.items() if name in assignment.split_shards}
        _replace_former(assignment, kept)
        for name in assignment.split_shards.keys() & before.former_shards.keys():
            removed = {shard: part for shard, part in before.former_shards[name].items() if shard not in counts}
            assignment.former_shards.setdefault(name, {}).update(removed)
        return
    unassigned: dict[int, SampleFlags] = {}
    for shard, flags in (item for flags_by_shard in excluded_by_split.values() for item in flags_by_shard.items()):
        unassigned[shard] = unassigned[shard] | flags if shard in unassigned else flags
    for shards in assignment.former_shards.values():
        for shard in unassigned.keys() & shards.keys():
            unassigned[shard] = unassigned[shard] & ~sample_flags(shards[shard], counts[shard])
    unassigned = {shard: flags for shard, flags in unassigned.items() if flags.any()}
    if not unassigned:
        return
    with suppress(StorageError):  # a shard that cannot be read may be excluded for that reason
        rows = [row for row in context.rows if row.id in unassigned]
        returning = assign_samples(context, rule, rows, unassigned, assignment.history)
        for name, shards in returning.split_shards.items():
            for shard, part in shards.items():
                add_samples(assignment.former_shards.setdefault(name, {}), shard, sample_flags(part, counts[shard]))
        assignment.history = returning.history


def _replace_former(assignment: Assignment, excluded_by_split: Mapping[str, Mapping[int, SampleFlags]]) -> None:
    """Let samples return to these splits, and to no other ones."""
    for flags_by_shard in excluded_by_split.values():
        for shards in assignment.former_shards.values():
            for shard in flags_by_shard.keys() & shards.keys():
                flags = flags_by_shard[shard]
                set_shard(shards, shard, shard_from_flags(shard, sample_flags(shards[shard], len(flags)) & ~flags))
    for name, flags_by_shard in excluded_by_split.items():
        for shard, flags in flags_by_shard.items():
            add_samples(assignment.former_shards.setdefault(name, {}), shard, flags)


def _excluded_by_split(
    counts: Mapping[int, int], excluded: Mapping[int, SplitShard], before: Assignment
) -> dict[str, dict[int, SampleFlags]]:
    """By split and shard, the excluded samples that were in the split, or were to return to it."""
    excluded_by_split: dict[str, dict[int, SampleFlags]] = {}
    for name in dict.fromkeys((*before.split_shards, *before.former_shards)):
        flags_by_shard = excluded_by_split[name] = {}
        for shards in (before.split_shards.get(name, {}), before.former_shards.get(name, {})):
            for shard in sorted(shards.keys() & excluded.keys()):
                flags = sample_flags(shards[shard], counts[shard]) & sample_flags(excluded[shard], counts[shard])
                if flags.any():
                    flags_by_shard[shard] = flags_by_shard[shard] | flags if shard in flags_by_shard else flags
    return excluded_by_split


def _empty_problem(rule: SplitRule, names: Sequence[str], group_hashes: set[int]) -> SplitProblem:
    if rule.kind == "balanced":
        hint = "the dataset has fewer groups than splits: remove some splits"
    elif rule.kind == "group":
        hint = f"the dataset has few groups: {_suggest_seed(rule, group_hashes)}"
    elif rule.kind == "key":
        hint = "the dataset has few samples: try another `--seed`"
    else:
        hint = "remove the empty splits"
    return SplitProblem(EMPTY, f"{join_with_and(names)} would be empty", f"{hint}, or pass `--allow-empty`", len(names))


def _no_value_problem(rule: SplitRule, samples: int) -> SplitProblem:
    hint = f"check that {rule.by_value} is the right name; `wdsctl inspect DATASET --samples 1` shows a sample"
    return SplitProblem(NO_VALUE, f"no sample has {rule.by_value} that names a split", hint, samples)


def _suggest_seed(rule: SplitRule, group_hashes: set[int]) -> str:
    """A seed with which no split is empty, if one is found soon."""
    if rule.fold is None and len(rule.shares) <= len(group_hashes) < MAX_SEED_SEARCH_GROUPS:
        hashes = np.array(sorted(group_hashes), np.uint64)
        for seed in range(MAX_SEEDS_TRIED):
            if len(np.unique(labels_by_hash(hashes, rule.shares, seed))) == len(rule.shares):
                return f"with `--seed {seed}`, no split is empty"
    return "try another `--seed`"


def assign_samples(
    context: SplitContext,
    rule: SplitRule,
    rows: Sequence[ShardRow],
    only_samples: Mapping[int, SampleFlags] | None = None,
    history: AssignmentHistory | None = None,
) -> Assignment:
    """Assign the samples of these shards by a rule that does not count shards or samples.

    `only_samples`: by shard id, the samples to assign; all samples of shards that are not listed. `history`: what the
    splits have of strata and groups; the assignment has it with the new samples. Raises UsageError where the rule is
    wrong, StorageError where a shard cannot be read.
    """
    methods: dict[str, Callable[[AssignmentBuilder], LabelledShards]] = {
        "pattern": _assign_by_pattern,
        "keys": _assign_by_key_files,
        "key": _assign_by_key,
        "group": _assign_by_group,
        "stratum": assign_by_stratum,
        "balanced": assign_balanced,
        "value": _assign_by_value,
    }
    assignment = Assignment(shards_for_rule({}, rule), history=history or AssignmentHistory())
    builder = AssignmentBuilder(context, rule, rows, only_samples or {}, assignment)
    for row, labels in methods[rule.kind](builder):
        builder.add_shard(row, labels)
    if rule.by_value:  # workers finish shards in any order
        shards = assignment.split_shards
        assignment.split_shards = {name: shards[name] for name in sorted(shards, key=_split_order) if shards[name]}
    return builder.finish()


def _split_order(name: str) -> tuple[int, str]:
    """Splits for training come first, then those for validation, those for tests, and others."""
    ranks = (rank for rank, usual in enumerate(POSITIONAL_NAMES) if name.startswith(usual))
    return next(ranks, len(POSITIONAL_NAMES)), name


def _assign_by_pattern(builder: AssignmentBuilder) -> LabelledShards:
    rule, problems = builder.rule, builder.assignment.problems
    split_numbers = [number for number, name in enumerate(rule.patterns) for _ in rule.patterns[name]]
    patterns = [pattern for name in rule.patterns for pattern in rule.patterns[name]]
    table = ShardPatterns(patterns)
    matches = {row.path: table.find(row.path) for row in builder.context.rows}
    used = {i for found in matches.values() for i in found}
    unused = [pattern for i, pattern in enumerate(patterns) if i not in used]
    if unused and not rule.allow_empty:
        count = len(unused)
        example = f", such as {next(iter(matches))}" if matches else ""
        message = (
            f"{pluralize(count, 'pattern')} {verb_for(count, 'match', 'matches')} no shard: {join_names(unused, count)}"
        )
        hint = (
            f"write patterns that match whole paths of shards below the root{example}; or pass `--allow-empty` to "
            "ignore unused patterns"
        )
        problems.append(SplitProblem(NO_MATCH, message, hint, count))
    overlaps: list[str] = []
    for row in builder.rows:
        splits = list({split_numbers[i] for i in matches[row.path]})
        if len(splits) > 1:
            overlaps.append(row.path)  # not also a gap: the overlap is the problem
        else:
            yield row, np.full(row.samples, splits[0] if splits else NO_SPLIT_LABEL, np.int16)
    if overlaps:
        count = len(overlaps)
        message = (
            f"{pluralize(count, 'shard')} {verb_for(count, 'match', 'matches')} patterns of several splits: "
            f"{join_names(overlaps, count)}"
        )
        hint = "change the patterns so that every shard matches only one split"
        problems.insert(0, SplitProblem(OVERLAP, message, hint, count, overlaps[0]))


def _assign_by_key_files(builder: AssignmentBuilder) -> LabelledShards:
    context, rule, problems = builder.context, builder.rule, builder.assignment.problems
    lists = {name: read_key_list(context.location.meta, file) for name, file in rule.keys.items()}
    seen = {name: np.zeros(len(keys.key_start), np.bool_) for name, keys in lists.items()}
    overlap_count, overlaps = 0, []
    for rows, offsets_rows in context.row_batches(builder.rows):
        labels = np.full(len(offsets_rows), NO_SPLIT_LABEL, np.int16)
        in_several = np.zeros(len(offsets_rows), np.bool_)
        for name, keys in lists.items():
            found = keys.find(context.offsets, offsets_rows)
            matches = found >= 0
            seen[name][found[matches]] = True
            in_several |= matches & (labels != NO_SPLIT_LABEL)
            labels[matches] = rule.names.index(name)
        overlap_count += int(in_several.sum())
        bounds = np.cumsum([row.samples for row in rows])[:-1]
        for row, row_labels, flags in zip(rows, np.split(labels, bounds), np.split(in_several, bounds), strict=True):
            if flags.any():
                overlaps.append(context.sample_name(row, int(np.argmax(flags))))
            yield row, row_labels
    if overlap_count:
        message = (
            f"{pluralize(overlap_count, 'sample')} {verb_for(overlap_count)} in the lists of several splits: "
            f"{join_names(overlaps, overlap_count)}"
        )
        problems.insert(0, SplitProblem(OVERLAP, message, "list each key for only one split", overlap_count))
    if rule.allow_empty or len(builder.rows) != len(context.rows):
        return
    for name, keys in lists.items():
        count, first = keys.find_missing(seen[name])
        if count:
            message = (
                f"{pluralize(count, 'key')} in the list for split {name} {verb_for(count)} not in the dataset: "
                f"{join_names(first, count)}"
            )
            problems.append(
                SplitProblem(
                    NO_MATCH, message, "correct the list, or pass `--allow-empty` to ignore missing keys", count
                )
            )


def _assign_by_key(builder: AssignmentBuilder) -> LabelledShards:
    for rows, offsets_rows in builder.context.row_batches(builder.rows):
        labels = _labels_by_rule(hash_keys(builder.context.offsets, offsets_rows), builder.rule)
        bounds = np.cumsum([row.samples for row in rows])[:-1]
        yield from zip(rows, np.split(labels, bounds), strict=True)


def _assign_by_group(builder: AssignmentBuilder) -> LabelledShards:
    groups = builder.assignment.group_hashes
    for row, values in values_by_shard(builder.context, builder.rule.group_by, builder.rows):
        has_group = values.hashes != 0
        if len(groups) < MAX_SEED_SEARCH_GROUPS:
            groups.update(np.unique(values.hashes[has_group]).tolist())
        yield row, np.where(has_group, _labels_by_rule(values.hashes, builder.rule), np.int16(NO_SPLIT_LABEL))


def _assign_by_value(builder: AssignmentBuilder) -> LabelledShards:
    rule, assignment = builder.rule, builder.assignment
    if rule.rest and rule.rest != NO_SPLIT:
        assignment.split_shards[rule.rest] = {}
    labels = {0: NO_SPLIT_LABEL}
    for row, values in values_by_shard(builder.context, rule.by_value, builder.rows, as_splits=True):
        for value, name in values.texts.items():
            assignment.split_shards.setdefault(name, {})
            labels[value] = list(assignment.split_shards).index(name)
        check_split_count(rule, len(assignment.split_shards))
        assignment.group_hashes.update(values.texts)
        found, which = np.unique(values.hashes, return_inverse=True)
        yield row, np.array([labels[value] for value in found.tolist()], np.int16)[which]


def check_split_count(rule: SplitRule, count: int) -> None:
    """Raise UsageError if values name more splits than a set can have."""
    if count > MAX_SPLITS:
        raise UsageError(
            f"{rule.by_value} has more than {MAX_SPLITS} values, too many for names of splits",
            hint="pass another value; to keep samples with the same value together, pass ratios and `--group-by`",
        )


def _labels_by_rule(hashes: Uint64Array, rule: SplitRule) -> SplitLabels:
    if rule.fold is None:
        return labels_by_hash(hashes, rule.shares, rule.seed)
    return labels_by_fold(hashes, rule.fold, rule.seed)


def labels_by_hash(hashes: Uint64Array, shares: Mapping[str, float], seed: int) -> SplitLabels:
    """(samples,): for each hash the index of its split in `shares`. The result does not depend on other hashes."""
    exact = [Fraction(repr(share)) for share in shares.values()]
    total, upper, bounds = sum(exact), Fraction(0), []
    for share in exact[:-1]:
        upper += share
        bounds.append(min(int(upper * _HASH_SPACE / total), _HASH_SPACE - 1))
    shuffled = hash_values(derive_seed("split by", seed), hashes)
    labels: SplitLabels = np.searchsorted(np.array(bounds, np.uint64), shuffled, side="right").astype(np.int16)
    return labels


def labels_by_fold(hashes: Uint64Array, fold: tuple[int, int], seed: int) -> SplitLabels:
    """(samples,): 1 (`val`) for the i-th of k folds, 0 (`train`) for the others."""
    number, count = fold
    labels: SplitLabels = (labels_by_hash(hashes, {str(i): 1.0 for i in range(count)}, seed) == number).astype(np.int16)
    return labels
