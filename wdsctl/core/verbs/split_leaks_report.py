"""What the search for leaks answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wdsctl.core.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakPair:
    """Two samples of different splits with the same content."""

    one_split: str
    one: str  # SHARD/KEY
    other_split: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakCount:
    """How many samples of `split` have content that is in `other`, too."""

    split: str
    other: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaksReport:
    """`parts`: what was compared; empty means whole samples. `hashed`: samples that had to be read."""

    root: str
    set: str
    parts: tuple[str, ...]
    samples: int
    hashed: int
    size_bytes: int
    counts: tuple[LeakCount, ...]
    pairs: tuple[LeakPair, ...]  # the first of them
    findings: tuple[Finding, ...]


def pair_of(pairs: Sequence[LeakPair], each: LeakCount) -> LeakPair | None:
    """The first pair of these two splits that is told."""
    return next((pair for pair in pairs if (pair.one_split, pair.other_split) == (each.other, each.split)), None)
