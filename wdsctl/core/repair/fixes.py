"""Count the fixes that a repair applied to a shard, and collect the problems that remain."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Fix = Literal[
    "truncated tail removed",
    "end mark added",
    "padding added",
    "checksums recomputed",
    "damaged bytes removed",
    "archives joined",
    "trailing bytes removed",
    "incomplete samples removed",
    "keys regrouped",
    "duplicate keys renamed",
    "duplicate parts removed",
    "differing duplicate parts removed",
    "byte order mark removed",
    "line ends converted",
    "blank lines removed",
    "lines re-encoded as UTF-8",
    "non-UTF-8 lines removed",
    "lines without a JSON object removed",
]

#: Fixes that lose data that a user may want.
_LOSSY_FIXES: tuple[Fix, ...] = (
    "differing duplicate parts removed",
    "non-UTF-8 lines removed",
    "lines without a JSON object removed",
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
