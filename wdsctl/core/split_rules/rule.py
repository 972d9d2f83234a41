"""A split rule: how a set of splits is divided. Options, `dataset.yaml` and the catalog describe rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json
from wdsctl.core.options import Option
from wdsctl.core.split_rules.names import NO_SPLIT

#: What a rule assigns. `shard`: whole shards; `sample`: samples; `auto`: whole shards unless they are too few for the
#: shares; `key`: samples by the hash of their key.
SplitBy = Literal["auto", "shard", "sample", "key"]

SplitRuleKind = Literal["shard", "sample", "key", "group", "stratum", "balanced", "pattern", "keys", "value"]

#: The fields of a rule that say how to divide a set. They exclude each other.
SPLIT_METHODS = ("patterns", "keys", "by_value", "shares")

_SEED_LIMIT = 1 << 63  # the catalog stores 64 bits


@dataclass(frozen=True, slots=True)
class SplitRule:
    """How to divide a set: by `shares`, by `patterns` of shard paths, by `keys`, a key file per split, or `by_value`.

    `by`: auto, shard, sample or key. `group_by`, `stratify`, `by_value`: where to find the group, the stratum or the
    split's name of a sample (wdsctl/core/split/values.py). `rest`: the split of all other samples; `none` leaves them
    out. `fold`: (i, k): the i-th of k folds is `val`, the others are `train`. `allow_empty`: accept empty splits, and
    patterns and keys without matches. Key files are relative to the folder of dataset.yaml.
    """

    shares: dict[str, float]
    by: SplitBy = "auto"
    seed: int = 0
    group_by: str = ""
    stratify: str = ""
    patterns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    by_value: str = ""
    rest: str = ""
    fold: tuple[int, int] | None = None
    allow_empty: bool = False

    @property
    def kind(self) -> SplitRuleKind | Literal["auto"]:
        if self.patterns:
            return "pattern"
        if self.keys:
            return "keys"
        if self.by_value:
            return "value"
        if self.group_by:
            return "balanced" if self.stratify else "group"
        return "stratum" if self.stratify else self.by

    @property
    def methods(self) -> tuple[str, ...]:
        """Those of SPLIT_METHODS that the rule has: one, unless the rule is invalid or only has `rest`."""
        return tuple(name for name in SPLIT_METHODS if getattr(self, name))

    @property
    def value_name(self) -> str:
        """The name of the value in each sample that alone decides its split; empty if there is none."""
        return self.by_value or self.group_by

    @property
    def is_counted(self) -> bool:
        """Whether the rule counts shards or samples. Other rules derive the split from the sample alone."""
        return self.kind in ("auto", "shard", "sample")

    @property
    def names(self) -> tuple[str, ...]:
        """The splits in their order, without those that only values name (`by_value`)."""
        rest = (self.rest,) if self.rest and self.rest != NO_SPLIT else ()
        return tuple(dict.fromkeys((*self.shares, *self.patterns, *self.keys, *rest)))

    @property
    def shares_to_assign(self) -> dict[str, float]:
        """The shares for assigning samples: those of the splits; k equal shares `0` to `k-1` for folds."""
        return self.shares if self.fold is None else {str(i): 1.0 for i in range(self.fold[1])}

    def share(self, name: str) -> float:
        """A split's share; 0 if the rule has none."""
        return self.shares.get(name, 0.0)

    @property
    def description(self) -> str:
        """A short text such as `by shard, seed 0`."""
        if self.kind == "pattern":
            return "by shard patterns"
        if self.kind == "keys":
            return "by key lists"
        if self.kind == "value":
            return f"by {self.by_value}"
        descriptions = {"group": f"in groups of {self.group_by}", "stratum": f"in strata of {self.stratify}"}
        descriptions["balanced"] = f"{descriptions['group']}, {descriptions['stratum']}"
        fold = f", fold {self.fold[0]} of {self.fold[1]}" if self.fold else ""
        return f"{descriptions.get(self.kind, f'by {self.by}')}{fold}, seed {self.seed}"

    def is_satisfied_by(self, existing: SplitRule) -> bool:
        """Whether an existing set follows this rule. The order of names counts; `auto` accepts shard and sample."""
        by = existing.by if self.by == "auto" and existing.by in ("shard", "sample") else self.by
        return self.names == existing.names and replace(self, by=by) == existing


#: The rule of every set by its name; the default set is "".
SplitRules = dict[str, SplitRule]


def is_seed(number: int) -> bool:
    """Whether the catalog can store a number as the seed of a split."""
    return -_SEED_LIMIT <= number < _SEED_LIMIT


def check_seed(seed: int) -> int:
    """Return the seed of a split. Raises UsageError if the catalog cannot store it."""
    if not is_seed(seed):
        raise UsageError(
            f"the seed {seed} is not a whole number of at most 64 bits", hint="pass a seed such as `--seed 1`"
        )
    return seed


SPLIT_SEED = Option("Seed of the split.", metavar="N", parse=check_seed)


def rule_to_plain(rule: SplitRule) -> dict[str, Any]:
    """Return the fields of a rule that differ from their defaults, as JSON values."""
    default = SplitRule({})
    plain = {each.name: getattr(rule, each.name) for each in fields(rule)}
    plain = {name: value for name, value in plain.items() if value != getattr(default, name)}
    if "patterns" in plain:
        plain["patterns"] = {name: list(patterns) for name, patterns in rule.patterns.items()}
    if rule.fold is not None:
        plain["fold"] = list(rule.fold)
    return plain


def rule_from_plain(plain: Mapping[str, Any]) -> SplitRule:
    """Build a rule from the output of `rule_to_plain`. Raises TypeError and ValueError for other values."""
    values = {"shares": {}, **plain}
    values["patterns"] = {name: tuple(each) for name, each in values.get("patterns", {}).items()}
    if values.get("fold") is not None:
        first, count = values["fold"]
        values["fold"] = (int(first), int(count))
    return SplitRule(**values)


def dump_split_rules(rules: Mapping[str, SplitRule]) -> str:
    """Format rules as the text that the catalog stores."""
    return json.dumps({name: rule_to_plain(rule) for name, rule in rules.items()}, ensure_ascii=True)


def load_split_rules(text: str) -> SplitRules:
    """Parse the rules of a stored text. Raises ValueError and TypeError if it is damaged."""
    return {name: rule_from_plain(plain) for name, plain in read_json(text).items()}
