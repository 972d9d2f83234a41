"""Batches made directly of references, a column at a time, if no hook sees the samples.

If no hook is overridden and parts stay bytes, the samples of a batch need not be built. Batches with other samples
(different parts, large parts, fields inside JSON) are made in the ordinary way.

A worker reads such a batch into shared memory and decodes nothing (`RawBatch`); the training process makes the batch
where it is used. Every byte is copied twice: from the system's cache, and into the user's own bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import add
from time import perf_counter
from typing import Any, NamedTuple

from wdsctl.core.errors import WdsctlError
from wdsctl.core.samples.types import CRUDE
from wdsctl.loader.batching.batch import CrudeBatch, batch_type_of
from wdsctl.loader.reading.source import PlainSampleType, SampleRefRange, SplitSource
from wdsctl.loader.runtime.failure_rates import BATCH_COUNTER, FailureTally
from wdsctl.loader.runtime.failures import STORAGE_DOWN_ERRORS
from wdsctl.loader.runtime.stats import Stats
from wdsctl.loader.samples import BASE_FIELDS, SAMPLE_CLASSES, lazy_source_info
from wdsctl.loader.workers.ring import ByteArray, reserve


class RawBatch(NamedTuple):
    """Samples as lists, one per column. `part_bounds`: of each part, where it starts and ends in `memory`."""

    memory: ByteArray
    plain_type: PlainSampleType
    keys: list[str]
    source_numbers: list[int]  # of their sources
    pass_numbers: list[int]
    sample_ids: list[int]
    rows: list[int]
    part_bounds: list[tuple[list[int], list[int]]]

    @property
    def restore_keys(self) -> list[tuple[int, int, int]]:
        return list(zip(self.source_numbers, self.pass_numbers, self.sample_ids, strict=True))

    def load_columns(self, sources: Sequence[SplitSource]) -> list[list[Any]]:
        """The columns of the batch: keys, restore keys, sources, and each part."""
        origins = list(map(lazy_source_info, map(sources.__getitem__, self.source_numbers), self.rows))
        # No Python code per part: that would take as long as the copy.
        within = self.memory.data.__getitem__
        parts = [list(map(bytes, map(within, map(slice, *bounds)))) for bounds in self.part_bounds]
        return [self.keys, self.restore_keys, origins, *parts]


def read_raw_batch(ref_ranges: Sequence[SampleRefRange], plain_type: PlainSampleType) -> RawBatch | None:
    """Read plain samples of this type into the ring of this worker.

    None outside of a worker, if the ring has no room, and for raw="view". Raises WdsctlError for the first sample that
    cannot be read.
    """
    if ref_ranges[0][0].raw == "view":
        return None
    memory = reserve(sum(sum(block.spans[start:stop]) for _, block, start, stop in ref_ranges))
    if memory is None:
        return None
    raw_batch = RawBatch(memory, plain_type, [], [], [], [], [], [([], []) for _ in plain_type[1]])
    at = 0
    for source, block, start, stop in ref_ranges:
        run = slice(start, stop)
        begins = source.read_range_into(block, start, stop, memory.data, at)
        at = begins[-1] + block.spans[stop - 1]
        raw_batch.keys.extend(block.keys[run])
        raw_batch.source_numbers.extend([source.number] * (stop - start))
        raw_batch.pass_numbers.extend(block.passes[run])
        raw_batch.sample_ids.extend(block.ids[run])
        raw_batch.rows.extend(block.rows[run])
        for own_bounds, bounds in zip(raw_batch.part_bounds, block.part_bounds[block.common_layout], strict=True):
            for listed, offsets in zip(own_bounds, bounds, strict=True):
                listed.extend(map(add, begins, offsets[run]))
    return raw_batch


@dataclass(frozen=True, slots=True)
class BulkStage:
    """Makes batches of `batch_size` samples."""

    batch_size: int

    def make_batch(self, ref_ranges: Sequence[SampleRefRange], stats: Stats) -> Any:
        """These references as a batch; None if that is impossible, or if one of them cannot be read.

        In a worker it may be a `RawBatch`, of which `expand_raw_batch` makes the batch in the training process.
        """
        started = perf_counter()
        kinds = {source.plain_type(block.common_layout) for source, block, _, _ in ref_ranges}
        plain = kinds.pop()
        if kinds or plain is None:
            return None
        try:
            raw_batch = read_raw_batch(ref_ranges, plain)
            columns = None if raw_batch is not None else _load_columns(ref_ranges, plain)
        except STORAGE_DOWN_ERRORS:
            raise
        except WdsctlError:
            return None  # the ordinary way reports which one
        stats.load_seconds += perf_counter() - started
        stats.samples += sum(stop - start for _, _, start, stop in ref_ranges)
        stats.batches += 1
        if columns is None:
            return raw_batch
        return build_batch(plain, [source.subflavors for source, _, a, b in ref_ranges for _ in range(a, b)], columns)


def count_ranges(tally: FailureTally, ref_ranges: Sequence[SampleRefRange]) -> None:
    """Count a batch of these references, and its samples."""
    tally.begin_attempt(BATCH_COUNTER)
    tally.count_successes([(source.number, stop - start) for source, _, start, stop in ref_ranges])


def bulk_origins(batch: Any) -> list[Any]:
    """The restore keys of the samples of a batch that was made in bulk."""
    return batch.restore_keys if isinstance(batch, RawBatch) else list(batch["__restore_key__"])


def expand_raw_batch(raw_batch: RawBatch, sources: Sequence[SplitSource]) -> Any:
    """The batch of a `RawBatch`. `sources`: by number."""
    subflavors = [sources[number].subflavors for number in raw_batch.source_numbers]
    return build_batch(raw_batch.plain_type, subflavors, raw_batch.load_columns(sources))


def build_batch(plain_type: PlainSampleType, subflavors: Sequence[Any], columns: Sequence[list[Any]]) -> Any:
    """The batch that `generic_batch` makes of such samples. `subflavors`: of each sample."""
    name, fields = plain_type
    keys, restore_keys, sources, *values = columns
    base = (keys, tuple(restore_keys), subflavors, tuple(sources))
    values_by_field: dict[str, Any] = dict(zip((*BASE_FIELDS, *fields), (*base, *values), strict=True))
    if name == CRUDE:
        return CrudeBatch(values_by_field)
    for field, default in _unfilled_fields(plain_type):
        values_by_field[field] = [default] * len(keys)
    return batch_type_of(SAMPLE_CLASSES[name])(**values_by_field)


@cache
def _unfilled_fields(plain_type: PlainSampleType) -> list[tuple[str, Any]]:
    """The fields of the sample type that no part fills, with their defaults."""
    name, fields = plain_type
    filled = {*BASE_FIELDS, *fields}
    return [
        (field.name, field.default) for field in dataclasses.fields(SAMPLE_CLASSES[name]) if field.name not in filled
    ]


def _load_columns(ref_ranges: Sequence[SampleRefRange], plain_type: PlainSampleType) -> list[list[Any]]:
    columns: list[list[Any]] = [[] for _ in ("keys", "restore keys", "sources", *plain_type[1])]
    for source, block, start, stop in ref_ranges:
        if stop - start > 1:
            source.append_range(block, start, stop, columns)
        else:
            source.append_sample(block, start, columns)
    return columns
