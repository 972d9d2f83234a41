"""A sample's id: the number of its shard, and its place in it."""

from __future__ import annotations

INDEX_BITS = 28  # of an id: the place in the shard
