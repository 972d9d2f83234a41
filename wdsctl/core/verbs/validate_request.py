"""What may be asked of `validate`, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from wdsctl.core.checks.levels import Level
from wdsctl.core.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """`shards`: patterns of paths, none for all. `refs`: (field of JSON, store), remembered in dataset.yaml; without
    any, those that are remembered. `again`: read what was validated before, too. `quarantine`: keep samples with errors
    out of all splits.
    """

    levels: tuple[Level, ...] = ("structure",)
    share: float = 1.0  # of the samples, on the levels that look into samples
    seed: int = 0
    shards: tuple[str, ...] = ()
    refs: tuple[tuple[str, str], ...] = ()
    again: bool = False
    quarantine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReport:
    """What is newly kept out: single samples, and whole shards; `all_samples` and `all_shards`: with what was before.

    `splits`: samples that each split has now.
    """

    samples: int
    shards: int
    all_samples: int
    all_shards: int
    splits: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateReport:
    """`findings` are sorted: the gravest first, then by shard. Each stands for `count` places.

    `shards`, `samples`, `size_bytes` are of what was asked for. `unread`: shards of these that have not changed since
    they were validated, whose findings are those of then. `share`: of the samples, where not all were looked into.
    `not_checked`: what the levels leave out, and which one looks at it; empty where nothing is.
    """

    root: str
    shards: int
    samples: int
    size_bytes: int
    findings: tuple[Finding, ...]
    seconds: float
    levels: tuple[Level, ...] = ("structure",)
    unread: int = 0
    share: float = 1.0
    seed: int = 0
    quarantine: QuarantineReport | None = None
    not_checked: str = ""
    view: str = ""  # that was looked at alone: `samples` are its samples
