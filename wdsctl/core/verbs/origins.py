"""Where the samples of a shard that was written again were in it before: by their place, or by their key."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from wdsctl.core.catalog.shard_row import Held
from wdsctl.core.errors import CatalogError
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import Place
from wdsctl.core.plain_members import Ints
from wdsctl.core.shard_scan import ShardScan, texts

NEW = -1  # the origin of a sample that the shard did not have


class Origins:
    """Of shards that splits had something of, as they were in the catalog of a `generation`.

    `found`: by path, of each sample the place that it had, or NEW; of shards that are not as they were. `grown`: the
    paths of those that begin with all that they had. Cost: of a shard that was written again otherwise, all its keys.
    """

    def __init__(self, place: Place, generation: int, held: Mapping[str, Held]) -> None:
        self.found: dict[str, Ints] = {}
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
        known = self._keys(path, held)
        places_of: dict[str, deque[int]] = defaultdict(deque)
        for i, key in enumerate(known):
            places_of[key].append(i)
        self.found[path] = np.array(
            [places_of[key].popleft() if places_of.get(key) else NEW for key in scan.key_list()], np.int64
        )

    def _keys(self, path: str, held: Held) -> list[str]:
        """The keys that a shard had; none where the offsets file of that generation is gone."""
        with suppress(OSError, CatalogError):
            offsets = Offsets(self._path)
            if self._shards is None:
                self._shards = {shard.path: i for i, shard in enumerate(offsets.shards)}
            i = self._shards.get(path)
            if i is not None and offsets.shards[i].layout_hash == held.layout_hash:
                first = int(offsets.shard_row[i])
                bounds = offsets.key_start[first : first + offsets.shards[i].samples + 1]
                return texts(offsets.key_text[int(bounds[0]) : int(bounds[-1])].tobytes(), bounds - bounds[0])
        return []
