"""How often samples came, over a whole trace. Memory: 16 bytes a sample that came at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from wdsctl.core.trace.block import Ints
from wdsctl.core.trace.facts import SourceFacts
from wdsctl.core.trace.trace import TracedBatch

_AT_ONCE = 1 << 20  # ids that are gathered before they are counted


@dataclass
class Tally:
    """Of one dataset: `ids` ascending, and how often each of them came."""

    ids: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    times: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _new: list[Ints] = field(default_factory=list)
    _waiting: int = 0

    def add(self, ids: Ints) -> None:
        self._new.append(ids)
        self._waiting += len(ids)
        if self._waiting >= max(_AT_ONCE, len(self.ids) // 4):
            self.settle()

    def settle(self) -> Tally:
        """Count in what has been gathered."""
        ids, times = np.unique(np.concatenate([np.empty(0, np.int64), *self._new]), return_counts=True)
        every, where = np.unique(np.concatenate([self.ids, ids]), return_inverse=True)
        self.times = np.bincount(where, np.concatenate([self.times, times]), len(every)).astype(np.int64)
        self.ids, self._new, self._waiting = every, [], 0
        return self

    @property
    def total(self) -> int:
        return int(self.times.sum())

    def by_times(self) -> dict[int, int]:
        """How many samples came once, twice, ..."""
        times, samples = np.unique(self.times, return_counts=True)
        return dict(zip(times.tolist(), samples.tolist(), strict=True))

    def most(self, count: int) -> list[tuple[int, int]]:
        """(id, times) of the samples that came most often, the lowest ids first among equals."""
        first = np.argsort(-self.times, kind="stable")[:count]
        return list(zip(self.ids[first].tolist(), self.times[first].tolist(), strict=True))


def tally(batches: Iterable[TracedBatch]) -> tuple[dict[SourceFacts | None, Tally], int]:
    """A tally a dataset (None: samples without a restore key), and how many batches there were.

    Runs whose headers have the same dataset are counted together.
    """
    tallies: dict[SourceFacts | None, Tally] = {}
    count = 0
    for batch in batches:
        count += 1
        sources = {source.number: source for source in batch.run.sources}
        for number in np.unique(batch.origins[:, 0]).tolist():
            ids = batch.origins[batch.origins[:, 0] == number, 2]
            tallies.setdefault(sources.get(number), Tally()).add(ids)
    return {source: each.settle() for source, each in tallies.items()}, count
