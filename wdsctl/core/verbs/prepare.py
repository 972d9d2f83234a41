"""`prepare`, the main job: raw files or tars become a dataset that trains: shards, catalog, sample type, split."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.core.called import said
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.published import reading
from wdsctl.core.command_line import command
from wdsctl.core.convert.paths import check_destination
from wdsctl.core.detect import Detection
from wdsctl.core.errors import CatalogError, DatasetError, UsageError
from wdsctl.core.fields import check_sample_type, validate_field_map
from wdsctl.core.files import make_folder
from wdsctl.core.formats.folder import Listing
from wdsctl.core.lock import check_held, locked
from wdsctl.core.media.selection import parse_selection
from wdsctl.core.place import Place, locate
from wdsctl.core.progress import SILENT, Progress
from wdsctl.core.ratios import By
from wdsctl.core.root_spec import RootSpec, root_spec
from wdsctl.core.selected_shards import Selection
from wdsctl.core.urls import plain, shown
from wdsctl.core.verbs.describe import Asked, as_asked, check_config, check_sure, describe
from wdsctl.core.verbs.index import IndexReport, IndexRequest, check_new, index_at, say_where
from wdsctl.core.verbs.index_after import fields_after, is_told
from wdsctl.core.verbs.journal import Entry, journal
from wdsctl.core.verbs.key_until import check_unchanged, kept_rule, note_rule
from wdsctl.core.verbs.media_request import MediaRequest
from wdsctl.core.verbs.nested_datasets import check_holds_no_dataset, check_not_in_dataset
from wdsctl.core.verbs.prepare_source import (
    check_dest,
    check_raw,
    check_there,
    look,
    or_lines,
    refuse_other_forms,
)
from wdsctl.core.verbs.split import SplitReport, settle_split
from wdsctl.core.verbs.write_folder import FolderOptions, FolderReport, survey, write_folder
from wdsctl.core.verbs.write_folder_dest import check_dest as check_holds_own

if TYPE_CHECKING:
    from wdsctl.core.verbs.energon import TakenOver


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions(FolderOptions):
    """What may be asked of `prepare`. What it inherits, but for `workers` and `dry_run`, concerns raw folders only."""

    split: Mapping[str, float] | None = None  # None: keep the split there is, or dataset.yaml's, or all is `train`
    split_by: By = "auto"
    seed: int = 0
    may_move: bool = False  # samples of several splits may leave theirs for another, where another split is asked for
    sample_type: str = ""  # empty: detect it
    field_map: Mapping[str, str] = field(default_factory=dict)
    redetect: bool = False  # write dataset.yaml anew
    take_unsure: bool = False  # a detection that is not sure is written, too
    key: str | None = None  # of lines: the field that keys come from; None: what the catalog has; empty: numbers
    media: str | None = None  # which parts are media, as `MediaRequest.selection` has it
    media_index: bool = False  # index videos for seeking, too
    catalog: str | None = None
    exclude: tuple[str, ...] = ()
    selection: Selection | None = None  # which shards of `source`; None: as the catalog has it
    sample_rows: bool | None = None  # as `index` has it, and so are the next two
    hashed: bool | None = None
    wait: float = 0.0


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


def prepare(
    source: str, dest: str | None = None, options: PrepareOptions | None = None, *, progress: Progress = SILENT
) -> PrepareReport:
    """Make `source` a dataset that trains: in place if it holds tars or lines, into `dest` if it is of raw files.

    Run again, it does what is left to do: the rest of a run that was killed, new files, nothing. Raises UsageError
    WDS221, when all else is done, where the sample type that was detected is not sure.
    """
    options = options or PrepareOptions()
    source, dest = plain(source), None if dest is None else plain(dest)
    _check_options(options)
    if options.selection is None and dest is None:
        spec = root_spec(source)
        source, options = spec.root, replace(options, selection=spec.selection)
    if dest is not None:
        check_places(source, dest, options)
    from_folder = options.selection is None and (dest is not None or look(source) == "folder")
    if from_folder and dest is None:
        refuse_other_forms(source, None)
        raise UsageError(
            "raw files become shards in a folder of their own, and none was named",
            where=source,
            hint=command("prepare", source, "DEST") + or_lines(source),
        )
    root = dest or source
    listing, home = None, ""
    if from_folder:
        if options.dry_run:
            return _foreseen(source, root, options, progress)
        listing = surveyed(source, root, options, progress)  # before anything is made: it may be refused
        options = replace(options, key_until=None if listing.keys.is_open else listing.keys.rule)
        home = os.path.realpath(root)
        make_folder(home)
    place = locate(root, options.catalog, writing=True, home=home)
    if options.dry_run:
        report = index_at(place, _index_request(options), progress)
        return _foretold(source, root, None, report)
    if not from_folder:
        check_new(place, options.exclude, RootSpec(root, options.selection))
    say_where(place, options.catalog, progress)
    words = [shown(source), *([] if dest is None else [shown(dest)]), *said(options)]
    with (
        locked(place.lock, wait=options.wait, note=progress.note),
        journal(place, "prepare", words, progress) as entry,
    ):
        return _do(place, source, root, listing, options, entry, progress)


def check_places(source: str, dest: str, options: PrepareOptions) -> None:
    """Refuse a raw folder and a destination that do not go together, or cannot be used, before anything is made.

    Raises UsageError, InputError, PermissionDenied. Cost: a walk through the raw folder.
    """
    check_dest(source, dest, are_shards=options.selection is not None)
    refuse_other_forms(source, dest)
    check_there(source)
    check_destination([source], dest)
    check_not_in_dataset(dest, options.catalog)
    check_holds_no_dataset(dest)
    check_raw(locate(source).root, dest, options.parts)
    with _peeked(dest, options) as ledger:
        check_holds_own(dest, {record.name for record in ledger.planned_shards()})


def _do(
    place: Place,
    source: str,
    dest: str,
    listing: Listing | None,
    options: PrepareOptions,
    entry: Entry,
    progress: Progress,
) -> PrepareReport:
    """All the steps, for a caller that holds the lock. `listing` is of the raw folder, if there is one; `options` have
    its rule of keys.
    """
    asked = Asked(options.sample_type, options.field_map, options.redetect)
    check_config(place, asked, progress)
    folder = _write(place, source, dest, options, listing, entry, progress) if listing else None
    indexed = index_at(place, _index_request(options, is_ours=listing is not None), progress)
    entry.findings += indexed.findings
    if entry.ledger is not None and folder is not None:
        entry.ledger.forget_former_keys()
    detection = split = None
    is_new = False
    if indexed.samples:
        taken = _taken_over(place, indexed, asked, options, progress)
        if taken is None:
            detection, is_new = describe(
                place, indexed.generation, asked, progress, must_be_sure=not options.take_unsure
            )
        else:
            detection, is_new = taken.detection, True
            entry.findings += taken.findings
            indexed = replace(indexed, findings=(*indexed.findings, *taken.findings))
        if is_new:  # what `index` has told was of another field map, or of none
            lacking = fields_after(place, indexed.generation, _index_request(options))
            kept = (each for each in indexed.findings if each.code != "WDS108")
            entry.findings += lacking
            indexed = replace(indexed, findings=(*kept, *lacking))
        is_new = note_rule(place, options.key_until) or is_new
        split, is_divided = settle_split(
            place, options.split, options.split_by, options.seed, progress, may_move=options.may_move
        )
        is_new = is_new or is_divided
        if taken is None and not options.take_unsure:
            check_sure(place, detection, asked)
    return PrepareReport(
        source=shown(source),
        dest=shown(dest),
        from_folder=folder is not None,
        folder=folder,
        index=indexed,
        detection=detection,
        split=split,
        up_to_date=indexed.up_to_date and not is_new and (folder is None or folder.written == 0),
        dry_run=False,
    )


def _taken_over(
    place: Place, indexed: IndexReport, asked: Asked, options: PrepareOptions, progress: Progress
) -> TakenOver | None:
    """What Energon has left there, where nobody has said it to us."""
    if is_told(place):
        return None
    from wdsctl.core.verbs.energon import take_over

    return take_over(place, indexed, options.workers, progress, asked=asked, divides=options.split is None)


def _check_options(options: PrepareOptions) -> None:
    """Refuse what can be told to be wrong before hours of work."""
    if options.media is not None:
        parse_selection(options.media)
    if options.sample_type:
        with as_asked():
            check_sample_type(options.sample_type, where="--sample-type")
            if options.field_map:
                validate_field_map(options.sample_type, options.field_map, where="--field-map")


def _index_request(options: PrepareOptions, *, is_ours: bool = False) -> IndexRequest:
    return IndexRequest(
        workers=options.workers,
        missing=options.missing,
        exclude=options.exclude,
        dry_run=options.dry_run,
        media=MediaRequest(selection=options.media, keyframes=options.media_index),
        key=options.key,
        key_until=options.key_until,
        is_ours=is_ours,
        selection=options.selection,
        sample_rows=options.sample_rows,
        hashed=options.hashed,
    )


def surveyed(source: str, dest: str, options: PrepareOptions, progress: Progress) -> Listing:
    """`survey`, with the rule of keys and the plan that `dest` keeps, if it is there."""
    kept = None
    if os.path.isdir(dest):
        place = locate(dest, options.catalog)
        kept = kept_rule(place)
        check_unchanged(place, options.key_until, kept, source)
    with _peeked(dest, options) as ledger:
        return survey(source, dest, options, ledger=ledger, kept=kept, progress=progress)


def _peeked(dest: str, options: PrepareOptions) -> Ledger:
    """What earlier runs noted of the destination, if anything: nothing is made."""
    return Ledger.peek(locate(dest, options.catalog).ledger if os.path.isdir(dest) else os.devnull)


def _write(
    place: Place,
    source: str,
    dest: str,
    options: PrepareOptions,
    listing: Listing,
    entry: Entry,
    progress: Progress,
) -> FolderReport:
    if entry.ledger is None:
        raise entry.refused or DatasetError(
            "the plan of the shards cannot be kept", where=dest, hint="choose a catalog that is writable"
        )
    check = partial(check_held, place.lock)
    layouts = partial(_layouts, place)
    return write_folder(
        source,
        dest,
        options,
        ledger=entry.ledger,
        listing=listing,
        into=place.written,
        check=check,
        layouts=layouts,
        progress=progress,
    )


def _layouts(place: Place) -> dict[str, str]:
    """The layout hashes of the shards in the catalog, by path; nothing where there is none that can be read."""
    with suppress(CatalogError), reading(place.catalog) as catalog:
        return dict(catalog.execute("SELECT path, layout_hash FROM shard WHERE removed IS NULL"))
    return {}


def _foreseen(source: str, dest: str, options: PrepareOptions, progress: Progress) -> PrepareReport:
    """A dry run from a raw folder: the shards are planned, and what comes after them depends on them."""
    listing = surveyed(source, dest, options, progress)
    with _peeked(dest, options) as ledger:
        folder = write_folder(source, dest, options, ledger=ledger, listing=listing, progress=progress)
    return _foretold(source, dest, folder, None)


def _foretold(source: str, dest: str, folder: FolderReport | None, index: IndexReport | None) -> PrepareReport:
    return PrepareReport(
        source=shown(source),
        dest=shown(dest),
        from_folder=folder is not None,
        folder=folder,
        index=index,
        detection=None,
        split=None,
        up_to_date=index is not None and index.up_to_date,
        dry_run=True,
    )
