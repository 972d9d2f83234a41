"""Samples by number or key, from the offsets file: for random draws, and for catalogs without rows of samples."""

from __future__ import annotations

import os
import random
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np

from wdsctl.core.catalog.browse import CatalogBrowser
from wdsctl.core.catalog.values import PartLocation, SampleLocation, SplitMembers
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.offsets.key_index import KeyIndex, open_key_index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.samples.naming import INDEX_BITS

_BATCH_KEYS = 1 << 14  # keys compared together


def open_cached_samples(location: DatasetLocation, generation: int) -> StoredSamples:
    """The samples of a generation, opened once per process: opening a key index checks the whole file."""
    path = location.offsets_path(generation)
    stat = os.stat(path) if os.path.exists(path) else None
    return _opened(location, generation, None if stat is None else (stat.st_ino, stat.st_mtime_ns))


@lru_cache(maxsize=2)
def _opened(location: DatasetLocation, generation: int, _stamp: tuple[int, int] | None) -> StoredSamples:
    """`_stamp` distinguishes a file from one that replaced it."""
    return StoredSamples(location, generation)


class StoredSamples:
    """The samples of one generation. Opening reads a header; a sample by row is arithmetic, by key one search."""

    def __init__(self, location: DatasetLocation, generation: int) -> None:
        self._location = location
        self.offsets = Offsets(location.offsets_path(generation))
        self._key_index: KeyIndex | None = None

    def __len__(self) -> int:
        return self.offsets.samples

    def at(self, row: int) -> SampleLocation:
        """The sample of a row. Its offset is that of its first part's bytes, not of a tar header."""
        offsets = self.offsets
        i = offsets.shard_of(row)
        parts = tuple(PartLocation(*part) for part in offsets.parts(row))
        first = min((part.offset for part in parts), default=0)
        return SampleLocation(
            id=offsets.shards[i].id << INDEX_BITS | (row - int(offsets.shard_row[i])),
            key=offsets.key(row),
            shard=offsets.shards[i].path,
            shard_size=offsets.shards[i].size,
            offset=first,
            size=max((part.offset + part.size for part in parts), default=0) - first,
            parts=parts,
        )

    def find(self, key: str) -> list[SampleLocation]:
        """Every sample of this key, in tar order."""
        if self._key_index is None:
            self._key_index = open_key_index(self._location, self.offsets)
        return [self.at(row) for row in self._key_index.find(key).rows]

    def samples(self, prefix: str = "") -> Iterator[SampleLocation]:
        """All samples in tar order, or those with a key prefix. Reads every key: prefixes have no index."""
        yield from map(self.at, self._rows(prefix))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """The keys of what `samples` yields."""
        yield from map(self.offsets.key, self._rows(prefix))

    def neighbours(self, key: str) -> list[str]:
        """The keys before and after this one in the order of keys. Reads every key: 0.3 s per million."""
        key_bytes = key.encode("utf-8", "surrogatepass")
        before: bytes | None = None
        after: bytes | None = None
        for start in range(0, len(self), _BATCH_KEYS):
            bounds = pairwise(self.offsets.key_start[start : start + _BATCH_KEYS + 1].tolist())
            for each in (bytes(self.offsets.key_text[at:end]) for at, end in bounds):
                if each < key_bytes and (before is None or each > before):
                    before = each
                elif each > key_bytes and (after is None or each < after):
                    after = each
        return [str(each, "utf-8") for each in (before, after) if each is not None]

    def _rows(self, prefix: str) -> Iterator[int]:
        """The rows of the keys with this prefix, for some ten thousand keys at a time."""
        prefix_bytes = np.frombuffer(prefix.encode("utf-8", "surrogatepass"), np.uint8)
        for start in range(0, len(self), _BATCH_KEYS):
            bounds = self.offsets.key_start[start : start + _BATCH_KEYS + 1]
            rows = np.flatnonzero(np.diff(bounds) >= len(prefix_bytes))
            for i, letter in enumerate(prefix_bytes.tolist()):
                rows = rows[self.offsets.keys[bounds[rows] + i] == letter]
            yield from (rows + start).tolist()


class SamplePool(Protocol):
    """Samples numbered from 0, in tar order."""

    def __len__(self) -> int: ...

    def at(self, number: int) -> SampleLocation: ...


def open_sample_pool(
    location: DatasetLocation, browser: CatalogBrowser, members: SplitMembers | None = None
) -> SamplePool:
    """All samples, or the members of a split. Opening reads a header, and a row per shard of the split."""
    if browser.is_media_folder:
        return _Files(browser)
    stored = StoredSamples(location, browser.generation)
    return stored if members is None else _SplitPool(stored, members)


def draw_numbers(count: int, size: int, seed: int) -> list[int]:
    """`count` different numbers below `size`, or all if there are no more, ascending. A pure function of the seed."""
    return sorted(random.Random(seed).sample(range(size), min(count, size)))


class _SplitPool:
    def __init__(self, stored: StoredSamples, members: SplitMembers) -> None:
        offsets = stored.offsets
        self._stored = stored
        self._split_shards = [
            (int(offsets.shard_row[i]), shard.samples, members.shards[shard.id])
            for i, shard in enumerate(offsets.shards)
            if shard.id in members.shards
        ]
        self._ends = list(
            accumulate(
                samples if bits is None else int.from_bytes(bits, "little").bit_count()
                for _, samples, bits in self._split_shards
            )
        )

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def at(self, number: int) -> SampleLocation:
        i = bisect_right(self._ends, number)
        first, _, bits = self._split_shards[i]
        position = number - (self._ends[i - 1] if i else 0)
        if bits is not None:
            position = int(np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))[position])
        return self._stored.at(first + position)


class _Files:
    def __init__(self, browser: CatalogBrowser) -> None:
        self._browser = browser
        self._ids = array("q", browser.file_ids())

    def __len__(self) -> int:
        return len(self._ids)

    def at(self, number: int) -> SampleLocation:
        return self._browser.file(self._ids[number])
