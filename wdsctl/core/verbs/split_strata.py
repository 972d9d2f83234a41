"""Sorts samples by strata: each divided by the shares, sample by sample, or as near to that as whole groups allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.errors import UsageError
from wdsctl.core.keys import derive
from wdsctl.core.split_values import hash_of
from wdsctl.core.splitting import Given
from wdsctl.core.splitting_bits import NOWHERE, Labels
from wdsctl.core.splitting_groups import Homes, Tally, deal_groups, homes_of
from wdsctl.core.splitting_shares import Words, strata_of
from wdsctl.core.splitting_shares import by_stratum as dealt_out
from wdsctl.core.verbs.split_ground import Ground
from wdsctl.core.verbs.split_problems import NO_VALUE, Problem
from wdsctl.core.verbs.split_read import values_by_shard
from wdsctl.core.verbs.split_work import Labelled, Work, check_read

MOST_STRATA = 100_000
MOST_GROUPS = 10_000_000  # that the catalog is to name


def by_stratum(work: Work) -> Labelled:
    """Two passes over the values, which the first leaves behind: how many there are, and who goes where."""
    strata = _Values(work, work.rule.stratify)
    counts: dict[int, int] = {}
    for row, hashes in strata.first():
        numbers, times = np.unique(_only(work, row, hashes), return_counts=True)
        for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
            counts[number] = counts.get(number, 0) + count
        _check_strata(work, counts)
    _check_values(work, counts)
    left = strata_of(counts, _before(work.before.strata), work.rule.shares)
    names = tuple(work.rule.shares)
    texts = strata.texts
    work.given = Given({texts[number]: dict(zip(names, each.left, strict=True)) for number, each in left.items()})
    for row in sorted(work.rows, key=lambda row: row.path):
        hashes = strata.again(row)
        key = derive("stratum", work.rule.seed, row.path)
        mine = work.only.get(row.id)
        labels = np.full(row.samples, NOWHERE, np.int16)
        places = slice(None) if mine is None else mine
        labels[places] = dealt_out(hashes[places], left, key)
        if mine is not None:
            labels[~mine] = 0  # whatever: `place` leaves them where they are
        yield row, labels


def balanced(work: Work) -> Labelled:
    """Whole groups, and of each stratum as near to the shares as they allow.

    Three passes: the group of every sample, its stratum beside it, and who goes where. Memory: 24 bytes for each
    stratum of each group.
    """
    groups, strata = _Values(work, work.rule.group_by), _Values(work, work.rule.stratify)
    for _ in groups.first():
        pass  # what it reads is found again below
    tally, labels_seen = Tally(), set[int]()
    for row, labels in strata.first():
        mine, kept = _only(work, row, groups.again(row)), _only(work, row, labels)
        has_place = mine != 0 if _rest(work) is None else np.ones(len(mine), np.bool_)
        tally.add(mine[has_place], kept[has_place])
        labels_seen.update(np.unique(kept).tolist())
        _check_strata(work, labels_seen)
    _check_values(work, labels_seen)
    homes = _deal(work, tally, strata.texts)
    fold = work.rule.fold
    for row in work.rows:
        splits = homes.of(groups.again(row))
        yield row, splits if fold is None else np.where(splits < 0, splits, splits == fold[0]).astype(np.int16)


def _deal(work: Work, tally: Tally, texts: Mapping[int, str]) -> Homes:
    names = tuple(work.rule.dealt)
    known = homes_of(work.before.groups, names)
    rest = _rest(work)
    if rest is not None:  # samples without a group are in it, whatever it has: the others are to make up for them
        known = Homes(np.append(np.uint64(0), known.groups), np.append(np.int16(rest), known.splits))
    held = {number: [each.get(name, 0) for name in names] for number, each in _before(work.before.strata).items()}
    shares = list(work.rule.dealt.values())
    homes, given = deal_groups(tally, known, held, shares, work.rule.seed, fills=not work.rule.allow_empty)
    homes = _with_more(known, homes)
    if len(homes.groups) > MOST_GROUPS:
        raise UsageError(
            f"{work.rule.group_by} has more than {MOST_GROUPS:,} different values, which the catalog cannot remember",
            hint="leave --stratify out: groups alone go by a hash, and nothing of them is remembered",
        )
    strata = {texts[number]: dict(zip(names, counts, strict=True)) for number, counts in given.items()}
    work.given = Given(strata, homes.by_name(names))
    return homes


def _with_more(known: Homes, more: Homes) -> Homes:
    """Both; 0, which stands for no group, is left out."""
    is_new = (known.of(more.groups) == NOWHERE) & (more.groups != 0)
    is_group = known.groups != 0
    groups = np.append(known.groups[is_group], more.groups[is_new])
    order = np.argsort(groups)
    splits: Labels = np.append(known.splits[is_group], more.splits[is_new])
    return Homes(groups[order], splits[order])


def _rest(work: Work) -> int | None:
    """The split that takes samples without a group, where shares are counted for it."""
    names = list(work.rule.dealt)
    return names.index(work.rule.rest) if work.rule.rest in names else None


@dataclass(slots=True)
class _Values:
    """The values of all shards, read once. `held`: where what was read may not be left in files."""

    work: Work
    spec: str
    texts: dict[int, str] = field(default_factory=lambda: {0: ""})
    held: dict[int, Words] = field(default_factory=dict)

    @property
    def ground(self) -> Ground:
        return self.work.ground

    @property
    def is_told(self) -> bool:
        return self.spec == self.work.rule.stratify

    def first(self) -> Iterator[tuple[ShardRow, Words]]:
        """Shards in whatever order they come, with the hash of every sample's value."""
        for row, found in values_by_shard(self.ground, self.spec, self.work.rows, is_told=self.is_told):
            check_read(row, found.broken)
            self.texts |= found.texts
            if not self.ground.keeps:
                self.held[row.id] = found.hashes
            yield row, found.hashes

    def again(self, row: ShardRow) -> Words:
        """The same for one shard that was read."""
        if row.id in self.held:
            return self.held[row.id]
        [(_, found)] = values_by_shard(self.ground, self.spec, [row], is_told=self.is_told)
        check_read(row, found.broken)
        return found.hashes


def _before(strata: Mapping[str, Mapping[str, int]]) -> dict[int, Mapping[str, int]]:
    return {hash_of(text) if text else 0: known for text, known in strata.items()}


def _check_values(work: Work, counts: set[int] | dict[int, int]) -> None:
    """A value that no sample has makes no strata, where they are made for the first time."""
    if set(counts) == {0} and not work.before.strata and not work.rule.allow_empty:
        message, spec = f"no sample has {work.rule.stratify}", work.rule.stratify
        hint = f"check the name of the value; `--allow-empty` goes on as if {spec} were the same in all"
        work.problems.append(Problem(NO_VALUE, message, hint))


def _check_strata(work: Work, counts: set[int] | dict[int, int]) -> None:
    if len(counts) > MOST_STRATA:
        spec = work.rule.stratify
        raise UsageError(
            f"{spec} has more than {MOST_STRATA:,} different values: these are no strata",
            hint=f"to keep samples of one value together: `--group-by {spec}`",
        )


def _only(work: Work, row: ShardRow, hashes: Words) -> Words:
    mine = work.only.get(row.id)
    return hashes if mine is None else hashes[mine]
