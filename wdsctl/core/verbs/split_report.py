"""What `split` answers: the splits that there are or were made, what moved, and how strata came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.catalog.totals import SplitCount
from wdsctl.core.counted import counted
from wdsctl.core.errors import UsageError
from wdsctl.core.split_rules import SplitRule, named_in
from wdsctl.core.splitting_bits import NOWHERE, flags_of, labels_of
from wdsctl.core.verbs.split_former import add
from wdsctl.core.verbs.split_ground import Ground, counts_of

FEW_KEYS = 3  # that are named of samples that change their split
MOST_PAIRS = 6  # of splits that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """So many samples go from one split of a set to another; "" is none. `keys`: the first of them, as SHARD/KEY."""

    before: str
    after: str
    samples: int
    keys: tuple[str, ...] = ()


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
    `moved`: compared with the splits that there were. `reassigned`: of these, and of excluded samples that will come
    back, those that leave one of several splits of a set for another, or for none: what a training has seen may be in
    another's test. It is done only where it was asked for.
    """

    root: str
    by: str
    seed: int
    splits: tuple[SplitCount, ...]
    dry_run: bool
    rule: str = ""
    sets: tuple[str, ...] = ()  # that were made or dropped
    excluded: int = 0
    moved: tuple[Move, ...] = ()
    reassigned: tuple[Move, ...] = ()
    strata: tuple[StratumLine, ...] = ()
    drift: float = 0.0  # the largest of the strata


class WouldMove(UsageError):  # noqa: N818 - named after what it says
    """Samples would change their split, and nobody has said that they may. `report`: as of a dry run."""

    code = "WDS238"

    def __init__(self, report: SplitReport) -> None:
        self.report = replace(report, dry_run=True)
        samples = sum(move.samples for move in report.reassigned)
        pairs = ", ".join(
            f"{move.samples:,} from {move.before} to {move.after or 'no split'} (such as {move.keys[0]})"
            for move in report.reassigned[:MOST_PAIRS]
        )
        more = ", ..." if len(report.reassigned) > MOST_PAIRS else ""
        super().__init__(
            f"{counted(samples, 'sample')} would leave {'its' if samples == 1 else 'their'} split: {pairs}{more}",
            where=report.root,
            hint="`--set NAME` makes another set of splits beside this one, and nothing moves; `--yes` moves them, "
            "where no model was trained on the old splits; `--dry-run` shows what would move",
        )


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


def moves(of_set: str, before: Parts, after: Parts, ground: Ground) -> list[Move]:
    """How many samples of a set change their split, by where from and where to (whole names), the most first.

    The first keys are named of samples that were in a split.
    """
    names = list(dict.fromkeys((*before, *after)))
    called = [*(named_in(of_set, name) for name in names), ""]  # NOWHERE is the last
    counts: Counter[tuple[int, int]] = Counter()
    keys: dict[tuple[int, int], list[str]] = {}
    for row in ground.rows:
        old = [before.get(name, {}).get(row.id) for name in names]
        new = [after.get(name, {}).get(row.id) for name in names]
        if old == new:
            continue
        was, is_now = labels_of(old, row.samples).astype(np.int64), labels_of(new, row.samples)
        pairs = (was - NOWHERE) * len(called) + (is_now - NOWHERE)
        for number, times in zip(*(each.tolist() for each in np.unique(pairs, return_counts=True)), strict=True):
            one, other = pair = number // len(called) + NOWHERE, number % len(called) + NOWHERE
            if one == other:
                continue
            counts[pair] += times
            some = keys.setdefault(pair, [])
            if one != NOWHERE and len(some) < FEW_KEYS:
                places = np.flatnonzero(pairs == number)[: FEW_KEYS - len(some)].tolist()
                some += [ground.key(row, place) for place in places]
    return [
        Move(before=called[one], after=called[other], samples=count, keys=tuple(keys[one, other]))
        for (one, other), count in counts.most_common()
    ]


def reassigned(of_set: str, before: tuple[Parts, Parts], after: tuple[Parts, Parts], ground: Ground) -> list[Move]:
    """The samples of a set that leave a split for another or for none, as `moves` says them.

    `before`, `after`: the splits, and what goes back to each of them. None of a set that had one split alone: to take
    some of it for a new one is how a dataset is divided for the first time.
    """
    was, is_now = (_together(*each, ground) for each in (before, after))
    if sum(bool(mine) for mine in was.values()) < 2:
        return []
    return [move for move in moves(of_set, was, is_now, ground) if move.before]


def _together(parts: Parts, former: Parts, ground: Ground) -> Parts:
    """What each split has, and what goes back to it."""
    both: Parts = {name: dict(mine) for name, mine in parts.items()}
    for name, mine in former.items():
        here = both.setdefault(name, {})
        for shard in mine.keys() & ground.sizes.keys():
            add(here, shard, flags_of(mine[shard], ground.sizes[shard]))
    return both


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
