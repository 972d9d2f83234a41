"""Split rules and excludes, which come from options, and which the catalog and dataset.yaml store.

A dataset has a default set of splits and any number of named sets: `folds/train` is the split `train` of the set
`folds`. Excluded samples are in no split of any set. Shares are exact decimals: 0.1 is a tenth, and 7,2,1 of 10 items
is 7, 2 and 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.json_text import read_json

#: What a rule assigns. `shard`: whole shards; `sample`: samples; `auto`: whole shards unless they are too few for the
#: shares; `key`: samples by the hash of their key.
SplitBy = Literal["auto", "shard", "sample", "key"]

SEED_LIMIT = 1 << 63  # the catalog stores 64 bits

#: Names of splits for shares without names.
POSITIONAL_NAMES = ("train", "val", "test")

MAX_SPLITS = 62  # the bits of a sample have room for so many

#: The split that the name of a folder or file means, by the name in lower case.
STANDARD_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}

#: The split that a value in a table means. `restval`: of Karpathy's splits of COCO and Flickr30k.
SPLIT_VALUES = {
    **STANDARD_SPLITS,
    "development": "val",
    **{name: name for name in ("eval", "evaluation", "holdout", "restval")},
}

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HINT = "write train=8,val=1,test=1, or 8,1,1 for these names"


def parse_split_shares(text: str) -> dict[str, float]:
    """Parse split names and their shares, in order.

    Accepts `8,1,1`, `train=0.98,val=0.02` and `98%,2%`. Shares are relative; their sum does not matter. Leaves out
    splits with a share of 0. Raises UsageError WDS210 with the invalid piece.
    """
    pieces = [piece.strip() for piece in text.split(",")]
    if "" in pieces:
        raise _shares_error(text, "a ratio is missing before or after a comma" if len(pieces) > 1 else "no ratios")
    named = ["=" in piece for piece in pieces]
    if any(named) and not all(named):
        raise _shares_error(text, "either all ratios have a name, or none")
    percents = [piece.endswith("%") for piece in pieces]
    if any(percents) and not all(percents):
        raise _shares_error(text, "either all ratios are percentages, or none")
    if named[0]:
        names, numbers = _parse_named(text, pieces)
    elif len(pieces) <= len(POSITIONAL_NAMES):
        names, numbers = list(POSITIONAL_NAMES[: len(pieces)]), pieces
    else:
        raise _shares_error(text, f"{len(pieces)} ratios need names")
    shares = {name: _parse_share(text, number) for name, number in zip(names, numbers, strict=True)}
    if not any(shares.values()):
        raise _shares_error(text, "at least one ratio must be above 0")
    return {name: share for name, share in shares.items() if share}


def allocate_items(total: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide `total` items among the splits by largest remainder; ties go to the split named first.

    The counts add up to `total`, and each is its exact quota rounded down or up. Raises UsageError WDS210.
    """
    if total < 0:
        raise _shares_error(str(total), "the number of items is negative")
    return _largest_remainder(total, _exact_shares(shares))


def allocate_new_items(
    total_after: int, current_counts: Mapping[str, int], shares: Mapping[str, float]
) -> dict[str, int]:
    """Divide new items among the splits, so that all `total_after` items come nearest to the shares.

    No split loses items: a split above its share gets none until the others have caught up. Splits in
    `current_counts` without a share keep their items. Raises UsageError WDS210.
    """
    new = total_after - sum(current_counts.values())
    if new < 0:
        raise _shares_error(str(total_after), f"{sum(current_counts.values())} items are already in splits")
    allocated = dict.fromkeys(shares, 0)
    short = {name: share for name, share in _exact_shares(shares).items() if share}
    while short:
        total = new + sum(current_counts.get(name, 0) for name in short)
        total_share = sum(short.values())
        satisfied = [name for name, share in short.items() if current_counts.get(name, 0) > share * total / total_share]
        if not satisfied:
            counts = _largest_remainder(total, short)
            return allocated | {name: count - current_counts.get(name, 0) for name, count in counts.items()}
        for name in satisfied:
            del short[name]
    return allocated


def _largest_remainder(total: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    total_share = sum(shares.values())
    quotas = {name: share * total / total_share for name, share in shares.items()}
    counts = {name: math.floor(quota) for name, quota in quotas.items()}
    # sorted() is stable: equal remainders stay in the order of the shares.
    by_remainder = sorted(quotas, key=lambda name: counts[name] - quotas[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _exact_shares(shares: Mapping[str, float]) -> dict[str, Fraction]:
    bad = [f"{name}={share}" for name, share in shares.items() if not (math.isfinite(share) and share >= 0)]
    if bad:
        raise _shares_error(", ".join(bad), "a ratio is a number, 0 or more")
    if not any(shares.values()):
        raise _shares_error(", ".join(shares), "at least one ratio must be above 0")
    # A float's repr is the decimal that the user wrote; its binary value is not.
    return {name: Fraction(repr(share)) for name, share in shares.items()}


def _parse_named(text: str, pieces: list[str]) -> tuple[list[str], list[str]]:
    names = []
    numbers = []
    for piece in pieces:
        name, _, number = (side.strip() for side in piece.partition("="))
        if not _NAME.fullmatch(name):
            raise _shares_error(text, f"{name!r} is not a valid split name: use letters, digits, '.', '_' and '-'")
        if name in names:
            raise _shares_error(text, f"duplicate split {name}")
        names.append(name)
        numbers.append(number)
    return names, numbers


def _parse_share(text: str, number: str) -> float:
    digits = number.removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(digits) or not math.isfinite(float(digits)):
        raise _shares_error(text, f"invalid ratio {number!r}: a ratio is a number, 0 or more")
    return int(digits) if digits.isdecimal() else float(digits)


def _shares_error(text: str, why: str) -> UsageError:
    return UsageError(f"cannot split by {text!r}: {why}", hint=_HINT, code="WDS210")


SplitRuleKind = Literal["shard", "sample", "key", "group", "stratum", "balanced", "pattern", "keys", "value"]

#: The value of `rest` that leaves samples out of all splits.
NO_SPLIT = "none"

_SET_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_FOREIGN_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff/]+")  # names of splits from other tools


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Excludes:
    """What no split contains: shards by pattern, samples as SHARD/KEY, keys, key files, and codes of findings."""

    shards: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key_files: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def merged_with(self, more: Excludes) -> Excludes:
        """Return the entries of both, without duplicates."""
        both = {
            each.name: tuple(dict.fromkeys((*getattr(self, each.name), *getattr(more, each.name))))
            for each in fields(self)
        }
        return Excludes(**both)


#: The rule of every set by its name; the default set is "".
SplitRules = dict[str, SplitRule]


def qualified_split_name(split_set: str, name: str) -> str:
    """The full name of a split, for the loader and the catalog."""
    return f"{split_set}/{name}" if split_set else name


def split_set_and_name(split: str) -> tuple[str, str]:
    """Divide a full name: `folds/train` is ("folds", "train"), `train` is ("", "train")."""
    split_set, _, name = split.rpartition("/")
    return split_set, name


def can_name_split(text: str) -> bool:
    """Whether a name from another tool, such as a value in a table, can be the name of a split."""
    return bool(_FOREIGN_NAME.fullmatch(text))


def split_of_value(value: str) -> str:
    """The split that a value names: without spaces around it, by SPLIT_VALUES if it is one of them."""
    name = value.strip()
    return SPLIT_VALUES.get(name.lower(), name)


def check_seed(seed: int) -> int:
    """Return the seed of a split. Raises UsageError if the catalog cannot store it."""
    if not -SEED_LIMIT <= seed < SEED_LIMIT:
        raise UsageError(
            f"the seed {seed} is not a whole number of at most 64 bits", hint="pass a seed such as `--seed 1`"
        )
    return seed


def check_set_name(name: str) -> str:
    """Return the name of a set. Raises UsageError if it is invalid."""
    if name and not _SET_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a split set",
            hint="use letters, digits, '.', '_' and '-', for example `--set folds`",
        )
    return name


def check_split_name(name: str) -> str:
    """Return the short name of a split. Raises UsageError WDS210 if it is invalid."""
    if not _SET_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid split name: use letters, digits, '.', '_' and '-'",
            hint="write train=... and name the split set with `--set`",
            code="WDS210",
        )
    return name


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


def excludes_to_plain(excludes: Excludes) -> dict[str, list[str]]:
    """Return the non-empty excludes, as lists."""
    return {name: list(entries) for name, entries in asdict(excludes).items() if entries}


def excludes_from_plain(plain: Mapping[str, Iterable[str]]) -> Excludes:
    """Build excludes from the output of `excludes_to_plain`. Raises TypeError for other values."""
    return Excludes(**{name: tuple(entries) for name, entries in plain.items()})


def dump_split_rules(rules: Mapping[str, SplitRule]) -> str:
    """Format rules as the text that the catalog stores."""
    return json.dumps({name: rule_to_plain(rule) for name, rule in rules.items()}, ensure_ascii=True)


def load_split_rules(text: str) -> SplitRules:
    """Parse the rules of a stored text. Raises ValueError and TypeError if it is damaged."""
    return {name: rule_from_plain(plain) for name, plain in read_json(text).items()}
