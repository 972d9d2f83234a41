"""`prepare`, the main job: raw files or tars become a dataset that trains: shards, catalog, sample type, split."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.detect import Detection
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.fields import check_sample_type, validate_field_map
from wdsctl.core.formats.folder import Listing, OnMissing
from wdsctl.core.lock import locked
from wdsctl.core.os_errors import translated
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By
from wdsctl.core.shard_list import COMPRESSED, holds_shards
from wdsctl.core.verbs.describe import Asked, check_config, describe
from wdsctl.core.verbs.index import IndexReport, IndexRequest, Missing, check_shards, index_at, say_where
from wdsctl.core.verbs.journal import Entry, journal
from wdsctl.core.verbs.split import SplitReport, settle_split
from wdsctl.core.verbs.write_folder import FolderOptions, FolderReport, survey, write_folder

Source = Literal["folder", "tars"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """What may be asked of `prepare`. The first five, and `moved`, concern raw folders only."""

    shard_samples: int = 10_000
    shard_size: int = 1 << 30  # bytes
    template: str = "shard-{index:06d}.tar"
    parts: tuple[str, ...] = ()  # what a complete raw sample has; empty: what at least half of them have
    on_missing: OnMissing = "error"
    split: Mapping[str, float] | None = None  # None: keep the split there is, or dataset.yaml's, or all is `train`
    split_by: By = "auto"
    seed: int = 0
    sample_type: str = ""  # empty: detect it
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False  # write dataset.yaml anew
    moved: bool = False  # the raw folder is the one that the shards were made from, at another path
    workers: int = 1
    catalog: str | None = None
    missing: Missing = "error"
    exclude: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReport:
    """What was done, step by step. Steps that a dry run cannot foresee are None; so is the split of no samples."""

    source: str
    dest: str
    from_folder: bool
    folder: FolderReport | None
    index: IndexReport | None
    detection: Detection | None  # None where dataset.yaml was there and was left alone
    split: SplitReport | None
    up_to_date: bool
    dry_run: bool


def look(source: str) -> Source:
    """Whether a folder holds shards or raw files. Raises InputError if it holds nothing, PermissionDenied."""
    place = locate(source)
    if holds_shards(place.root):
        return "tars"
    if not os.listdir(place.root):
        raise InputError("the folder is empty", where=source, hint="check the path", code="WDS003")
    return "folder"


def prepare(
    source: str, dest: str | None = None, options: PrepareOptions | None = None, *, progress: Progress = SILENT
) -> PrepareReport:
    """Make `source` a dataset that trains: in place if it holds tars, into `dest` if it is a folder of raw files.

    Run again, it does what is left to do: the rest of a run that was killed, new files, nothing.
    """
    options = options or PrepareOptions()
    _check_options(options)
    from_folder = dest is not None or look(source) == "folder"
    if from_folder and dest is None:
        raise UsageError(
            "raw files become shards in a folder of their own, and none was named",
            where=source,
            hint=f"wdsctl prepare {source} DEST",
        )
    root = dest or source
    listing = None
    if from_folder:
        _check_raw(locate(source).root, options.parts)
        if options.dry_run:
            return _foreseen(source, root, options, progress)
        listing = _survey(source, root, options, progress)  # before anything is made: it may be refused
        with translated(root):
            os.makedirs(root, exist_ok=True)
    place = locate(root, options.catalog, writing=True)
    if options.dry_run:
        report = index_at(place, _index_request(options), progress)
        return _foretold(source, root, None, report)
    if not from_folder:
        check_shards(place, options.exclude)
    say_where(place, options.catalog, progress)
    with locked(place.lock), journal(place, "prepare", [source, root], progress) as entry:
        return _do(place, source, root, listing, options, entry, progress)


def _do(
    place: Place,
    source: str,
    dest: str,
    listing: Listing | None,
    options: PrepareOptions,
    entry: Entry,
    progress: Progress,
) -> PrepareReport:
    """All the steps, for a caller that holds the lock. `listing` is of the raw folder, if there is one."""
    asked = Asked(options.sample_type, options.field_map, options.redetect)
    check_config(place, asked, progress)
    folder = _write(source, dest, options, listing, entry, progress) if listing else None
    indexed = index_at(place, _index_request(options), progress)
    entry.findings += indexed.findings
    detection = split = None
    is_new = False
    if indexed.samples:
        detection, is_new = describe(place, indexed.generation, asked, progress)
        split, is_divided = settle_split(place, options.split, options.split_by, options.seed, progress)
        is_new = is_new or is_divided
    return PrepareReport(
        source=source,
        dest=dest,
        from_folder=folder is not None,
        folder=folder,
        index=indexed,
        detection=detection,
        split=split,
        up_to_date=indexed.up_to_date and not is_new and (folder is None or folder.written == 0),
        dry_run=False,
    )


def _check_options(options: PrepareOptions) -> None:
    """Refuse what can be told to be wrong before hours of work."""
    if options.sample_type:
        check_sample_type(options.sample_type, where="--sample-type")
        if options.field_map:
            validate_field_map(options.sample_type, options.field_map, where="--field-map")


def _check_raw(source: str, parts: Sequence[str]) -> None:
    """Refuse a folder of shards as raw files: they would become parts of samples of other shards."""
    if any(f".{part}".lower().endswith((".tar", *COMPRESSED)) for part in parts) or not holds_shards(source):
        return
    raise UsageError(
        "the source holds shards already, and is prepared in place",
        where=source,
        hint=f"wdsctl prepare {source}; if its tars are parts of samples, name them: --parts jpg,tar",
    )


def _index_request(options: PrepareOptions) -> IndexRequest:
    return IndexRequest(
        workers=options.workers, missing=options.missing, exclude=options.exclude, dry_run=options.dry_run
    )


def _folder_options(options: PrepareOptions) -> FolderOptions:
    return FolderOptions(
        shard_samples=options.shard_samples,
        shard_size=options.shard_size,
        template=options.template,
        parts=options.parts,
        on_missing=options.on_missing,
        workers=options.workers,
        moved=options.moved,
        dry_run=options.dry_run,
    )


def _survey(source: str, dest: str, options: PrepareOptions, progress: Progress) -> Listing:
    with _peeked(dest, options) as ledger:
        return survey(source, dest, _folder_options(options), ledger=ledger, progress=progress)


def _peeked(dest: str, options: PrepareOptions) -> Ledger:
    """What earlier runs noted of the destination, if anything: nothing is made."""
    return Ledger.peek(locate(dest, options.catalog).ledger if os.path.isdir(dest) else os.devnull)


def _write(
    source: str, dest: str, options: PrepareOptions, listing: Listing, entry: Entry, progress: Progress
) -> FolderReport:
    if entry.ledger is None:
        raise entry.refused or DatasetError(
            "the plan of the shards cannot be kept", where=dest, hint="choose a catalog that is writable"
        )
    return write_folder(source, dest, _folder_options(options), ledger=entry.ledger, listing=listing, progress=progress)


def _foreseen(source: str, dest: str, options: PrepareOptions, progress: Progress) -> PrepareReport:
    """A dry run from a raw folder: the shards are planned, and what comes after them depends on them."""
    with _peeked(dest, options) as ledger:
        folder = write_folder(source, dest, _folder_options(options), ledger=ledger, progress=progress)
    return _foretold(source, dest, folder, None)


def _foretold(source: str, dest: str, folder: FolderReport | None, index: IndexReport | None) -> PrepareReport:
    return PrepareReport(
        source=source,
        dest=dest,
        from_folder=folder is not None,
        folder=folder,
        index=index,
        detection=None,
        split=None,
        up_to_date=index is not None and index.up_to_date,
        dry_run=True,
    )
