"""What `wdsctl index` did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, relative, size
from wdsctl.cli.render.media import media_table, summary
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled, table, tally_of_severities
from wdsctl.core.command_line import command

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.verbs.column_report import ColumnReport
    from wdsctl.core.verbs.index import IndexReport
    from wdsctl.core.verbs.media_report import MediaReport

#: Findings shown after a command that did something else; `validate` shows the rest.
SHOWN = 5

#: Samples from which on bytes a sample say something.
MANY = 1_000


def render(report: IndexReport) -> Iterator[RenderableType]:
    if report.up_to_date:
        yield f"{path(report.root)}: up to date ({totals(report)})"
    else:
        took = "would be indexed" if report.dry_run else f"indexed in {duration(report.seconds)}"
        yield f"{path(report.root)}: {totals(report)}, {took}"
        generation = f" (generation {report.generation})" if report.generation else ""
        yield labelled(
            [
                ("catalog", f"{path(report.catalog)}{generation}{_room(report)}"),
                ("shards", changes(report)),
                *([("chosen", report.selection)] if report.selection else []),
                *([("hashed", f"{count(report.hashed)} of {count(report.shards, 'shard')}")] if report.hashed else []),
            ]
        )
    for pair in report.renamed[:SHOWN]:
        yield f"  renamed: {path(pair.was)} is now {path(pair.now)}"
    if len(report.renamed) > SHOWN:
        yield f"  ... and {count(len(report.renamed) - SHOWN)} more (--json lists them all)"
    if report.media is not None:
        yield from media(report.media)
    if report.columns:
        yield columns_table(report.columns)
    yield from found(report)


def _room(report: IndexReport) -> str:
    """What the catalog takes up, with the offsets file."""
    if report.dry_run or not report.catalog_bytes:
        return ""
    each = f", {report.catalog_bytes / report.samples:,.0f} bytes a sample" if report.samples >= MANY else ""
    rows = "" if report.sample_rows else ", without rows of samples"
    return f": {size(report.catalog_bytes)}{each}{rows}"


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
        "renamed": len(report.renamed),
        "unchanged": report.unchanged - len(report.renamed),
    }
    return ", ".join(f"{count(n)} {word}" for word, n in counts.items() if n) or "none"


def found(report: IndexReport) -> Iterator[RenderableType]:
    """The gravest findings, and how many there are."""
    if not report.findings:
        return
    # Of shards that were not read again, the catalog has only what is worst in each: no sum can be made of that.
    yield "not as it should be:" if report.up_to_date else f"found: {tally_of_severities(report.findings)}"
    yield from finding_lines(gravest_first(report.findings)[:SHOWN])
    if len(report.findings) > SHOWN:
        where = (
            "--json"
            if any(each.code == "WDS313" for each in report.findings)
            else relative(command("validate", report.root))
        )
        yield f"  ... and {count(len(report.findings) - SHOWN)} more ({where} lists them all)"


def media(report: MediaReport) -> Iterator[RenderableType]:
    """The facts of media, on the whole."""
    yield summary(report)
    if report.lines:
        yield media_table(report.lines)


def columns_table(columns: Sequence[ColumnReport]) -> Table:
    """A line a column: what its numbers are like, what they are made by, and how it stands."""
    return table(
        ("column", "#total", "#mean", "#min", "#p50", "#p99", "#max", "function", "state"),
        [(column.name, *_figures(column), column.function, _state(column)) for column in columns],
    )


def _figures(column: ColumnReport) -> tuple[str, ...]:
    mean = "" if column.mean is None else f"{column.mean:,.1f}"
    total, *rest = (
        "" if n is None else count(n) for n in (column.total, column.min, column.p50, column.p99, column.max)
    )
    return (total, mean, *rest)


def _state(column: ColumnReport) -> str:
    without = f", {count(column.failed, 'sample')} without a value" if column.failed else ""
    of = f" (generation {column.generation})" if column.state == "outdated" and column.generation else ""
    return f"{column.state}{of}{without}"
