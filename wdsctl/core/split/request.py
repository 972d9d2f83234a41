"""The options of `split`, and the request that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from wdsctl.core.errors import OptionConflict, UsageError, refuse_without_effect
from wdsctl.core.options import UNSET, PathText, as_paths, as_tuple, given_options, option
from wdsctl.core.shared_options import ALLOW_SPLIT_CHANGES, CATALOG, DRY_RUN, ROOT, UNIT_WORKERS, WAIT
from wdsctl.core.split_rules.excludes import Excludes
from wdsctl.core.split_rules.names import check_split_name
from wdsctl.core.split_rules.rule import SPLIT_SEED, SplitBy, SplitRule

_EXCLUDED = ("shard", "key", "keys", "code")  # --exclude-shard, ...
_RATIOS_HINT = "pass ratios, for example `wdsctl split DATASET 8,1,1`"
_VALUES = "json:FIELD, part:NAME, key:REGEX or column:NAME"


_MAX_FOLDS = 1000  # each is a set, whose splits cover all samples


def parse_ratios(ratios: str | Mapping[str, float] | None) -> str | None:
    """The ratios as text, also of a mapping."""
    from wdsctl.core.split_rules.shares import shares_text

    return None if ratios is None else shares_text(ratios)


def pattern_texts(pattern: Mapping[str, str | Sequence[str]] | Sequence[str]) -> tuple[str, ...]:
    """`NAME=PATTERN`, also of a mapping: split -> one or several patterns."""
    if not isinstance(pattern, Mapping):
        return as_tuple(pattern)
    return tuple(f"{name}={text}" for name, texts in pattern.items() for text in as_tuple(texts))


def key_file_texts(keys: Mapping[str, PathText] | Sequence[str]) -> tuple[str, ...]:
    """`NAME=FILE`, also of a mapping: split -> file."""
    if not isinstance(keys, Mapping):
        return as_tuple(keys)
    return tuple(f"{name}={os.fspath(file)}" for name, file in keys.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The options of `split` that make a `SplitRequest`. `pattern`, `keys`: NAME=PATTERN, NAME=FILE."""

    ratios: str | None = option(
        None, "8,1,1 or train=8,val=1,test=1.", is_argument=True, metavar="RATIOS", parse=parse_ratios
    )
    by: SplitBy = option(
        "auto",
        "Assign whole shards, single samples, or samples by a hash of their key. auto: whole shards, or "
        "samples if the shards do not fit the ratios.",
        metavar="|".join(get_args(SplitBy)),
    )
    seed: int = option(0, SPLIT_SEED)
    group_by: str = option(
        "",
        "Keep samples with the same value in one split, such as json:id.",
        metavar="VALUE",
        python_help=f"Keep samples with the same value in one split: {_VALUES}.",
    )
    stratify: str = option("", "Apply the ratios to each value separately.", metavar="VALUE")
    pattern: tuple[str, ...] = option(
        (),
        "Assign shards by brace range, glob: or re: (repeatable).",
        metavar="NAME=PATTERN",
        is_repeatable=True,
        parse=pattern_texts,
        python_help="Split -> patterns of its shards: brace range, glob: or re:.",
    )
    keys: tuple[str, ...] = option(
        (),
        "Assign the keys in a file, one per line (repeatable).",
        metavar="NAME=FILE",
        is_repeatable=True,
        parse=key_file_texts,
        python_help="Split -> file with its keys, one per line.",
    )
    by_value: str = option("", "Assign samples to the split that their value names.", metavar="VALUE")
    rest: str = option("", "Split for all other samples; 'none' leaves them without a split.", metavar="NAME")
    from_file: str = option("", "Use a split.yaml of Energon.", flag="--from", metavar="FILE", is_path=True)
    folds: int | None = option(None, "Create K split sets, each with another fold as val.", metavar="K", min=1)
    split_set: str = option("", "Create this split set next to the others.", flag="--set", metavar="SET")
    exclude_shard: tuple[str, ...] = option(
        (), "Exclude shards from all splits (repeatable).", metavar="PATTERN", is_repeatable=True, parse=as_tuple
    )
    exclude_key: tuple[str, ...] = option(
        (), "Exclude samples from all splits (repeatable).", metavar="KEY", is_repeatable=True, parse=as_tuple
    )
    exclude_keys: tuple[str, ...] = option(
        (), "Exclude the keys in a file (repeatable).", metavar="FILE", is_repeatable=True, parse=as_paths
    )
    exclude_code: tuple[str, ...] = option(
        (),
        "Exclude samples with this finding of validate (repeatable).",
        metavar="WDSnnn",
        is_repeatable=True,
        parse=as_tuple,
    )
    no_excludes: bool = option(False, "Remove all excludes except those given here.")
    allow_split_changes: bool = option(False, ALLOW_SPLIT_CHANGES)
    allow_empty: bool = option(False, "Allow empty splits, and patterns and keys without matches.")
    drop: bool = option(
        False,
        "Delete the split set of --set, or its folds. Without --set, ask and delete the default set.",
        python_help="Delete the split set of --set, or its folds; without --set, the default set, with --yes.",
    )
    again: bool = option(False, "Create all split sets again by the rules in dataset.yaml.")
    workers: int = option(1, UNIT_WORKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCommand:
    """The options of `split`."""

    root: str = option(UNSET, ROOT)
    options: SplitOptions = SplitOptions()
    wait: float = option(0.0, WAIT)
    catalog: str | None = option(None, CATALOG)
    dry_run: bool = option(False, DRY_RUN)
    yes: bool = option(False, "As `allow_split_changes`, and let `drop` delete the default set.", flag="")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRequest:
    """What `split` does. `split_set`: the set to make or drop, "" the default set.

    `rule`: how the set is divided from now on. `folds`: make this many sets of it, each with another fold as `val`.
    `excludes`: samples to take out of all sets, in addition to those in force; with `replace_excludes` in their place.
    `drop`: delete the set. `again`: make all sets by dataset.yaml. `allow_split_changes`: samples of a set with several
    splits may leave their split for another.
    """

    rule: SplitRule | None = None
    split_set: str = ""
    folds: int = 0
    excludes: Excludes = field(default_factory=Excludes)
    replace_excludes: bool = False
    drop: bool = False
    again: bool = False
    allow_empty: bool = False
    allow_split_changes: bool = False
    workers: int = 1

    @property
    def is_query(self) -> bool:
        """Whether the request changes nothing."""
        return not (self.rule or self.drop or self.again or self.has_excludes)

    @property
    def has_excludes(self) -> bool:
        """Whether the request changes what is excluded, apart from `again`."""
        return bool(self.excludes) or self.replace_excludes


def parse_split_request(options: SplitOptions) -> SplitRequest:
    """The request of these options. Raises UsageError if they contradict each other, or are invalid.

    Reads `from_file`, no other file.
    """
    from wdsctl.core.codes import load_codes
    from wdsctl.core.energon.split_yaml import read_split_yaml
    from wdsctl.core.samples.fields import did_you_mean
    from wdsctl.core.split.store import absolute_paths
    from wdsctl.core.split.values import parse_value_spec
    from wdsctl.core.split_rules.shares import parse_split_shares

    group_by, stratify, by_value, rest = options.group_by, options.stratify, options.by_value, options.rest
    ratios, folds, split_set, again = options.ratios, options.folds or 0, options.split_set, options.again
    given = given_options(options, "ratios pattern keys by_value from_file folds drop again")
    _check_method([name for name, is_given in given.items() if is_given], options)
    for spec in filter(None, (group_by, stratify, by_value)):
        parse_value_spec(spec)
    blank = SplitRule({}, rest=check_split_name(rest) if rest else "", allow_empty=options.allow_empty)
    by_shares = replace(blank, seed=options.seed, group_by=group_by, stratify=stratify)
    rule, source_excludes = None, Excludes()
    if options.from_file:
        source_rule, source_excludes = read_split_yaml(options.from_file)
        rule = replace(blank, patterns=source_rule.patterns)
    elif options.pattern:
        rule = replace(blank, patterns=_parse_patterns(options.pattern))
    elif options.keys:
        rule = replace(blank, keys=_parse_key_files(options.keys))
    elif by_value:
        rule = replace(blank, by_value=by_value)
    elif folds > _MAX_FOLDS:
        raise UsageError(f"{folds:,} folds are too many; the limit is {_MAX_FOLDS:,}", hint="pass a smaller `--folds`")
    elif folds:
        rule = replace(by_shares, by="auto" if group_by else "key")
    elif ratios is not None:
        rule = replace(by_shares, by=options.by, shares=parse_split_shares(ratios))
    for code in options.exclude_code:
        if code not in load_codes():
            hint = did_you_mean(code, list(load_codes())) or "run `wdsctl explain` to list the codes"
            raise UsageError(f"unknown code {code}", hint=hint)
    excludes = Excludes(
        shards=options.exclude_shard,
        keys=options.exclude_key,
        key_files=absolute_paths(options.exclude_keys),
        codes=options.exclude_code,
    )
    request = SplitRequest(
        rule=rule,
        split_set=split_set,
        folds=folds,
        excludes=excludes.merged_with(source_excludes),
        replace_excludes=options.no_excludes,
        drop=options.drop,
        again=again,
        allow_empty=options.allow_empty,
        allow_split_changes=options.allow_split_changes,
        workers=options.workers,
    )
    refuse_without_effect(
        ("--seed", options.seed, "RATIOS or --folds", ratios is not None or folds),
        ("--allow-split-changes", options.allow_split_changes, "RATIOS, another rule, or --again", rule or again),
        ("--allow-empty", options.allow_empty, "RATIOS, another rule, or excludes", rule or again or request.excludes),
        ("--set", split_set and request.has_excludes, "RATIOS, another rule, or --drop", rule or options.drop or again),
    )
    if again and (split_set or request.has_excludes):
        name = "--set" if split_set else "--no-excludes" if options.no_excludes else "new excludes"
        flags = ("--again", "--set", "--no-excludes", *(f"--exclude-{what}" for what in _EXCLUDED))
        raise OptionConflict(
            f"--again and {name} exclude each other: it makes all sets and excludes again by dataset.yaml",
            options=flags,
            are_exclusive=True,
            hint="edit dataset.yaml, or run `wdsctl split` again without --again",
        )
    return request


def _check_method(methods: Sequence[str], options: SplitOptions) -> None:
    by, group_by, stratify, rest = options.by, options.group_by, options.stratify, options.rest
    folds = options.folds or 0
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
    from wdsctl.core.dataset.shard_patterns import compile_shard_pattern

    patterns: dict[str, tuple[str, ...]] = {}
    for name, pattern in _parse_pairs(texts, "--pattern", "train='shard-{000..799}.tar'"):
        compile_shard_pattern(pattern)
        patterns[name] = (*patterns.get(name, ()), pattern)
    return patterns


def _parse_key_files(texts: Sequence[str]) -> dict[str, str]:
    from wdsctl.core.split.store import absolute_paths

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
