"""`wdsctl index`: update the catalog from the shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import errors, options
from wdsctl.cli.commands.media_folder import media_summary, media_table
from wdsctl.cli.formatting import display_path, format_count, format_duration, format_size, relative_paths
from wdsctl.cli.tables import count_severities, finding_lines, labelled_lines, make_table, sort_by_severity
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.invocation import worker_count

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.index.index import IndexReport
    from wdsctl.core.index.request import ColumnReport, MediaReport


EPILOG = """
\b
Examples:
  wdsctl index shards/                        read new and changed shards
  wdsctl index shards/ --missing drop         drop shards that are gone
  wdsctl index shards/ --rebuild              rebuild the catalog
  wdsctl index 'shards/a-{000..199}.tar'      only these shards
  wdsctl index 'shards/**/train-*.tar'        all that match, now and later
  wdsctl index shards/ --hash                 with the SHA-256 of every shard
  wdsctl index shards/ --media                facts of images, audio, video
  wdsctl index shards/ --media jpg,mp4        only of these parts
  wdsctl index shards/ --column bytes=size:jpg --column tokens=lengths:tokens

\b
A column holds one integer per sample, for packing and buckets. FUNCTION is
  MODULE:NAME           Python, called with {"__key__": key, "txt": bytes}
  size:PART             size of a part in bytes; reads no data
  chars:PART            number of characters of a text
  json:PART:FIELD.PATH  a number in JSON, or the length of a string or list
  media:PART:NUMBER     a media fact: width, height, duration_ms, frames
"""

ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=FUNCTION", help="Compute a number for every sample (repeatable)."),
]
DropColumnOption = Annotated[
    list[str] | None, typer.Option("--drop-column", metavar="NAME", help="Delete a column (repeatable).")
]
OnErrorOption = Annotated[
    Literal["error", "zero"],
    typer.Option(
        "--on-error",
        metavar="error|zero",
        help="If FUNCTION fails for a sample: do not write the column, or store 0.",
    ),
]
TrustCodeOption = Annotated[
    bool, typer.Option("--trust-code", help="Allow a column's FUNCTION from a module in the dataset's folder.")
]
DropMediaOption = Annotated[bool, typer.Option("--drop-media", help="Delete the media facts.")]


def command(
    root: options.ShardsArgument,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild the catalog from all shards.")] = False,
    missing: options.MissingOption = "error",
    exclude: options.ExcludeOption = None,
    key: options.KeyOption = None,
    key_until: options.KeyUntilOption = None,
    column: ColumnOption = None,
    drop_column: DropColumnOption = None,
    on_error: OnErrorOption = "error",
    trust_code: TrustCodeOption = False,
    media: options.MediaOption = None,
    media_index: options.MediaIndexOption = False,
    drop_media: DropMediaOption = False,
    sample_rows: options.SampleRowsOption = None,
    hashed: options.HashOption = None,
    wait: options.WaitOption = 0.0,
    workers: options.WorkersOption = None,
    catalog: options.CatalogOption = None,
    dry_run: options.DryRunOption = False,
    common: options.CommonOptions,
) -> int:
    """Update the catalog. Reads only new and changed shards.

    With --media, ROOT may also be a folder of media files without shards.
    """
    from wdsctl.cli.commands.media_folder import render_media_folder_index
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.dataset.root_spec import parse_root_spec
    from wdsctl.core.index.index import index_dataset, index_if_media_folder
    from wdsctl.core.index.request import ColumnRequest, IndexRequest, MediaRequest, parse_column_options

    spec = parse_root_spec(root)
    request = IndexRequest(
        workers=worker_count(workers),
        rebuild=rebuild,
        missing=missing,
        exclude=None if exclude is None else tuple(exclude),
        dry_run=dry_run,
        columns=ColumnRequest(
            functions=parse_column_options(column or ()),
            drop=tuple(drop_column or ()),
            on_error=on_error,
            trust_code=trust_code,
        ),
        media=MediaRequest(selection=media, keyframes=media_index, drop=drop_media),
        key=key,
        key_until=key_until,
        sample_rows=sample_rows,
        hashed=hashed,
    )
    with show_progress(common.output) as progress:
        folder_report = index_if_media_folder(spec, request, catalog=catalog, wait=wait, progress=progress)
        if folder_report is None:
            report = index_dataset(spec, request, catalog=catalog, wait=wait, progress=progress)
    if folder_report is not None:
        common.output.answer("index", folder_report, render_media_folder_index)
        return errors.media_folder_exit_code(folder_report)
    common.output.answer("index", report, render_index)
    return errors.index_exit_code(report)


#: Findings and renames listed; `validate` lists the rest.
EXAMPLES_SHOWN = 5

#: With fewer samples, bytes per sample are not shown.
MIN_SAMPLES_FOR_AVERAGE = 1_000


def render_index(report: IndexReport) -> Iterator[RenderableType]:
    if report.up_to_date:
        yield f"{display_path(report.root)}: up to date ({totals_text(report)})"
    else:
        took = "would be indexed" if report.dry_run else f"indexed in {format_duration(report.seconds)}"
        yield f"{display_path(report.root)}: {totals_text(report)}, {took}"
        generation = f" (generation {report.generation})" if report.generation else ""
        yield labelled_lines(
            [
                ("catalog", f"{display_path(report.catalog)}{generation}{_disk_usage(report)}"),
                ("shards", changes_text(report)),
                *([("selection", report.selection)] if report.selection else []),
                *(
                    [("hashed", f"{format_count(report.hashed)} of {format_count(report.shards, 'shard')}")]
                    if report.hashed
                    else []
                ),
            ]
        )
    for pair in report.renamed[:EXAMPLES_SHOWN]:
        yield f"  renamed: {display_path(pair.was)} -> {display_path(pair.now)}"
    if len(report.renamed) > EXAMPLES_SHOWN:
        yield f"  ... and {format_count(len(report.renamed) - EXAMPLES_SHOWN)} more (--json lists them all)"
    if report.media is not None:
        yield from render_media_totals(report.media)
    if report.columns:
        yield columns_table(report.columns)
    yield from render_worst_findings(report)


def _disk_usage(report: IndexReport) -> str:
    """`: 1.2 GiB, 84 bytes per sample`: the size of the catalog, with the offsets file."""
    if report.dry_run or not report.catalog_bytes:
        return ""
    each = (
        f", {report.catalog_bytes / report.samples:,.0f} bytes per sample"
        if report.samples >= MIN_SAMPLES_FOR_AVERAGE
        else ""
    )
    rows = "" if report.sample_rows else ", without sample rows"
    return f": {format_size(report.catalog_bytes)}{each}{rows}"


def totals_text(report: IndexReport) -> str:
    """`5,029 shards, 1,204,332 samples, 40.0 GiB`; without samples if a dry run has not read all shards."""
    is_known = not report.dry_run or report.added + report.changed == 0
    samples = (format_count(report.samples, "sample"),) if is_known else ()
    return ", ".join((format_count(report.shards, "shard"), *samples, format_size(report.size_bytes)))


def changes_text(report: IndexReport) -> str:
    """`12 added, 1 changed, 5,017 unchanged`."""
    counts = {
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "renamed": len(report.renamed),
        "unchanged": report.unchanged - len(report.renamed),
    }
    return ", ".join(f"{format_count(n)} {word}" for word, n in counts.items() if n) or "none"


def render_worst_findings(report: IndexReport) -> Iterator[RenderableType]:
    """The most severe findings, and the number of all."""
    if not report.findings:
        return
    # The catalog has only the worst finding of each shard that was not read again, so their sum is unknown.
    yield "known findings:" if report.up_to_date else f"found: {count_severities(report.findings)}"
    yield from finding_lines(sort_by_severity(report.findings)[:EXAMPLES_SHOWN])
    if len(report.findings) > EXAMPLES_SHOWN:
        where = (
            "--json"
            if any(each.code == "WDS313" for each in report.findings)
            else relative_paths(shell_command("validate", report.root))
        )
        yield f"  ... and {format_count(len(report.findings) - EXAMPLES_SHOWN)} more ({where} lists them all)"


def render_media_totals(report: MediaReport) -> Iterator[RenderableType]:
    """The media facts of the dataset."""
    yield media_summary(report)
    if report.lines:
        yield media_table(report.lines)


def columns_table(columns: Sequence[ColumnReport]) -> Table:
    """One row per column: statistics of its values, its function, and its state."""
    return make_table(
        ("column", "#total", "#mean", "#min", "#p50", "#p99", "#max", "function", "state"),
        [(column.name, *_figures(column), column.function, _state(column)) for column in columns],
    )


def _figures(column: ColumnReport) -> tuple[str, ...]:
    mean = "" if column.mean is None else f"{column.mean:,.1f}"
    total, *rest = (
        "" if n is None else format_count(n) for n in (column.total, column.min, column.p50, column.p99, column.max)
    )
    return (total, mean, *rest)


def _state(column: ColumnReport) -> str:
    without = f", {format_count(column.failed, 'sample')} without a value" if column.failed else ""
    of = f" (generation {column.generation})" if column.state == "outdated" and column.generation else ""
    return f"{column.state}{of}{without}"
