"""`split`: which samples are for training, which for validation. Exact counts, nothing lost, nothing silently empty."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from wdsctl.core.called import said
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.identity import check
from wdsctl.core.catalog.split_rows import GivenBySet
from wdsctl.core.command_line import command_at
from wdsctl.core.dataset_yaml import DatasetConfig, load, read, update_split
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import write_text
from wdsctl.core.lock import check_held, locked
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By
from wdsctl.core.split_rules import Excludes, Rules, SplitRule, check_set
from wdsctl.core.splitting import Given
from wdsctl.core.urls import shown
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.presence import check_catalog, wait_for_catalog
from wdsctl.core.verbs.split_bring import Brought, assign_all, bring, emptied
from wdsctl.core.verbs.split_excluded import Excluded, Noted, excluded_by, excluded_by_user, mark_of, noted
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_lists import copy_lists, excludes_with_lists, forget_lists, with_lists
from wdsctl.core.verbs.split_problems import Problem, refuse
from wdsctl.core.verbs.split_put import is_plain, new_text, put_changes, put_set
from wdsctl.core.verbs.split_report import (
    Move,
    SplitReport,
    StratumLine,
    WouldMove,
    moves,
    reassigned,
    split_counts,
    strata_lines,
)
from wdsctl.core.verbs.split_request import SplitRequest, excludes_of, sets_of
from wdsctl.core.verbs.split_state import State, former_of_set, ground_of, parts_of_set, state_of

__all__ = ["SplitReport", "SplitRequest", "WouldMove", "make_splits", "settle_split", "split", "split_by"]

WHOLE = {"train": 1.0}  # the split of those who ask for none: everything is for training


def split(
    root: str,
    ratios: Mapping[str, float],
    *,
    by: By = "auto",
    seed: int = 0,
    catalog: str | None = None,
    dry_run: bool = False,
    may_move: bool = False,
    progress: Progress = SILENT,
) -> SplitReport:
    """Divide the dataset by `ratios`, whole shards, sample by sample or by key, in place of the splits it had.

    `auto` takes whole shards, which read fastest, unless a split would stay empty. Raises UsageError WDS210 where a
    split would be empty all the same, and WDS238 where a sample would leave one of several splits for another, unless
    it `may_move`. The rule goes into dataset.yaml, if there is one, and new shards follow it.
    """
    request = SplitRequest(rule=SplitRule(dict(ratios), by, seed), may_move=may_move)
    return split_by(root, request, catalog=catalog, dry_run=dry_run, progress=progress)


def split_by(
    root: str,
    request: SplitRequest,
    *,
    catalog: str | None = None,
    wait: float = 0.0,
    dry_run: bool = False,
    progress: Progress = SILENT,
) -> SplitReport:
    """Make, replace or drop a set of splits, or change what is excluded; see `SplitRequest`.

    Overlaps, gaps, empty splits and names that match nothing raise UsageError WDS210 to WDS215 with counts; samples
    that would leave a split for another raise WDS238 unless the request says that they may.
    Cost: none to speak of for shares, patterns and keys (0.5 s a million keys); groups and strata read the parts that
    hold their values. Memory: a few bits a sample.
    """
    place = locate(root, catalog, writing=True)
    check_set(request.of_set)
    wait_for_catalog(place, wait, progress.note)
    check_catalog(place)
    if dry_run:
        return make_splits(place, request, progress, dry_run=True)
    check(place.catalog)  # before anything is written beside it
    words = [shown(root), *said(request)]
    with locked(place.lock, wait=wait, note=progress.note), journal(place, "split", words, progress):
        return make_splits(place, request, progress)


def make_splits(place: Place, request: SplitRequest, progress: Progress, *, dry_run: bool = False) -> SplitReport:
    """What `split_by` does, for a caller that holds the lock."""
    progress.phase("split")
    ground = ground_of(place, request.workers, progress, keeps=not dry_run)
    if not ground.rows:
        raise DatasetError(
            "the dataset has no samples to divide",
            where=place.shown,
            hint=f"{command_at(place, 'validate')} tells why",
            code="WDS119",
        )
    state = state_of(place)
    authored = load(place.dataset_yaml) if os.path.exists(place.dataset_yaml) else DatasetConfig()
    asked, dropped = sets_of(request, state, authored)
    wanted = {name: rule for name, rule in asked.items() if not _is_in_force(request, rule, state.rules.get(name))}
    kept = {name: state.rules[name] for name in asked if name not in wanted}
    excludes = excludes_of(request, state, authored)
    said = noted(place, excludes.codes)
    excluded = excluded_by(ground, excludes, said, {} if request.anew_excludes else state.excluded)
    _refuse_idle(ground, request, excludes)
    for note in [*excluded.notes, *_idle_notes(request, state, excludes)]:
        progress.note(note)
    made = {
        of_set: assign_all(ground, rule, excluded.parts, parts_of_set(place, of_set), former_of_set(place, of_set))
        for of_set, rule in wanted.items()
    }
    for of_set, each in made.items():
        refuse(each.problems, f"{place.shown}, set {of_set}" if of_set else place.shown)
    work = _Work(place, ground, state, wanted, kept, dropped, made, excluded)
    work.bring_others(progress)
    if request.excludes and not request.allow_empty:
        refuse(work.emptied, place.shown)
    report = work.report(dry_run=dry_run)
    if not dry_run:
        if report.reassigned and not request.may_move:
            raise WouldMove(report)
        work.publish(excludes, said)
    return report


@dataclass(slots=True)
class _Work:
    """A division under way. `kept`: sets that are asked for as they are. `others`: sets that are not made, where
    something of them changes.
    """

    place: Place
    ground: Ground
    state: State
    wanted: Rules
    kept: Rules
    dropped: tuple[str, ...]
    made: dict[str, Brought]
    excluded: Excluded
    others: dict[str, Brought] = field(default_factory=dict)
    moved: list[Move] = field(default_factory=list)
    reassigned: list[Move] = field(default_factory=list)
    emptied: list[Problem] = field(default_factory=list)

    @property
    def rules(self) -> Rules:
        """All sets as they are to be, what is counted out with its unit."""
        both = {**self.state.rules, **self.state.new, **self.wanted}
        return {name: _settled(rule, self.made.get(name)) for name, rule in both.items() if name not in self.dropped}

    def bring_others(self, progress: Progress) -> None:
        """Find out what changes in sets that are not made: they go, or samples are excluded, or no longer are."""
        for of_set in self.dropped:
            self.moved += moves(of_set, parts_of_set(self.place, of_set), {}, self.ground)
        for of_set, rule in self.rules.items():
            before, former = parts_of_set(self.place, of_set), former_of_set(self.place, of_set)
            if of_set in self.state.new and of_set not in self.made:
                self.made[of_set] = assign_all(self.ground, rule, self.excluded.parts)
                refuse(self.made[of_set].problems, f"{self.place.dataset_yaml}, set {of_set}")
            if of_set in self.made:
                made = self.made[of_set]
                self.moved += moves(of_set, before, made.parts, self.ground)
                self.reassigned += reassigned(of_set, (before, former), (made.parts, made.former), self.ground)
                continue
            done = bring(self.ground, rule, before, former, self.excluded.parts, self.state.given.get(of_set))
            for problem in done.problems:
                progress.note(problem.finding(of_set).message)
            self.emptied += emptied(of_set, rule, before, done)
            if done.changed:
                self.others[of_set] = done
                self.moved += moves(of_set, before, done.parts, self.ground)

    def publish(self, excludes: Excludes, said: Noted) -> None:
        """Copy the lists, publish the catalog, then write dataset.yaml, which may be broken: it is read first."""
        rules = {name: with_lists(self.place, rule) for name, rule in self.rules.items()}
        kept = excludes_with_lists(self.place, excludes)
        text = new_text(self.place, rules, kept, also_plain="" in (*self.wanted, *self.kept, *self.dropped))
        copy_lists(self.place, self.rules, excludes)
        with drafting(self.place.catalog, ready=partial(check_held, self.place.lock)) as draft:
            given: GivenBySet = {name: known for name, known in self.state.given.items() if name in rules}
            for of_set, made in self.made.items():
                put_set(draft, of_set, rules[of_set], made, given)
            for of_set, brought in self.others.items():
                put_changes(draft, of_set, brought, given)
            for of_set in self.dropped:
                draft.splits.drop_set(of_set)
            draft.splits.exclude(self.excluded.parts.values())
            if self.state.is_kept or kept or self.excluded.parts or not is_plain(rules):
                draft.splits.keep_rules(rules, kept)
                draft.splits.keep_given(given)
                draft.splits.keep_mark(mark_of(self.place, self.ground.generation, rules, kept, said))
        if text is not None:
            write_text(self.place.dataset_yaml, text)
        forget_lists(self.place, rules, kept)
        self.ground.forget_work()

    def report(self, *, dry_run: bool) -> SplitReport:
        rules = self.rules
        shown = (*self.wanted, *self.kept)
        first = next(iter(shown), None)
        rule = None if first is None else rules[first]
        strata = () if first is None or rule is None else self._strata(self._assigned(first), rule)
        splits = [line for name in shown for line in split_counts(name, rules[name], self._assigned(name).parts)]
        return SplitReport(
            root=self.place.shown,
            by="" if rule is None else rule.kind,
            seed=0 if rule is None else rule.seed,
            splits=tuple(splits),
            dry_run=dry_run,
            rule="" if rule is None else _said_of(rule, len(shown)),
            sets=(*self.wanted, *self.dropped),
            excluded=self.excluded.samples,
            moved=tuple(self.moved),
            reassigned=tuple(self.reassigned),
            strata=strata,
            drift=max((line.drift for line in strata), default=0.0),
        )

    def _assigned(self, of_set: str) -> Brought:
        """A set as it is to be."""
        found = self.made.get(of_set) or self.others.get(of_set)
        return found or Brought(parts_of_set(self.place, of_set), given=self.state.given.get(of_set) or Given())

    def _strata(self, made: Brought, rule: SplitRule) -> tuple[StratumLine, ...]:
        """How strata came out; of folds, what of them each has as its `val`."""
        if rule.fold is None:
            return strata_lines(made.given.strata, rule.shares)
        strata = {
            text: {name: counts[part] for name, part in zip(self.wanted, rule.dealt, strict=True)}
            for text, counts in made.given.strata.items()
        }
        return strata_lines(strata, dict.fromkeys(self.wanted, 1.0))


def _is_in_force(request: SplitRequest, rule: SplitRule, made: SplitRule | None) -> bool:
    """Whether a change of excludes names a rule that the set has: the set is kept then, and no sample moves for it."""
    is_of_excludes = bool(request.excludes or request.anew_excludes) and not request.again and not request.folds
    return is_of_excludes and made is not None and replace(rule, allow_empty=made.allow_empty).asks_for(made)


def _said_of(rule: SplitRule, sets: int) -> str:
    """A rule in words; of folds, all of them."""
    return rule.said if rule.fold is None else f"{replace(rule, fold=None).said}, {sets} folds"


def _settled(rule: SplitRule, made: Brought | None) -> SplitRule:
    """A rule with the unit that `auto` came to."""
    return replace(rule, by=made.unit) if made is not None and made.unit else rule


def _idle_notes(request: SplitRequest, state: State, excludes: Excludes) -> list[str]:
    """What is said where excludes are named, or taken back, and stay as they are."""
    if request.again or excludes != state.excludes or not (request.excludes or request.anew_excludes):
        return []
    return ["all of this is excluded already" if request.excludes else "no rule excludes anything"]


def _refuse_idle(ground: Ground, request: SplitRequest, excludes: Excludes) -> None:
    """Refuse excludes that match nothing, where they are asked for now."""
    asked = excludes if request.again else request.excludes
    if not asked:
        return
    problems: list[Problem] = excluded_by_user(ground, asked).problems
    if not request.allow_empty:
        refuse(problems, ground.place.shown)


def settle_split(
    place: Place,
    wanted: Mapping[str, float] | None,
    by: By,
    seed: int,
    progress: Progress,
    *,
    may_move: bool = False,
) -> tuple[SplitReport, bool]:
    """Make the split that is asked for unless it is there, for `prepare`: (what there is, whether it was written).

    Where none is asked for (`wanted` is None), the one that there is stays; a dataset without any is divided as
    dataset.yaml says, and otherwise everything is `train`. Raises UsageError WDS238 as `split_by` does.
    """
    state = state_of(place)
    made = state.rules.get("")
    authored = load(place.dataset_yaml).split if os.path.exists(place.dataset_yaml) else None
    asked = SplitRule(dict(wanted), by, seed) if wanted is not None else None
    if made is None or (asked is not None and not asked.asks_for(made)):
        rule = asked or authored or SplitRule(WHOLE, by, seed)
        return make_splits(place, SplitRequest(rule=rule, may_move=may_move), progress), True
    is_new = False
    if authored is None or asked is not None:
        # A run that was killed between the catalog and the file has left the file behind.
        if os.path.exists(place.dataset_yaml) and (authored is None or not authored.asks_for(made)):
            write_text(place.dataset_yaml, update_split(read(place.dataset_yaml), made, place.dataset_yaml))
            is_new = True
    elif not authored.asks_for(made):
        progress.note(_differs(place, authored, made))
    splits = split_counts("", made, parts_of_set(place, ""))
    report = SplitReport(
        root=place.shown, by=made.kind, seed=made.seed, splits=splits, dry_run=False, rule=made.said, sets=("",)
    )
    return report, is_new


def _differs(place: Place, authored: SplitRule, made: SplitRule) -> str:
    command = ["wdsctl", "split", place.shown, "--again"]
    if authored.is_counted or authored.kind == "key":
        command = ["wdsctl", "split", place.shown, _ratios(authored), "--by", authored.by, "--seed", str(authored.seed)]
    return (
        f"dataset.yaml says {_said(authored)}; the catalog has {_said(made)}, which stays: "
        f"`{shlex.join(command)}` applies the other"
    )


def _said(rule: SplitRule) -> str:
    return f"{_ratios(rule)} {rule.said}" if rule.shares else rule.said


def _ratios(rule: SplitRule) -> str:
    return ",".join(f"{name}={share!r}".removesuffix(".0") for name, share in rule.shares.items())
