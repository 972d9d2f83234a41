"""Other paths of shards in an offsets file that is there: all else in it stays as it is, byte for byte.

Offsets files are never changed: a new one takes its place, and whoever has mapped the old one goes on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wdsctl.core.offsets import Offsets
from wdsctl.core.offsets_writer import rewritten


def rename_shards(path: str, names: Mapping[int, str]) -> None:
    """Give the shards with these ids other paths. Raises CatalogError WDS302 where the file is not usable, OSError.

    Cost: the file is copied, where it has one of these shards under another path.
    """
    offsets = Offsets(path)
    shards = [replace(shard, path=names.get(shard.id, shard.path)) for shard in offsets.shards]
    if shards != offsets.shards:
        rewritten(offsets, shards, path)
