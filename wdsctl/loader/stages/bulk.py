"""Batches straight from references, a column at a time, where nobody wants to see a sample.

Where no hook is overridden and parts are handed out as they are, a batch is what its samples would have been made
into: the samples themselves need not be. What does not fit (samples with other parts, large parts, fields that lie
inside JSON) goes the ordinary way, batch by batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import Any, Protocol

from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.batch import CrudeBatch, batch_type_of
from wdsctl.loader.references import Run
from wdsctl.loader.samples import BASE_FIELDS, TYPES
from wdsctl.loader.source import Source
from wdsctl.loader.stats import Stats


class Runs(Protocol):
    """References, as runs of neighbours."""

    def runs(self, count: int) -> list[Run]: ...


@dataclass(frozen=True, slots=True)
class BulkStage:
    """`size` samples a batch; `ordinary(samples, number)` makes a batch of samples."""

    source: Source
    size: int
    ordinary: Callable[[list[Any], int], Any]
    stats: Stats

    def draw(self, refs: Runs, number: int) -> Any:
        """The next batch of a lane, which is batch `number` of the job."""
        started = perf_counter()
        runs = refs.runs(self.size)
        layouts = {block.alike for block, _, _ in runs}
        fields = self.source.plain_fields(layouts.pop()) if len(layouts) == 1 else None
        if fields is None:
            samples = [self.source.load(block, i) for block, start, stop in runs for i in range(start, stop)]
            self.stats.load_seconds += perf_counter() - started
            return self.ordinary(samples, number)
        loaded = [self.source.load_run(*run) for run in runs]
        columns = loaded[0] if len(loaded) == 1 else [list(chain(*pieces)) for pieces in zip(*loaded, strict=True)]
        self.stats.load_seconds += perf_counter() - started
        self.stats.samples += len(columns[0])
        self.stats.batches += 1
        return self._batch(fields, columns)

    def _batch(self, fields: Sequence[str], columns: Sequence[list[Any]]) -> Any:
        """What `generic_batch` makes of such samples."""
        keys, restore_keys, sources, *values = columns
        subflavors = None if self.source.subflavors is None else [self.source.subflavors] * len(keys)
        base = (keys, tuple(restore_keys), subflavors, tuple(sources))
        given: dict[str, Any] = dict(zip((*BASE_FIELDS, *fields), (*base, *values), strict=True))
        if self.source.sample_type == CRUDE:
            return CrudeBatch(given)
        sample_type = TYPES[self.source.sample_type]
        for field in dataclasses.fields(sample_type):
            if field.name not in given:
                given[field.name] = [field.default] * len(keys)
        return batch_type_of(sample_type)(**given)
