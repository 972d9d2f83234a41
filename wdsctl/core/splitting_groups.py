"""Deals whole groups of samples out to splits, so that every split has of each label as near to its share as may be.

Greedy, as in stratified group k-fold: the largest groups first, each to the split that it brings nearest to the
shares, by Pearson's chi-squared over labels and over all samples. Groups of like size (to an eighth) come in an order
that a key gives them, so that what comes out follows from seed, groups and labels, and from no order of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.keys import derive, mix
from wdsctl.core.splitting_bits import NOWHERE, Labels

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

_MOST_WAITING = 1 << 22  # pairs that wait to be added up: 100 MB
_NOBODY, _NO_SAMPLES = np.empty(0, np.uint64), np.empty(0, np.int64)  # all may be excluded


@dataclass(slots=True)
class Tally:
    """How many samples of each label every group has: 24 bytes a pair that occurs."""

    _waiting: list[tuple[Words, Words, Counts]] = field(default_factory=lambda: [(_NOBODY, _NOBODY, _NO_SAMPLES)])
    _size: int = 0
    _summed: int = 0

    def add(self, groups: Words, labels: Words) -> None:
        """Samples, by the hashes of their group and their label."""
        self._waiting.append(_summed(groups, labels, np.ones(len(groups), np.int64)))
        self._size += len(self._waiting[-1][0])
        if self._size - self._summed > max(_MOST_WAITING, self._summed):
            self.pairs()

    def pairs(self) -> tuple[Words, Words, Counts]:
        """(groups, labels, samples) of all pairs, by group and label."""
        groups, labels, counts = (np.concatenate(each) for each in zip(*self._waiting, strict=True))
        self._waiting = [_summed(groups, labels, counts)]
        self._size = self._summed = len(self._waiting[0][0])
        return self._waiting[0]


@dataclass(frozen=True, slots=True)
class Homes:
    """The split of every group: hashes in order, and the number of the split of each."""

    groups: Words
    splits: Labels

    def of(self, groups: Words) -> Labels:
        """The splits of these groups, NOWHERE for those that have none."""
        if not len(self.groups):
            return np.full(len(groups), NOWHERE, np.int16)
        at = np.minimum(np.searchsorted(self.groups, groups), len(self.groups) - 1)
        return np.where(self.groups[at] == groups, self.splits[at], np.int16(NOWHERE))

    def by_name(self, names: Sequence[str]) -> dict[str, Words]:
        """The groups of each split, as a catalog keeps them."""
        return {name: self.groups[self.splits == number] for number, name in enumerate(names)}


def homes_of(by_name: Mapping[str, Words], names: Sequence[str]) -> Homes:
    """What `Homes.by_name` gave. Splits that are no longer named are left out."""
    pairs = [(by_name[name], number) for number, name in enumerate(names) if name in by_name]
    groups = np.concatenate([np.zeros(0, np.uint64), *(mine for mine, _ in pairs)])
    splits = np.concatenate([np.zeros(0, np.int16), *(np.full(len(mine), i, np.int16) for mine, i in pairs)])
    order = np.argsort(groups, kind="stable")
    return Homes(groups[order], splits[order])


def deal_groups(
    tally: Tally,
    known: Homes,
    held: Mapping[int, Sequence[int]],
    shares: Sequence[float],
    seed: int,
    *,
    fills: bool = True,
) -> tuple[Homes, dict[int, list[int]]]:
    """The splits of all groups, `known` ones as they are, and by label how many of these samples each split gets.

    `held`: what splits have of a label already. `fills`: the last and smallest groups go where nothing is yet. Time:
    some 15 µs a group.
    """
    groups, labels, counts = tally.pairs()
    names, columns = np.unique(labels, return_inverse=True)
    balance = _Balance([held.get(number, ()) for number in names.tolist()], columns, counts, held, shares)
    homes, starts = np.unique(groups, return_index=True)
    ends = np.append(starts[1:], len(groups))
    splits = known.of(homes)
    for i in np.flatnonzero(splits != NOWHERE).tolist():
        balance.put(int(splits[i]), *_of_group(columns, counts, starts[i], ends[i]))
    waiting = np.flatnonzero(splits == NOWHERE)
    sizes = np.add.reduceat(counts, starts)[waiting]
    order = np.lexsort((mix(derive("groups", seed), homes[waiting]), -_magnitudes(sizes)))
    for left, i in zip(range(len(order), 0, -1), waiting[order].tolist(), strict=True):
        mine = _of_group(columns, counts, starts[i], ends[i])
        empty = balance.empty() if fills and left <= len(shares) else []
        splits[i] = split = balance.best(*mine, among=empty if left <= len(empty) else None)
        balance.put(split, *mine)
    return Homes(homes, splits), dict(zip(names.tolist(), balance.given, strict=True))


class _Balance:
    """What every split has of each label, a column each, and of all samples, in one more."""

    def __init__(
        self,
        before: Sequence[Sequence[int]],
        columns: NDArray[np.intp],
        counts: Counts,
        held: Mapping[int, Sequence[int]],
        shares: Sequence[float],
    ) -> None:
        self._splits = range(len(shares))
        blank = [0] * len(shares)
        self.given = [[0] * len(shares) for _ in before]
        totals = [sum(each) for each in zip(*held.values(), strict=True)] if held else blank
        self._has = [*([*each] or [*blank] for each in before), totals]
        new = np.zeros(len(self._has), np.int64)
        np.add.at(new, columns, counts)
        new[-1] = counts.sum()
        whole = sum(shares)
        after = [sum(has) + more for has, more in zip(self._has, new.tolist(), strict=True)]
        self._wants = [[total * share / whole for share in shares] for total in after]

    def empty(self) -> list[int]:
        """The splits that have nothing."""
        return [split for split in self._splits if not self._has[-1][split]]

    def best(self, columns: Sequence[int], counts: Sequence[int], *, among: Sequence[int] | None) -> int:
        """The split that comes nearest to its share by these samples."""
        return min(among or self._splits, key=lambda split: self._cost(split, columns, counts))

    def put(self, split: int, columns: Sequence[int], counts: Sequence[int]) -> None:
        """Give samples to a split."""
        for column, count in zip(columns, counts, strict=True):
            self._has[column][split] += count
            self._has[-1][split] += count
            self.given[column][split] += count

    def _cost(self, split: int, columns: Sequence[int], counts: Sequence[int]) -> float:
        """What chi-squared, the sum of (has - wants)^2 / wants, grows by."""
        cost = 0.0
        for column, count in zip((*columns, -1), (*counts, sum(counts)), strict=True):
            wants = self._wants[column][split]
            cost += count * (2 * (self._has[column][split] - wants) + count) / wants
        return cost


def _magnitudes(sizes: Counts) -> Counts:
    """Numbers that grow with sizes, eight of them to each power of two."""
    fractions, exponents = np.frexp(sizes)
    return exponents * 8 + (fractions * 16).astype(np.int64)


def _of_group(columns: NDArray[np.intp], counts: Counts, start: int, end: int) -> tuple[list[int], list[int]]:
    return columns[start:end].tolist(), counts[start:end].tolist()


def _summed(groups: Words, labels: Words, counts: Counts) -> tuple[Words, Words, Counts]:
    """Each pair once, by group and label."""
    if not len(groups):
        return groups, labels, counts
    order = np.lexsort((labels, groups))
    groups, labels, counts = groups[order], labels[order], counts[order]
    is_first = np.append(True, (groups[1:] != groups[:-1]) | (labels[1:] != labels[:-1]))
    starts = np.flatnonzero(is_first)
    return groups[starts], labels[starts], np.add.reduceat(counts, starts)
