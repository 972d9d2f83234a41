"""Define the request and the reports of `validate`, and parse its options: levels, shares, references, shards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from wdsctl.core.errors import Finding, OptionConflict, UsageError, refuse_without_effect
from wdsctl.core.options import UNSET, as_tuple, group, option
from wdsctl.core.shared_options import CATALOG, SAMPLE_SEED, UNIT_WORKERS, WAIT

ValidationLevel = Literal["structure", "headers", "content", "load", "schema", "refs", "hashes"]

ValidationTarget = Literal["", "hub"]

LEVELS: tuple[ValidationLevel, ...] = get_args(ValidationLevel)  # the cheapest first
ALL_LEVELS_OPTION = "all"
#: The levels that check a share of the samples; `structure` and `hashes` check whole shards.
SAMPLED_LEVELS: tuple[ValidationLevel, ...] = ("headers", "content", "schema", "refs")

#: The levels that each level needs, besides `structure`: `content` does not repeat the checks of `headers`.
_REQUIRED_LEVELS: dict[ValidationLevel, tuple[ValidationLevel, ...]] = {"content": ("headers",)}

_SHARE = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(%?)")


def parse_levels(levels: str | Sequence[str]) -> tuple[ValidationLevel, ...]:
    """Parse `["content,schema"]` or `["all"]` into levels, with those that they need, the cheapest first.

    The result always contains `structure`. Raises UsageError for an unknown level.
    """
    selected: set[str] = {"structure"}
    for name in (part.strip() for text in as_tuple(levels) for part in text.split(",")):
        if name != ALL_LEVELS_OPTION and name not in LEVELS:
            raise UsageError(f"--level {name}: unknown level", hint=f"use one of {', '.join(LEVELS)}, or all")
        selected |= {*LEVELS} if name == ALL_LEVELS_OPTION else {name}
    for level in LEVELS:
        if level in selected:
            selected |= {*_REQUIRED_LEVELS.get(level, ())}
    return tuple(level for level in LEVELS if level in selected)


def parse_share(share: str | float) -> float:
    """Parse `1%`, `0.01` or `1e-2`. Raises UsageError for anything else, for 0, and for more than 100%."""
    match = _SHARE.fullmatch(str(share).strip())
    number = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < number <= 1:
        raise UsageError(
            f"--sample {share}: expected a share above 0 and up to 100%",
            hint="write a share, for example `--sample 1%` or `--sample 0.01`",
        )
    return number


def parse_refs(refs: Mapping[str, str] | Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Parse `image=../media`, or a mapping, into pairs (field, store). Raises UsageError."""
    texts = [f"{field}={store}" for field, store in refs.items()] if isinstance(refs, Mapping) else as_tuple(refs)
    return tuple(map(parse_ref, texts))


def parse_ref(text: str) -> tuple[str, str]:
    """Parse `image=../media` into (field, store). Raises UsageError."""
    field, equals, store = text.partition("=")
    if not equals or not store.strip() or not all(step.strip() for step in field.split(".")):
        raise UsageError(
            f"--refs {text}: expected FIELD=STORE",
            hint="write a JSON field and a store, for example `--refs image=../media` or `--refs "
            "meta.image=filesystem://raw`",
        )
    return field.strip(), store.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """What `validate` checks. `levels`: complete, as `parse_levels` returns them. `refs`: empty for dataset.yaml's."""

    # The order of the fields is that of the files of array jobs.
    levels: tuple[ValidationLevel, ...] = ("structure",)
    share: float = option(
        1.0,
        "Fraction of the samples to check, such as 1%.  [default: 100%]",
        name="sample",
        metavar="SHARE",
        parse=parse_share,
        python_help='The share of the samples to check, "1%" or 0.01, drawn by `seed`.',
    )
    seed: int = option(0, SAMPLE_SEED)
    shards: tuple[str, ...] = option(
        (),
        "Only these shards: a glob, brace range or re:REGEX (repeatable).",
        metavar="PATTERN",
        is_repeatable=True,
        parse=as_tuple,
    )
    refs: tuple[tuple[str, str], ...] = option(
        (),
        "Check that STORE has the files that a JSON FIELD names; saved in dataset.yaml (repeatable).",
        metavar="FIELD=STORE",
        is_repeatable=True,
        parse=parse_refs,
        python_help="JSON field -> the store that has the files it names; saved in dataset.yaml.",
    )
    again: bool = option(False, "Check unchanged shards again. The level `hashes` always does so.")
    quarantine: bool = option(False, "Exclude samples with errors from all splits. Does not modify shards.")
    target: ValidationTarget = option(
        "", "Also report what the viewer of the Hugging Face Hub would refuse.", flag="--for", metavar="hub"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateCommand:
    """The options of `validate`."""

    root: str = option(
        UNSET,
        "Dataset or ROOT@VIEW: a folder of shards, a .jsonl file, or a URL of either. Or a blend file.",
        is_argument=True,
        is_path=True,
        metavar="ROOT",
    )
    level: tuple[ValidationLevel, ...] = option(
        (),
        "What to check, see below. [default: structure]",
        metavar="LEVEL,...",
        is_repeatable=True,
        parse=parse_levels,
        python_help="structure (always), headers, content, load, schema, refs, hashes, or all; as "
        '"schema,content" or a list. With `refs`, refs by default.',
    )
    request: ValidateRequest = group(ValidateRequest, "sample seed shards refs target again quarantine")
    release: bool = option(False, "Release samples from quarantine, and check nothing.")
    wait: float = option(0.0, WAIT)
    workers: int = option(1, UNIT_WORKERS)
    catalog: str | None = option(None, CATALOG)


def check_request(request: ValidateRequest) -> None:
    """Raise OptionConflict for a seed without a share, and for a share without a level that takes one."""
    is_sample = request.share < 1
    refuse_without_effect(
        ("--seed", request.seed, "--sample SHARE", is_sample),
        ("--sample", is_sample, f"--level {' or '.join(SAMPLED_LEVELS)}", {*SAMPLED_LEVELS} & {*request.levels}),
    )


def check_release_options(flags: Iterable[str]) -> None:
    """Raise OptionConflict if one of these options is given: a release checks nothing."""
    for flag in flags:
        raise OptionConflict(
            f"{flag} has no effect with --release, which checks nothing",
            options=(flag, "--release"),
            are_exclusive=True,
            hint=f"omit {flag}; validate in a second run, or pass --json for the report of --release",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReport:
    """Counts of samples and whole shards that this run put into quarantine.

    `all_samples`, `all_shards`: including earlier runs. `splits`: the number of samples of each split afterwards.
    """

    samples: int
    shards: int
    all_samples: int
    all_shards: int
    splits: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateReport:
    """The report of `validate`. `findings`: by descending severity, then by shard; each has a `count`.

    `shards`, `samples`, `size_bytes`: those of the request. `unread`: unchanged shards whose stored findings were
    reused. `levels`: those that ran; `skipped`: for each other level of the request, why it did not run. `not_checked`:
    what the levels leave out, and the level that checks it; empty if nothing. `view`: the view whose samples were
    checked; empty for all samples.
    """

    root: str
    shards: int
    samples: int
    size_bytes: int
    findings: tuple[Finding, ...]
    seconds: float
    levels: tuple[ValidationLevel, ...] = ("structure",)
    unread: int = 0
    share: float = 1.0
    seed: int = 0
    quarantine: QuarantineReport | None = None
    skipped: tuple[str, ...] = ()
    not_checked: str = ""
    view: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """`released`: entries removed from the quarantine. `splits`: the number of samples of each split afterwards."""

    root: str
    released: int
    splits: dict[str, int]


def describe_undecoded(levels: Sequence[ValidationLevel]) -> str:
    """Say that these levels decode no media; empty if they do."""
    media = "all media" if "load" in levels else "media too"
    return "" if "content" in levels else f"{', '.join(levels)} only: pass --level content to decode {media}"


def match_shards(paths: Sequence[str], patterns: Sequence[str], scope: str) -> set[str]:
    """Find the paths that match one of the patterns of `--shards`.

    Raises UsageError if a pattern is invalid or matches no path; `scope` names the searched shards in the message.
    """
    selected: set[str] = set()
    for pattern in patterns:
        found = match_pattern(paths, pattern)
        if not found:
            raise UsageError(
                f"--shards {pattern}: no shard {scope} matches the pattern",
                hint="pass a path below ROOT, a glob such as 'train/*.tar', a brace range, or re:REGEX for the "
                "whole path",
            )
        selected.update(found)
    return selected


def match_pattern(paths: Sequence[str], pattern: str) -> list[str]:
    """Find the paths that match one pattern of `--shards`. Raises UsageError if it is invalid."""
    from wdsctl.core.dataset.shard_patterns import compile_shard_pattern

    try:
        return list(filter(compile_shard_pattern(pattern), paths))
    except UsageError as error:
        raise UsageError(f"--shards {pattern}: {error.message}", hint=error.hint) from error
