"""What a catalog says of a sample and a shard, and which samples a split has: values, by the standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wdsctl.core.sample_id import INDEX_BITS


class PartPlace(NamedTuple):
    name: str
    offset: int  # in the shard, or 0 in a file
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A sample and where it is. Of a folder of media a sample is a file: its key is the path, its part the ending."""

    id: int
    key: str
    shard: str  # relative to the root
    shard_size: int  # bytes that it must have
    offset: int  # of its first byte in the shard
    size: int  # bytes from there to its end
    parts: tuple[PartPlace, ...]

    @property
    def position(self) -> int:
        """Its place in the shard, from 0."""
        return self.id & ((1 << INDEX_BITS) - 1)

    def part(self, name: str) -> PartPlace | None:
        """Of a part that a sample has twice, the last one counts, as everywhere."""
        return next((part for part in reversed(self.parts) if part.name == name), None)


class ShardLine(NamedTuple):
    path: str
    size: int  # bytes
    samples: int
    status: str


@dataclass(frozen=True, slots=True)
class Members:
    """Which samples a split has: of each shard all (None), or those whose bit is set, the lowest first."""

    shards: dict[int, bytes | None]

    def count(self, samples: Mapping[int, int]) -> int:
        """How many there are. `samples`: how many each shard has, by its id."""
        return sum(
            samples.get(shard, 0) if bits is None else int.from_bytes(bits, "little").bit_count()
            for shard, bits in self.shards.items()
        )

    def has(self, sample: int) -> bool:
        shard, position = sample >> INDEX_BITS, sample & ((1 << INDEX_BITS) - 1)
        if shard not in self.shards:
            return False
        bits = self.shards[shard]
        return bits is None or (position >> 3 < len(bits) and bool(bits[position >> 3] >> (position & 7) & 1))
