"""An index that has only keys and shards, for the tests of joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from wdsctl.core.array_types import Int64Array
from wdsctl.core.offsets.bounds import ShardEntry
from wdsctl.core.offsets.read import ShardIndex


class KeyIndex:
    """The attributes and methods of an index that a join uses."""

    generation = 1

    def __init__(self, keys: Sequence[bytes], shard_samples: int = 4) -> None:
        self.keys = list(keys)
        starts = range(0, len(keys), shard_samples)
        counts = [len(keys[start : start + shard_samples]) for start in starts]
        self.shards = [
            ShardEntry(i, f"shard-{i}.tar", 10, count, str(hash(tuple(keys[start : start + count]))))
            for i, (start, count) in enumerate(zip(starts, counts, strict=True))
        ]
        self.shard_row = np.cumsum([0, *counts], dtype=np.int64)
        self.key_start = np.cumsum([0, *map(len, keys)], dtype=np.int64)
        self.key_text = memoryview(b"".join(keys))

    def key(self, row: int) -> str:
        return self.keys[row].decode()

    def shard_of(self, row: int) -> int:
        return int(np.searchsorted(self.shard_row, row, side="right")) - 1


def index_of(keys: Sequence[str | bytes], **options: Any) -> ShardIndex:
    texts = [key.encode() if isinstance(key, str) else key for key in keys]
    return cast("ShardIndex", KeyIndex(texts, **options))


def all_rows(keys: Sequence[Any]) -> Int64Array:
    return np.arange(len(keys), dtype=np.int64)
