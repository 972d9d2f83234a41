"""The request of `wdsctl split`, and its construction from the options of the command and of `wdsctl.split`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wdsctl.core.codes import load_codes
from wdsctl.core.dataset.shard_patterns import compile_shard_pattern
from wdsctl.core.energon.split_yaml import read_split_yaml
from wdsctl.core.errors import OptionConflict, UsageError, refuse_without_effect
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.split.store import absolute_paths
from wdsctl.core.split.values import parse_value_spec
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import check_split_name
from wdsctl.core.split_rules.rule import SplitBy, SplitRule
from wdsctl.core.split_rules.shares import parse_split_shares

_EXCLUDED = ("shard", "key", "keys", "code")  # --exclude-shard, ...
_RATIOS_HINT = "pass ratios, for example `wdsctl split DATASET 8,1,1`"


_MAX_FOLDS = 1000  # each is a set, whose splits cover all samples


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What `split` does. `split_set`: the set to make or drop, "" the default set.

    `rule`: how the set is divided from now on. `folds`: make this many sets of it, each with another fold as `val`.
    `excludes`: samples to take out of all sets, in addition to those in force; with `replace_excludes` in their place.
    `drop`: delete the set. `again`: make all sets by dataset.yaml. `may_move`: samples of a set with several splits may
    leave their split for another.
    """

    rule: SplitRule | None = None
    split_set: str = ""
    folds: int = 0
    excludes: Excludes = field(default_factory=Excludes)
    replace_excludes: bool = False
    drop: bool = False
    again: bool = False
    allow_empty: bool = False
    may_move: bool = False
    workers: int = 1

    @property
    def is_query(self) -> bool:
        """Whether the request changes nothing."""
        return not (self.rule or self.drop or self.again or self.has_excludes)

    @property
    def has_excludes(self) -> bool:
        """Whether the request changes what is excluded, apart from `again`."""
        return bool(self.excludes) or self.replace_excludes


def parse_split_request(
    *,
    ratios: str | None = None,
    by: SplitBy = "auto",
    seed: int = 0,
    group_by: str = "",
    stratify: str = "",
    patterns: Sequence[str] = (),
    keys: Sequence[str] = (),
    by_value: str = "",
    rest: str = "",
    source: str = "",
    folds: int = 0,
    split_set: str = "",
    exclude_shards: Sequence[str] = (),
    exclude_keys: Sequence[str] = (),
    exclude_key_files: Sequence[str] = (),
    exclude_codes: Sequence[str] = (),
    no_excludes: bool = False,
    drop: bool = False,
    again: bool = False,
    allow_empty: bool = False,
    workers: int = 1,
) -> SplitRequest:
    """The request of these options. Raises UsageError if they contradict each other, or are invalid.

    `patterns`, `keys`: NAME=PATTERN, NAME=FILE. `source`: a split.yaml of Energon. Reads `source`, no other file.
    """
    given = {
        "RATIOS": ratios is not None,
        "--pattern": bool(patterns),
        "--keys": bool(keys),
        "--by-value": bool(by_value),
        "--from": bool(source),
        "--folds": bool(folds),
        "--drop": drop,
        "--again": again,
    }
    _check_method([name for name, is_given in given.items() if is_given], by, group_by, stratify, folds, rest)
    for spec in filter(None, (group_by, stratify, by_value)):
        parse_value_spec(spec)
    blank = SplitRule({}, rest=check_split_name(rest) if rest else "", allow_empty=allow_empty)
    by_shares = replace(blank, seed=seed, group_by=group_by, stratify=stratify)
    rule, source_excludes = None, Excludes()
    if source:
        source_rule, source_excludes = read_split_yaml(source)
        rule = replace(blank, patterns=source_rule.patterns)
    elif patterns:
        rule = replace(blank, patterns=_parse_patterns(patterns))
    elif keys:
        rule = replace(blank, keys=_parse_key_files(keys))
    elif by_value:
        rule = replace(blank, by_value=by_value)
    elif folds > _MAX_FOLDS:
        raise UsageError(f"{folds:,} folds are too many; the limit is {_MAX_FOLDS:,}", hint="pass a smaller `--folds`")
    elif folds:
        rule = replace(by_shares, by="auto" if group_by else "key")
    elif ratios is not None:
        rule = replace(by_shares, by=by, shares=parse_split_shares(ratios))
    for code in exclude_codes:
        if code not in load_codes():
            hint = did_you_mean(code, list(load_codes())) or "run `wdsctl explain` to list the codes"
            raise UsageError(f"unknown code {code}", hint=hint)
    excludes = Excludes(
        shards=tuple(exclude_shards),
        keys=tuple(exclude_keys),
        key_files=absolute_paths(exclude_key_files),
        codes=tuple(exclude_codes),
    )
    request = SplitRequest(
        rule=rule,
        split_set=split_set,
        folds=folds,
        excludes=excludes.merged_with(source_excludes),
        replace_excludes=no_excludes,
        drop=drop,
        again=again,
        allow_empty=allow_empty,
        workers=workers,
    )
    refuse_without_effect(
        ("--seed", seed, "RATIOS or --folds", ratios is not None or folds),
        ("--allow-empty", allow_empty, "RATIOS, another rule, or excludes", rule or again or request.excludes),
        ("--set", split_set and request.has_excludes, "RATIOS, another rule, or --drop", rule or drop or again),
    )
    if again and (split_set or request.has_excludes):
        name = "--set" if split_set else "--no-excludes" if no_excludes else "new excludes"
        flags = ("--again", "--set", "--no-excludes", *(f"--exclude-{what}" for what in _EXCLUDED))
        raise OptionConflict(
            f"--again and {name} exclude each other: it makes all sets and excludes again by dataset.yaml",
            options=flags,
            are_exclusive=True,
            hint="edit dataset.yaml, or run `wdsctl split` again without --again",
        )
    return request


def _check_method(methods: Sequence[str], by: SplitBy, group_by: str, stratify: str, folds: int, rest: str) -> None:
    if len(methods) > 1:
        raise OptionConflict(
            f"{' and '.join(methods)} exclude each other",
            options=methods,
            are_exclusive=True,
            hint="pass only one of them",
        )
    has_shares = methods in (["RATIOS"], ["--folds"])
    if not has_shares and (group_by or stratify or by != "auto"):
        name = "--group-by" if group_by else "--stratify" if stratify else "--by"
        raise OptionConflict(f"{name} only applies to ratios", options=(name,), hint=_RATIOS_HINT)
    if (group_by or stratify) and by != "auto":
        raise OptionConflict(
            f"--by {by} excludes --group-by and --stratify",
            options=("--by", "--group-by", "--stratify"),
            are_exclusive=True,
            hint="omit --by",
        )
    if folds and ((stratify and not group_by) or by not in ("auto", "key")):
        raise OptionConflict(
            "--folds divides the samples by key or by group only",
            options=("--by",) if by not in ("auto", "key") else ("--stratify",),
            hint="omit --by, and pass --stratify only with --group-by",
        )
    if folds < 0 or folds == 1:
        raise UsageError(f"--folds {folds} leaves no samples for training", hint="pass --folds 2 or more")
    if not has_shares:
        matches = {"--pattern", "--keys", "--from", "--by-value"} & {*methods}
        refuse_without_effect(("--rest", rest, "--pattern, --keys, --from or --by-value", matches))
    elif rest and not group_by:
        raise OptionConflict(
            "--rest has no effect with ratios, which assign every sample to a split",
            options=("--rest",),
            hint="omit --rest, or divide by --pattern, --keys, --from, --by-value or --group-by",
        )


def _parse_patterns(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    patterns: dict[str, tuple[str, ...]] = {}
    for name, pattern in _parse_pairs(texts, "--pattern", "train='shard-{000..799}.tar'"):
        compile_shard_pattern(pattern)
        patterns[name] = (*patterns.get(name, ()), pattern)
    return patterns


def _parse_key_files(texts: Sequence[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for name, file in _parse_pairs(texts, "--keys", "val=val.txt"):
        if name in files:
            raise UsageError(f"--keys gives two files for split {name}", hint="put all keys of a split into one file")
        files[name] = absolute_paths([file])[0]
    return files


def _parse_pairs(texts: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not value:
            raise UsageError(f"{option} {text}: expected NAME=...", hint=f"for example {option} {example}")
        pairs.append((check_split_name(name), value))
    return pairs
