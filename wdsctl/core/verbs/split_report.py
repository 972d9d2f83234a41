"""What `split` answers: the splits that there are or were made, what moved, and how strata came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.catalog.totals import SplitCount
from wdsctl.core.split_rules import SplitRule, named_in
from wdsctl.core.splitting_bits import NOWHERE, labels_of
from wdsctl.core.verbs.split_ground import counts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """So many samples go from one split of a set to another; "" is none."""

    before: str
    after: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumLine:
    """How a stratum was divided. `drift`: by how much of the stratum the worst split misses its share, from 0 to 1."""

    stratum: str  # "" for samples that have no value
    samples: int
    splits: dict[str, int]  # of folds, by set: what it has as `val`
    drift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLine:
    """One set of splits as it is."""

    name: str
    rule: str
    splits: tuple[SplitCount, ...]
    without: int  # samples that are in none of its splits, and not excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """What was made. `by`: shard, sample, key, group, stratum, pattern or keys; empty where only excludes changed.

    `splits` have their whole names. `excluded`: samples that are in no split of any set, by rule or quarantine.
    """

    root: str
    by: str
    seed: int
    splits: tuple[SplitCount, ...]
    dry_run: bool
    rule: str = ""
    sets: tuple[str, ...] = ()  # that were made or dropped
    excluded: int = 0
    moved: tuple[Move, ...] = ()  # compared with the splits that there were
    strata: tuple[StratumLine, ...] = ()
    drift: float = 0.0  # the largest of the strata


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsReport:
    """What there is."""

    root: str
    sets: tuple[SetLine, ...]
    samples: int
    excluded: int
    excludes: dict[str, list[str]]
    quarantine: int  # rows of the ledger's quarantine


def split_counts(of_set: str, rule: SplitRule, parts: Parts) -> tuple[SplitCount, ...]:
    """The splits of a set, by their whole names."""
    counts = counts_of(parts)
    return tuple(SplitCount(named_in(of_set, name), rule.share(name), *counts.get(name, (0, 0))) for name in parts)


def moves(of_set: str, before: Parts, after: Parts, sizes: Mapping[int, int]) -> list[Move]:
    """How many samples of a set change their split, by where from and where to (whole names), the most first."""
    names = list(dict.fromkeys((*before, *after)))
    labels = len(names) - NOWHERE
    counts: Counter[tuple[int, int]] = Counter()
    for shard, count in sizes.items():
        old = [before.get(name, {}).get(shard) for name in names]
        new = [after.get(name, {}).get(shard) for name in names]
        if old == new:
            continue
        was, is_now = labels_of(old, count).astype(np.int64), labels_of(new, count)
        pairs, times = np.unique((was - NOWHERE) * labels + (is_now - NOWHERE), return_counts=True)
        for pair, number in zip(pairs.tolist(), times.tolist(), strict=True):
            one, other = (label + NOWHERE for label in divmod(pair, labels))
            if one != other:
                counts[one, other] += number
    called = [*(named_in(of_set, name) for name in names), ""]  # -1, of those that are nowhere, is the last
    return [Move(before=called[one], after=called[other], samples=n) for (one, other), n in counts.most_common()]


def strata_lines(strata: Mapping[str, Mapping[str, int]], shares: Mapping[str, float]) -> tuple[StratumLine, ...]:
    """The strata, the one that misses its shares by most first."""
    whole = sum(shares.values())
    lines = []
    for stratum, splits in strata.items():
        samples = sum(splits.values())
        missed = (abs(splits.get(name, 0) / max(samples, 1) - share / whole) for name, share in shares.items())
        drift = max(missed, default=0.0) if samples else 0.0
        lines.append(StratumLine(stratum=stratum, samples=samples, splits=dict(splits), drift=drift))
    return tuple(sorted(lines, key=lambda line: (-line.drift, line.stratum)))


def set_line(of_set: str, rule: SplitRule, parts: Parts, samples: int, excluded: int) -> SetLine:
    """A set as it is shown."""
    placed = sum(part.samples for mine in parts.values() for part in mine.values())
    return SetLine(
        name=of_set, rule=rule.said, splits=split_counts(of_set, rule, parts), without=samples - excluded - placed
    )
