"""Samples by row or by key from the offsets file: for who draws some, and where the catalog has no rows of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from wdsctl.core.catalog.placed import PartPlace, Placed
from wdsctl.core.name_index import open_name_index
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.sample_id import INDEX_BITS

_AT_ONCE = 1 << 14  # keys looked at together


class StoredSamples:
    """The samples of one generation. Opening costs a header; a row is arithmetic, a key one search."""

    def __init__(self, place: Place, generation: int) -> None:
        self._place = place
        self.offsets = Offsets(place.offsets(generation))

    def __len__(self) -> int:
        return self.offsets.samples

    def at(self, row: int) -> Placed:
        """The sample of a row: its offset is that of its first part's bytes, not of a header."""
        offsets = self.offsets
        i = offsets.shard_of(row)
        parts = tuple(PartPlace(*part) for part in offsets.parts(row))
        first = min((part.offset for part in parts), default=0)
        return Placed(
            id=offsets.shards[i].id << INDEX_BITS | (row - int(offsets.shard_row[i])),
            key=offsets.key(row),
            shard=offsets.shards[i].path,
            shard_size=offsets.shards[i].size,
            offset=first,
            size=max((part.offset + part.size for part in parts), default=0) - first,
            parts=parts,
        )

    def find(self, key: str) -> list[Placed]:
        """Every sample of this key, in tar order."""
        return [self.at(row) for row in open_name_index(self._place, self.offsets).find(key).rows]

    def samples(self, prefix: str = "") -> Iterator[Placed]:
        """In tar order; with a prefix those whose key begins so. Reads every key: there is no index of prefixes."""
        yield from map(self.at, self._rows(prefix))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Of `samples` the keys alone."""
        yield from map(self.offsets.key, self._rows(prefix))

    def neighbours(self, key: str) -> list[str]:
        """The keys before and after the place where this one would stand. Reads every key: 0.3 s a million."""
        wanted = key.encode("utf-8", "surrogatepass")
        before: bytes | None = None
        after: bytes | None = None
        for start in range(0, len(self), _AT_ONCE):
            bounds = pairwise(self.offsets.key_start[start : start + _AT_ONCE + 1].tolist())
            for each in (bytes(self.offsets.key_text[at:end]) for at, end in bounds):
                if each < wanted and (before is None or each > before):
                    before = each
                elif each > wanted and (after is None or each < after):
                    after = each
        return [str(each, "utf-8") for each in (before, after) if each is not None]

    def _rows(self, prefix: str) -> Iterator[int]:
        """The rows of the keys that begin so, some ten thousand keys looked at together."""
        wanted = np.frombuffer(prefix.encode("utf-8", "surrogatepass"), np.uint8)
        for start in range(0, len(self), _AT_ONCE):
            bounds = self.offsets.key_start[start : start + _AT_ONCE + 1]
            rows = np.flatnonzero(np.diff(bounds) >= len(wanted))
            for place, letter in enumerate(wanted.tolist()):
                rows = rows[self.offsets.keys[bounds[rows] + place] == letter]
            yield from (rows + start).tolist()
