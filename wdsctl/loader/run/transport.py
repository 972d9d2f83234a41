"""The compact form of batches between processes: the sources and restore keys of their samples travel as arrays.

A batch of 32 has 32 sources with five facts each, and 32 restore keys. Pickling these takes longer than reading the
samples. Both processes number the sources in the same way, so two arrays can replace all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.loader.pipeline.bulk import RawBatch, expand_raw_batch
from wdsctl.loader.samples.build import lazy_source_info, source_and_index

SOURCES_FIELD, RESTORE_KEYS_FIELD = "__sources__", "__restore_key__"


class CompactBatch(NamedTuple):
    """`sources`: (samples, 2), number of the source and index in it. `restore_keys`: (samples, 3). None: the batch has
    them."""

    batch: Any
    sources: Int64Array | None
    restore_keys: Int64Array | None


class CompactingRunner:
    """A runner whose batches `compact_result` compacts for another process."""

    def __init__(self, runner: Any, compact_result: Callable[[Any], Any]) -> None:
        self._runner = runner
        self._compact_result = compact_result
        self.close = runner.close

    def run_task(self, task: Any) -> Any:
        drawn = self._runner.run_task(task)
        return drawn._replace(batch=self._compact_result(drawn.batch))


def compact_batch(batch: Any) -> Any:
    """The batch in its compact form, or as it is if nothing in it can be compacted."""
    sources = _rows_as_array(_source_numbers(_field_value(batch, SOURCES_FIELD)), 2)
    restore_keys = _field_value(batch, RESTORE_KEYS_FIELD)
    # A hook may have made a list, which stays one.
    keys = _rows_as_array(restore_keys, 3) if isinstance(restore_keys, tuple) else None
    if sources is None and keys is None:
        return batch
    batch = copy(batch)
    if sources is not None:
        _set_field(batch, SOURCES_FIELD, None)
    if keys is not None:
        _set_field(batch, RESTORE_KEYS_FIELD, ())
    return CompactBatch(batch, sources, keys)


def compact_batches(batches: Sequence[Any]) -> list[Any]:
    """The batches of one task in their compact forms."""
    return [compact_batch(batch) for batch in batches]


def expand_batch(received: Any, all_sources: Sequence[Any]) -> Any:
    """The batch before it was compacted. `all_sources`: by number."""
    if isinstance(received, RawBatch):
        return expand_raw_batch(received, all_sources)
    if not isinstance(received, CompactBatch):
        return received
    batch, sources, keys = received
    if sources is not None:
        _set_field(
            batch,
            SOURCES_FIELD,
            tuple([lazy_source_info(all_sources[number], index) for number, index in sources.tolist()]),
        )
    if keys is not None:
        _set_field(batch, RESTORE_KEYS_FIELD, tuple(map(tuple, keys.tolist())))
    return batch


def _field_value(batch: Any, name: str) -> Any:
    return batch.get(name) if isinstance(batch, dict) else getattr(batch, name, None)


def _set_field(batch: Any, name: str, value: Any) -> None:
    if isinstance(batch, dict):
        batch[name] = value
    else:
        setattr(batch, name, value)


def _source_numbers(infos: Any) -> list[tuple[int, int]] | None:
    if not isinstance(infos, tuple):
        return None
    pairs = [source_and_index(info) for info in infos]
    return None if None in pairs else pairs  # type: ignore[return-value]


def _rows_as_array(rows: Any, width: int) -> Int64Array | None:
    """Rows of `width` integers as an array; None for anything else."""
    if not isinstance(rows, (tuple, list)) or not rows:
        return None
    if any(type(row) is not tuple or len(row) != width for row in rows):
        return None
    if any(type(part) is not int for row in rows for part in row):
        return None
    return np.array(rows, np.int64)
