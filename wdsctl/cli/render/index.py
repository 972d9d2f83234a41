"""What `wdsctl index` did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, size
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled, tally_of_severities

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.index import IndexReport

#: Findings shown after a command that did something else; `validate` shows the rest.
SHOWN = 5


def render(report: IndexReport) -> Iterator[RenderableType]:
    if report.up_to_date:
        yield f"{path(report.root)}: up to date ({totals(report)})"
    else:
        took = "would be indexed" if report.dry_run else f"indexed in {duration(report.seconds)}"
        yield f"{path(report.root)}: {totals(report)}, {took}"
        generation = f" (generation {report.generation})" if report.generation else ""
        yield labelled([("catalog", f"{path(report.catalog)}{generation}"), ("shards", changes(report))])
    yield from found(report)


def totals(report: IndexReport) -> str:
    """`5,029 shards, 1,204,332 samples, 40.0 GiB`. Samples of shards that a dry run did not read are not known."""
    is_known = not report.dry_run or report.added + report.changed == 0
    samples = (count(report.samples, "sample"),) if is_known else ()
    return ", ".join((count(report.shards, "shard"), *samples, size(report.size_bytes)))


def changes(report: IndexReport) -> str:
    """`12 added, 1 changed, 5,017 unchanged`."""
    counts = {
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
    }
    return ", ".join(f"{count(n)} {word}" for word, n in counts.items() if n) or "none"


def found(report: IndexReport) -> Iterator[RenderableType]:
    """The gravest findings, and how many there are."""
    if not report.findings:
        return
    yield f"found: {tally_of_severities(report.findings)}"
    yield from finding_lines(gravest_first(report.findings)[:SHOWN])
    if len(report.findings) > SHOWN:
        yield f"  ... and {count(len(report.findings) - SHOWN)} more (`wdsctl validate` lists them all)"
