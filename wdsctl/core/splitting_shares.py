"""Deals samples out by what they are: by the hash of a value, so that a value always goes to the same split, and
by strata, so that each stratum is divided by the shares.

Both work a shard at a time, in memory that does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.keys import derive, mix
from wdsctl.core.ratios import deal
from wdsctl.core.splitting_bits import Labels

Words = NDArray[np.uint64]

_ALL = 1 << 64


def by_hash(hashes: Words, shares: Mapping[str, float], seed: int) -> Labels:
    """(samples,): for each hash the split, by its place among `shares`. What else there is does not matter."""
    bounds = _bounds([Fraction(repr(share)) for share in shares.values()])
    placed = mix(derive("split by", seed), hashes)
    labels: Labels = np.searchsorted(bounds, placed, side="right").astype(np.int16)
    return labels


def by_fold(hashes: Words, fold: tuple[int, int], seed: int) -> Labels:
    """(samples,): 1 (`val`) for the i-th of k parts, 0 (`train`) for the others."""
    number, count = fold
    labels: Labels = (by_hash(hashes, {str(i): 1.0 for i in range(count)}, seed) == number).astype(np.int16)
    return labels


def _bounds(shares: Sequence[Fraction]) -> Words:
    """Where each split but the first begins in 64 bits."""
    whole = sum(shares)
    edges, upto = [], Fraction(0)
    for share in shares[:-1]:
        upto += share
        edges.append(int(upto * _ALL / whole))
    return np.array([min(edge, _ALL - 1) for edge in edges], np.uint64)


@dataclass(slots=True)
class Stratum:
    """What of a stratum is still to be dealt, by split."""

    left: list[int]

    @property
    def total(self) -> int:
        return sum(self.left)


def strata_of(
    counts: Mapping[int, int], already: Mapping[int, Mapping[str, int]], shares: Mapping[str, float]
) -> dict[int, Stratum]:
    """How many samples each split gets of each stratum (by its hash), so that all of it comes nearest to the shares.

    `counts`: new samples of each; `already`: those that splits have.
    """
    strata = {}
    for number, count in counts.items():
        known = already.get(number, {})
        dealt = deal(count + sum(known.values()), known, shares)
        strata[number] = Stratum(list(dealt.values()))
    return strata


def by_stratum(hashes: Words, strata: Mapping[int, Stratum], key: int) -> Labels:
    """(samples,): the splits of one shard's samples, whose strata have these hashes. `key` is the shard's own.

    Takes what it deals out of `strata`. Whole quotas are dealt first; the rest is drawn, by hash, from what is left,
    so that the counts come out exactly once all shards are dealt, and the order of the shards favours no split.
    """
    labels = np.zeros(len(hashes), np.int16)
    if not len(hashes):
        return labels
    draws = mix(key, np.arange(len(hashes), dtype=np.uint64))
    order = np.lexsort((draws, hashes))
    ordered = hashes[order]
    starts = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        members = order[start:stop]
        left = strata[int(ordered[start])].left
        counts = _share_out(len(members), left, draws[members].tolist())
        labels[members] = np.repeat(np.arange(len(left)), counts)
    return labels


def _share_out(count: int, left: list[int], draws: list[int]) -> list[int]:
    """How many of `count` samples each split gets of what is `left` for it, which is brought down by it."""
    total = sum(left)
    counts = [count * each // total for each in left] if total else [0] * len(left)
    for i, each in enumerate(counts):
        left[i] -= each
    for draw in draws[: count - sum(counts)]:
        at = draw % (sum(left) or 1)
        i = 0
        while at >= left[i]:
            at -= left[i]
            i += 1
        left[i] -= 1
        counts[i] += 1
    return counts
