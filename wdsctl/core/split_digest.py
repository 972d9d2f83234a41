"""A name for the data of a split: what a plan is compared by, and what a trace remembers."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from wdsctl.core.shard_index import ShardIndex
from wdsctl.core.splitting import SplitShard


def split_digest(offsets: ShardIndex, parts: Iterable[SplitShard]) -> str:
    """Shards in order, their sizes, where everything in them is, which samples. 32 hex digits.

    Parts of shards that these offsets do not have are passed over.
    """
    digest = blake2b(digest_size=16)
    entries = {shard.id: shard for shard in offsets.shards}
    for part in parts:
        shard = entries.get(part.shard)
        if shard is not None:
            facts = (shard.id, shard.size, shard.layout_hash, part.samples, len(part.bits or b""))
            digest.update(",".join(map(str, facts)).encode() + b";")
            digest.update(part.bits or b"")
    return digest.hexdigest()
