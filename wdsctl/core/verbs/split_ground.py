"""What splits are worked out on: the shards that have samples, and where their keys are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wdsctl.core.catalog.shard_row import ShardRow
from wdsctl.core.catalog.split_rows import Parts
from wdsctl.core.files import remove_tree
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.progress import Progress
from wdsctl.core.shard_index import Ints
from wdsctl.core.splitting import SplitShard

KEYS_AT_ONCE = 1 << 18  # samples whose keys are worked on together


@dataclass(frozen=True)
class Ground:
    """`rows`: shards with samples, in id order. `keeps`: whether results of units may be written."""

    place: Place
    generation: int
    rows: tuple[ShardRow, ...]
    workers: int
    progress: Progress
    keeps: bool

    @cached_property
    def offsets(self) -> Offsets:
        """Opened when it is first needed: many rules need no keys."""
        return Offsets(self.place.offsets(self.generation))

    @cached_property
    def at(self) -> dict[int, int]:
        """The place of each shard, by id, in the offsets file."""
        return {shard.id: i for i, shard in enumerate(self.offsets.shards)}

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Samples of each shard, by id."""
        return {row.id: row.samples for row in self.rows}

    @cached_property
    def by_path(self) -> dict[str, ShardRow]:
        return {row.path: row for row in self.rows}

    @property
    def samples(self) -> int:
        return sum(row.samples for row in self.rows)

    def first_row(self, row: ShardRow) -> int:
        """The row of a shard's first sample in the offsets file."""
        return int(self.offsets.shard_row[self.at[row.id]])

    def key(self, row: ShardRow, place: int) -> str:
        """SHARD/KEY of a sample, as messages name it."""
        return f"{row.path}/{self.offsets.key(self.first_row(row) + place)}"

    def together(self, rows: Sequence[ShardRow]) -> Iterator[tuple[list[ShardRow], Ints]]:
        """Shards, several of them where they are small, with the rows of their samples in the offsets file."""
        some: list[ShardRow] = []
        count = 0
        for row in rows:
            some.append(row)
            count += row.samples
            if count >= KEYS_AT_ONCE:
                yield some, self._rows_of(some)
                some, count = [], 0
        if some:
            yield some, self._rows_of(some)

    def work(self) -> str:
        """The folder for results of units; empty where none may be kept."""
        return os.path.join(self.place.work, "values") if self.keeps else ""

    def forget_work(self) -> None:
        """Remove the results of units: what they were for is done."""
        if self.keeps:
            remove_tree(self.work())

    def _rows_of(self, rows: Sequence[ShardRow]) -> Ints:
        return np.concatenate([np.arange(first := self.first_row(row), first + row.samples) for row in rows])


def counts_of(parts: Parts) -> dict[str, tuple[int, int]]:
    """Of each split (shards, samples)."""
    return {name: (len(mine), sum(part.samples for part in mine.values())) for name, mine in parts.items()}


def as_parts(dealt: dict[str, list[SplitShard]]) -> Parts:
    """What `splitting` deals, by shard."""
    return {name: {part.shard: part for part in parts if part.samples} for name, parts in dealt.items()}
