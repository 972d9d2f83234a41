"""What the ledger keeps of a shard that was written from a raw folder, so that a later run can go on from there."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from wdsctl.core.raw_sample import RawSample
from wdsctl.core.write_plan import PlannedShard

#: `planned`: never finished. `done`: as the record says. `outdated`: there once, and to be written again. `renamed`: as
#: the record says, but for keys: the shard has those of `FormerKeys`, since it could not be written again.
State = Literal["planned", "done", "outdated", "renamed"]


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


class FormerKeys(NamedTuple):
    """What `planned_shard` does not say of samples that were renamed in the raw folder: the keys that they have in the
    catalog, and in a shard that is yet to be written with the new ones.

    `layout_hash`: of the shard in the catalog that this was noted for; empty where it had none. `keys`: new key -> old.
    """

    layout_hash: str
    keys: Mapping[str, str]


NO_FORMER = FormerKeys("", MappingProxyType({}))


def record_of(shard: PlannedShard, samples: Sequence[RawSample]) -> ShardRecord:
    """The record of a shard that is yet to be written; `samples` is the list that was planned on."""
    keys = pack_keys(samples[i].key for i in range(shard.start, shard.stop))
    count = shard.stop - shard.start
    return ShardRecord(shard.name, shard.ordinal, count, shard.size_bytes, shard.digest, keys, shard.marks, "planned")


def pack_keys(keys: Iterable[str]) -> bytes:
    """Compressed, with zero bytes between them: no file's name has one."""
    return zlib.compress("\0".join(keys).encode(), 1)


def unpack_keys(packed: bytes) -> list[str]:
    return zlib.decompress(packed).decode().split("\0")


def keys_of(record: ShardRecord) -> list[str]:
    return unpack_keys(record.keys)
