"""Samples by row or by key from the offsets file: for who draws some, and where the catalog has no rows of them."""

from __future__ import annotations

from collections.abc import Iterator

from wdsctl.core.catalog.placed import INDEX_BITS, PartPlace, Placed
from wdsctl.core.name_index import open_name_index
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place


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
        wanted = prefix.encode("utf-8", "surrogatepass")
        bounds, text = self.offsets.key_start, self.offsets.key_text
        for row in range(len(self)):
            if text[int(bounds[row]) : int(bounds[row]) + len(wanted)] == wanted and self._fits(row, len(wanted)):
                yield self.at(row)

    def _fits(self, row: int, size: int) -> bool:
        start, end = self.offsets.key_start[row : row + 2].tolist()
        return bool(end - start >= size)
