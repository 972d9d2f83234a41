"""The work of `wdsctl split`: makes, replaces and drops sets of splits, and changes what is excluded.

Counts are exact, no sample is lost, no split is empty unless allowed, and no sample leaves its split unless allowed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wdsctl.core.catalog.presence import check_catalog_exists, wait_for_catalog
from wdsctl.core.catalog.splits import HistoryBySet
from wdsctl.core.dataset.config import DatasetConfig, read_config_text, update_split_section
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.dataset.polylithic import follow_to_primary
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.files import write_text
from wdsctl.core.invocation import describe_request
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.staging import change_catalog
from wdsctl.core.opened.writing import writing
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.split.assign import assign_all
from wdsctl.core.split.assignment import EMPTY, Assignment, SplitProblem, raise_first_problem
from wdsctl.core.split.context import (
    SplitContext,
    SplitState,
    missing_set_error,
    open_split_context,
    read_assignment,
    read_split_state,
)
from wdsctl.core.split.excludes import (
    ExcludedSamples,
    LedgerExclusions,
    find_excluded,
    find_excluded_by_user,
    read_ledger_exclusions,
    split_inputs_digest,
)
from wdsctl.core.split.reapply import emptied_splits, update_split_set
from wdsctl.core.split.report import (
    Move,
    SamplesWouldMoveError,
    SplitReport,
    StratumSummary,
    count_split_shards,
    find_moves,
    find_reassigned,
    summarize_strata,
)
from wdsctl.core.split.request import SplitCommand, SplitRequest, parse_split_request
from wdsctl.core.split.store import (
    copy_key_files,
    excludes_with_stored_key_files,
    has_only_shares,
    remove_unused_key_files,
    updated_dataset_yaml,
    with_stored_key_files,
    write_changed_shards,
    write_set,
)
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import check_set_name, qualified_split_name
from wdsctl.core.split_rules.rule import SplitBy, SplitRule, SplitRules, check_seed
from wdsctl.core.text import join_with_and, pluralize
from wdsctl.core.urls import redact_secrets

__all__ = [
    "SamplesWouldMoveError",
    "SplitReport",
    "SplitRequest",
    "ensure_split",
    "split_dataset",
    "split_dataset_locked",
]

DEFAULT_SHARES = {"train": 1.0}


def run_split(command: SplitCommand, *, progress: Progress = SILENT_PROGRESS) -> SplitReport:
    """Assign samples to splits such as train, val and test: `wdsctl split`. Does not modify shards.

    Pass one of `ratios`, `pattern`, `keys`, `by_value`, `from_file`, `folds`, `drop` and `again`, or only excludes.
    `wdsctl.inspect(root).splits` shows the splits.
    """
    request = parse_split_request(command.options)
    if request.is_query:
        raise UsageError(
            "missing ratios or another rule to split by",
            hint='pass ratios="8,1,1"; wdsctl.inspect(root).splits shows the splits',
        )
    if request.drop and not (request.split_set or command.dry_run or command.yes):
        raise UsageError(
            "drop without split_set deletes the default split set and its rule",
            hint="pass dry_run=True to see the effect, or yes=True to delete them",
        )
    return split_dataset(
        follow_to_primary(command.root, command.catalog),
        replace(request, allow_split_changes=request.allow_split_changes or command.yes),
        catalog=command.catalog,
        wait=command.wait,
        dry_run=command.dry_run,
        progress=progress,
    )


def split_dataset(
    root: str,
    request: SplitRequest,
    *,
    catalog: str | None = None,
    wait: float = 0.0,
    dry_run: bool = False,
    progress: Progress = SILENT_PROGRESS,
) -> SplitReport:
    """Make, replace or drop a set of splits, or change what is excluded; see `SplitRequest`.

    Overlaps, gaps, empty splits and names that match nothing raise UsageError WDS210 to WDS215 with counts. Samples
    that would leave a split for another raise WDS238 unless the request allows it.
    Cost: little for shares, patterns and keys (0.5 s a million keys); groups and strata read the parts that hold their
    values. Memory: a few bits a sample.
    """
    with open_dataset(root, catalog, writing=True) as dataset:
        check_set_name(request.split_set)
        wait_for_catalog(dataset.location, wait, progress.note)
        check_catalog_exists(dataset.location)
        dataset.catalog.check_not_media_folder()  # before the lock writes a file beside a catalog that is too new
        if dry_run:
            return split_dataset_locked(dataset, request, progress, dry_run=True)
        arguments = [redact_secrets(root), *describe_request(request)]
        with writing(dataset, "split", arguments, progress, wait=wait):
            return split_dataset_locked(dataset, request, progress)


def split_dataset_locked(
    dataset: OpenDataset, request: SplitRequest, progress: Progress, *, dry_run: bool = False
) -> SplitReport:
    """`split_dataset` for a caller that holds the lock."""
    if request.rule is not None:
        check_seed(request.rule.seed)
    progress.phase("split")
    location = dataset.location
    context = open_split_context(dataset, request.workers, progress, keeps_results=not dry_run)
    if not context.rows:
        raise DatasetError(
            "the dataset has no samples to split",
            where=location.display_path,
            hint=f"{shell_command_at(location, 'validate')} tells why",
            code="WDS119",
        )
    state = read_split_state(dataset)
    authored = dataset.config
    requested, dropped = target_sets(request, state, authored)
    kept = {name: state.rules[name] for name, rule in requested.items() if _keeps_rule(request, rule, state)}
    target = {name: rule for name, rule in requested.items() if name not in kept}
    excludes = target_excludes(request, state, authored)
    ledger_exclusions = read_ledger_exclusions(dataset, excludes.codes)
    current = {} if request.replace_excludes else state.excluded
    excluded = find_excluded(context, excludes, ledger_exclusions, current)
    new_excludes = excludes if request.again else request.excludes
    if new_excludes:
        problems = find_excluded_by_user(context, new_excludes).problems
        if not request.allow_empty:
            raise_first_problem(problems, location.display_path)
    for note in excluded.notes:
        progress.note(note)
    if request.has_excludes and not request.again and excludes == state.excludes:
        progress.note(
            "nothing to do: the dataset already excludes all of these"
            if request.excludes
            else "nothing to do: no rule excludes samples"
        )
    plan = _SplitPlan(context, state, target, kept, dropped, excluded)
    plan.assign_sets()
    emptied = plan.update_other_sets()
    if request.excludes and not request.allow_empty:
        raise_first_problem(emptied, location.display_path)
    report = plan.report(dry_run=dry_run)
    if not dry_run:
        if report.reassigned and not request.allow_split_changes:
            raise SamplesWouldMoveError(report)
        plan.publish(excludes, ledger_exclusions)
        report = replace(report, consents=("allow_split_changes",) if report.reassigned else ())
    return report


def target_sets(
    request: SplitRequest, state: SplitState, authored: DatasetConfig
) -> tuple[SplitRules, tuple[str, ...]]:
    """The rules of the sets to make, and the names of the sets to drop."""
    if request.drop:
        dropped = tuple(
            name for name in state.rules if name == request.split_set or _is_fold(name, request.split_set, state)
        )
        if not dropped:
            raise missing_set_error(request.split_set, state)
        return {}, dropped
    if request.again:
        rules = ({"": authored.split} if authored.split is not None else {}) | authored.split_sets
        if not rules and not authored.exclude:
            raise UsageError(
                "dataset.yaml has no rule to split by", hint="pass ratios, for example `wdsctl split DATASET 8,1,1`"
            )
        return rules, tuple(name for name in state.rules if name and name not in rules)
    if request.rule is None:
        return {}, ()
    if not request.folds:
        return {request.split_set: request.rule}, ()
    base = request.split_set or "fold"
    shares = {"train": request.folds - 1.0, "val": 1.0}
    sets = {f"{base}-{i}": replace(request.rule, shares=shares, fold=(i, request.folds)) for i in range(request.folds)}
    return sets, tuple(name for name in state.rules if _is_fold(name, base, state) and name not in sets)


def _is_fold(name: str, base: str, state: SplitState) -> bool:
    """Whether a set is one of the folds that `--folds --set BASE` made."""
    return bool(re.fullmatch(rf"{re.escape(base or 'fold')}-\d+", name)) and state.rules[name].fold is not None


def target_excludes(request: SplitRequest, state: SplitState, authored: DatasetConfig) -> Excludes:
    """The excludes after this command."""
    if request.again:
        return authored.exclude
    return request.excludes if request.replace_excludes else state.excludes.merged_with(request.excludes)


def _keeps_rule(request: SplitRequest, rule: SplitRule, state: SplitState) -> bool:
    """Whether a change of excludes has the same rule as the set, so that the set is updated and not made again."""
    current = state.rules.get(request.split_set)
    if not request.has_excludes or request.again or request.folds or current is None:
        return False
    return replace(rule, allow_empty=current.allow_empty).is_satisfied_by(current)


@dataclass(slots=True)
class _SplitPlan:
    """The sets after this command. `target_rules`: of sets to make; `kept_rules`: of requested sets that stay.

    `assignments`: of sets that are made. `updates`: of other sets that change.
    """

    context: SplitContext
    state: SplitState
    target_rules: SplitRules
    kept_rules: SplitRules
    dropped_sets: tuple[str, ...]
    excluded: ExcludedSamples
    assignments: dict[str, Assignment] = field(default_factory=dict)
    updates: dict[str, Assignment] = field(default_factory=dict)
    moved: list[Move] = field(default_factory=list)
    reassigned: list[Move] = field(default_factory=list)

    @property
    def rules(self) -> SplitRules:
        """The rules of all sets, with what `auto` counted."""
        rules = {**self.state.rules, **self.state.new_rules, **self.target_rules}
        return {
            name: replace(rule, by=self.assignments[name].by or rule.by) if name in self.assignments else rule
            for name, rule in rules.items()
            if name not in self.dropped_sets
        }

    def assign_sets(self) -> None:
        """Make the requested sets, and those of dataset.yaml that the catalog does not have. Raises UsageError."""
        location = self.context.location
        for split_set, rule in self.target_rules.items():
            before = read_assignment(self.context.dataset, split_set, self.state)
            self.assignments[split_set] = assign_all(self.context, rule, self.excluded.by_shard, before)
        for split_set, assignment in self.assignments.items():
            where = f"{location.display_path}, set {split_set}" if split_set else location.display_path
            raise_first_problem(assignment.problems, where)

    def update_other_sets(self) -> list[SplitProblem]:
        """Find what changes in all sets. Returns a problem for each set that has splits without samples now."""
        location, context = self.context.location, self.context
        emptied: list[SplitProblem] = []
        for split_set in self.dropped_sets:
            before = read_assignment(context.dataset, split_set, self.state)
            self.moved += find_moves(split_set, before.split_shards, {}, context)
        for split_set, rule in self.rules.items():
            before = read_assignment(context.dataset, split_set, self.state)
            if split_set in self.state.new_rules and split_set not in self.assignments:
                self.assignments[split_set] = assign_all(context, rule, self.excluded.by_shard)
                raise_first_problem(self.assignments[split_set].problems, f"{location.config_path}, set {split_set}")
            if split_set in self.assignments:
                after = self.assignments[split_set]
                self.moved += find_moves(split_set, before.split_shards, after.split_shards, context)
                self.reassigned += find_reassigned(split_set, before, after, context)
                continue
            after = update_split_set(context, rule, before, self.excluded.by_shard)
            for problem in after.problems:
                context.progress.note(problem.finding(split_set).message)
            if names := [qualified_split_name(split_set, name) for name in emptied_splits(rule, before, after)]:
                its = "its" if len(names) == 1 else "their"
                message = f"{join_with_and(names)} would be empty: all {its} samples are excluded"
                hint = "exclude fewer samples, or pass `--allow-empty`"
                emptied.append(SplitProblem(EMPTY, message, hint, len(names)))
            if after.changed_shards:
                self.updates[split_set] = after
                self.moved += find_moves(split_set, before.split_shards, after.split_shards, context)
        return emptied

    def publish(self, excludes: Excludes, ledger_exclusions: LedgerExclusions) -> None:
        """Copy key files, publish the catalog, write dataset.yaml. Reads dataset.yaml first: it may be broken."""
        location = self.context.location
        rules = {name: with_stored_key_files(location, rule) for name, rule in self.rules.items()}
        stored_excludes = excludes_with_stored_key_files(location, excludes)
        include_default = "" in (*self.target_rules, *self.kept_rules, *self.dropped_sets)
        text = updated_dataset_yaml(self.context.dataset, rules, stored_excludes, include_default=include_default)
        copy_key_files(location, self.rules, excludes)
        with change_catalog(self.context.dataset) as draft:
            histories: HistoryBySet = {name: known for name, known in self.state.histories.items() if name in rules}
            for split_set, assignment in self.assignments.items():
                write_set(draft, split_set, rules[split_set], assignment, histories)
            for split_set, assignment in self.updates.items():
                write_changed_shards(draft, split_set, rules[split_set], assignment, histories)
            for split_set in self.dropped_sets:
                draft.splits.drop_set(split_set)
            draft.splits.store_excluded(self.excluded.by_shard.values())
            if self.state.has_stored_rules or stored_excludes or self.excluded.by_shard or not has_only_shares(rules):
                draft.splits.store_rules(rules, stored_excludes)
                draft.splits.store_assignment_history(histories)
                draft.splits.store_source_digest(
                    split_inputs_digest(location, self.context.generation, rules, stored_excludes, ledger_exclusions)
                )
        if text is not None:
            write_text(location.config_path, text)
        remove_unused_key_files(location, rules, stored_excludes)
        self.context.remove_results()

    def report(self, *, dry_run: bool) -> SplitReport:
        rules, names = self.rules, (*self.target_rules, *self.kept_rules)
        rule = rules[names[0]] if names else None
        strata: tuple[StratumSummary, ...] = ()
        description = ""
        if rule is not None:
            strata = self._summarize_strata(rule, self._assignment_of(names[0]))
            description = rule.description
            if rule.fold is not None:
                description = f"{replace(rule, fold=None).description}, {pluralize(len(names), 'fold')}"
        return SplitReport(
            root=self.context.location.display_path,
            by="" if rule is None else rule.kind,
            seed=0 if rule is None else rule.seed,
            splits=tuple(
                count
                for name in names
                for count in count_split_shards(name, rules[name], self._assignment_of(name).split_shards)
            ),
            dry_run=dry_run,
            rule=description,
            sets=(*self.target_rules, *self.dropped_sets),
            excluded=self.excluded.samples,
            moved=tuple(self.moved),
            reassigned=tuple(self.reassigned),
            strata=strata,
            drift=max((summary.drift for summary in strata), default=0.0),
            findings=tuple(
                warning.finding(name)
                for name, assignment in self.assignments.items()
                for warning in assignment.warnings
            ),
        )

    def _assignment_of(self, split_set: str) -> Assignment:
        """A set after this command."""
        changed = self.assignments.get(split_set) or self.updates.get(split_set)
        return changed or read_assignment(self.context.dataset, split_set, self.state)

    def _summarize_strata(self, rule: SplitRule, assignment: Assignment) -> tuple[StratumSummary, ...]:
        """How strata were divided; for folds, how many samples of each are in the `val` of each set."""
        if rule.fold is None:
            return summarize_strata(assignment.history.strata, rule.shares)
        strata = {
            text: {name: counts[fold] for name, fold in zip(self.target_rules, rule.shares_to_assign, strict=True)}
            for text, counts in assignment.history.strata.items()
        }
        return summarize_strata(strata, dict.fromkeys(self.target_rules, 1.0))


def ensure_split(
    dataset: OpenDataset,
    shares: Mapping[str, float] | None,
    by: SplitBy,
    seed: int,
    progress: Progress,
    *,
    allow_split_changes: bool = False,
    default: Callable[[], SplitRule | None] = lambda: None,
) -> tuple[SplitReport, bool]:
    """For `prepare`: make the requested split unless it exists. Returns the report, and whether anything was written.

    If none is requested (`shares` is None), an existing split stays. A dataset without one is split as dataset.yaml
    says, else by the rule that `default` returns, else everything is `train`. Raises UsageError WDS238 like
    `split_dataset`.
    """
    location, state = dataset.location, read_split_state(dataset)
    current = state.rules.get("")
    authored = dataset.config.split
    requested = SplitRule(dict(shares), by, seed) if shares is not None else None
    if current is None or (requested is not None and not requested.is_satisfied_by(current)):
        rule = requested or authored or default() or SplitRule(DEFAULT_SHARES, by, seed)
        return split_dataset_locked(
            dataset, SplitRequest(rule=rule, allow_split_changes=allow_split_changes), progress
        ), True
    is_written = False
    if authored is None or requested is not None:
        # A run that was killed between catalog and dataset.yaml leaves the file behind.
        if dataset.has_config() and (authored is None or not authored.is_satisfied_by(current)):
            text = read_config_text(location.config_path)
            write_text(location.config_path, update_split_section(text, current, location.config_path))
            is_written = True
    elif not authored.is_satisfied_by(current):
        progress.note(_difference_note(location, authored, current))
    report = SplitReport(
        root=location.display_path,
        by=current.kind,
        seed=current.seed,
        splits=count_split_shards("", current, dataset.catalog.split_reader.split_shards("")),
        dry_run=False,
        rule=current.description,
        sets=("",),
    )
    return report, is_written


def _difference_note(location: DatasetLocation, authored: SplitRule, current: SplitRule) -> str:
    command = ["wdsctl", "split", location.display_path, "--again"]
    if authored.is_counted or authored.kind == "key":
        command = ["wdsctl", "split", location.display_path, _format_ratios(authored)]
        command += ["--by", authored.by, "--seed", str(authored.seed)]
    rules = [f"{_format_ratios(rule)} {rule.description}".lstrip() for rule in (authored, current)]
    return (
        f"dataset.yaml has the rule {rules[0]}, but the catalog keeps {rules[1]}: run `{shlex.join(command)}` to "
        "apply dataset.yaml"
    )


def _format_ratios(rule: SplitRule) -> str:
    return ",".join(f"{name}={share!r}".removesuffix(".0") for name, share in rule.shares.items())
