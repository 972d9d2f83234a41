"""What the options of `wdsctl split` ask for together. Raises UsageError where they contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wdsctl.core.errors import UsageError
from wdsctl.core.ratios import By, parse_ratios

if TYPE_CHECKING:
    from wdsctl.core.split_rules import Excludes, SplitRule
    from wdsctl.core.verbs.split import SplitRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as they were given."""

    ratios: str | None = None
    by: By = "auto"
    seed: int = 0
    group_by: str = ""
    stratify: str = ""
    patterns: Sequence[str] = ()
    keys: Sequence[str] = ()
    rest: str = ""
    source: str = ""
    folds: int = 0
    of_set: str = ""
    exclude_shards: Sequence[str] = ()
    exclude_keys: Sequence[str] = ()
    exclude_key_files: Sequence[str] = ()
    exclude_codes: Sequence[str] = ()
    no_excludes: bool = False
    drop: bool = False
    again: bool = False
    allow_empty: bool = False

    @property
    def ways(self) -> list[str]:
        """The ways to divide that are asked for."""
        said = {
            "RATIOS": self.ratios is not None,
            "--pattern": bool(self.patterns),
            "--keys": bool(self.keys),
            "--from": bool(self.source),
            "--folds": bool(self.folds),
            "--drop": self.drop,
            "--again": self.again,
        }
        return [name for name, is_said in said.items() if is_said]

    @property
    def has_excludes(self) -> bool:
        """Whether something is said of what is excluded."""
        named = (self.exclude_shards, self.exclude_keys, self.exclude_key_files, self.exclude_codes)
        return self.no_excludes or any(named)

    @property
    def is_question(self) -> bool:
        """Whether nothing is to be made."""
        return not self.ways and not self.has_excludes


def request_of(asked: Asked, workers: int) -> SplitRequest:
    """What `split_by` is to do."""
    from wdsctl.core.verbs.split import SplitRequest

    _check(asked)
    rule, more = _rule(asked)
    return SplitRequest(
        rule=rule,
        of_set=asked.of_set,
        folds=asked.folds,
        excludes=_excludes(asked).with_more(more),
        anew_excludes=asked.no_excludes,
        drop=asked.drop,
        again=asked.again,
        allow_empty=asked.allow_empty,
        workers=workers,
    )


def check_question(asked: Asked) -> None:
    """Refuse options that say how to divide where nothing says by what."""
    loose = {
        "--by": asked.by != "auto",
        "--seed": asked.seed != 0,
        "--group-by": bool(asked.group_by),
        "--stratify": bool(asked.stratify),
        "--rest": bool(asked.rest),
        "--allow-empty": asked.allow_empty,
    }
    for name, is_said in loose.items():
        if is_said:
            raise UsageError(f"{name} needs shares to divide by", hint="such as `wdsctl split DATASET 8,1,1`")


def _check(asked: Asked) -> None:
    ways = asked.ways
    if len(ways) > 1:
        raise UsageError(f"{' and '.join(ways)} exclude each other", hint="a set is divided in one way")
    has_shares = ways in (["RATIOS"], ["--folds"])
    if not has_shares and (asked.group_by or asked.stratify or asked.by != "auto"):
        name = "--group-by" if asked.group_by else "--stratify" if asked.stratify else "--by"
        raise UsageError(f"{name} needs shares to divide by", hint="such as `wdsctl split DATASET 8,1,1`")
    if (asked.group_by or asked.stratify) and asked.by != "auto":
        raise UsageError(f"--by {asked.by} does not go with --group-by and --stratify", hint="leave --by out")
    if asked.folds and ((asked.stratify and not asked.group_by) or asked.by not in ("auto", "key")):
        raise UsageError("--folds goes by key, or by group", hint="leave --by out; --stratify goes with --group-by")
    if asked.folds == 1:
        raise UsageError("--folds 1 leaves nothing to train on", hint="at least 2")
    if asked.rest and not (asked.group_by or asked.patterns or asked.keys or asked.source):
        raise UsageError(
            "--rest names the split of what patterns, lists or groups leave over, and shares leave nothing",
            hint="leave --rest out",
        )


def _rule(asked: Asked) -> tuple[SplitRule | None, Excludes]:
    from wdsctl.core.formats.split_yaml import read_split_yaml
    from wdsctl.core.split_patterns import matcher
    from wdsctl.core.split_rules import Excludes, SplitRule, check_split_name
    from wdsctl.core.split_spec import parse_spec
    from wdsctl.core.verbs.split_lists import absolute

    for spec in filter(None, (asked.group_by, asked.stratify)):
        parse_spec(spec)
    if asked.rest:
        check_split_name(asked.rest)
    rest = SplitRule({}, rest=asked.rest, allow_empty=asked.allow_empty)
    shared = replace(rest, seed=asked.seed, group_by=asked.group_by, stratify=asked.stratify)
    if asked.source:
        rule, more = read_split_yaml(asked.source)
        return replace(rest, patterns=rule.patterns), more
    if asked.patterns:
        patterns: dict[str, tuple[str, ...]] = {}
        for name, pattern in _pairs(asked.patterns, "--pattern", "train='shard-{000..799}.tar'"):
            matcher(pattern)
            patterns[name] = (*patterns.get(name, ()), pattern)
        return replace(rest, patterns=patterns), Excludes()
    if asked.keys:
        files = _pairs(asked.keys, "--keys", "val=val.txt")
        twice = next((name for i, (name, _) in enumerate(files) if name in [other for other, _ in files[:i]]), None)
        if twice is not None:
            raise UsageError(f"--keys names {twice} twice", hint="put all keys of a split into one file")
        return replace(rest, keys={name: absolute([file])[0] for name, file in files}), Excludes()
    if asked.folds:
        return replace(shared, by="auto" if asked.group_by else "key"), Excludes()
    if asked.ratios is not None:
        return replace(shared, by=asked.by, shares=parse_ratios(asked.ratios)), Excludes()
    return None, Excludes()


def _pairs(texts: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    from wdsctl.core.split_rules import check_split_name

    pairs = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not value:
            raise UsageError(f"{option} {text}: expected NAME=...", hint=f"such as {option} {example}")
        pairs.append((check_split_name(name), value))
    return pairs


def _excludes(asked: Asked) -> Excludes:
    from wdsctl.core.codes import CODES
    from wdsctl.core.fields import did_you_mean
    from wdsctl.core.split_rules import Excludes
    from wdsctl.core.verbs.split_lists import absolute

    unknown = next((code for code in asked.exclude_codes if code not in CODES), None)
    if unknown is not None:
        hint = did_you_mean(unknown, list(CODES)) or "`wdsctl explain` lists the codes"
        raise UsageError(f"there is no code {unknown}", hint=hint)
    return Excludes(
        shards=tuple(asked.exclude_shards),
        keys=tuple(asked.exclude_keys),
        key_files=absolute(asked.exclude_key_files),
        codes=tuple(asked.exclude_codes),
    )
