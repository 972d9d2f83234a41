"""`convert`: write datasets in another format, order or layout; merge or divide them."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

from wdsctl.core.convert import exporters
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.destination import (
    OPTIONS_WITHOUT_EFFECT,
    check_destination_free,
    check_same_content,
    check_same_inputs,
    clean_up_on_error,
    describe_inputs,
    discard_if_refused,
    discard_other_plan,
)
from wdsctl.core.convert.finish import check_one_geometry, check_renames_in_lists, common_config, finish_datasets
from wdsctl.core.convert.groups import SampleGrouper
from wdsctl.core.convert.labels import LabelsCannotFollow
from wdsctl.core.convert.overwrite import (
    DIFFERENT_CONVERSION,
    check_replaceable,
    draft_path,
    finish_killed_replacement,
    replace_destination,
)
from wdsctl.core.convert.parts import check_part_rules
from wdsctl.core.convert.plan import planned_request, write_plan
from wdsctl.core.convert.plan_file import PlanFile, UnitResultFile
from wdsctl.core.convert.report import (
    EXPORTED_FILES_FILE,
    LEFT_OUT_FILE,
    all_failed_error,
    build_report,
    load_finished,
    preview_conversion,
    problems,
    record_export,
    report_finished,
    save_finished,
    write_finished,
    write_left_out,
)
from wdsctl.core.convert.request import ConvertCommand, ConvertRequest, ResolvedRequest
from wdsctl.core.convert.sharing import DEFAULT_MEDIA
from wdsctl.core.convert.sources import OpenSources, check_sources_unchanged, open_sources, source_digests
from wdsctl.core.convert.unit import check_some_labels, unit_path
from wdsctl.core.convert.write import UNIT_RESULTS_FILE, finish_export, write_units
from wdsctl.core.dataset.destination import check_destination, remove_path
from wdsctl.core.dataset.location import CONVERSION_FOLDER, FINISHED_FILE, PLAN_FILE, DatasetLocation, locate
from wdsctl.core.dataset.lock import lock_dataset
from wdsctl.core.errors import DatasetError, OptionConflict, UsageError, WdsctlError, refuse_without_effect
from wdsctl.core.export.hub import check_split_names
from wdsctl.core.files import make_folder, remove_empty_folder
from wdsctl.core.invocation import describe_request
from wdsctl.core.opened.nesting import check_not_in_dataset
from wdsctl.core.opened.opening import open_dataset, parse_root
from wdsctl.core.opened.writing import hold_remote_marker, recording
from wdsctl.core.progress import SILENT_PROGRESS, Progress
from wdsctl.core.samples.naming import DEFAULT_TEMPLATE, check_shard_template
from wdsctl.core.shards.write import check_limits
from wdsctl.core.split_rules.names import MAX_SPLITS
from wdsctl.core.storage.source_files import forget_listings
from wdsctl.core.urls import is_url, normalize_root, redact_secrets

#: Raise this version when a change makes the same plan give other bytes.
OUTPUT_VERSION = "wdsctl convert 4"


def run_convert(command: ConvertCommand, *, progress: Progress = SILENT_PROGRESS) -> ConvertReport:
    """Write a new dataset from one or several datasets: `wdsctl convert`. A second run continues a killed one."""
    return convert(command.source, command.dest, command.request, progress=progress)


def convert(
    sources: Sequence[str], dest: str, request: ConvertRequest | None = None, *, progress: Progress = SILENT_PROGRESS
) -> ConvertReport:
    """Write the samples of `sources` below `dest`, and index the datasets that result.

    `convert` first saves the plan of all files in the destination, so that a killed run can continue, and any number of
    workers gives the same bytes. After a finished run, the same command changes nothing. `convert` leaves out and
    counts samples that cannot be read or transcoded, unless `on_error` says otherwise.
    Raises UsageError, InputError, DatasetError, PermissionDenied, StorageError, CatalogError.
    Memory: some tens of MB per worker, plus its largest sample. `overwrite` replaces the result of another conversion,
    which stays until the new one is complete.
    """
    request = request or ConvertRequest()
    dest = normalize_root(dest)
    forget_listings()
    if is_url(dest):
        request = _check_request_for_store(request, dest)
    if not request.overwrite:
        return _convert(sources, dest, request, progress)
    if not is_url(dest):
        finish_killed_replacement(dest)
    try:
        return _convert(sources, dest, request, progress)
    except UsageError as error:
        if error.code == DIFFERENT_CONVERSION and is_url(dest):
            raise _not_replaceable_error(dest) from error
        if error.code != DIFFERENT_CONVERSION or not check_replaceable(dest):
            raise
    report = _convert(sources, draft_path(dest), request, progress)
    return report if request.dry_run else replace_destination(dest, report, progress)


def _convert(sources: Sequence[str], dest: str, request: ConvertRequest, progress: Progress) -> ConvertReport:
    _check_request(request, len(sources))
    check_destination([parse_root(normalize_root(source)).root for source in sources], dest)
    check_not_in_dataset(dest)
    if request.dry_run:
        finished_work = ""
        if not is_url(dest) and os.path.isdir(dest):
            location = locate(dest)
            finished_work = os.path.join(location.meta, CONVERSION_FOLDER)
            check_destination_free(location, dest, finished_work)
        with tempfile.TemporaryDirectory(prefix="wdsctl-") as folder:
            work = os.path.realpath(folder)
            return _run_conversion(sources, dest, request, work, None, progress, finished_work=finished_work)
    dest_existed = is_url(dest) or os.path.isdir(dest)
    real_dest = dest if is_url(dest) else os.path.realpath(dest)
    if not is_url(dest):
        make_folder(real_dest)
    dataset = open_dataset(dest, writing=True, real_root=real_dest)
    location = dataset.location
    work = os.path.join(location.meta, CONVERSION_FOLDER)
    check_destination_free(location, dest, work)
    had_meta = os.path.isdir(location.meta)
    arguments = [*map(redact_secrets, sources), redact_secrets(dest), *describe_request(request)]
    try:
        with ExitStack() as stack:
            check_writer = stack.enter_context(hold_remote_marker(location, request.wait, progress.note))
            stack.enter_context(lock_dataset(location, wait=request.wait, note=progress.note))
            check_destination_free(location, dest, work)  # the run that held the lock may have written files
            stack.enter_context(clean_up_on_error(location, work, had_meta=had_meta))
            stack.enter_context(dataset)
            entry = stack.enter_context(recording(dataset, "convert", arguments, progress))
            make_folder(work)
            report = _run_conversion(sources, dest, request, work, location, progress, check_writer)
            entry.findings += report.findings
            return report
    except WdsctlError:
        if not dest_existed:
            with suppress(OSError):  # the folder is not empty
                remove_empty_folder(real_dest)
        raise


def _check_request_for_store(request: ConvertRequest, dest: str) -> ConvertRequest:
    """Return the request for a destination at a URL. Raises UsageError for what stores cannot have."""
    shown = redact_secrets(dest)
    if request.layout == "polylithic":
        raise UsageError(
            "cannot write a polylithic dataset to a URL: DEST must be on a disk or a mounted file system",
            where=shown,
            hint="write to a disk, or omit `--layout polylithic`",
        )
    return replace(request, layout="") if request.layout == "auto" else request


def _not_replaceable_error(dest: str) -> UsageError:
    """The error for a finished conversion in a store, which readers would see half replaced."""
    return UsageError(
        "--overwrite cannot replace the dataset of another conversion in a store, which has no folders to exchange",
        where=redact_secrets(dest),
        hint="choose another DEST, and remove the old objects when nobody reads them any more",
    )


def _check_request(request: ConvertRequest, sources: int) -> None:
    """Raises UsageError for options that contradict each other. Reads nothing."""
    check_shard_template(request.template)
    check_limits(request.shard_samples, request.shard_size)
    check_part_rules(request.parts)
    target = exporters.get_exporter(request.target)
    if not sources:
        raise UsageError("missing SOURCE", hint="pass the source and the destination: `wdsctl convert SOURCE... DEST`")
    is_polylithic = request.layout in ("polylithic", "auto")
    is_encoding = request.image or request.audio
    refuse_without_effect(
        ("--seed", request.seed, "--shuffle", request.order == "shuffle"),
        ("--media", request.media, "--layout polylithic", is_polylithic),
        ("--on-error keep", request.on_error == "keep", "--image, --max-side or --audio", is_encoding),
        ("--template", request.template != DEFAULT_TEMPLATE, "--to shards, parquet, mds or litdata", target.suffix),
    )
    if is_polylithic and target.name != "shards":
        raise OptionConflict(
            f"--layout {request.layout} can only write shards",
            options=("--layout", "--to"),
            are_exclusive=True,
            hint="omit --to, for example `--layout polylithic --media mp4,wav`",
        )
    if request.primary != "tar" and not is_polylithic:
        raise OptionConflict(
            "--primary needs --layout polylithic",
            options=("--primary",),
            hint="add `--layout polylithic`; to write JSONL files only, pass `--to jsonl` instead",
        )
    if request.compress == "gz" and (target.name != "shards" or is_polylithic):
        raise OptionConflict(
            "--compress gz works only with monolithic shards",
            options=("--compress", "--layout", "--to"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    if request.naming:
        _check_naming(request)
    if isinstance(target, exporters.ColumnExporter) and request.on_error == "keep":
        raise OptionConflict(
            f"--to {target.name} has the same columns in all samples, and --on-error keep keeps parts under old names",
            options=("--to", "--on-error"),
            are_exclusive=True,
            hint="omit --on-error keep",
        )
    if request.apart == "split" and request.split:
        raise OptionConflict(
            "--split selects one split, and --apart split needs several",
            options=("--split", "--apart"),
            are_exclusive=True,
            hint="omit one of the two options",
        )


def _check_naming(request: ConvertRequest) -> None:
    """Raises UsageError for options that contradict `--naming hub`."""
    if request.target not in ("shards", "parquet"):
        raise OptionConflict(
            f"--naming hub names files of shards and parquet, and --to {request.target} has other names",
            options=("--naming", "--to"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    others = {
        "--apart": request.apart,
        "--split": request.split,
        "--layout": request.layout if request.layout != "monolithic" else "",
        "--template": request.template if request.template != DEFAULT_TEMPLATE else "",
        "--compress": request.compress if request.compress != "none" else "",
    }
    other = next((flag for flag, value in others.items() if value), "")
    if other:
        raise OptionConflict(
            f"--naming hub and {other} exclude each other",
            options=("--naming", other),
            are_exclusive=True,
            hint="omit one of the two options",
        )


def _run_conversion(
    sources: Sequence[str],
    dest: str,
    request: ConvertRequest,
    work: str,
    location: DatasetLocation | None,
    progress: Progress,
    check_writer: Callable[[], None] = lambda: None,
    finished_work: str = "",
) -> ConvertReport:
    """Convert the sources; the caller holds the lock.

    If `location` is None, this is a dry run, and the caller deletes `work`. `check_writer` raises if another machine
    writes to the store now. `finished_work`: of a dry run, the folder where a finished conversion has its report.
    """
    started = time.monotonic()
    with closing(open_sources(sources, request, work, progress)) as opened:
        check_renames_in_lists(common_config(opened, request), request)
        check_one_geometry(request, opened)
        fingerprint = _fingerprint(request, opened)
        inputs = describe_inputs(request, opened)
        if request.layout in ("polylithic", "auto") and not request.media:
            request = replace(request, media=DEFAULT_MEDIA)  # the plan keeps those that occur
        resolved = _resolve(request, opened)
        plan_path = os.path.join(work, PLAN_FILE)
        finished_work = finished_work or work
        finished = load_finished(finished_work)
        if finished is not None and finished["fingerprint"] != fingerprint:
            finished = _adopt_finished(
                finished,
                inputs,
                opened,
                resolved,
                fingerprint,
                dest,
                work=work,
                location=location,
                progress=progress,
            )
        if finished is not None:
            return report_finished(finished, finished_work, opened, dest, request, started)
        discard_other_plan(work, fingerprint, inputs, dest, request, location)
        if not os.path.exists(plan_path):
            _write_plan(plan_path, opened, request, fingerprint, inputs, progress)
        with PlanFile(plan_path) as plan:
            request = planned_request(request, plan)
            _check_columns(plan, resolved)
        resolved = replace(resolved, request=request)
        resolved = _check_some_labels(plan_path, resolved)
        if location is None:
            return preview_conversion(plan_path, opened, dest, resolved, started)
        with PlanFile(plan_path) as plan, discard_if_refused(plan, work, location):
            done, written = write_units(plan, resolved, work, fingerprint, location, progress, check_writer)
            if written:
                _check_sources(opened, work)
            units = [unit for unit in plan.units() if done[unit.id].samples]
            if not units:
                error = all_failed_error(plan.units(), done)
                for name in (PLAN_FILE, UNIT_RESULTS_FILE):  # the next run tries again
                    remove_path(os.path.join(work, name))
                raise error
            finish_export(units, done, resolved, location.root_to_write, work)
            datasets, findings, notes = finish_datasets(plan, units, done, dest, opened, request, location, progress)
            report = build_report(plan, units, done, opened, dest, resolved, datasets, started)
            inputs |= {"plan": plan.digest()}
        with UnitResultFile(os.path.join(work, UNIT_RESULTS_FILE), fingerprint) as results:
            left_out_list = write_left_out(work, opened, results.left_out_samples())
        report = replace(
            report,
            left_out_list=left_out_list,
            written_files=written,
            kept_files=len(units) - written,
            findings=(*problems(opened), *report.findings, *findings),
            notes=(*notes, *report.notes),
        )
        sizes = {}
        if exporters.get_exporter(request.target).suffix:  # otherwise units are folders, with too many files to list
            sizes = {unit_path("", unit): done[unit.id].size_bytes for unit in units}
        else:
            record_export(work, location.root_to_write)
        save_finished(work, fingerprint, inputs, report, sizes)
        for name in os.listdir(work):
            # Keep the catalogs that were made for sources: the next run of the same command needs them.
            if name not in (FINISHED_FILE, EXPORTED_FILES_FILE, LEFT_OUT_FILE) and not name.startswith("source-"):
                remove_path(os.path.join(work, name))
    return report


def _adopt_finished(
    finished: dict[str, Any],
    inputs: dict[str, Any],
    opened: OpenSources,
    resolved: ResolvedRequest,
    fingerprint: str,
    dest: str,
    *,
    work: str,
    location: DatasetLocation | None,
    progress: Progress,
) -> dict[str, Any] | None:
    """Assign a finished conversion to these sources, if they give the same files; returns its new record.

    Returns None in a dry run (`location` is None), which does not compare content.
    Raises UsageError WDS345 if the sources give other files, or if comparing them is not possible.
    """
    before = finished["made_from"]
    check_same_inputs(before, inputs, dest)
    if location is None:
        return None
    folder = os.path.join(work, "again")
    remove_path(folder)
    try:
        plan_path = os.path.join(folder, PLAN_FILE)
        _write_plan(plan_path, opened, resolved.request, fingerprint, inputs, progress)
        with PlanFile(plan_path) as plan:
            inputs = inputs | {"plan": plan.digest()}
            resolved = replace(resolved, request=planned_request(resolved.request, plan))
        check_same_content(before, inputs, plan_path, resolved, dest, location, progress)
    finally:
        remove_path(folder)
    finished = finished | {"fingerprint": fingerprint, "made_from": inputs}
    write_finished(work, finished)
    return finished


def _write_plan(
    path: str,
    opened: OpenSources,
    request: ConvertRequest,
    fingerprint: str,
    inputs: Mapping[str, Any],
    progress: Progress,
) -> None:
    # All splits in the order of their first occurrence, limited to the bits of a sample.
    names = list(dict.fromkeys(name for source in opened.split_names for name in source))[:MAX_SPLITS]
    numbers = [[names.index(name) if name in names else -1 for name in source] for source in opened.split_names]
    if (request.apart == "split" or request.naming) and any(len(source) > MAX_SPLITS for source in opened.split_names):
        hint = "convert the splits one by one with `--split NAME`"
        raise UsageError(
            f"{'--naming hub' if request.naming else '--apart split'} supports at most {MAX_SPLITS} splits", hint=hint
        )
    grouper = SampleGrouper(request.apart, opened.split_names) if request.apart else None
    if request.naming:
        check_split_names([name for name in names if "/" not in name], "", "rename the splits with `wdsctl split`")
        grouper = SampleGrouper("split", opened.split_names, default_set_only=True)
    source_names = [spec.name for spec in opened.specs]
    facts = {"fingerprint": fingerprint, "splits": json.dumps(names), "made_from": json.dumps(inputs)}
    write_plan(path, opened.sources, source_names, request, facts, progress, grouper=grouper, splits=numbers)


def _check_sources(opened: OpenSources, work: str) -> None:
    """Raises DatasetError if a source has changed; the next run then writes all units again."""
    try:
        check_sources_unchanged(opened)
    except DatasetError:
        remove_path(os.path.join(work, UNIT_RESULTS_FILE))
        raise


def _resolve(request: ConvertRequest, opened: OpenSources) -> ResolvedRequest:
    given = request.format_options
    options = {name.removeprefix("to."): value for name, value in given.items() if name.startswith("to.")}
    # Options without the prefix belong to the importer; for shards whose format is detected, none do.
    if not request.from_format and all(spec.importer in ("shards", "packed") for spec in opened.specs):
        options |= {name: value for name, value in given.items() if not name.startswith("to.")}
    if request.compress == "gz":
        options["compress"] = "gz"
    exporters.get_exporter(request.target).check(options)
    return ResolvedRequest(request, tuple(opened.specs), tuple(sorted(options.items())))


def _check_some_labels(plan_path: str, resolved: ResolvedRequest) -> ResolvedRequest:
    """Raises LabelsCannotFollow, without a plan that only the same options could continue."""
    try:
        with PlanFile(plan_path) as plan:
            return check_some_labels(plan, resolved)
    except LabelsCannotFollow:
        remove_path(plan_path)
        raise


def _check_columns(plan: PlanFile, resolved: ResolvedRequest) -> None:
    """Raise the errors of a format with columns for parts that cannot be columns, before anything is written."""
    exporter = exporters.get_exporter(resolved.request.target)
    if isinstance(exporter, exporters.ColumnExporter):
        options = dict(resolved.target_options)
        presences = [plan.parts(folder) for folder in dict.fromkeys(unit.folder for unit in plan.units())]
        exporter.check_options({name for parts in presences for name in parts}, options)
        for parts in presences:
            exporter.with_parts(parts, options)


def _fingerprint(request: ConvertRequest, opened: OpenSources) -> str:
    """A digest of everything that decides the output's bytes, so without the sources' paths and the worker count."""
    options = {name: value for name, value in asdict(request).items() if name not in OPTIONS_WITHOUT_EFFECT}
    specs = [
        [spec.importer, spec.name, [pair for pair in spec.options if pair[0] not in ("catalog", "generation")]]
        for spec in opened.specs
    ]
    text = json.dumps(
        [OUTPUT_VERSION, options, specs, source_digests(opened), opened.split_names], sort_keys=True, default=str
    )
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
