"""Where the samples of a shard that was written again were in it before: by their place, their key, or their parts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import numpy as np

from wdsctl.core.catalog.shard_row import Held
from wdsctl.core.errors import CatalogError
from wdsctl.core.naming import shard_key
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.plain_members import Ints
from wdsctl.core.shard_record import NO_FORMER, FormerKeys
from wdsctl.core.shard_scan import ShardScan, texts

#: The parts of a sample: names and bytes.
_Shape = tuple[tuple[str, int], ...]

NEW = -1  # the origin of a sample that the shard did not have


class Origins:
    """Of shards that splits had something of, as they were in the catalog of a `generation`.

    `found`: by path, of each sample the place that it had, or NEW; of shards that are not as they were. `grown`: the
    paths of those that begin with all that they had. `renamed`: as `found`, but only of samples whose raw files were
    renamed, by `former`, which the ledger has. Cost: of a shard that was written again otherwise, all its keys.
    """

    def __init__(
        self,
        place: Place,
        generation: int,
        held: Mapping[str, Held],
        former: Mapping[str, FormerKeys] = MappingProxyType({}),
    ) -> None:
        self.found: dict[str, Ints] = {}
        self.renamed: dict[str, Ints] = {}
        self._former = former
        self.grown: set[str] = set()
        self._held = held
        self._path = place.offsets(generation)
        self._shards: dict[str, int] | None = None

    def look(self, path: str, scan: ShardScan) -> None:
        """Find out about one shard, whose content is this now."""
        held = self._held.get(path)
        if held is None or not scan.samples or held.layout_hash == scan.layout_hash():
            return
        count = held.samples
        if 0 < count < scan.samples and scan.first(count).layout_hash() == held.layout_hash:
            places = np.arange(scan.samples, dtype=np.int64)
            self.found[path] = np.where(places < count, places, NEW)
            self.grown.add(path)
            return
        offsets, i = self._opened(path, held)
        if offsets is None:
            return
        first, last = (int(row) for row in offsets.shard_row[i : i + 2])
        bounds = offsets.key_start[first : last + 1]
        known = texts(offsets.key_text[int(bounds[0]) : int(bounds[-1])].tobytes(), bounds - bounds[0])
        places_of: dict[str, deque[int]] = defaultdict(deque)
        for i, key in enumerate(known):
            places_of[key].append(i)
        keys, former = scan.key_list(), self._former_keys(path, held)
        left_of = [places_of.get(former.get(key, key)) for key in keys]
        origin = np.array([left.popleft() if left else NEW for left in left_of], np.int64)
        if former:
            self.renamed[path] = np.where([key in former for key in keys], origin, NEW)
        unclaimed = sorted(place for places in places_of.values() for place in places)
        if unclaimed and (origin == NEW).any():
            _renamed(origin, scan, {place: offsets.parts(first + place) for place in unclaimed})
        self.found[path] = origin

    def _former_keys(self, path: str, held: Held) -> dict[str, str]:
        """The keys that samples had in the shard as it was, by those that they have now, both as in shards."""
        layout_hash, keys = self._former.get(path, NO_FORMER)
        return {shard_key(key): shard_key(old) for key, old in keys.items()} if layout_hash == held.layout_hash else {}

    def _opened(self, path: str, held: Held) -> tuple[Offsets | None, int]:
        """The offsets file that has a shard as it was, and its place there; None where that generation is gone."""
        with suppress(OSError, CatalogError):
            offsets = Offsets(self._path)
            if self._shards is None:
                self._shards = {shard.path: i for i, shard in enumerate(offsets.shards)}
            i = self._shards.get(path)
            if i is not None and offsets.shards[i].layout_hash == held.layout_hash:
                return offsets, i
        return None, 0


def _renamed(origin: Ints, scan: ShardScan, left: Mapping[int, Sequence[tuple[str, int, int]]]) -> None:
    """Find new samples among those that are `left`, with their parts: the only ones whose parts have their sizes."""
    old: dict[_Shape, list[int]] = defaultdict(list)
    for place, parts in left.items():
        old[tuple((name, size) for name, _, size in parts)].append(place)
    ends = np.cumsum(scan.counts, dtype=np.int64)
    new: dict[_Shape, list[int]] = defaultdict(list)
    for place in np.flatnonzero(origin == NEW).tolist():
        span = slice(int(ends[place]) - int(scan.counts[place]), int(ends[place]))
        names = [scan.extensions[number] for number in scan.part_names[span].tolist()]
        new[tuple(zip(names, scan.part_sizes[span].tolist(), strict=True))].append(place)
    for shape, places in new.items():
        if len(places) == len(old.get(shape, ())) == 1:
            origin[places[0]] = old[shape][0]
