"""Render the report of `wdsctl prepare`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.cli.commands.index import changes_text, render_worst_findings, totals_text
from wdsctl.cli.commands.media_folder import media_rows_text, media_summary
from wdsctl.cli.commands.split_output import rule_text, splits_table
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_field_map, format_share, format_size
from wdsctl.cli.tables import labelled_lines
from wdsctl.core.text import pluralize

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.index.index import IndexReport
    from wdsctl.core.prepare.prepare import PrepareReport
    from wdsctl.core.prepare.request import PrepareRequest
    from wdsctl.core.prepare.write import FolderReport, RenamedSample
    from wdsctl.core.samples.detect import Detection


#: Names of left-out files shown.
EXAMPLES_SHOWN = 3
#: Names of dropped and renamed samples shown.
NAMES_SHOWN = 10


def prepare_renderer(request: PrepareRequest) -> Callable[[PrepareReport], Iterator[RenderableType]]:
    """A renderer that marks a sample type as given by the user, without the reasons for a detected one."""
    return partial(render_prepare, type_note=_given_type_note(request))


def render_prepare(report: PrepareReport, *, type_note: str = "") -> Iterator[RenderableType]:
    if report.up_to_date and report.index is not None:
        yield f"{display_path(report.dest)}: up to date ({totals_text(report.index)})"
        if report.folder is not None:
            yield from (f"  {what}  {line}" for what, line in _named_sample_rows(report.folder))
        if report.folder is not None and (report.folder.vanished or report.folder.stale):
            yield from (f"  {line}" for line in _left_out(report.folder))
        yield from render_worst_findings(report.index)
        return
    rows: list[tuple[str, RenderableType]] = []
    if report.folder is not None:
        rows += _folder(report.folder)
    if report.index is not None:
        rows += _index(report.index)
    if report.detection is not None and report.index is not None:
        rows += [("type", type_note)] if type_note else detection_rows(report.detection)
        rows.append(("", display_path(os.path.join(os.path.dirname(report.index.catalog), "dataset.yaml"))))
    if report.split is not None:
        rows += [("split", rule_text(report.split)), ("", splits_table(report.split.splits))]
    route = (
        f"{display_path(report.source)} -> {display_path(report.dest)}"
        if report.from_folder
        else display_path(report.source)
    )
    yield f"{route}{' (dry run: nothing is written)' if report.dry_run else ''}"
    yield labelled_lines(rows)
    if report.index is not None:
        yield from render_worst_findings(report.index)


def detection_rows(detection: Detection) -> list[tuple[str, RenderableType]]:
    """The sample type that was recognised, why, and why no other."""
    fields = f": {format_field_map(detection.field_map)}" if detection.field_map else ""
    sure = f" (confidence {format_share(detection.confidence)})" if detection.confidence else ""
    rows: list[tuple[str, RenderableType]] = [("type", f"{detection.sample_type}{fields}{sure}")]
    rows += [("", reason) for reason in detection.reasons]
    rows += [("", f"not {rejected.sample_type}: {rejected.reason}") for rejected in detection.rejected]
    return rows


def _given_type_note(request: PrepareRequest) -> str:
    if not request.sample_type and not request.field_map:
        return ""
    fields = format_field_map(dict(request.field_map))
    return f"{': '.join(filter(None, (request.sample_type, fields)))} (as told)"


def _folder(folder: FolderReport) -> list[tuple[str, RenderableType]]:
    """The shards that were written and what was left out of them."""
    would = "would be: " if folder.dry_run else ""
    summary = (
        f"{format_count(folder.samples, 'sample')} in {format_count(folder.shards, 'shard')}, "
        f"{format_size(folder.size_bytes)}"
    )
    rows: list[tuple[str, RenderableType]] = [
        ("write", f"{summary} ({would}{format_count(folder.written)} written, {format_count(folder.kept)} kept)")
    ]
    if folder.keys is not None:
        rows.append(("keys", f"end by {folder.keys.rule}: {folder.keys.reason}"))
        if folder.keys.rule != "first-dot":
            rows.append(("", "dots in a key are `_` in the shards, where other readers end a key at its first dot"))
        rows += [("", f"not {rejected.rule}: {rejected.reason}") for rejected in folder.keys.rejected]
    rows += _named_sample_rows(folder)
    return rows + [("", line) for line in _left_out(folder)]


def _left_out(folder: FolderReport) -> list[str]:
    """What of the folder is not in the shards as it is there, with the names of the first files that were left out."""
    changed = "while their files have changed"
    reasons = (
        (folder.incomplete, "incomplete sample", ""),
        (folder.strays, "stray file", ""),
        (folder.unreadable, "unreadable file or folder", "unreadable files or folders"),
        (folder.ignored, "file or folder passed over", "files or folders passed over"),
        (
            folder.vanished,
            "sample stays in its shard though its files are gone",
            "samples stay in their shards though their files are gone",
        ),
        (folder.stale, "shard kept as it was while its files have changed", f"shards kept as they were {changed}"),
    )
    left_out = ", ".join(pluralize(n, noun, plural) for n, noun, plural in reasons if n)
    if not left_out:
        return []
    shown = folder.examples[:EXAMPLES_SHOWN]
    more = folder.incomplete + folder.strays + folder.unreadable - len(shown)
    return [
        f"not as it should be: {left_out}",
        *shown,
        *([f"... and {format_count(more)} more"] if shown and more > 0 else []),
    ]


def _named_sample_rows(folder: FolderReport) -> list[tuple[str, str]]:
    """The samples that are no longer in the shards, and those that have another name, by name."""
    rows = []
    for what, names, of_these in (
        ("dropped", [escape_line(key) for key in folder.dropped], ""),
        ("renamed", [_arrow(each) for each in folder.renamed], ""),
        ("renamed", [_arrow(each) for each in folder.pending], ", old name kept in a shard with samples that are gone"),
    ):
        if names:
            more = (
                f" and {format_count(len(names) - NAMES_SHOWN)} more (--json has all)"
                if len(names) > NAMES_SHOWN
                else ""
            )
            rows.append((what, f"{pluralize(len(names), 'sample')}{of_these}: {', '.join(names[:NAMES_SHOWN])}{more}"))
    return rows


def _arrow(renamed: RenamedSample) -> str:
    return f"{escape_line(renamed.before)} -> {escape_line(renamed.after)}"


def _index(index: IndexReport) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = [
        ("index", f"{totals_text(index)} ({changes_text(index)})"),
        ("", display_path(index.catalog)),
    ]
    if index.media is not None:
        rows += [("media", media_summary(index.media))]
        rows += [("", line) for line in media_rows_text(index.media.lines)]
    return rows
