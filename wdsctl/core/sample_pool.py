"""The samples of a dataset, of one of its splits or of a folder of media as a numbered row, to take some out of."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_right
from itertools import accumulate
from typing import Protocol

import numpy as np

from wdsctl.core.catalog.browse import Browser
from wdsctl.core.catalog.placed import Members, Placed
from wdsctl.core.place import Place
from wdsctl.core.stored_samples import StoredSamples


class Pool(Protocol):
    """Samples numbered from 0, in tar order."""

    def __len__(self) -> int: ...

    def at(self, number: int) -> Placed: ...


def pool_of(place: Place, browser: Browser, members: Members | None = None) -> Pool:
    """All samples, or the members of a split. Opening costs a header, and a row a shard of the split."""
    if browser.is_media_folder:
        return _Files(browser)
    stored = StoredSamples(place, browser.generation)
    return stored if members is None else _SplitPool(stored, members)


def drawn(count: int, size: int, seed: int) -> list[int]:
    """`count` different numbers below `size`, ascending; all where there are no more. The same for a seed, for ever."""
    return sorted(random.Random(seed).sample(range(size), min(count, size)))


class _SplitPool:
    def __init__(self, stored: StoredSamples, members: Members) -> None:
        offsets = stored.offsets
        self._stored = stored
        self._held = [
            (int(offsets.shard_row[i]), shard.samples, members.shards[shard.id])
            for i, shard in enumerate(offsets.shards)
            if shard.id in members.shards
        ]
        self._ends = list(accumulate(_count(samples, bits) for _, samples, bits in self._held))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def at(self, number: int) -> Placed:
        i = bisect_right(self._ends, number)
        first, _, bits = self._held[i]
        place = number - (self._ends[i - 1] if i else 0)
        if bits is not None:
            place = int(np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little"))[place])
        return self._stored.at(first + place)


def _count(samples: int, bits: bytes | None) -> int:
    return samples if bits is None else int.from_bytes(bits, "little").bit_count()


class _Files:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._ids = array("q", browser.file_ids())

    def __len__(self) -> int:
        return len(self._ids)

    def at(self, number: int) -> Placed:
        return self._browser.file(self._ids[number])
