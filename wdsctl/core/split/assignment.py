"""The splits of one set: the samples of each split, the samples that return to it, and problems.

An excluded sample leaves its split and later returns to the same split, so no sample moves from train to test because
it was excluded for a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from wdsctl.core.catalog.splits import (
    NO_SPLIT_LABEL,
    AssignmentHistory,
    SampleFlags,
    SplitLabels,
    SplitShard,
    SplitShards,
    sample_flags,
    shard_from_flags,
    shards_from_labels,
)
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.errors import Finding, UsageError
from wdsctl.core.split_rules.names import NO_SPLIT
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.text import pluralize

if TYPE_CHECKING:
    from wdsctl.core.split.context import SplitContext

#: Samples in two splits, samples without a split, names that match nothing, empty splits, missing values.
OVERLAP, GAP, NO_MATCH, EMPTY, NO_VALUE = "WDS212", "WDS213", "WDS214", "WDS210", "WDS215"

MAX_GAP_SHARDS = 100_000  # shards with unassigned samples that are collected to name the first few
MAX_NAMES_IN_MESSAGE = 3

#: Shards with the split of each sample, as the index of the split's name in the rule.
LabelledShards = Iterator[tuple[ShardRow, SplitLabels]]


@dataclass(frozen=True, slots=True)
class SplitProblem:
    """A problem of an assignment: an error in `split`, a finding in `index`.

    `count`: of shards or samples. `shard`: the first of them, where one can be named.
    """

    code: str
    message: str
    hint: str
    count: int = 1
    shard: str = ""

    def finding(self, split_set: str) -> Finding:
        """The warning of a command that continues."""
        message = f"the splits {split_set}/...: {self.message}" if split_set else f"splits: {self.message}"
        return Finding(code=self.code, severity="warning", message=message, shard=self.shard, count=self.count)


def raise_first_problem(problems: Sequence[SplitProblem], where: str) -> None:
    """Raise UsageError with the first two problems, if there are any."""
    if problems:
        first, *others = problems
        more = f"; and {others[0].message}" if others else ""
        raise UsageError(f"{first.message}{more}", where=where, hint=first.hint, code=first.code)


def join_names(names: Sequence[str], count: int) -> str:
    """`a, b, c and 7 more`: the first three of `count` names."""
    shown = list(names[:MAX_NAMES_IN_MESSAGE])
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def verb_for(count: int, plural: str = "are", singular: str = "is") -> str:
    return singular if count == 1 else plural


@dataclass(slots=True)
class Assignment:
    """The splits of one set, by their short names.

    `former_shards`: by split, the samples that return to it when they are no longer excluded, or when their shard is
    back. `changed_shards`: ids of the shards of which some split gained or lost samples. `by`: what was counted, if the
    rule counts shards or samples. `problems` are errors of `split`, `warnings` are not. `group_hashes`: hashes of the
    groups, from which a seed can be suggested.
    """

    split_shards: SplitShards
    former_shards: SplitShards = field(default_factory=dict)
    history: AssignmentHistory = field(default_factory=AssignmentHistory)
    by: Literal["", "shard", "sample"] = ""
    changed_shards: set[int] = field(default_factory=set)
    problems: list[SplitProblem] = field(default_factory=list)
    warnings: list[SplitProblem] = field(default_factory=list)
    group_hashes: set[int] = field(default_factory=set)


def shards_for_rule(split_shards: SplitShards, rule: SplitRule) -> SplitShards:
    """A copy with exactly the splits of the rule, in its order; with all splits if only values name them."""
    return {name: dict(split_shards.get(name, {})) for name in (split_shards if rule.by_value else rule.names)}


def merge_histories(history: AssignmentHistory, added: AssignmentHistory) -> AssignmentHistory:
    """Add up the samples of strata. The groups in `added` are all groups, if it has any."""
    strata = {stratum: dict(counts) for stratum, counts in history.strata.items()}
    for stratum, counts in added.strata.items():
        total = strata.setdefault(stratum, {})
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return AssignmentHistory(strata, added.groups or history.groups)


def set_shard(shards: dict[int, SplitShard], shard: int, split_shard: SplitShard | None) -> None:
    """Set the samples of a shard in a split. Removes the shard for None or no samples."""
    if split_shard is None or not split_shard.samples:
        shards.pop(shard, None)
    else:
        shards[shard] = split_shard


def add_samples(shards: dict[int, SplitShard], shard: int, flags: SampleFlags) -> None:
    """Add samples of a shard to those that a split has."""
    set_shard(shards, shard, shard_from_flags(shard, sample_flags(shards.get(shard), len(flags)) | flags))


def remove_excluded(
    assignment: Assignment, excluded: Mapping[int, SplitShard], sample_counts: Mapping[int, int]
) -> None:
    """Take excluded samples out of their splits, and remember the splits that they return to."""
    for name, shards in assignment.split_shards.items():
        for shard in [shard for shard in excluded if shard in shards]:
            flags = sample_flags(shards[shard], sample_counts[shard])
            removed = flags & sample_flags(excluded[shard], sample_counts[shard])
            if removed.any():
                assignment.changed_shards.add(shard)
                set_shard(shards, shard, shard_from_flags(shard, flags & ~removed))
                add_samples(assignment.former_shards.setdefault(name, {}), shard, removed)


def restore_former(
    assignment: Assignment, excluded: Mapping[int, SplitShard], sample_counts: Mapping[int, int]
) -> None:
    """Return samples that are no longer excluded to their former splits."""
    for name, shards in assignment.former_shards.items():
        for shard in [shard for shard in shards if shard in sample_counts]:
            flags = sample_flags(shards[shard], sample_counts[shard])
            remaining = flags & sample_flags(excluded.get(shard), sample_counts[shard])
            if (flags & ~remaining).any():
                assignment.changed_shards.add(shard)
                add_samples(assignment.split_shards[name], shard, flags & ~remaining)
                set_shard(shards, shard, shard_from_flags(shard, remaining))


@dataclass(slots=True)
class AssignmentBuilder:
    """Collects labelled shards into an assignment, and the samples that have no split.

    The number of a label is that of a split of the assignment, whose splits are those of the rule when it begins.
    `only_samples`: by shard id, the samples to assign; all samples of shards that are not listed. The history of
    `assignment` is what its splits had before.
    """

    context: SplitContext
    rule: SplitRule
    rows: Sequence[ShardRow]
    only_samples: Mapping[int, SampleFlags]
    assignment: Assignment
    gap_samples: int = 0
    gap_examples: list[tuple[ShardRow, int]] = field(default_factory=list)  # shard, position of a sample

    def add_shard(self, row: ShardRow, labels: SplitLabels) -> None:
        """Assign the samples of a shard. Samples without a label go to the rule's `rest`, if it names a split."""
        names = list(self.assignment.split_shards)
        selected = self.only_samples.get(row.id)
        if self.rule.rest and self.rule.rest != NO_SPLIT:
            labels = np.where(labels == NO_SPLIT_LABEL, np.int16(names.index(self.rule.rest)), labels)
        if selected is not None:
            gap = (labels == NO_SPLIT_LABEL) & selected
            labels = np.where(selected, labels, np.int16(NO_SPLIT_LABEL))
        else:
            gap = labels == NO_SPLIT_LABEL
        if gap.any():
            self.gap_samples += int(gap.sum())
            if len(self.gap_examples) < MAX_GAP_SHARDS:
                self.gap_examples.append((row, int(np.argmax(gap))))
        for name, part in shards_from_labels(row.id, labels, names).items():
            self.assignment.split_shards[name][row.id] = part

    def finish(self) -> Assignment:
        """The assignment, with a problem if samples have no split and the rule does not allow it."""
        if self.gap_samples and self.rule.rest != NO_SPLIT:
            found = self.assignment.warnings if self.rule.by_value else self.assignment.problems
            found.append(self._gap_problem())
        return self.assignment

    def _gap_problem(self) -> SplitProblem:
        first = sorted(self.gap_examples, key=lambda pair: pair[0].path)[:MAX_NAMES_IN_MESSAGE]  # for any worker count
        hint = "pass `--rest train` to assign these samples to train, or `--rest none` to leave them without a split"
        if self.rule.kind == "pattern":
            code, names = GAP, [row.path for row, _ in first]
            what = f"{verb_for(self.gap_samples, 'match', 'matches')} no pattern"
        else:
            names = [self.context.sample_name(row, position) for row, position in first]
            if self.rule.kind == "keys":
                code, what = GAP, f"{verb_for(self.gap_samples)} not in any list"
            else:
                value = f"{self.rule.value_name}{' that names a split' if self.rule.by_value else ''}"
                code, what = NO_VALUE, f"{verb_for(self.gap_samples, 'have', 'has')} no {value}"
                hint = f"check that {self.rule.value_name} is the right name; {hint}"
        message = f"{pluralize(self.gap_samples, 'sample')} {what}: {join_names(names, len(names))}"
        return SplitProblem(code, message, hint, self.gap_samples)
