"""Updates splits after `index` or a change of the quarantine, by the rules that they were made with.

Excluded samples leave their splits, samples without a split get one, all others stay. While `index` writes the catalog,
allocate.py has assigned the new samples of sets that count shards or samples. This module assigns those of other sets,
which may have to be read, and applies excludes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wdsctl.core.catalog.splits import (
    HistoryBySet,
    SampleFlags,
    SplitShard,
    SplitShards,
    sample_flags,
    shard_from_flags,
    subtract_samples,
)
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.errors import Finding, StorageError, WdsctlError
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.progress import Progress
from wdsctl.core.split.allocate import allocate_free_samples, empty_split_finding
from wdsctl.core.split.assign import assign_all, assign_samples, check_split_count
from wdsctl.core.split.assignment import (
    Assignment,
    add_samples,
    remove_excluded,
    restore_former,
    set_shard,
    shards_for_rule,
)
from wdsctl.core.split.context import (
    SplitContext,
    SplitState,
    open_split_context,
    read_assignment,
    read_split_state,
)
from wdsctl.core.split.excludes import (
    ExcludedSamples,
    find_excluded,
    read_ledger_exclusions,
    split_inputs_digest,
)
from wdsctl.core.split.store import has_only_shares, write_changed_shards, write_set
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import qualified_split_name
from wdsctl.core.split_rules.rule import SplitRule, SplitRules
from wdsctl.core.text import pluralize

_NO_EXCLUDES = Excludes()


def update_split_set(
    context: SplitContext, rule: SplitRule, before: Assignment, excluded: Mapping[int, SplitShard]
) -> Assignment:
    """Update one set. A sample that is no longer excluded returns to its former split."""
    assignment = Assignment(
        shards_for_rule(before.split_shards, rule), shards_for_rule(before.former_shards, rule), before.history
    )
    remove_excluded(assignment, excluded, context.sample_counts)
    restore_former(assignment, excluded, context.sample_counts)
    unassigned: dict[int, SampleFlags] = {}
    for row in context.rows:
        parts = [shards[row.id] for shards in (*assignment.split_shards.values(), excluded) if row.id in shards]
        if sum(part.samples for part in parts) >= row.samples:
            continue
        free = np.ones(row.samples, np.bool_)
        for part in parts:
            free &= ~sample_flags(part, row.samples)
        if free.any():
            unassigned[row.id] = free
    if not unassigned:
        return assignment
    rows = [row for row in context.rows if row.id in unassigned]
    if rule.is_counted:
        added = _allocate_unassigned(rule, assignment.split_shards, rows, unassigned)
    else:
        assigned = assign_samples(context, rule, rows, unassigned, assignment.history)
        assignment.problems += assigned.problems
        assignment.warnings += assigned.warnings
        assignment.history = assigned.history
        added = assigned.split_shards
    for name, shards in added.items():
        for shard, part in shards.items():
            assignment.changed_shards.add(shard)
            split_shards = assignment.split_shards.setdefault(name, {})
            add_samples(split_shards, shard, sample_flags(part, context.sample_counts[shard]))
    if rule.by_value:
        check_split_count(rule, len(assignment.split_shards))
    return assignment


def _allocate_unassigned(
    rule: SplitRule, split_shards: SplitShards, rows: list[ShardRow], unassigned: Mapping[int, SampleFlags]
) -> SplitShards:
    """Allocate samples by number. If whole shards are allocated, a shard that is in a split already stays there."""
    if rule.by != "shard":
        totals = {name: sum(part.samples for part in shards.values()) for name, shards in split_shards.items()}
        return allocate_free_samples(rows, unassigned, "sample", rule, totals)
    current = {row.id: name for row in rows for name, shards in split_shards.items() if row.id in shards}
    new = [row for row in rows if row.id not in current]
    added: SplitShards = {name: {} for name in split_shards}
    if new:
        totals = {name: len(shards) for name, shards in split_shards.items()}
        added |= allocate_free_samples(new, unassigned, "shard", rule, totals)
    for shard, name in current.items():
        set_shard(added[name], shard, shard_from_flags(shard, unassigned[shard]))
    return added


def emptied_splits(rule: SplitRule, before: Assignment, after: Assignment) -> list[str]:
    """The splits that lose all their samples, unless the rule allows empty splits."""
    names = [name for name, shards in before.split_shards.items() if shards and not after.split_shards.get(name)]
    return [] if rule.allow_empty else names


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapplyResult:
    """`is_changed`: whether a catalog was published. `excluded`: samples in no split, by rule or quarantine."""

    is_changed: bool
    excluded: int
    findings: tuple[Finding, ...] = ()


def reapply_splits(
    dataset: OpenDataset,
    workers: int,
    progress: Progress,
    rule: SplitRule | None = None,
    excludes: Excludes = _NO_EXCLUDES,
) -> ReapplyResult:
    """Update all sets: assign samples without a split by the rule of their set, and take excluded samples out.

    `rule`, `excludes`: a rule for a default set that did not exist, and first excludes, which dataset.yaml has just
    gained. The caller holds the lock. If a value or a key file is missing, returns a finding, and leaves the samples
    without a split. Cost if nothing has changed: a few rows of the catalog.
    """
    location = dataset.location
    state = read_split_state(dataset).with_authored(rule, excludes)
    ledger_exclusions = read_ledger_exclusions(dataset, state.excludes.codes)
    rules = {**state.rules, **state.new_rules}
    if not (state.has_stored_rules or state.new_rules or state.excludes or ledger_exclusions.quarantine):
        return ReapplyResult(is_changed=False, excluded=0)
    context = open_split_context(dataset, workers, progress, keeps_results=True)
    digest = split_inputs_digest(location, context.generation, rules, state.excludes, ledger_exclusions)
    if state.has_stored_rules and state.inputs_digest == digest:
        return ReapplyResult(is_changed=False, excluded=sum(part.samples for part in state.excluded.values()))
    progress.phase("split")
    findings: list[Finding] = []
    try:
        excluded = find_excluded(context, state.excludes, ledger_exclusions, state.excluded)
        _note_changes(context, state, excluded)
    except WdsctlError as error:
        findings.append(_failure_finding("", error))
        excluded = ExcludedSamples({i: part for i, part in state.excluded.items() if i in context.sample_counts})
        digest = ""  # so that the next run tries again
    if not (
        state.has_stored_rules or state.new_rules or state.excludes or state.excluded or excluded.by_shard or findings
    ):
        return ReapplyResult(is_changed=False, excluded=0)  # the quarantine only has former content of shards
    assignments: dict[str, Assignment] = {}
    for split_set, each in rules.items():
        try:
            if split_set in state.new_rules:
                assignments[split_set] = assign_all(context, each, excluded.by_shard)
            else:
                before = read_assignment(dataset, split_set, state)
                assignments[split_set] = update_split_set(context, each, before, excluded.by_shard)
                findings += [
                    empty_split_finding(location, qualified_split_name(split_set, name))
                    for name in emptied_splits(each, before, assignments[split_set])
                ]
            done = assignments[split_set]
            findings += [problem.finding(split_set) for problem in (*done.problems, *done.warnings)]
        except WdsctlError as error:
            findings.append(_failure_finding(split_set, error))
            if isinstance(error, StorageError):
                digest = ""  # the next run may reach the storage
    _publish(dataset, state, rules, assignments, excluded, digest)
    context.remove_results()
    return ReapplyResult(is_changed=True, excluded=excluded.samples, findings=tuple(findings))


def _note_changes(context: SplitContext, state: SplitState, excluded: ExcludedSamples) -> None:
    """Report the excludes, and how many samples are no longer excluded."""
    for note in excluded.notes:
        context.progress.note(note)
    included = 0
    for shard, part in state.excluded.items():
        if shard in context.sample_counts:
            now = excluded.by_shard.get(shard)
            rest = part if now is None else subtract_samples(part, now, context.sample_counts[shard])
            included += 0 if rest is None else rest.samples
    if included:
        context.progress.note(f"no longer excluded: {pluralize(included, 'sample')}")


def _publish(
    dataset: OpenDataset,
    state: SplitState,
    rules: SplitRules,
    assignments: Mapping[str, Assignment],
    excluded: ExcludedSamples,
    inputs_digest: str,
) -> None:
    with change_catalog(dataset) as draft:
        histories: HistoryBySet = dict(state.histories)
        for split_set, assignment in assignments.items():
            if split_set in state.new_rules:
                write_set(draft, split_set, rules[split_set], assignment, histories)
            else:
                write_changed_shards(draft, split_set, rules[split_set], assignment, histories)
        draft.splits.store_excluded(excluded.by_shard.values())
        kept = {name: rule for name, rule in rules.items() if name in assignments or name in state.rules}
        if state.has_stored_rules or state.excludes or excluded.by_shard or not has_only_shares(kept):
            draft.splits.store_rules(kept, state.excludes)
            draft.splits.store_assignment_history(histories)
            draft.splits.store_source_digest(inputs_digest)


def _failure_finding(split_set: str, error: WdsctlError) -> Finding:
    what = f"the splits {split_set}/..." if split_set else "splits and excludes"
    where = f" ({error.where})" if error.where else ""
    return Finding(code=error.code, severity="error", message=f"cannot update {what}: {error.message}{where}")
