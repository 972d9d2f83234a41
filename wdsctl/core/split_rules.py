"""Rules of splits, as values: who goes where. Made from options, kept in the catalog and in dataset.yaml.

A dataset has one set of splits, and any number of named ones beside it: `folds/train` is the split `train` of the set
`folds`. What is excluded is in no split of any set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.ratios import By

Kind = Literal["shard", "sample", "key", "group", "stratum", "balanced", "pattern", "keys"]

#: The rest that is no split: what nothing names is left out.
NONE = "none"

_SET = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How a set is divided: by `shares`, or by `patterns` of shards' paths, or by `keys`, files of keys.

    `by`: auto, shard, sample or key. `group_by` and `stratify` say where a sample's group or stratum is found
    (wdsctl/core/split_spec.py). `rest`: the split of those that nothing else names; `none` leaves them out. `fold`:
    (i, k), the i-th of k parts is `val`, the others are `train`. `allow_empty`: splits, patterns and listed keys may
    match nothing. Files of keys are named relative to the folder of dataset.yaml.
    """

    shares: dict[str, float]
    by: By = "auto"
    seed: int = 0
    group_by: str = ""
    stratify: str = ""
    patterns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    rest: str = ""
    fold: tuple[int, int] | None = None
    allow_empty: bool = False

    @property
    def kind(self) -> Kind | Literal["auto"]:
        if self.patterns:
            return "pattern"
        if self.keys:
            return "keys"
        if self.group_by:
            return "balanced" if self.stratify else "group"
        return "stratum" if self.stratify else self.by

    @property
    def is_counted(self) -> bool:
        """Whether shards or samples are counted out to the shares. Otherwise a sample alone says where it belongs."""
        return self.kind in ("auto", "shard", "sample")

    @property
    def names(self) -> tuple[str, ...]:
        """The splits, in the order they were named."""
        rest = (self.rest,) if self.rest and self.rest != NONE else ()
        return tuple(dict.fromkeys((*self.shares, *self.patterns, *self.keys, *rest)))

    @property
    def dealt(self) -> dict[str, float]:
        """What samples are dealt out to: the splits; of folds the parts, `0` to `k-1`, of which the i-th is `val`."""
        return self.shares if self.fold is None else {str(i): 1.0 for i in range(self.fold[1])}

    def share(self, name: str) -> float:
        """A split's share; 0 where the rule has none."""
        return self.shares.get(name, 0.0)

    @property
    def said(self) -> str:
        """In words, such as `by shard, seed 0`."""
        if self.kind == "pattern":
            return "by patterns of shards"
        if self.kind == "keys":
            return "by lists of keys"
        words = {"group": f"in groups of {self.group_by}", "stratum": f"in strata of {self.stratify}"}
        words["balanced"] = f"{words['group']}, {words['stratum']}"
        fold = f", fold {self.fold[0]} of {self.fold[1]}" if self.fold else ""
        return f"{words.get(self.kind, f'by {self.by}')}{fold}, seed {self.seed}"

    def asks_for(self, made: SplitRule) -> bool:
        """Whether a split that was made is what this asks for. The order of the names counts, `auto` is either way."""
        by = made.by if self.by == "auto" and made.by in ("shard", "sample") else self.by
        return self.names == made.names and replace(self, by=by) == made


@dataclass(frozen=True, slots=True, kw_only=True)
class Excludes:
    """What is in no split: shards by pattern, samples as SHARD/KEY, keys, files of keys, and what findings name."""

    shards: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def with_more(self, more: Excludes) -> Excludes:
        """Both, each entry once."""
        both = {
            each.name: tuple(dict.fromkeys((*getattr(self, each.name), *getattr(more, each.name))))
            for each in fields(self)
        }
        return Excludes(**both)


#: The rule of every set, by its name; the one without a name is "".
Rules = dict[str, SplitRule]


def named_in(of_set: str, name: str) -> str:
    """The name of a split of a set, as the loader and the catalog have it."""
    return f"{of_set}/{name}" if of_set else name


def set_and_name(split: str) -> tuple[str, str]:
    """The other way round: `folds/train` is (folds, train), `train` is ("", train)."""
    of_set, _, name = split.rpartition("/")
    return of_set, name


def check_set(name: str) -> str:
    """The name of a set. Raises UsageError."""
    if name and not _SET.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a set of splits",
            hint="letters, digits, '.', '_' and '-' can, such as `--set folds`",
        )
    return name


def check_split_name(name: str) -> str:
    """The name of a split of a set. Raises UsageError WDS210."""
    if not _SET.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a split: letters, digits, '.', '_' and '-' can",
            hint="such as train=..., with the set named by `--set`",
            code="WDS210",
        )
    return name


def plain_rule(rule: SplitRule) -> dict[str, Any]:
    """What of a rule is not as it is where nothing is said, as values that JSON and YAML have."""
    blank = SplitRule({})
    said = {each.name: getattr(rule, each.name) for each in fields(rule)}
    said = {name: value for name, value in said.items() if value != getattr(blank, name)}
    if "patterns" in said:
        said["patterns"] = {name: list(patterns) for name, patterns in rule.patterns.items()}
    if rule.fold is not None:
        said["fold"] = list(rule.fold)
    return said


def rule_from(said: Mapping[str, Any]) -> SplitRule:
    """The rule of what `plain_rule` gives. Raises TypeError and ValueError where it is not that."""
    values = {"shares": {}, **said}
    values["patterns"] = {name: tuple(each) for name, each in values.get("patterns", {}).items()}
    if values.get("fold") is not None:
        first, count = values["fold"]
        values["fold"] = (int(first), int(count))
    return SplitRule(**values)


def plain_excludes(excludes: Excludes) -> dict[str, list[str]]:
    """What there is of them, as lists."""
    return {name: list(entries) for name, entries in asdict(excludes).items() if entries}


def excludes_from(said: Mapping[str, Iterable[str]]) -> Excludes:
    """The excludes of what `plain_excludes` gives. Raises TypeError where it is not that."""
    return Excludes(**{name: tuple(entries) for name, entries in said.items()})


def rules_text(rules: Mapping[str, SplitRule]) -> str:
    """Rules as the catalog keeps them."""
    return json.dumps({name: plain_rule(rule) for name, rule in rules.items()}, ensure_ascii=True)


def rules_of(text: str) -> Rules:
    """The rules of such a text. Raises ValueError and TypeError where it is damaged."""
    return {name: rule_from(said) for name, said in read_json(text).items()}
