"""Count the fixes that a repair applied to a shard, and collect the problems that remain."""

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

#: Fixes that lose data that a user may want.
_LOSSY_FIXES: tuple[Fix, ...] = (
    "duplicate parts left out that differ",
    "lines left out that are not UTF-8",
    "lines left out that are no JSON objects",
)


@dataclass(slots=True)
class Fixes:
    """The fixes in one shard. `remaining_problems`: messages. `lost_members`: names that are missing from the copy."""

    counts: Counter[Fix] = field(default_factory=Counter)
    remaining_problems: list[str] = field(default_factory=list)
    lost_members: list[str] = field(default_factory=list)

    def add(self, fix: Fix, count: int = 1) -> None:
        if count:
            self.counts[fix] += count

    def problem_messages(self) -> tuple[str, ...]:
        """Return the messages of findings WDS157: remaining problems, and fixes that lose data."""
        return *self.remaining_problems, *(f"{fix}: {self.counts[fix]:,}" for fix in _LOSSY_FIXES if self.counts[fix])
