"""What `wdsctl validate` found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from wdsctl.cli.figures import count, duration, path, safe, share, size
from wdsctl.cli.output import document, plain
from wdsctl.cli.render.inspect_samples import at_view
from wdsctl.cli.render.pieces import finding_lines, gravest_first, table, tally_of_severities
from wdsctl.core.codes import CODES
from wdsctl.core.findings import SEVERITIES, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from wdsctl.core.verbs.validate_quarantine import ReleaseReport
    from wdsctl.core.verbs.validate_request import ValidateReport


def renderer(limit: int) -> Callable[[ValidateReport], Iterator[RenderableType]]:
    """At most `limit` findings are listed, 0 for all."""
    return partial(render, limit=limit)


def render(report: ValidateReport, *, limit: int = 0) -> Iterator[RenderableType]:
    findings = gravest_first(report.findings)
    shown = examples(findings, limit) if limit else findings
    yield from finding_lines(shown)
    if len(shown) < len(findings):
        yield f"... and {count(len(findings) - len(shown))} more (--limit 0 lists them all)"
    if findings:
        yield ""
        yield table(("code", "severity", "#times", "what"), by_code(report))
        yield ""
    checked = f"{count(report.shards, 'shard')}, {count(report.samples, 'sample')}, {size(report.size_bytes)}"
    yield f"{path(report.root)}{at_view(report.view)}: {tally_of_severities(report.findings)}"
    yield f"  checked {checked} in {duration(report.seconds)}{_how(report)}"
    if report.not_checked:
        yield f"  {report.not_checked}"
    if report.unread:
        yield f"  {_unread(report)}"
    if report.quarantine is not None:
        kept = report.quarantine
        new = f"{count(kept.samples, 'sample')} and {count(kept.shards, 'whole shard')}"
        known = f"{count(kept.all_samples, 'sample')} and {count(kept.all_shards, 'whole shard')}"
        yield f"  newly kept out of all splits: {new}; in quarantine in all: {known}"
        yield from _splits(kept.splits)


def render_release(report: ReleaseReport) -> Iterator[RenderableType]:
    said = (
        f"{count(report.released)} let in again from the quarantine" if report.released else "nothing is in quarantine"
    )
    yield f"{path(report.root)}: {said}"
    yield from _splits(report.splits)


def in_form(report: ValidateReport, form: str, fail_on: str) -> str:
    """json, sarif or junit. What is as grave as `fail_on` is a failure in junit."""
    if form == "sarif":
        from wdsctl.core.report_formats.sarif import sarif

        return sarif(report.root, report.findings)
    if form == "junit":
        from wdsctl.core.report_formats.junit import junit

        floor = None if fail_on == "never" else cast("Severity", fail_on)
        return junit(report.root, report.findings, fail_on=floor, seconds=report.seconds)
    return document({"command": "validate", **plain(report)})


def examples(findings: Sequence[Finding], limit: int) -> list[Finding]:
    """So many of them, the first of each code before the second of any; in the order they had."""
    seen: Counter[tuple[str, str]] = Counter()
    ranked = []
    for i, finding in enumerate(findings):
        kind = (finding.severity, finding.code)
        ranked.append((seen[kind], i))
        seen[kind] += 1
    return [findings[i] for i in sorted(i for _, i in sorted(ranked)[:limit])]


def by_code(report: ValidateReport) -> list[tuple[str, str, str, str]]:
    """A row a code and severity, the gravest first."""
    counts: dict[tuple[int, str], int] = {}
    for finding in report.findings:
        place = (-SEVERITIES.index(finding.severity), finding.code)
        counts[place] = counts.get(place, 0) + finding.count
    return [(code, SEVERITIES[-rank], count(n), CODES[code].title) for (rank, code), n in sorted(counts.items())]


def _how(report: ValidateReport) -> str:
    """The levels, where there are more than always; and how many of the samples."""
    levels = f"; levels: {', '.join(report.levels)}" if report.levels != ("structure",) else ""
    part = f"; looked into {share(report.share)} of the samples, seed {report.seed}" if report.share < 1 else ""
    return levels + part


def _unread(report: ValidateReport) -> str:
    if report.shards == 1:
        return "it has not changed since it was validated: what was found then (--again reads it)"
    is_one = report.unread == 1
    which = "all of them" if report.unread == report.shards else f"{count(report.unread)} of them"
    since = "has not changed since it was" if is_one else "have not changed since they were"
    return f"{which} {since} validated: what was found then (--again reads {'it' if is_one else 'them'})"


def _splits(splits: dict[str, int]) -> Iterator[RenderableType]:
    for name, samples in splits.items():
        yield f"  split {safe(name)}: {count(samples, 'sample')}"
