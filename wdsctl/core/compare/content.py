"""Are the bytes of parts the same? Of samples whose parts have the same names and sizes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from wdsctl.core.compare.side import Side
from wdsctl.core.splitting_bits import Flags
from wdsctl.core.storage import Storage
from wdsctl.core.stores import storage_for

SPAN = 8 << 20  # bytes of neighbouring samples that are read together


class Contents:
    """The shards of both sides, opened as they are needed. Memory: two spans, whatever the size of a part."""

    def __init__(self, first: Side, second: Side, *, span: int = SPAN) -> None:
        self._sides = (first, second)
        self._stores: tuple[Storage, Storage] = (_opened(first), _opened(second))
        self._span = span

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def is_same(self, first: int, second: int) -> bool:
        """Whether two samples, by their rows, have the same bytes in each part. Raises what reading raises."""
        one, other = (sorted(side.offsets.parts(row)) for side, row in zip(self._sides, (first, second), strict=True))
        paths = [
            _path(side, side.offsets.shard_of(row)) for side, row in zip(self._sides, (first, second), strict=True)
        ]
        return all(
            size == other_size and self._are_same(paths, (at, other_at), size)
            for (_, at, size), (_, other_at, other_size) in zip(one, other, strict=True)
        )

    def differing(self, first: int, second: int) -> Iterator[int]:
        """The places of the samples that differ, in two shards of one layout. Raises what reading raises."""
        side = self._sides[0]
        paths = [_path(side, i) for side, i in zip(self._sides, (first, second), strict=True)]
        rows = range(int(side.offsets.shard_row[first]), int(side.offsets.shard_row[first + 1]))
        for some, start, end in self._spans(side, rows):
            if end - start > self._span:  # one large sample
                if not all(self._are_same(paths, (at, at), size) for _, at, size in side.offsets.parts(some.start)):
                    yield some.start - rows.start
                continue
            one, other = (store.read(path, start, end - start) for store, path in zip(self._stores, paths, strict=True))
            if one == other:
                continue
            for row in some:
                spans = [slice(at - start, at - start + size) for _, at, size in side.offsets.parts(row)]
                if any(one[part] != other[part] for part in spans):
                    yield row - rows.start

    def _spans(self, side: Side, rows: range) -> Iterator[tuple[range, int, int]]:
        """Neighbouring rows with the bytes from their first part to the end of their last."""
        begin = rows.start
        low, high = 0, 0
        for row in rows:
            parts = side.offsets.parts(row)
            if not parts:
                continue
            start, end = min(at for _, at, _ in parts), max(at + size for _, at, size in parts)
            if high and max(high, end) - min(low, start) > self._span:
                yield range(begin, row), low, high
                begin, low, high = row, start, end
            else:
                low, high = (min(low, start), max(high, end)) if high else (start, end)
        if high:
            yield range(begin, rows.stop), low, high

    def _are_same(self, paths: list[str], offsets: tuple[int, int], size: int) -> bool:
        for at in range(0, size, self._span):
            count = min(self._span, size - at)
            one, other = (
                store.read(path, offset + at, count)
                for store, path, offset in zip(self._stores, paths, offsets, strict=True)
            )
            if one != other:
                return False
        return True


def flagged(places: Iterator[int], samples: int) -> Flags:
    """(samples,): the places as flags."""
    flags = np.zeros(samples, np.bool_)
    for place in places:
        flags[place] = True
    return flags


def _opened(side: Side) -> Storage:
    return storage_for(side.place.root, {_path(side, i): shard.size for i, shard in enumerate(side.shards)})


def _path(side: Side, i: int) -> str:
    return os.path.join(side.place.root, side.shards[i].path)
