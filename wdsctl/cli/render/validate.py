"""What `wdsctl validate` found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, size
from wdsctl.cli.render.pieces import finding_lines, gravest_first, table, tally_of_severities
from wdsctl.core.codes import CODES
from wdsctl.core.findings import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from wdsctl.core.verbs.validate import ValidateReport


def renderer(limit: int) -> Callable[[ValidateReport], Iterator[RenderableType]]:
    """At most `limit` findings are listed, 0 for all."""
    return partial(render, limit=limit)


def render(report: ValidateReport, *, limit: int = 0) -> Iterator[RenderableType]:
    findings = gravest_first(report.findings)
    shown = findings[:limit] if limit else findings
    yield from finding_lines(shown)
    if len(shown) < len(findings):
        yield f"... and {count(len(findings) - len(shown))} more (--limit 0 lists them all)"
    if findings:
        yield ""
        yield table(("code", "severity", "#times", "what"), by_code(report))
        yield ""
    checked = f"{count(report.shards, 'shard')}, {count(report.samples, 'sample')}, {size(report.size_bytes)}"
    yield f"{path(report.root)}: {tally_of_severities(report.findings)}"
    yield f"  checked {checked} in {duration(report.seconds)}"


def by_code(report: ValidateReport) -> list[tuple[str, str, str, str]]:
    """A row a code and severity, the gravest first."""
    counts: dict[tuple[int, str], int] = {}
    for finding in report.findings:
        place = (-SEVERITIES.index(finding.severity), finding.code)
        counts[place] = counts.get(place, 0) + finding.count
    return [(code, SEVERITIES[-rank], count(n), CODES[code].title) for (rank, code), n in sorted(counts.items())]
