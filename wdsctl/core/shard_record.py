"""What the ledger keeps of a shard that was written from a raw folder, so that a later run can go on from there."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from wdsctl.core.raw_sample import RawSample
from wdsctl.core.write_plan import PlannedShard

#: `planned`: never finished. `done`: as the record says. `outdated`: there once, and to be written again.
State = Literal["planned", "done", "outdated"]


class ShardRecord(NamedTuple):
    """One row of `planned_shard`. `keys` is packed (`keys_of` unpacks it); the rest is as in `PlannedShard`."""

    name: str
    ordinal: int
    samples: int
    size_bytes: int
    digest: str
    keys: bytes
    marks: bytes
    state: State


def record_of(shard: PlannedShard, samples: Sequence[RawSample]) -> ShardRecord:
    """The record of a shard that is yet to be written; `samples` is the list that was planned on."""
    keys = pack_keys(samples[i].key for i in range(shard.start, shard.stop))
    count = shard.stop - shard.start
    return ShardRecord(shard.name, shard.ordinal, count, shard.size_bytes, shard.digest, keys, shard.marks, "planned")


def pack_keys(keys: Iterable[str]) -> bytes:
    """Compressed, with zero bytes between them: no file's name has one."""
    return zlib.compress("\0".join(keys).encode(), 1)


def keys_of(record: ShardRecord) -> list[str]:
    return zlib.decompress(record.keys).decode().split("\0")
