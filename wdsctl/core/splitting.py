"""A split as its parts of shards, and what has to be remembered of how values were dealt out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SplitShard:
    """A split's part of one shard: all of it, or the samples whose bit is set (lowest bit first)."""

    shard: int
    samples: int
    bits: bytes | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What was dealt out in a set: stratum -> split -> samples, and the hashes of the groups that each split has."""

    strata: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, NDArray[np.uint64]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.strata or self.groups)
