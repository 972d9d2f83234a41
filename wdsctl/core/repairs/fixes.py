"""What was done to a shard, in counts, and what could not be."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Fix = Literal[
    "tail cut",
    "end mark added",
    "padding added",
    "checksums recomputed",
    "damage left out",
    "archives joined",
    "trailing bytes left out",
    "incomplete samples left out",
    "keys regrouped",
    "duplicate keys renamed",
    "duplicate parts left out",
    "duplicate parts left out that differ",
    "byte order mark left out",
    "line ends changed",
    "blank lines left out",
    "lines encoded again",
    "lines left out that are not UTF-8",
    "lines left out that are no JSON objects",
]

#: What somebody may miss.
_LOSSES: tuple[Fix, ...] = (
    "duplicate parts left out that differ",
    "lines left out that are not UTF-8",
    "lines left out that are no JSON objects",
)


@dataclass(slots=True)
class Fixes:
    """`left`: in words, what is wrong still, or was lost. `lost`: the names of members that the copy does not have."""

    counts: Counter[Fix] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def add(self, fix: Fix, count: int = 1) -> None:
        if count:
            self.counts[fix] += count

    def told(self) -> tuple[str, ...]:
        """What is told as WDS157, each: what is left, and what was left out that somebody may miss."""
        return *self.left, *(f"{fix}: {self.counts[fix]:,}" for fix in _LOSSES if self.counts[fix])
