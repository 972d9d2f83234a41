"""Rows of numbered shards, one open at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wdsctl.core.convert.rows.offset_shard import OffsetShard, mapped
from wdsctl.core.convert.rows.samples import Row
from wdsctl.core.errors import DatasetError, WdsctlError
from wdsctl.core.printable import named


class Shard(NamedTuple):
    """One shard of an index. `open` reads it; `decode` makes a row's values of a sample."""

    path: str
    samples: int
    open: Callable[[], OffsetShard]
    decode: Callable[[OffsetShard, int], Mapping[str, Any]]


class ShardRows:
    """Shards before the first row that is asked for are not opened."""

    def __init__(self, index: str, shards: Sequence[Shard]) -> None:
        self._index = index
        self._shards = shards

    def rows(self, start: int) -> Iterator[Row]:
        first = 0
        for shard in self._shards:
            # One that is to have none is opened, too: it may have some, and its index be wrong.
            if first + max(1, shard.samples) > start:
                opened = shard.open()
                for row in range(max(0, start - first), shard.samples):
                    yield _row(first + row, shard, opened, row)
            first += shard.samples

    def files(self) -> list[str]:
        return [self._index, *(shard.path for shard in self._shards)]

    def close(self) -> None:
        """Shards are open only while rows are read."""


def _row(number: int, shard: Shard, opened: OffsetShard, row: int) -> Row:
    where = f"{named(shard.path)}, sample {row:,}"
    try:
        return Row(number, where, shard.decode(opened, row))
    except WdsctlError as error:
        return Row(number, where, {}, error)
    except (ValueError, IndexError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        fault = DatasetError(
            f"a field cannot be decoded: {error}",
            hint="copy the shard again from its origin",
            where=where,
            code="WDS232",
        )
        return Row(number, where, {}, fault)


def plain_shard(path: str, samples: int) -> OffsetShard:
    """A shard that is not compressed."""
    return OffsetShard(mapped(path), path, samples)
