"""Define the request and the reports of `validate`, and parse its options: levels, shares, references, shards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from wdsctl.core.errors import Finding, OptionConflict, UsageError, refuse_without_effect

ValidationLevel = Literal["structure", "headers", "content", "load", "schema", "refs", "hashes"]

ValidationTarget = Literal["", "hub"]

LEVELS: tuple[ValidationLevel, ...] = get_args(ValidationLevel)  # the cheapest first
ALL_LEVELS_OPTION = "all"
#: The levels that check a share of the samples; `structure` and `hashes` check whole shards.
SAMPLED_LEVELS: tuple[ValidationLevel, ...] = ("headers", "content", "schema", "refs")

#: The levels that each level needs, besides `structure`: `content` does not repeat the checks of `headers`.
_REQUIRED_LEVELS: dict[ValidationLevel, tuple[ValidationLevel, ...]] = {"content": ("headers",)}

_SHARE = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """One call of `validate`.

    `levels`: complete, as `parse_levels` returns them. `share` and `seed`: the share of the samples, above 0 and at
    most 1, that the levels from `headers` to `refs` check. `shards`: patterns; empty for all shards. `refs`: (field of
    the JSON, store), which `validate` saves in dataset.yaml; if empty, dataset.yaml decides. `again`: check unchanged
    shards again. `quarantine`: exclude samples with errors from all splits. `target`: also find what this reader would
    refuse.
    """

    levels: tuple[ValidationLevel, ...] = ("structure",)
    share: float = 1.0
    seed: int = 0
    shards: tuple[str, ...] = ()
    refs: tuple[tuple[str, str], ...] = ()
    again: bool = False
    quarantine: bool = False
    target: ValidationTarget = ""


def check_request(request: ValidateRequest) -> None:
    """Raise OptionConflict for a seed without a share, and for a share without a level that takes one."""
    is_sample = request.share < 1
    refuse_without_effect(
        ("--seed", request.seed, "--sample SHARE", is_sample),
        ("--sample", is_sample, f"--level {' or '.join(SAMPLED_LEVELS)}", {*SAMPLED_LEVELS} & {*request.levels}),
    )


def check_release_options(given: Mapping[str, object]) -> None:
    """Raise OptionConflict for an option without effect on a release, which checks nothing.

    `given`: whether each option is given.
    """
    flag = next((flag for flag, is_given in given.items() if is_given), "")
    if flag:
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


def parse_levels(options: Sequence[str]) -> tuple[ValidationLevel, ...]:
    """Parse `["content,schema"]` or `["all"]` into levels, with those that they need, the cheapest first.

    The result always contains `structure`. Raises UsageError for an unknown level.
    """
    selected: set[str] = {"structure"}
    for name in (part.strip() for text in options for part in text.split(",")):
        if name != ALL_LEVELS_OPTION and name not in LEVELS:
            raise UsageError(f"--level {name}: unknown level", hint=f"use one of {', '.join(LEVELS)}, or all")
        selected |= {*LEVELS} if name == ALL_LEVELS_OPTION else {name}
    for level in LEVELS:
        if level in selected:
            selected |= {*_REQUIRED_LEVELS.get(level, ())}
    return tuple(level for level in LEVELS if level in selected)


def parse_share(text: str) -> float:
    """Parse `1%`, `0.01` or `1e-2`. Raises UsageError for anything else, for 0, and for more than 100%."""
    match = _SHARE.fullmatch(text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < share <= 1:
        raise UsageError(
            f"--sample {text}: expected a share above 0 and up to 100%",
            hint="write a share, for example `--sample 1%` or `--sample 0.01`",
        )
    return share


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
