"""Facts of media: one line a part and kind. And a folder of media, indexed and inspected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, duration, path, safe, size
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled, tally_of_severities, without_empty

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.catalog.media_line import MediaLine
    from wdsctl.core.findings import Finding
    from wdsctl.core.verbs.inspect_media_folder import MediaFolderInspectReport
    from wdsctl.core.verbs.media_folder import MediaFolderReport
    from wdsctl.core.verbs.media_report import MediaReport

#: Forms of media named in a line; --json has them all.
FORMS_SHOWN = 3
#: Findings shown; --json has them all.
FINDINGS_SHOWN = 5

_NOUNS = {"image": "image", "audio": "sound", "video": "video", "unreadable": ""}


def summary(media: MediaReport) -> str:
    """`media (auto): 1,204 images, 1 video, 2 unreadable media`."""
    counts = ", ".join(_counted(media.counts[kind], kind) for kind in _NOUNS if media.counts.get(kind))
    state = "" if media.state in ("made", "current") else f" ({media.state})"
    return f"media by {safe(media.selection)}: {counts or 'none'}{state}"


def media_table(lines: Sequence[MediaLine]) -> Table:
    """A line a part and kind of medium: how many, how large, how long, and what they are."""
    return without_empty(
        ("part", "kind", "#media", "#size", "#width", "#height", "#total", "#each", "what"),
        [
            (
                line.part,
                line.kind,
                count(line.media),
                size(line.size_bytes),
                _span(line.width),
                _span(line.height),
                "" if line.seconds is None else duration(line.seconds),
                _durations(line.seconds_range),
                _forms(line.forms),
            )
            for line in lines
        ],
    )


def media_lines(lines: Sequence[MediaLine]) -> list[str]:
    """The same in words, where there is no room for a table: `jpg: 7 images, 237.7 KiB, 448x252-298, JPEG RGB`."""
    return [_in_words(line) for line in lines]


def _in_words(line: MediaLine) -> str:
    pixels = f"{_span(line.width)}x{_span(line.height)}" if line.width and line.height else ""
    total = "" if line.seconds is None else f"{duration(line.seconds)} in all"
    each = _durations(line.seconds_range)
    facts = (_counted(line.media, line.kind), size(line.size_bytes), pixels, total, each and f"each {each}")
    return f"{line.part}: {', '.join(filter(None, (*facts, _forms(line.forms))))}"


def render_index(report: MediaFolderReport) -> Iterator[RenderableType]:
    total = f"{count(report.files, 'file')}, {size(report.size_bytes)}"
    if report.up_to_date:
        yield f"{path(report.root)}: up to date ({total})"
    else:
        took = "would be looked at" if report.dry_run else f"looked at in {duration(report.seconds)}"
        yield f"{path(report.root)}: a folder of media, {total}, {took}"
        catalog = f"{path(report.catalog)} (generation {report.generation})"
        yield labelled([("catalog", catalog), ("files", _changes(report))])
    if report.media.lines:
        yield summary(report.media)
        yield media_table(report.media.lines)
    yield from _found(report.findings)


def render_inspect(report: MediaFolderInspectReport) -> Iterator[RenderableType]:
    yield f"{path(report.root)}: a folder of media, {count(report.files, 'file')}, {size(report.size_bytes)}"
    told = f"{path(report.catalog)} ({size(report.catalog_bytes)}, generation {report.generation})"
    yield labelled([("catalog", told)])
    yield ""
    yield summary(report.media)
    yield media_table(report.media.lines)
    if report.first:
        yield ""
        yield "first files"
        yield labelled([(safe(file.path), f"{size(file.size_bytes)}  {file.preview}") for file in report.first])
    if report.stale:
        yield ""
        yield from finding_lines(report.stale)


def _found(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    if not findings:
        return
    yield f"found: {tally_of_severities(findings)}"
    yield from finding_lines(gravest_first(findings)[:FINDINGS_SHOWN])
    if len(findings) > FINDINGS_SHOWN:
        yield f"  ... and {count(len(findings) - FINDINGS_SHOWN)} more (--json lists them all)"


def _changes(report: MediaFolderReport) -> str:
    counts = {
        "added": report.added,
        "changed": report.changed,
        "removed": report.removed,
        "unchanged": report.unchanged,
    }
    return ", ".join(f"{count(n)} {word}" for word, n in counts.items() if n) or "none"


def _counted(number: int, kind: str) -> str:
    return f"{count(number)} unreadable" if kind == "unreadable" else count(number, _NOUNS[kind])


def _span(bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return ""
    least, most = bounds
    return count(least) if least == most else f"{count(least)}-{count(most)}"


def _durations(bounds: tuple[float, float] | None) -> str:
    if bounds is None:
        return ""
    least, most = map(duration, bounds)
    return least if least == most else f"{least} - {most}"


def _forms(forms: dict[str, int]) -> str:
    """`JPEG RGB (1,200), PNG P (4)`; of one form, its name alone."""
    if len(forms) == 1:
        return next(iter(forms))
    shown = [f"{name} ({count(n)})" for name, n in list(forms.items())[:FORMS_SHOWN]]
    more = [f"{count(len(forms) - FORMS_SHOWN)} more"] if len(forms) > FORMS_SHOWN else []
    return ", ".join([*shown, *more])
