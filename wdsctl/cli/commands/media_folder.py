"""Media facts as tables and lines, and the answers of `prepare`, `index` and `inspect` for a folder of media files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, format_size
from wdsctl.cli.tables import (
    count_severities,
    finding_lines,
    labelled_lines,
    make_table_without_empty,
    sort_by_severity,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.values import MediaSummary
    from wdsctl.core.errors import Finding
    from wdsctl.core.index.media_folder import MediaFolderReport
    from wdsctl.core.index.request import MediaReport
    from wdsctl.core.inspect.media_folder import MediaFolderInspectReport


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
    yield from finding_lines(sort_by_severity(findings)[:FINDINGS_SHOWN])
    if len(findings) > FINDINGS_SHOWN:
        yield f"  ... and {format_count(len(findings) - FINDINGS_SHOWN)} more (--json lists them all)"


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
