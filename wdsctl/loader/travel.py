"""Batches between processes: what says where samples came from travels as numbers, and is itself again on arrival.

A batch of 32 has 32 sources with five facts each, and 32 restore keys. To pickle them as they are takes longer than to
read the samples. Both processes have the same sources by the same numbers, so two arrays say it all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wdsctl.loader.freight import Freight
from wdsctl.loader.samples.source_info import numbered, source_at
from wdsctl.loader.stages.bulk import arrived

Ints = NDArray[np.int64]

SOURCES, KEYS = "__sources__", "__restore_key__"


class Travelling(NamedTuple):
    """`sources`: (samples, 2), number of the source and index in it. `keys`: (samples, 3). None: the batch has them."""

    batch: Any
    sources: Ints | None
    keys: Ints | None


class Sending:
    """Work whose batches go to another process, as what `pack` makes of them."""

    def __init__(self, work: Any, pack: Callable[[Any], Any]) -> None:
        self._work = work
        self._pack = pack
        self.close = work.close

    def do(self, task: Any) -> Any:
        drawn = self._work.do(task)
        return drawn._replace(batch=self._pack(drawn.batch))


def packed(batch: Any) -> Any:
    """The batch as it travels; itself where it has nothing that would be heavy."""
    sources, keys = _array(_sources(_value(batch, SOURCES)), 2), _array(_value(batch, KEYS), 3)
    if sources is None and keys is None:
        return batch
    batch = copy(batch)
    if sources is not None:
        _set(batch, SOURCES, None)
    if keys is not None:
        _set(batch, KEYS, ())
    return Travelling(batch, sources, keys)


def unpacked(travelling: Any, origins: Sequence[Any]) -> Any:
    """The batch as it was made. `origins`: the sources by their numbers."""
    if isinstance(travelling, Freight):
        return arrived(travelling, origins)
    if not isinstance(travelling, Travelling):
        return travelling
    batch, sources, keys = travelling
    if sources is not None:
        _set(batch, SOURCES, tuple([source_at(origins[number], index) for number, index in sources.tolist()]))
    if keys is not None:
        _set(batch, KEYS, tuple(map(tuple, keys.tolist())))
    return batch


def _value(batch: Any, name: str) -> Any:
    return batch.get(name) if isinstance(batch, dict) else getattr(batch, name, None)


def _set(batch: Any, name: str, value: Any) -> None:
    if isinstance(batch, dict):
        batch[name] = value
    else:
        setattr(batch, name, value)


def _sources(infos: Any) -> list[tuple[int, int]] | None:
    if not isinstance(infos, tuple):
        return None
    pairs = [numbered(info) for info in infos]
    return None if None in pairs else pairs  # type: ignore[return-value]


def _array(rows: Any, width: int) -> Ints | None:
    """Rows of `width` whole numbers as an array; None where they are anything else."""
    if not isinstance(rows, (tuple, list)) or not rows:
        return None
    if any(type(row) is not tuple or len(row) != width for row in rows):
        return None
    if any(type(part) is not int for row in rows for part in row):
        return None
    return np.array(rows, np.int64)
