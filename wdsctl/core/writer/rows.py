"""Iterate over the rows of lists, datasets and frames of other packages, by their methods: none is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from wdsctl.core.errors import UsageError


def iter_rows(rows: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
    """The rows of this rank: row `rank`, `rank + world_size`, ...; frames give dicts by column.

    Reads only these rows if `rows` has a length and takes positions. Missing values of pandas become None.
    Raises UsageError for what has no rows.
    """
    if hasattr(rows, "itertuples") and hasattr(rows, "notna"):
        return islice(_pandas_rows(rows), rank, None, world_size)
    if hasattr(rows, "iter_rows") and hasattr(rows, "columns"):
        return islice(rows.iter_rows(named=True), rank, None, world_size)
    if isinstance(rows, Mapping | str | bytes):
        raise UsageError(
            f"{type(rows).__name__} is no iterable of samples",
            hint="pass a list, a generator, a dataset or a frame, whose items are dicts from field to value",
        )
    takes_positions = hasattr(rows, "__getitem__") and hasattr(rows, "__len__")
    if takes_positions and (world_size > 1 or not hasattr(rows, "__iter__")):
        # Without __iter__, Python would ask for positions until an IndexError, which torch's datasets need not raise.
        return (rows[position] for position in range(rank, len(rows), world_size))
    if not isinstance(rows, Iterable):
        raise UsageError(
            f"{type(rows).__name__} is no iterable of samples",
            hint="pass a list, a generator, a dataset or a frame (collect() a lazy one)",
        )
    return islice(rows, rank, None, world_size)


def _pandas_rows(frame: Any) -> Iterator[dict[Any, Any]]:
    names = list(frame.columns)
    if len(set(names)) < len(names):
        raise UsageError("two columns of the frame have the same name", hint="rename one of them")
    tuples = (each.itertuples(index=False, name=None) for each in (frame, frame.notna()))
    for values, are_there in zip(*tuples, strict=True):
        yield {name: value if there else None for name, value, there in zip(names, values, are_there, strict=True)}
