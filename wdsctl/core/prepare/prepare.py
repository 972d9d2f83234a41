"""`prepare`: build a training dataset from raw files or shards: shards, catalog, sample type, splits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.finish import write_training_files
from wdsctl.core.convert.report import LEFT_OUT_FILE
from wdsctl.core.dataset.location import DatasetLocation, locate, note_catalog_location
from wdsctl.core.dataset.lock import check_lock_held, lock_dataset
from wdsctl.core.dataset.polylithic import is_polylithic, read_polylithic_folder
from wdsctl.core.dataset.raw_folder import ALTERNATIVE_SEPARATOR, RawListing
from wdsctl.core.dataset.root_spec import RootSpec, parse_root_spec
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import DatasetError
from wdsctl.core.files import make_folder
from wdsctl.core.importers.common.commands import repeat_command
from wdsctl.core.importers.splits.folders import split_folder_findings, split_folder_rule
from wdsctl.core.importers.splits.shards import default_split_rule
from wdsctl.core.index.index import (
    IndexReport,
    check_new_catalog,
    index_dataset,
    index_if_media_folder,
    index_locked,
    index_staged,
    is_energon_imported,
    lacking_field_findings,
)
from wdsctl.core.index.key_until import write_rule
from wdsctl.core.index.media_folder import MediaFolderReport
from wdsctl.core.index.picture_sizes import write_drawn_on
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.index.write_dataset_yaml import (
    SampleTypeRequest,
    UnsureTypeError,
    fitting_type_findings,
    is_doubtful,
    not_utf8_findings,
    set_aside_broken_config,
    write_dataset_yaml,
)
from wdsctl.core.invocation import describe_request, recording_call
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.opened.staging import stage_catalog
from wdsctl.core.opened.writing import RunRecord, hold_remote_marker, writing
from wdsctl.core.prepare.archives import unpack_archives
from wdsctl.core.prepare.checks import (
    check_fitting_options,
    check_media_options,
    check_no_layout,
    check_options,
    check_source_and_dest,
    conversion_request,
    missing_dest_error,
    sample_options,
    survey_source,
    unread_clip_findings,
)
from wdsctl.core.prepare.examples import ExampleSample
from wdsctl.core.prepare.polylithic import resolve_polylithic_config
from wdsctl.core.prepare.preview import (
    SamplesPreview,
    check_fields_of_folder,
    check_fields_of_format,
    preview_format,
    preview_samples,
)
from wdsctl.core.prepare.request import Consent, PrepareCommand, PrepareRequest
from wdsctl.core.prepare.robots import (
    FORMAT as ROBOT_FORMAT,
)
from wdsctl.core.prepare.robots import (
    RobotReport,
    check_robot_request,
    frames_request,
    robot_split_rule,
    write_robot_frames,
)
from wdsctl.core.prepare.source import (
    IN_PLACE,
    RAW_FOLDER,
    SourceFormat,
    recognise_format,
)
from wdsctl.core.prepare.splits import (
    check_fills_requested_splits,
    check_fills_splits_in_place,
    shared_file_findings,
    split_by_of_written,
    split_findings,
)
from wdsctl.core.prepare.write import FolderReport, UploadFolders, write_folder
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.detect import Detection
from wdsctl.core.samples.field_map import type_text
from wdsctl.core.shards.survey import find_jsonl_file, keep_surveys
from wdsctl.core.split.split import SplitReport, SplitRequest, ensure_split, split_dataset
from wdsctl.core.storage.source_files import forget_listings
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

if TYPE_CHECKING:
    from wdsctl.core.index.energon import EnergonImport


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareReport:
    """The results of the steps. None: a dry run cannot predict the result, or, for `split`, there are no samples."""

    source: str
    dest: str
    from_folder: bool
    folder: FolderReport | None
    index: IndexReport | None
    detection: Detection | None  # None if dataset.yaml existed and was kept
    split: SplitReport | None
    up_to_date: bool
    dry_run: bool
    form: SourceFormat | None = None  # None: the user selected shards
    conversion: ConvertReport | None = None  # of a source that is neither raw files nor shards
    primary: str = ""  # the primary of a polylithic `dest`
    sample_type: str = ""  # in dataset.yaml, or of the complete samples of a polylithic `dest`; empty if not written
    field_map: Mapping[str, str] = field(default_factory=dict)  # of this sample type
    robot: RobotReport | None = None  # of a LeRobot dataset
    examples: tuple[ExampleSample, ...] = ()  # of a dry run: the first samples
    former_type: str = ""  # "TYPE: FIELD=PART,..." of the dataset.yaml that existed before; empty without one
    consents: tuple[str, ...] = ()  # that were necessary, also if `yes` gave them: `accept_type`, ...


def run_prepare(command: PrepareCommand, *, progress: Progress = SILENT_PROGRESS) -> PrepareReport | MediaFolderReport:
    """Build a training dataset from raw files, tables, tars or JSONL: `wdsctl prepare`. A second run continues.

    Recognises the format of `source` and writes the samples as shards below `dest`. Uses tars and JSONL of texts in
    place, without `dest`. Then indexes the shards, detects the sample type, and assigns the samples to splits.

    Returns a `PrepareReport`; for a folder of media with `media` and without `dest`, a `MediaFolderReport`.
    """
    spec, request = parse_root_spec(command.source), command.request
    request = replace(request, index=replace(request.index, selection=spec.selection))
    report = None if command.dest else catalog_media_folder(spec, request, sample_options(request), progress)
    return report or prepare(spec.root, command.dest, request, progress=progress)


def catalog_media_folder(
    spec: RootSpec, request: PrepareRequest, inapplicable: Mapping[str, bool], progress: Progress
) -> MediaFolderReport | None:
    """Catalog `spec` if it is a folder of media; else return None. `inapplicable`: options, and whether they are given.

    Raises the errors of `index_if_media_folder`.
    """
    return index_if_media_folder(
        spec, request.index, catalog=request.catalog, wait=request.wait, unfit=inapplicable, progress=progress
    )


def prepare(
    source: str, dest: str | None = None, request: PrepareRequest | None = None, *, progress: Progress = SILENT_PROGRESS
) -> PrepareReport:
    """Build a training dataset: in place from tars or JSONL without media, in `dest` from raw files and other formats.

    Zips of the source are unpacked beside `dest` meanwhile, unless the request names the format or a part `zip`.

    A second call does only what is missing: it continues a killed run, adds new files, or changes nothing. Raises
    UsageError WDS221 after all other steps if the detected sample type is not sure, and what the steps raise.
    """
    request = request or PrepareRequest()
    source, dest = normalize_root(source), None if dest is None else normalize_root(dest)
    forget_listings()
    check_options(request)
    arguments = [source, *([] if dest is None else [dest]), *describe_request(request)]
    if is_url(source):
        progress.phase("recognise")  # shows that the store does not answer
    with keep_surveys(), recording_call("prepare", arguments):
        if request.index.selection is not None or not may_unpack(request):
            return _prepare(source, dest, request, progress)
        with unpack_archives(source, dest, progress.note) as folder:
            report = _prepare(folder, dest, request, progress)
    return report if folder == source else _name_unpacked(report, source, folder)


def _name_unpacked(report: PrepareReport, source: str, folder: str) -> PrepareReport:
    """The report of unpacked zips: commands in its findings must not name `folder`, which is removed now."""
    conversion = report.conversion
    if conversion is not None:
        named = (replace(each, message=each.message.replace(folder, "FOLDER")) for each in conversion.findings)
        conversion = replace(conversion, findings=tuple(named))
    return replace(report, source=redact_secrets(source), conversion=conversion)


def may_unpack(request: PrepareRequest) -> bool:
    """Whether zips of the source are archives, and not what the user says they are."""
    return not request.from_format and not any("zip" in part.split(ALTERNATIVE_SEPARATOR) for part in request.parts)


def _prepare(source: str, dest: str | None, request: PrepareRequest, progress: Progress) -> PrepareReport:
    """`prepare` for a source whose zips are unpacked."""
    if request.index.selection is None and dest is None:
        spec = parse_root_spec(source)
        source, request = spec.root, replace(request, index=replace(request.index, selection=spec.selection))
    if dest is None and request.index.selection is None and is_polylithic(source):
        check_fitting_options(request, are_raw=False, are_polylithic=True)
        return _prepare_polylithic(source, request, progress)
    form = recognise_format(source, dest, request.from_format) if request.index.selection is None else None
    if form is not None and form.name not in (IN_PLACE, RAW_FOLDER):
        prepare_form = _prepare_robot_dataset if form.name == ROBOT_FORMAT else _prepare_from_format
        return prepare_form(source, dest, form, request, progress)
    check_no_layout(form, request)
    from_folder = form is not None and (dest is not None or form.name == RAW_FOLDER)
    check_fitting_options(request, are_raw=from_folder)
    if dest is not None:
        check_source_and_dest(source, dest, request)
    if from_folder and dest is None:
        raise missing_dest_error(source, "raw files", find_jsonl_file(source))
    root = dest or source
    check_media_options(root, request)
    listing, home = None, ""
    if from_folder:
        if request.index.dry_run:
            return _dry_run_of_folder(source, root, form, request, progress)
        listing = survey_source(source, root, request, progress)  # raises before anything is written
        check_fields_of_folder(source, listing, request)
        key_until = None if listing.keys.is_open else listing.keys.rule
        request = replace(request, index=replace(request.index, key_until=key_until))
        if not is_url(root):
            home = os.path.realpath(root)
            make_folder(home)
    dataset = open_dataset(root, request.catalog, writing=True, real_root=home)
    location = dataset.location
    check_fills_splits_in_place(location, listing, request)
    if request.index.dry_run:
        with dataset:
            indexed = index_locked(dataset, request.index, progress)
            config = dataset.config if dataset.has_config() else None
        preview = preview_samples(source, None, request, config=config, progress=progress)
        return _dry_run_report(source, root, form, None, indexed, preview=preview)
    if not from_folder:
        check_new_catalog(location, request.index.exclude or (), RootSpec(root, request.index.selection))
    note_catalog_location(location, request.catalog, progress)
    try:
        report = _run_locked(dataset, source, dest, listing, request, progress)
    except UnsureTypeError as error:
        error.report = replace(error.report, form=form)
        raise
    return replace(report, form=form)


def _run_locked(
    dataset: OpenDataset,
    source: str,
    dest: str | None,
    listing: RawListing | None,
    request: PrepareRequest,
    progress: Progress,
) -> PrepareReport:
    """Run all steps under the lock, and record them in the history. Arguments as for `_run_steps`."""
    with (
        # Held until the lock is released: until then, the run may publish the catalog.
        hold_remote_marker(dataset.location, request.wait, progress.note)
        if listing is not None
        else nullcontext() as check_writer,
        dataset,
        writing(dataset, "prepare", (), progress, wait=request.wait) as entry,
    ):
        try:
            return _run_steps(dataset, source, dest or source, listing, request, entry, check_writer, progress)
        except UnsureTypeError as error:
            if dest is not None:
                error.set_command(partial(_repeat_with_type, source, dest))
            raise


def _repeat_with_type(source: str, dest: str, *flags: str) -> str:
    """The user's command with the flags of a sample type. Without its other options it would read other samples."""
    return repeat_command(source, source, {}, *flags, without=("--redetect",), dest=dest)


def _prepare_from_format(
    source: str, dest: str | None, form: SourceFormat, request: PrepareRequest, progress: Progress
) -> PrepareReport:
    """Write the samples of another format to `dest` as `convert` does, then prepare `dest` in place.

    A run that was killed after the first step does the second one when it is repeated.
    """
    if dest is None:
        may_stay = form.name == "jsonl" and is_jsonl_name(source)
        raise missing_dest_error(source, f"the samples of {form.name} ({form.reason})", may_stay=may_stay)
    check_media_options(dest, request)
    check_fields_of_format(source, form, request)
    conversion = convert([source], dest, conversion_request(form, request), progress=progress)
    if conversion.dry_run:
        if len(conversion.datasets) <= 1 and not (is_url(dest) or os.path.exists(dest)):
            by, shards = split_by_of_written(request), conversion.files
            check_fills_requested_splits(request, by, shards=shards, samples=conversion.samples)
        preview = preview_format(source, form, request).samples
        return _dry_run_report(source, dest, form, None, None, conversion, preview)
    index = replace(request.index, key=None, exclude=(), missing="error")
    written = PrepareRequest()
    here = replace(
        request,
        shard_samples=written.shard_samples,
        shard_size=written.shard_size,
        template=written.template,
        overwrite=False,
        from_format=IN_PLACE,
        format_options={},
        layout="",
        index=index,
        split_by=split_by_of_written(request),
        uses_split_field=request.format_options.get("split") != "",
    )
    try:
        report = prepare(dest, None, here, progress=progress)
    except UnsureTypeError as error:
        error.report = replace(error.report, source=redact_secrets(source), form=form, conversion=conversion)
        error.set_command(partial(_repeat_with_type, source, dest))
        raise
    indexed = report.index
    if indexed is not None:
        about_files = shared_file_findings(conversion, report.split, report.primary or dest, request)
        about_files += unread_clip_findings(conversion, report.sample_type, report.field_map)
        indexed = replace(indexed, findings=(*indexed.findings, *about_files))
    return replace(
        report,
        source=redact_secrets(source),
        form=form,
        conversion=conversion,
        index=indexed,
        up_to_date=report.up_to_date and conversion.up_to_date,
    )


def _prepare_robot_dataset(
    source: str, dest: str | None, form: SourceFormat, request: PrepareRequest, progress: Progress
) -> PrepareReport:
    """Write the frames of a LeRobot dataset beside its tables, and prepare them in place."""
    check_robot_request(source, dest, request)
    robot = write_robot_frames(source, request, progress)
    if request.index.dry_run:
        return replace(_dry_run_report(source, source, form, None, None), robot=robot)
    report = _prepare(source, None, frames_request(request), progress)
    split = report.split
    rule = robot_split_rule(request)
    if request.split is not None:
        with open_dataset(source, request.catalog) as dataset:
            current = dataset.config.split
        if current is None or not rule.is_satisfied_by(current):
            change = SplitRequest(rule=rule, allow_split_changes=request.allows("allow_split_changes"))
            split = split_dataset(source, change, catalog=request.catalog, wait=request.wait, progress=progress)
    is_new = bool(robot.written) or split is not report.split
    consents = split.consents if split is not None else ()
    return replace(
        report, form=form, robot=robot, split=split, up_to_date=report.up_to_date and not is_new, consents=consents
    )


def _prepare_polylithic(folder: str, request: PrepareRequest, progress: Progress) -> PrepareReport:
    """Prepare the primary and the media of a polylithic dataset, and the files for training from both.

    The sample type and the media facts are of the complete samples: the former is in monolithic.yaml, the latter in the
    catalog of the media.
    """
    layout = read_polylithic_folder(folder)
    media_request = replace(request.index, exclude=None, missing="error", key=None, key_until=None)
    media = index_dataset(RootSpec(layout.media), media_request, wait=request.wait, progress=progress)
    plain = replace(request.index, media=MediaRequest())
    own = replace(request, sample_type="", field_map={}, redetect=False, drawn_on="")  # of the complete samples
    here = replace(own, from_format="", layout="", catalog=None, index=plain)
    report = _add_media(prepare(layout.primary, None, here, progress=progress), media, layout.media)
    if report.dry_run or report.index is None:
        return replace(report, source=redact_secrets(folder), dest=redact_secrets(folder))
    type_request = SampleTypeRequest(request.sample_type, request.field_map, request.redetect)
    with lock_dataset(locate(folder, writing=True), wait=request.wait, note=progress.note):
        try:
            detection, config, is_new = resolve_polylithic_config(
                folder,
                report.index.samples,
                type_request,
                accept_type=request.allows("accept_type"),
                drawn_on=request.drawn_on,
            )
        except UnsureTypeError as error:
            error.report = replace(report, dest=redact_secrets(folder), detection=error.detection, up_to_date=False)
            raise
        if is_new or not report.up_to_date:
            with open_dataset(layout.primary) as primary:
                names = primary.catalog.split_names()
            write_training_files(folder, config, layout.form, names)
    return replace(
        report,
        source=redact_secrets(folder),
        dest=redact_secrets(folder),
        detection=detection,
        up_to_date=report.up_to_date and not is_new,
        primary=redact_secrets(layout.primary),
        sample_type=config.sample_type,
        field_map=config.field_map,
        consents=(*report.consents, *(("accept_type",) if is_doubtful(detection, type_request) else ())),
    )


def _add_media(report: PrepareReport, media: IndexReport, path: str) -> PrepareReport:
    """The report of a primary, with the findings about the shards of its media."""
    if report.index is None:
        return report
    found = (replace(each, shard=os.path.join(os.path.basename(path), each.shard)) for each in media.findings)
    index = replace(report.index, findings=(*report.index.findings, *found))
    return replace(report, index=index, up_to_date=report.up_to_date and media.up_to_date)


def _run_steps(
    dataset: OpenDataset,
    source: str,
    dest: str,
    listing: RawListing | None,
    request: PrepareRequest,
    entry: RunRecord,
    check_writer: Callable[[], None] | None,
    progress: Progress,
) -> PrepareReport:
    """Run all steps. The caller holds the lock. `check_writer` raises if another machine writes to the store now.

    `listing`: the listing of the raw folder, if the source is one; `request.index.key_until` is then its key rule.
    """
    location = dataset.location
    type_request = SampleTypeRequest(request.sample_type, request.field_map, request.redetect)
    set_aside_broken_config(dataset, type_request, progress)
    former_type = type_text(dataset.config.sample_type, dataset.config.field_map) if dataset.has_config() else ""
    folder = None
    if listing:
        folder = _write_shards(location, source, dest, request, listing, entry, check_writer, progress)
    detection = split = unsure = config = taken = None
    is_new = False
    # The catalog is published once, with its splits. dataset.yaml comes first: it names the optional fields, and
    # receives the split rule. After a kill in between, the next run builds the catalog from it.
    with stage_catalog(dataset) as stage:
        indexed = index_staged(stage, replace(request.index, skip_key_checks=listing is not None), progress)
        if folder is not None:
            indexed = replace(indexed, findings=(*folder.findings, *indexed.findings))
        entry.findings += indexed.findings
        if indexed.samples:
            taken = _take_over_energon(dataset, indexed, type_request, request, progress)
            if taken is None:
                detection, is_new = write_dataset_yaml(
                    dataset, indexed.generation, type_request, progress, must_be_sure=not request.allows("accept_type")
                )
            else:
                detection, is_new = taken.detection, True
                entry.findings += taken.findings
                indexed = replace(indexed, findings=(*indexed.findings, *taken.findings))
            if is_new:  # `index` compared the samples with another field map, or with none
                lacking = lacking_field_findings(dataset, indexed.generation, request.index)
                lacking = (*lacking, *not_utf8_findings(detection))
                kept = (each for each in indexed.findings if each.code not in ("WDS108", "WDS172", "WDS173"))
                entry.findings += lacking
                indexed = replace(indexed, findings=(*kept, *lacking))
            config = dataset.config if dataset.has_config() else None
            is_kept = config is not None and not is_new and not is_polylithic(os.path.dirname(location.root))
            if config is not None and is_kept and not indexed.up_to_date:
                fitting = fitting_type_findings(dataset, indexed.generation, config, source, dest)
                entry.findings += fitting
                indexed = replace(indexed, findings=(*indexed.findings, *fitting))
            is_written, about_sizes = write_drawn_on(
                dataset, indexed.generation, request.drawn_on, is_new=not former_type
            )
            entry.findings += about_sizes
            indexed = replace(indexed, findings=(*indexed.findings, *about_sizes))
            is_new = write_rule(location, request.index.key_until) or is_written or is_new
            split, is_divided = ensure_split(
                dataset,
                request.split,
                request.split_by if listing is None else split_by_of_written(request),
                request.seed,
                progress,
                allow_split_changes=request.allows("allow_split_changes"),
                default=partial(default_split_rule, dataset, uses_field=request.uses_split_field)
                if listing is None
                else partial(split_folder_rule, [sample.key for sample in listing.samples]),
            )
            is_new = is_new or is_divided
            about_splits = split_findings(dataset, split, listing, dest, request, is_divided=is_divided)
            entry.findings += about_splits
            indexed = replace(indexed, findings=(*indexed.findings, *about_splits))
            if taken is None and detection is not None and not request.allows("accept_type"):
                unsure = UnsureTypeError(location, detection) if is_doubtful(detection, type_request) else None
    report = PrepareReport(
        source=redact_secrets(source),
        dest=redact_secrets(dest),
        from_folder=folder is not None,
        folder=folder,
        index=indexed,
        detection=detection,
        split=split,
        up_to_date=indexed.up_to_date and not is_new and (folder is None or folder.written == 0),
        dry_run=False,
        sample_type=config.sample_type if config is not None else "",
        field_map=config.field_map if config is not None else {},
        former_type=former_type,
        consents=_used_consents(
            folder, split, is_type_accepted=taken is None and unsure is None and is_doubtful(detection, type_request)
        ),
    )
    if unsure is not None:
        unsure.report = replace(report, up_to_date=False)
        raise unsure
    return report


def _used_consents(
    folder: FolderReport | None, split: SplitReport | None, *, is_type_accepted: bool
) -> tuple[Consent, ...]:
    used: dict[Consent, bool] = {
        "source_moved": folder is not None and folder.is_source_moved,
        "allow_split_changes": split is not None and bool(split.consents),
        "accept_type": is_type_accepted,
    }
    return tuple(consent for consent, is_used in used.items() if is_used)


def _take_over_energon(
    dataset: OpenDataset,
    indexed: IndexReport,
    type_request: SampleTypeRequest,
    request: PrepareRequest,
    progress: Progress,
) -> EnergonImport | None:
    """Import Energon's metadata, if the dataset has some that is not imported yet."""
    if is_energon_imported(dataset):
        return None
    from wdsctl.core.index.energon import import_energon_meta

    return import_energon_meta(
        dataset, indexed, request.index.workers, progress, request=type_request, with_splits=request.split is None
    )


def _write_shards(
    location: DatasetLocation,
    source: str,
    dest: str,
    request: PrepareRequest,
    listing: RawListing,
    entry: RunRecord,
    check_writer: Callable[[], None] | None,
    progress: Progress,
) -> FolderReport:
    if entry.ledger is None:
        raise entry.ledger_error or DatasetError(
            "cannot save the plan of the shards: the ledger is not writable",
            where=dest,
            hint="choose a writable folder for the catalog: `--catalog DIR`",
        )

    def check_locks() -> None:
        check_lock_held(location.lock)
        if check_writer is not None:
            check_writer()

    return write_folder(
        source,
        dest,
        request,
        ledger=entry.ledger,
        listing=listing,
        real_dest=location.root_to_write,
        uploads=_upload_folders(location, request) if is_url(location.root) else None,
        check_lock=check_locks,
        left_out_list=os.path.join(location.meta, LEFT_OUT_FILE),
        progress=progress,
    )


def _upload_folders(location: DatasetLocation, request: PrepareRequest) -> UploadFolders:
    """Return the folders of a run that writes to a store. Hashes (`--hash`) need the bytes of the shards again."""
    return UploadFolders(location.upload_journal, "" if request.index.hashed else location.work_folder)


def _dry_run_of_folder(
    source: str, dest: str, form: SourceFormat | None, request: PrepareRequest, progress: Progress
) -> PrepareReport:
    """Plan the shards of a raw folder. A dry run cannot predict the later steps, except the split of a new dataset."""
    listing = survey_source(source, dest, request, progress)
    check_fields_of_folder(source, listing, request)
    is_there = is_url(dest) or os.path.isdir(dest)
    path = locate(dest, request.catalog).ledger_path if is_there else os.devnull
    with Ledger.open_for_reading(path) as ledger:
        is_new = not ledger.planned_shards()
        folder = write_folder(source, dest, request, ledger=ledger, listing=listing, progress=progress)
    keys = [sample.key for sample in listing.samples]
    if is_new and request.split is None and split_folder_rule(keys) is None:
        unused = split_folder_findings(keys, dest)
        folder = replace(folder, findings=(*folder.findings, *unused))
    preview = preview_samples(source, dest, request, progress=progress)
    return _dry_run_report(source, dest, form, folder, None, preview=preview)


def _dry_run_report(
    source: str,
    dest: str,
    form: SourceFormat | None,
    folder: FolderReport | None,
    index: IndexReport | None,
    conversion: ConvertReport | None = None,
    preview: SamplesPreview | None = None,
) -> PrepareReport:
    return PrepareReport(
        source=redact_secrets(source),
        dest=redact_secrets(dest),
        form=form,
        from_folder=folder is not None,
        folder=folder,
        conversion=conversion,
        index=index,
        detection=None if preview is None else preview.detection,
        split=None,
        up_to_date=index is not None and index.up_to_date,
        dry_run=True,
        sample_type="" if preview is None else preview.sample_type,
        field_map={} if preview is None else preview.field_map,
        examples=() if preview is None else preview.examples,
        consents=_used_consents(folder, None, is_type_accepted=False),
    )
