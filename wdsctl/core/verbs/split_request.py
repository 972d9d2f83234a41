"""What `split` may be asked for, and which sets and excludes that comes to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import UsageError
from wdsctl.core.split_rules import Excludes, Rules, SplitRule
from wdsctl.core.verbs.split_state import State, no_such_set


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What `split` is asked to do.

    `rule`: how the set `of_set` is divided from now on. `folds`: make so many sets of it instead, each with another
    part as `val`. `excludes`: taken out of all sets, with those that are; `anew_excludes`: in their place. `drop`:
    forget the set. `again`: make all sets by what dataset.yaml says. `may_move`: samples of a set that has several
    splits may leave theirs for another.
    """

    rule: SplitRule | None = None
    of_set: str = ""
    folds: int = 0
    excludes: Excludes = field(default_factory=Excludes)
    anew_excludes: bool = False
    drop: bool = False
    again: bool = False
    allow_empty: bool = False
    may_move: bool = False
    workers: int = 1


def sets_of(request: SplitRequest, state: State, authored: DatasetConfig) -> tuple[Rules, tuple[str, ...]]:
    """The sets that are to be made, and those that are to be forgotten."""
    if request.drop:
        gone = tuple(name for name in state.rules if name == request.of_set or _is_fold(name, request.of_set, state))
        if not gone:
            raise no_such_set(request.of_set, state)
        return {}, gone
    if request.again:
        asked = ({"": authored.split} if authored.split is not None else {}) | authored.split_sets
        if not asked and not authored.exclude:
            raise UsageError("dataset.yaml has no rule to divide by", hint="such as `wdsctl split DATASET 8,1,1`")
        return asked, tuple(name for name in state.rules if name and name not in asked)
    if request.rule is None:
        return {}, ()
    if not request.folds:
        return {request.of_set: request.rule}, ()
    base = request.of_set or "fold"
    shares = {"train": request.folds - 1.0, "val": 1.0}
    sets = {f"{base}-{i}": replace(request.rule, shares=shares, fold=(i, request.folds)) for i in range(request.folds)}
    return sets, tuple(name for name in state.rules if _is_fold(name, base, state) and name not in sets)


def _is_fold(name: str, base: str, state: State) -> bool:
    """Whether a set is one of the folds that were made together by this name."""
    return bool(re.fullmatch(rf"{re.escape(base or 'fold')}-\d+", name)) and state.rules[name].fold is not None


def excludes_of(request: SplitRequest, state: State, authored: DatasetConfig) -> Excludes:
    """What is to be in no split from now on."""
    if request.again:
        return authored.exclude
    return request.excludes if request.anew_excludes else state.excludes.with_more(request.excludes)
