"""What scans and checks find wrong. A finding is a value, not an exception: one bad shard never kills a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]

#: From mild to grave; `--fail-on` compares by place.
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One kind of thing wrong in one place. `count` says how often; key, part and byte `offset` are of the first."""

    code: str
    severity: Severity
    message: str
    shard: str = ""
    key: str = ""
    part: str = ""
    offset: int | None = None
    count: int = 1


def at_least(findings: Iterable[Finding], severity: Severity) -> list[Finding]:
    """The findings that are as grave as `severity` or graver."""
    floor = SEVERITIES.index(severity)
    return [finding for finding in findings if SEVERITIES.index(finding.severity) >= floor]


def tally(findings: Iterable[Finding]) -> Counter[str]:
    """How often each code was found."""
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.code] += finding.count
    return counts
