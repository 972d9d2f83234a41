"""What `wdsctl prepare` did, phase by phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, field_map, path, safe, share, size
from wdsctl.cli.render.index import changes, found, totals
from wdsctl.cli.render.media import media_lines, summary
from wdsctl.cli.render.pieces import labelled
from wdsctl.cli.render.split import rule, splits_table
from wdsctl.core.counted import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.detect import Detection
    from wdsctl.core.verbs.index import IndexReport
    from wdsctl.core.verbs.prepare import PrepareOptions, PrepareReport
    from wdsctl.core.verbs.write_folder import FolderReport, Renamed

#: Names of left-out files shown.
EXAMPLES_SHOWN = 3
#: Names of dropped and renamed samples shown.
NAMES_SHOWN = 10


def renderer(options: PrepareOptions) -> Callable[[PrepareReport], Iterator[RenderableType]]:
    """What the user says of the sample type is told as such; why another was detected does not matter then."""
    return partial(render, told=_told(options))


def render(report: PrepareReport, *, told: str = "") -> Iterator[RenderableType]:
    if report.up_to_date and report.index is not None:
        yield f"{path(report.dest)}: up to date ({totals(report.index)})"
        if report.folder is not None:
            yield from (f"  {what}  {line}" for what, line in _by_name(report.folder))
        if report.folder is not None and (report.folder.vanished or report.folder.stale):
            yield from (f"  {line}" for line in _left_out(report.folder))
        yield from found(report.index)
        return
    rows: list[tuple[str, RenderableType]] = []
    if report.folder is not None:
        rows += _folder(report.folder)
    if report.index is not None:
        rows += _index(report.index)
    if report.detection is not None and report.index is not None:
        rows += [("type", told)] if told else detection_rows(report.detection)
        rows.append(("", path(os.path.join(os.path.dirname(report.index.catalog), "dataset.yaml"))))
    if report.split is not None:
        rows += [("split", rule(report.split)), ("", splits_table(report.split.splits))]
    route = f"{path(report.source)} -> {path(report.dest)}" if report.from_folder else path(report.source)
    yield f"{route}{' (dry run: nothing is written)' if report.dry_run else ''}"
    yield labelled(rows)
    if report.index is not None:
        yield from found(report.index)


def detection_rows(detection: Detection) -> list[tuple[str, RenderableType]]:
    """The sample type that was recognised, why, and why no other."""
    fields = f": {field_map(detection.field_map)}" if detection.field_map else ""
    sure = f" (confidence {share(detection.confidence)})" if detection.confidence else ""
    rows: list[tuple[str, RenderableType]] = [("type", f"{detection.sample_type}{fields}{sure}")]
    rows += [("", reason) for reason in detection.reasons]
    rows += [("", f"not {rejected.sample_type}: {rejected.reason}") for rejected in detection.rejected]
    return rows


def _told(options: PrepareOptions) -> str:
    if not options.sample_type and not options.field_map:
        return ""
    fields = field_map(dict(options.field_map))
    return f"{': '.join(filter(None, (options.sample_type, fields)))} (as told)"


def _folder(folder: FolderReport) -> list[tuple[str, RenderableType]]:
    """The shards that were written and what was left out of them."""
    would = "would be: " if folder.dry_run else ""
    made = f"{count(folder.samples, 'sample')} in {count(folder.shards, 'shard')}, {size(folder.size_bytes)}"
    rows: list[tuple[str, RenderableType]] = [
        ("write", f"{made} ({would}{count(folder.written)} written, {count(folder.kept)} kept)")
    ]
    if folder.keys is not None:
        rows.append(("keys", f"end by {folder.keys.rule}: {folder.keys.reason}"))
        if folder.keys.rule != "first-dot":
            rows.append(("", "dots in a key are `_` in the shards, where other readers end a key at its first dot"))
        rows += [("", f"not {rejected.rule}: {rejected.reason}") for rejected in folder.keys.rejected]
    rows += _by_name(folder)
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
    left_out = ", ".join(counted(n, noun, plural) for n, noun, plural in reasons if n)
    if not left_out:
        return []
    shown = folder.examples[:EXAMPLES_SHOWN]
    more = folder.incomplete + folder.strays + folder.unreadable - len(shown)
    return [
        f"not as it should be: {left_out}",
        *shown,
        *([f"... and {count(more)} more"] if shown and more > 0 else []),
    ]


def _by_name(folder: FolderReport) -> list[tuple[str, str]]:
    """The samples that are no longer in the shards, and those that have another name, by name."""
    rows = []
    for what, names, of_these in (
        ("dropped", [safe(key) for key in folder.dropped], ""),
        ("renamed", [_arrow(each) for each in folder.renamed], ""),
        ("renamed", [_arrow(each) for each in folder.pending], ", old name kept in a shard with samples that are gone"),
    ):
        if names:
            more = f" and {count(len(names) - NAMES_SHOWN)} more (--json has all)" if len(names) > NAMES_SHOWN else ""
            rows.append((what, f"{counted(len(names), 'sample')}{of_these}: {', '.join(names[:NAMES_SHOWN])}{more}"))
    return rows


def _arrow(renamed: Renamed) -> str:
    return f"{safe(renamed.before)} -> {safe(renamed.after)}"


def _index(index: IndexReport) -> list[tuple[str, RenderableType]]:
    rows: list[tuple[str, RenderableType]] = [
        ("index", f"{totals(index)} ({changes(index)})"),
        ("", path(index.catalog)),
    ]
    if index.media is not None:
        rows += [("media", summary(index.media))]
        rows += [("", line) for line in media_lines(index.media.lines)]
    return rows
