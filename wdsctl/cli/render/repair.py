"""What `wdsctl repair` did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path
from wdsctl.cli.render.pieces import finding_lines, gravest_first, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from wdsctl.core.verbs.repair import RepairReport


def renderer(limit: int) -> Callable[[RepairReport], Iterator[RenderableType]]:
    """At most `limit` shards, and as many findings, are listed; 0 for all."""
    return partial(render, limit=limit)


def render(report: RepairReport, *, limit: int = 0) -> Iterator[RenderableType]:
    findings = gravest_first(report.findings)
    shown = findings[:limit] if limit else findings
    yield from finding_lines(shown)
    if len(shown) < len(findings):
        yield f"... and {count(len(findings) - len(shown))} more (--limit 0 lists them all)"
    broken = [shard for shard in report.repaired if shard.fixes or shard.became == "lost"]
    some = broken[:limit] if limit else broken
    if some:
        rows = [(shard.shard, _done(shard.fixes) if shard.became != "lost" else "beyond repair") for shard in some]
        yield table(("shard", "what was done" if not report.dry_run else "what would be done"), rows)
    if len(some) < len(broken):
        yield f"... and {count(len(broken) - len(some))} more (--limit 0 lists them all)"
    if broken:
        yield ""
    yield f"{path(report.root)}: {_verdict(report)}"
    total: Counter[str] = Counter()
    for shard in broken:
        total.update(shard.fixes)
    yield from (f"  {fix}: {count(times)}" for fix, times in sorted(total.items()))
    yield f"  looked at {count(report.shards, 'shard')} in {duration(report.seconds)}"
    if report.fixed and not report.dry_run:
        yield f"  `wdsctl prepare {path(report.dest)}` takes them in"


def _verdict(report: RepairReport) -> str:
    if report.fixed + report.beyond_repair + report.copied == 0:
        return f"nothing to repair: {count(report.sound, 'sound shard')}"
    would = "would be " if report.dry_run else ""
    facts = [
        (report.fixed, f"{would}repaired"),
        (report.copied, f"{would}copied unchanged"),
        (report.beyond_repair, "beyond repair"),
        (report.sound, "sound"),
    ]
    said = ", ".join(f"{count(number)} {words}" for number, words in facts if number)
    backups = sum(bool(shard.backup) for shard in report.repaired)
    where = f"; what was there is kept as {count(backups, '.bak file')}" if backups else ""
    is_written = (report.fixed or report.copied) and not report.dry_run
    return f"{said} (in {path(report.dest)})" if is_written and not backups else f"{said}{where}"


def _done(fixes: dict[str, int]) -> str:
    return ", ".join(f"{fix}: {count(times)}" if times > 1 else fix for fix, times in fixes.items())
