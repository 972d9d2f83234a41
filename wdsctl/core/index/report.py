"""The reports of `index`: shards, columns, media. Light to import: it needs no numpy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wdsctl.core.catalog.totals import MediaSummary, Totals, media_counts
from wdsctl.core.catalog.values import MediaSettings, read_media_settings
from wdsctl.core.dataset.location import DatasetLocation, shell_command_at
from wdsctl.core.errors import CatalogError, Finding, PermissionDenied, StorageError

if TYPE_CHECKING:
    from wdsctl.core.catalog.read import Catalog
    from wdsctl.core.columns.column_file import ColumnFacts, ColumnFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRename:
    """A shard with a new path and the same content."""

    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """The contents of the catalog after the run, and what the run changed. `added` to `unchanged` count shards."""

    root: str
    catalog: str
    generation: int
    shards: int
    samples: int  # in a dry run, without those of new and changed shards
    parts: int
    size_bytes: int  # of all shards
    added: int
    changed: int
    removed: int
    unchanged: int
    findings: tuple[Finding, ...]
    up_to_date: bool
    dry_run: bool
    seconds: float
    columns: tuple[ColumnReport, ...] = ()
    media: MediaReport | None = None  # None: the dataset has no media facts, and the request names none
    renamed: tuple[ShardRename, ...] = ()  # also counted as unchanged
    selection: str = ""  # the selected shards, as the user wrote them; empty: all shards of the folder
    hashed: int = 0  # shards with a SHA-256 in the catalog
    sample_rows: bool = True
    catalog_bytes: int = 0  # of the catalog and the offsets file


ColumnState = Literal["made", "current", "outdated", "incomplete", "dropped", "would be made", "would be dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """The state of one column. The statistics are None if the column has no values or the dataset no samples.

    State `incomplete`: some samples have no value, so the column was not published; the next run reuses the values that
    were computed.
    """

    name: str
    function: str
    state: ColumnState
    generation: int | None  # of the values; an earlier one if the column is outdated
    shards_read: int = 0
    samples: int = 0
    failed: int = 0  # samples for which the function failed: stored as 0, or the column is incomplete
    min: int | None = None
    mean: float | None = None
    p50: int | None = None
    p99: int | None = None
    max: int | None = None
    total: int | None = None


def report_column(facts: ColumnFacts, state: ColumnState) -> ColumnReport:
    summary = facts.summary
    report = ColumnReport(
        name=facts.name,
        function=facts.function,
        state=state,
        generation=facts.generation,
        samples=facts.samples,
        failed=facts.failed,
    )
    if summary is None:
        return report
    return replace(
        report,
        min=summary.min,
        mean=summary.total / facts.samples,
        p50=summary.p50,
        p99=summary.p99,
        max=summary.max,
        total=summary.total,
    )


def column_reports(location: DatasetLocation, generation: int, digest: str) -> tuple[list[ColumnReport], list[Finding]]:
    """Report the columns of a dataset from the headers of their files. Damaged files become findings.

    `digest`: the digest of the shards of `generation` (`digest_shards`). Cost: one header per column.
    """
    if not os.path.isdir(location.columns_folder):
        return [], []
    from wdsctl.core.columns.column_file import column_path, list_columns

    reports, findings = [], []
    for name, generations in list_columns(location).items():
        newest = max((each for each in generations if each <= generation), default=generations[-1])
        column = read_column_or_finding(column_path(location, name, newest))
        if isinstance(column, Finding):
            findings.append(column)
            continue
        is_current = newest == generation and column.facts.shards == digest and not has_changed_function(column.facts)
        reports.append(report_column(column.facts, "current" if is_current else "outdated"))
    return reports, findings


def read_column_or_finding(path: str) -> ColumnFile | Finding:
    from wdsctl.core.columns.column_file import read_column

    try:
        return read_column(path)
    except (CatalogError, StorageError, PermissionDenied) as error:
        return Finding(code=error.code, severity="error", message=f"{error.message} ({error.where}); {error.hint}")


def has_changed_function(facts: ColumnFacts) -> bool:
    """Whether the file of the column's function is known to have changed. Runs no code."""
    from wdsctl.core.columns.spec import find_source_digest, parse_column_spec

    found = find_source_digest(parse_column_spec(facts.function))
    return found is not None and found != facts.source


def outdated_finding(location: DatasetLocation, facts: ColumnFacts, reason: str = "") -> Finding:
    """`reason`: by default, the generation for which the column was computed."""
    command = shell_command_at(location, "index", "--column", f"{facts.name}={facts.function}")
    from wdsctl.core.columns.spec import parse_column_spec

    runs = (
        ""
        if parse_column_spec(facts.function).is_built_in
        else f" by running {facts.function}, a function that the dataset names"
    )
    return Finding(
        code="WDS314",
        severity="warning",
        message=f"column {facts.name} is outdated ({reason or f'computed for generation {facts.generation}'}): "
        f"{command} updates it{runs}",
    )


MediaState = Literal["made", "current", "outdated", "incomplete", "dropped", "would be made", "would be dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaReport:
    """The media of a dataset. `counts` describes the catalog after the run.

    State `incomplete`: some media could not be read because their shard is missing or reading failed. A later run tries
    again.
    """

    selection: str
    keyframes: bool
    state: MediaState
    read: int = 0  # shards, or files of a folder, that this run read
    counts: dict[str, int] = field(default_factory=dict)  # image, audio, video, unreadable
    lines: tuple[MediaSummary, ...] = ()


def current_media_report(catalog: Catalog, facts: Mapping[str, str], totals: Totals) -> MediaReport | None:
    """The media report of an open catalog, from its facts and totals; None without media settings.

    Reads the catalog only if `totals` has no media summary.
    """
    settings = read_media_settings(catalog.path, facts)
    if settings is None:
        return None
    lines = totals.media
    if lines is None:
        lines = tuple(catalog.media_reader.summaries())
    return _report(settings, "incomplete" if totals.without_facts else "current", 0, lines)


def media_report(catalog: Catalog, state: MediaState, *, read: int = 0) -> MediaReport | None:
    """The media report of an open catalog; None if it has no media settings."""
    settings = catalog.media_settings()
    return None if settings is None else _report(settings, state, read, tuple(catalog.media_reader.summaries()))


def _report(settings: MediaSettings, state: MediaState, read: int, lines: tuple[MediaSummary, ...]) -> MediaReport:
    return MediaReport(
        selection=settings.selection,
        keyframes=settings.keyframes,
        state=state,
        read=read,
        counts=dict(media_counts(lines)),
        lines=lines,
    )
