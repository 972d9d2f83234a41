"""Deals shards or samples out to splits: exact counts by largest remainder, the choice by a keyed hash, nothing lost.

What is dealt stays dealt: new shards are given so that the totals come nearest to the shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wdsctl.core.keys import derive, mix
from wdsctl.core.ratios import By, apportion, deal
from wdsctl.core.splitting import SplitShard
from wdsctl.core.splitting_bits import part_of


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard to be dealt. Its path, not its id, decides: a rebuilt catalog deals alike."""

    id: int
    path: str
    samples: int


Dealt = dict[str, list[SplitShard]]


def resolved(by: By, shards: int, shares: Mapping[str, float]) -> Literal["shard", "sample"]:
    """`auto` means whole shards, which read fastest, unless a split would then stay empty."""
    if by == "auto":
        return "shard" if all(apportion(shards, shares).values()) else "sample"
    return "shard" if by == "shard" else "sample"


def by_shard(shards: Sequence[Shard], shares: Mapping[str, float], seed: int, already: Mapping[str, int]) -> Dealt:
    """Whole shards to splits. `already`: shards that each split has."""
    counts = deal(len(shards) + sum(already.values()), already, shares)
    drawn = sorted(shards, key=lambda shard: (derive("split", seed, shard.path), shard.path))
    dealt: Dealt = {}
    for name, count in counts.items():
        mine, drawn = drawn[:count], drawn[count:]
        dealt[name] = sorted((SplitShard(shard.id, shard.samples) for shard in mine), key=lambda part: part.shard)
    return dealt


def by_sample(shards: Sequence[Shard], shares: Mapping[str, float], seed: int, already: Mapping[str, int]) -> Dealt:
    """Samples to splits, every shard giving its fair share to each. `already`: samples that each split has."""
    total = sum(shard.samples for shard in shards) + sum(already.values())
    left = deal(total, already, shares)
    dealt: Dealt = {name: [] for name in left}
    for shard in shards:
        if shard.samples == 0:
            continue
        counts = apportion(shard.samples, left)
        for name, part in zip(counts, _drawn(shard, seed, list(counts.values())), strict=True):
            if part is not None:
                dealt[name].append(part)
        left = {name: left[name] - count for name, count in counts.items()}
    return dealt


def _drawn(shard: Shard, seed: int, counts: list[int]) -> list[SplitShard | None]:
    """So many of the shard's samples for each split, drawn by hash."""
    order = np.argsort(mix(derive("split", seed, shard.path), np.arange(shard.samples)), kind="stable")
    parts: list[SplitShard | None] = []
    begin = 0
    for count in counts:
        chosen = np.zeros(shard.samples, np.bool_)
        chosen[order[begin : begin + count]] = True
        begin += count
        parts.append(part_of(shard.id, chosen))
    return parts
