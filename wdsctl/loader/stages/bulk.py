"""Batches straight from references, a column at a time, where nobody wants to see a sample.

Where no hook is overridden and parts are handed out as they are, a batch is what its samples would have been made
into: the samples themselves need not be. What does not fit (samples with other parts, large parts, fields that lie
inside JSON) goes the ordinary way, batch by batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter
from typing import Any

from wdsctl.core.errors import WdsctlError
from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.batch import CrudeBatch, batch_type_of
from wdsctl.loader.references import Run
from wdsctl.loader.samples import BASE_FIELDS, TYPES
from wdsctl.loader.source import Source
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class BulkStage:
    """`size` samples a batch, all of one source."""

    source: Source
    size: int

    def batch(self, runs: Sequence[Run], stats: Stats) -> Any:
        """These references as a batch; None where that cannot be, or where one of them cannot be read."""
        started = perf_counter()
        layouts = {block.alike for block, _, _ in runs}
        fields = self.source.plain_fields(layouts.pop()) if len(layouts) == 1 else None
        if fields is None:
            return None
        try:
            loaded = [self.source.load_run(*run) for run in runs]
        except WdsctlError:
            return None  # the ordinary way finds out which one, and tells
        columns = loaded[0] if len(loaded) == 1 else [list(chain(*pieces)) for pieces in zip(*loaded, strict=True)]
        stats.load_seconds += perf_counter() - started
        stats.samples += len(columns[0])
        stats.batches += 1
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
