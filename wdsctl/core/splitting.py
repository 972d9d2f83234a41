"""A split as its parts of shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SplitShard:
    """A split's part of one shard: all of it, or the samples whose bit is set (lowest bit first)."""

    shard: int
    samples: int
    bits: bytes | None = None
