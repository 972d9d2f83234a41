"""Batches straight from references, a column at a time, where nobody wants to see a sample.

Where no hook is overridden and parts are handed out as they are, a batch is what its samples would have been made
into: the samples themselves need not be. What does not fit (samples with other parts, large parts, fields that lie
inside JSON) goes the ordinary way, batch by batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

from wdsctl.core.errors import WdsctlError
from wdsctl.core.sample_types import CRUDE
from wdsctl.loader.batch import CrudeBatch, batch_type_of
from wdsctl.loader.failure_rates import BATCHES, Tally
from wdsctl.loader.failures import STORAGE_DOWN
from wdsctl.loader.freight import Freight, freight_of
from wdsctl.loader.samples import BASE_FIELDS, TYPES
from wdsctl.loader.source import PlainType, RefRange, Source
from wdsctl.loader.stats import Stats


@dataclass(frozen=True, slots=True)
class BulkStage:
    """`size` samples a batch."""

    size: int

    def batch(self, pieces: Sequence[RefRange], stats: Stats) -> Any:
        """These references as a batch; None where that cannot be, or where one of them cannot be read.

        In a worker it may be `Freight`, of which `batch_of` makes the batch where it arrives.
        """
        started = perf_counter()
        kinds = {source.plain_type(block.alike) for source, block, _, _ in pieces}
        plain = kinds.pop()
        if kinds or plain is None:
            return None
        try:
            freight = freight_of(pieces, plain)
            columns = None if freight is not None else _loaded(pieces, plain)
        except STORAGE_DOWN:
            raise
        except WdsctlError:
            return None  # the ordinary way finds out which one, and tells
        stats.load_seconds += perf_counter() - started
        stats.samples += sum(stop - start for _, _, start, stop in pieces)
        stats.batches += 1
        if columns is None:
            return freight
        return batch_of(plain, [source.subflavors for source, _, a, b in pieces for _ in range(a, b)], columns)


def count_pieces(tally: Tally, pieces: Sequence[RefRange]) -> None:
    """Count a batch that was made of these references, and its samples."""
    tally.begin(BATCHES)
    tally.begin_all([(source.number, stop - start) for source, _, start, stop in pieces])


def origins_of(batch: Any) -> list[Any]:
    """The restore keys of the samples of a batch that was made in bulk."""
    return batch.restore_keys if isinstance(batch, Freight) else list(batch["__restore_key__"])


def arrived(freight: Freight, sources: Sequence[Source]) -> Any:
    """The batch that travelled as freight. `sources`: by their numbers."""
    subflavors = [sources[number].subflavors for number in freight.numbers]
    return batch_of(freight.plain, subflavors, freight.columns(sources))


def batch_of(plain: PlainType, subflavors: Sequence[Any], columns: Sequence[list[Any]]) -> Any:
    """What `generic_batch` makes of such samples. `subflavors`: of each sample."""
    name, fields = plain
    keys, restore_keys, sources, *values = columns
    base = (keys, tuple(restore_keys), subflavors, tuple(sources))
    given: dict[str, Any] = dict(zip((*BASE_FIELDS, *fields), (*base, *values), strict=True))
    if name == CRUDE:
        return CrudeBatch(given)
    for field, default in _left_out(plain):
        given[field] = [default] * len(keys)
    return batch_type_of(TYPES[name])(**given)


@cache
def _left_out(plain: PlainType) -> list[tuple[str, Any]]:
    """The fields of the sample type that its parts do not fill, with what stands in them."""
    name, fields = plain
    filled = {*BASE_FIELDS, *fields}
    return [(field.name, field.default) for field in dataclasses.fields(TYPES[name]) if field.name not in filled]


def _loaded(pieces: Sequence[RefRange], plain: PlainType) -> list[list[Any]]:
    columns: list[list[Any]] = [[] for _ in ("keys", "restore keys", "sources", *plain[1])]
    for source, block, start, stop in pieces:
        if stop - start > 1:
            source.load_run(block, start, stop, columns)
        else:
            source.load_one(block, start, columns)
    return columns
