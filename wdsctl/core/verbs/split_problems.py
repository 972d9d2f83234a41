"""What is wrong with a division: an error when it is asked for, a finding when it is only brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wdsctl.core.errors import UsageError
from wdsctl.core.findings import Finding

#: Overlaps, gaps, names that match nothing, splits that are empty, values that are not there.
OVERLAP, GAP, NOTHING, EMPTY, NO_VALUE = "WDS212", "WDS213", "WDS214", "WDS210", "WDS215"


@dataclass(frozen=True, slots=True)
class Problem:
    """`count`: of shards or samples. `shard`: the first of them, where one can be named."""

    code: str
    message: str
    hint: str
    count: int = 1
    shard: str = ""

    def finding(self, of_set: str) -> Finding:
        """As what a run notes and goes on."""
        said = f"the splits {of_set}/...: {self.message}" if of_set else f"splits: {self.message}"
        return Finding(code=self.code, severity="warning", message=said, shard=self.shard, count=self.count)


def refuse(problems: Sequence[Problem], where: str) -> None:
    """Raise UsageError for the first problem, if there is one, with the others counted."""
    if not problems:
        return
    first = problems[0]
    more = f"; and {problems[1].message}" if len(problems) > 1 else ""
    raise UsageError(f"{first.message}{more}", where=where, hint=first.hint, code=first.code)


def some(names: Sequence[str], count: int) -> str:
    """`a, b, c and 7 more`, of names of which three at most are said."""
    shown = list(names[:3])
    left = count - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")
