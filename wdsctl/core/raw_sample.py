"""A sample before it is in a shard: files of a raw folder that share a name. Tuples, since there may be millions."""

from __future__ import annotations

from typing import NamedTuple


class RawPart(NamedTuple):
    """One file. `name` is what follows the key and a dot."""

    name: str
    size_bytes: int
    mtime_ns: int


class RawSample(NamedTuple):
    """The files of one key, sorted by part name. The path of a part is ROOT/`key`.`name`.

    The key may have dots; in shards it has none (`shard_key`).
    """

    key: str
    parts: tuple[RawPart, ...]
