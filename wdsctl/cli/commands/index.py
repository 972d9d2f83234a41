"""`wdsctl index`: update the catalog from the shards, or of a folder of media; tables of media facts and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli import errors, options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, format_size, relative_paths
from wdsctl.cli.tables import (
    count_severities,
    finding_lines,
    labelled_lines,
    make_table,
    make_table_without_empty,
    more_findings_line,
    sort_by_severity,
)
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.index.request import IndexCommand

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.totals import MediaSummary
    from wdsctl.core.errors import Finding
    from wdsctl.core.index.index import IndexReport
    from wdsctl.core.index.media_folder import MediaFolderReport
    from wdsctl.core.index.report import ColumnReport, MediaReport
    from wdsctl.core.inspect.media_folder import MediaFolderInspectReport


EPILOG = """
\b
Examples:
  wdsctl index shards/                        read new and changed shards
  wdsctl index shards/ --missing drop         drop missing shards
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
  int:PART:FIELD.PATH   a number in JSON, or in a string, as in cells of a CSV
  media:PART:NUMBER     a media fact: width, height, duration_ms, frames;
                        media:wav,flac:NUMBER takes the first part that has it
"""


@takes(IndexCommand)
def command(request: IndexCommand, *, common: options.CommonOptions) -> int:
    """Update the catalog. Reads only new and changed shards.

    With --media, ROOT may also be a folder of media files without shards.
    """
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.index.index import IndexReport, run_index

    with show_progress(common.output) as progress:
        report = run_index(request, progress=progress)
    if isinstance(report, IndexReport):
        common.output.answer("index", report, render_index, names=[report.catalog])
        code = errors.index_exit_code(report)
    else:
        common.output.answer("index", report, render_media_folder_index, names=[report.catalog])
        code = errors.media_folder_exit_code(report)
    errors.explain_partial_if_quiet(common.output, errors.error_findings(report.findings))
    return code


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
    findings = sort_by_severity(report.findings)
    yield from finding_lines(findings[:EXAMPLES_SHOWN])
    if len(report.findings) > EXAMPLES_SHOWN:
        where = (
            "--json"
            if any(each.code == "WDS313" for each in report.findings)
            else relative_paths(shell_command("validate", report.root))
        )
        yield f"  {more_findings_line(findings[EXAMPLES_SHOWN:], where)}"


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


#: Media formats named in a line; --json has all.
FORMATS_SHOWN = 3
#: Findings listed; --json has all.
FINDINGS_SHOWN = 5

_NOUNS = {"image": "image", "audio": "audio file", "video": "video", "unreadable": ""}


def media_summary(media: MediaReport) -> str:
    """`media (auto): 1,204 images, 1 video, 2 unreadable media`."""
    counts = ", ".join(_counted(media.counts[kind], kind) for kind in _NOUNS if media.counts.get(kind))
    state = "" if media.state in ("made", "current") else f" ({media.state})"
    return f"media by {escape_line(media.selection)}: {counts or 'none'}{state}"


def media_table(lines: Sequence[MediaSummary]) -> Table:
    """One row per part and kind of media: count, size, dimensions, duration and formats."""
    return make_table_without_empty(
        ("part", "kind", "#media", "#size", "#width", "#height", "#total", "#each", "format"),
        [
            (
                line.part,
                line.kind,
                format_count(line.media),
                format_size(line.size_bytes),
                _format_range(line.width),
                _format_range(line.height),
                "" if line.seconds is None else format_duration(line.seconds),
                _format_durations(line.seconds_range),
                _format_counts(line.forms),
            )
            for line in lines
        ],
    )


def media_rows_text(lines: Sequence[MediaSummary]) -> list[str]:
    """The rows of `media_table` as text: `jpg: 7 images, 237.7 KiB, 448x252-298, JPEG RGB`."""
    rows = []
    for line in lines:
        pixels = f"{_format_range(line.width)}x{_format_range(line.height)}" if line.width and line.height else ""
        total = "" if line.seconds is None else f"{format_duration(line.seconds)} in total"
        each = _format_durations(line.seconds_range)
        facts = (_counted(line.media, line.kind), format_size(line.size_bytes), pixels, total, each and f"each {each}")
        rows.append(f"{line.part}: {', '.join(filter(None, (*facts, _format_counts(line.forms))))}")
    return rows


def render_media_folder_index(report: MediaFolderReport) -> Iterator[RenderableType]:
    total = f"{format_count(report.files, 'file')}, {format_size(report.size_bytes)}"
    if report.up_to_date:
        yield f"{display_path(report.root)}: up to date ({total})"
    else:
        took = "would be read" if report.dry_run else f"read in {format_duration(report.seconds)}"
        yield f"{display_path(report.root)}: a folder of media, {total}, {took}"
        catalog = f"{display_path(report.catalog)} (generation {report.generation})"
        yield labelled_lines([("catalog", catalog), ("files", _changes(report))])
    if report.media.lines:
        yield media_summary(report.media)
        yield media_table(report.media.lines)
    yield from _finding_lines(report.findings)


def render_media_folder(report: MediaFolderInspectReport) -> Iterator[RenderableType]:
    yield (
        f"{display_path(report.root)}: a folder of media, {format_count(report.files, 'file')}, "
        f"{format_size(report.size_bytes)}"
    )
    catalog = f"{display_path(report.catalog)} ({format_size(report.catalog_bytes)}, generation {report.generation})"
    yield labelled_lines([("catalog", catalog)])
    yield ""
    yield media_summary(report.media)
    yield media_table(report.media.lines)
    if report.first:
        yield ""
        yield "first files"
        yield labelled_lines(
            [(escape_line(file.path), f"{format_size(file.size_bytes)}  {file.preview}") for file in report.first]
        )
    if report.stale:
        yield ""
        yield from finding_lines(report.stale)


def _finding_lines(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    if not findings:
        return
    yield f"found: {count_severities(findings)}"
    ordered = sort_by_severity(findings)
    yield from finding_lines(ordered[:FINDINGS_SHOWN])
    if len(ordered) > FINDINGS_SHOWN:
        yield f"  {more_findings_line(ordered[FINDINGS_SHOWN:], '--json')}"


def _changes(report: MediaFolderReport) -> str:
    counts = {
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
    }
    return ", ".join(f"{format_count(n)} {word}" for word, n in counts.items() if n) or "none"


def _counted(number: int, kind: str) -> str:
    return f"{format_count(number)} unreadable" if kind == "unreadable" else format_count(number, _NOUNS[kind])


def _format_range(bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return ""
    least, most = bounds
    return format_count(least) if least == most else f"{format_count(least)}-{format_count(most)}"


def _format_durations(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ""
    least, most = map(format_duration, bounds)
    return least if least == most else f"{least} - {most}"


def _format_counts(formats: dict[str, int]) -> str:
    """`JPEG RGB (1,200), PNG P (4)`, or the name of the only format."""
    if len(formats) == 1:
        return next(iter(formats))
    shown = [f"{name} ({format_count(n)})" for name, n in list(formats.items())[:FORMATS_SHOWN]]
    more = [f"{format_count(len(formats) - FORMATS_SHOWN)} more"] if len(formats) > FORMATS_SHOWN else []
    return ", ".join([*shown, *more])
