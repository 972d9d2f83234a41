"""`index`: what is in the shards, into the catalog. Incremental, resumable, and nothing half-done is ever seen."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wdsctl.core.called import said
from wdsctl.core.lock import locked, writer
from wdsctl.core.naming import KeyUntil
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.replan import Missing
from wdsctl.core.root_spec import RootSpec, root_spec
from wdsctl.core.urls import shown
from wdsctl.core.verbs.column_request import ColumnRequest, OnError
from wdsctl.core.verbs.index_after import check_after, columns_after, fields_after, is_told, media_after, splits_after
from wdsctl.core.verbs.index_request import IndexReport, IndexRequest
from wdsctl.core.verbs.index_shards import check_shards, index_shards
from wdsctl.core.verbs.journal import journal
from wdsctl.core.verbs.media_request import MediaRequest

__all__ = ["IndexReport", "IndexRequest", "Missing", "check_new", "index", "index_at", "say_where"]


def index(
    root: str | RootSpec,
    *,
    catalog: str | None = None,
    workers: int = 1,
    rebuild: bool = False,
    missing: Missing = "error",
    exclude: Sequence[str] | None = None,
    dry_run: bool = False,
    columns: Mapping[str, str] | None = None,
    drop_columns: Sequence[str] = (),
    on_error: OnError = "error",
    trust_code: bool = False,
    media: MediaRequest | None = None,
    key: str | None = None,
    key_until: KeyUntil | None = None,
    sample_rows: bool | None = None,
    hashed: bool | None = None,
    wait: float = 0.0,
    progress: Progress = SILENT,
) -> IndexReport:
    """Bring the catalog up to date with the shards below `root`; only new and changed shards are read.

    `root` may name some of the shards of a folder (`root_spec`); later runs keep to them.
    `missing` says what to do about shards that have vanished: raise InputError WDS306, keep their rows, or drop them.
    One that was kept is known to be missing: later runs say so and go on, and take it back when it is there again.
    `exclude` are patterns of shards to leave out. They are kept in the catalog, and stay where none are given; an empty
    pattern takes them back.
    `rebuild` reads all shards again. A catalog that can be read hands on its splits and the shards' numbers; of one
    that is damaged the file is kept, and splits are made by the rule in dataset.yaml.
    `columns`: name -> function, numbers that are worked out for every sample (docs/columns.md). Columns of functions
    that need no code are brought along without being named. `on_error`: "zero" gives a sample 0 for which a function
    fails; otherwise the column is not published, and the samples are findings. `trust_code`: functions may come from
    modules in the dataset's own folder, which are otherwise refused (UsageError WDS271).
    `media`: facts of images, sounds and videos, by header (docs/media.md); those that were asked for before are brought
    along.
    `key`: for files of lines, the field of their objects that keys come from; kept in the catalog, and taken back by an
    empty one (docs/jsonl.md).
    `key_until`: "first-dot" says that samples of tars are meant as they are, where their names look as if several had
    become one (DatasetError WDS245); it is kept. Other rules raise UsageError WDS248, and a change of rule WDS246.
    `sample_rows`: whether every sample has a row in the catalog, as those in tars have unless it is said otherwise, and
    lines have not (`wdsctl/core/catalog/line_rows.py`); `hashed`: whether every shard is read as a whole, for
    its SHA-256. Both are kept in the catalog. `wait`: seconds to wait for another writer.
    A shard that has vanished, while one with the same content came, was renamed: it keeps its number and its splits.
    Cost: about 2 µs of one core a member. Memory: the largest shard's index, and a few tens of MB.
    """
    spec = root if isinstance(root, RootSpec) else root_spec(root)
    place = locate(spec.root, catalog, writing=True)
    patterns = None if exclude is None else tuple(exclude)
    asked = ColumnRequest(
        wanted=dict(columns or {}), drop=tuple(drop_columns), on_error=on_error, trust_code=trust_code
    )
    request = IndexRequest(
        workers=workers,
        rebuild=rebuild,
        missing=missing,
        exclude=patterns,
        dry_run=dry_run,
        columns=asked,
        media=media or MediaRequest(),
        key=key,
        key_until=key_until,
        selection=spec.selection,
        sample_rows=sample_rows,
        hashed=hashed,
    )
    check_after(place, request)
    if dry_run:
        return index_at(place, request, progress)
    check_new(place, exclude or (), spec)
    say_where(place, catalog, progress)
    with (
        locked(place.lock, wait=wait, note=progress.note),
        journal(place, "index", [shown(spec.root), *said(request)], progress) as entry,
    ):
        report = _taken_over(place, index_at(place, request, progress), request, progress)
        entry.findings += report.findings
        return report


def index_at(place: Place, request: IndexRequest, progress: Progress) -> IndexReport:
    """What `index` does, for a caller that holds the lock."""
    started = time.monotonic()
    report = index_shards(place, request, progress)
    media, wrong = media_after(place, request, progress)
    columns, found = columns_after(place, report.generation, request, progress)
    is_changed, told = splits_after(place, request, progress)
    return replace(
        report,
        columns=tuple(columns),
        media=media,
        findings=(*report.findings, *wrong, *found, *told, *fields_after(place, report.generation, request)),
        up_to_date=report.up_to_date
        and not is_changed
        and all(each.state in ("current", "outdated") for each in columns)
        and (media is None or media.state == "current"),
        seconds=time.monotonic() - started,
    )


def _taken_over(place: Place, report: IndexReport, request: IndexRequest, progress: Progress) -> IndexReport:
    """With what Energon has left there, where nobody has said it to us."""
    if is_told(place):
        return report
    from wdsctl.core.verbs.energon import index_taken_over

    return index_taken_over(place, report, request.workers, progress)


def check_new(place: Place, exclude: Sequence[str], spec: RootSpec) -> None:
    """`check_shards`, where there is no catalog, and nobody is making one."""
    if not os.path.exists(place.catalog) and not writer(place.lock):
        check_shards(place, exclude, spec.selection)


def say_where(place: Place, asked: str | None, progress: Progress) -> None:
    """Tell the user, once, when the catalog is not where they would look for it."""
    if not place.is_inside and asked is None and not os.path.exists(place.catalog):
        progress.note(f"the catalog is kept in {place.meta}")
