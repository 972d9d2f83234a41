"""After `index` and after a change of the quarantine: sets, their rules and what is excluded, brought up to date.

Sets whose shards or samples are counted out are dealt while the catalog is written. Here come the others, which may
have to read, and what is excluded, whatever the set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.split_rows import GivenBySet, Parts
from wdsctl.core.counted import counted
from wdsctl.core.errors import StorageError, WdsctlError
from wdsctl.core.findings import Finding
from wdsctl.core.lock import check_held
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.split_rules import Excludes, Rules, SplitRule, named_in
from wdsctl.core.splitting_bits import without
from wdsctl.core.verbs.deal import empty_split
from wdsctl.core.verbs.split_bring import Brought, assign_all, bring
from wdsctl.core.verbs.split_excluded import Excluded, Noted, excluded_by, mark_of, noted
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import Problem
from wdsctl.core.verbs.split_put import is_plain, put_changes, put_set
from wdsctl.core.verbs.split_state import State, former_of_set, ground_of, parts_of_set, state_of, with_more

_NO_EXCLUDES = Excludes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """`is_changed`: whether a catalog was published. `excluded`: samples in no split, by rule or quarantine."""

    is_changed: bool
    excluded: int
    findings: tuple[Finding, ...] = ()


def settle_splits(
    place: Place, workers: int, progress: Progress, rule: SplitRule | None = None, excludes: Excludes = _NO_EXCLUDES
) -> Settled:
    """Give places to samples that have none, by the rules of their sets, and none to what is excluded.

    `rule`, `excludes`: what dataset.yaml says since just now, of a set without a name and of excludes where there were
    none. For a caller that holds the lock. What cannot be done (a value that is not there, a list of keys that is
    gone) is a finding, and those samples stay without a place. Cost where nothing has changed: a few rows of the
    catalog.
    """
    state = with_more(state_of(place), rule, excludes)
    said = noted(place, state.excludes.codes)
    rules = {**state.rules, **state.new}
    if not state.is_kept and not state.new and not state.excludes and not said.quarantine:
        return Settled(is_changed=False, excluded=0)
    ground = ground_of(place, workers, progress, keeps=True)
    mark = mark_of(place, ground.generation, rules, state.excludes, said)
    if state.is_kept and state.mark == mark:
        return Settled(is_changed=False, excluded=sum(part.samples for part in state.excluded.values()))
    progress.phase("split")
    return _reapply(place, ground, state, rules, said, mark, progress)


def _reapply(
    place: Place, ground: Ground, state: State, rules: Rules, said: Noted, mark: str, progress: Progress
) -> Settled:
    findings: list[Finding] = []
    excluded = Excluded({})
    try:
        excluded = excluded_by(ground, state.excludes, said, state.excluded)
        _tell(state, ground, excluded, progress)
    except WdsctlError as error:
        findings.append(_failed("", error))
        excluded = Excluded({i: part for i, part in state.excluded.items() if i in ground.sizes})
        mark = ""
    if not (state.is_kept or state.new or state.excludes or state.excluded or excluded.parts or findings):
        return Settled(is_changed=False, excluded=0)  # what is in quarantine is of shards as they once were
    made: dict[str, Brought] = {}
    for of_set, rule in rules.items():
        try:
            if of_set in state.new:
                made[of_set] = assign_all(ground, rule, excluded.parts)
            else:
                parts, former = parts_of_set(place, of_set), former_of_set(place, of_set)
                made[of_set] = bring(ground, rule, parts, former, excluded.parts, state.given.get(of_set))
                findings += _emptied(place, of_set, rule, parts, made[of_set])
        except StorageError as error:
            findings.append(_failed(of_set, error))
            mark = ""  # it may be there next time
        except WdsctlError as error:
            findings.append(_failed(of_set, error))
        findings += [problem.finding(of_set) for problem in _told(made.get(of_set))]
    _publish(place, state, rules, made, excluded, mark)
    ground.forget_work()
    return Settled(is_changed=True, excluded=excluded.samples, findings=tuple(findings))


def _tell(state: State, ground: Ground, excluded: Excluded, progress: Progress) -> None:
    """Nothing that was kept out comes in without a word."""
    for note in excluded.notes:
        progress.note(note)
    back = 0
    for shard, part in state.excluded.items():
        still = excluded.parts.get(shard)
        left = part if still is None else without(part, still, ground.sizes.get(shard, 0))
        back += left.samples if left is not None and shard in ground.sizes else 0
    if back:
        progress.note(f"no longer excluded: {counted(back, 'sample')}")


def _publish(place: Place, state: State, rules: Rules, made: dict[str, Brought], excluded: Excluded, mark: str) -> None:
    with drafting(place.catalog, ready=partial(check_held, place.lock)) as draft:
        given: GivenBySet = dict(state.given)
        for of_set, brought in made.items():
            if of_set in state.new:
                put_set(draft, of_set, rules[of_set], brought, given)
            else:
                put_changes(draft, of_set, brought, given)
        draft.splits.exclude(excluded.parts.values())
        kept = {name: rule for name, rule in rules.items() if name in made or name in state.rules}
        if state.is_kept or state.excludes or excluded.parts or not is_plain(kept):
            draft.splits.keep_rules(kept, state.excludes)
            draft.splits.keep_given(given)
            draft.splits.keep_mark(mark)


def _emptied(place: Place, of_set: str, rule: SplitRule, before: Parts, made: Brought) -> list[Finding]:
    """A finding for every split that loses all that it had."""
    names = [] if rule.allow_empty else [name for name, mine in before.items() if mine and not made.parts.get(name)]
    return [empty_split(place, named_in(of_set, name)) for name in names]


def _told(made: Brought | None) -> list[Problem]:
    return [] if made is None else made.problems


def _failed(of_set: str, error: WdsctlError) -> Finding:
    said = f"the splits {of_set}/... are" if of_set else "splits and excludes are"
    where = f" ({error.where})" if error.where else ""
    return Finding(code=error.code, severity="error", message=f"{said} not brought up to date: {error.message}{where}")
