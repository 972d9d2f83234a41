"""What `prepare` checks and surveys before anything is written; the preview and the wizard ask the same."""

from __future__ import annotations

import os
from collections.abc import Mapping

from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.convert.request import ConvertRequest, LayoutName
from wdsctl.core.dataset.destination import check_destination
from wdsctl.core.dataset.location import locate, shell_command
from wdsctl.core.dataset.polylithic import is_polylithic
from wdsctl.core.dataset.raw_folder import RawFolderError, RawListing
from wdsctl.core.errors import Finding, OptionConflict, UsageError
from wdsctl.core.importers.lone_tables import check_lone_tables
from wdsctl.core.index.key_until import check_rule_unchanged, stored_rule
from wdsctl.core.index.media import check_media_request, resolve_media_settings
from wdsctl.core.index.write_dataset_yaml import as_usage_errors
from wdsctl.core.media.selection import parse_media_selection
from wdsctl.core.opened.nesting import check_holds_no_dataset, check_not_in_dataset
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.options import given_options
from wdsctl.core.prepare.archives import check_no_unread_archives
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.source import (
    IN_PLACE,
    RAW_FOLDER,
    SourceFormat,
    check_is_raw_folder,
    check_raw_folder,
    check_source_exists,
)
from wdsctl.core.prepare.write import list_source
from wdsctl.core.progress import Progress
from wdsctl.core.samples.field_map import check_sample_type, validate_field_map
from wdsctl.core.samples.types import CLIP_FIELD, SAMPLE_TYPES
from wdsctl.core.text import join_with_and
from wdsctl.core.urls import is_url

#: Options that apply to raw files only, and those about the shards that `prepare` writes to DEST.
RAW_OPTIONS = "parts on_missing source_moved"
WRITING_OPTIONS = "shard_samples shard_size template overwrite"

#: The layout of `prepare` -> that of `convert`.
_CONVERT_LAYOUTS: Mapping[str, LayoutName] = {"": "auto", "monolithic": "", "polylithic": "polylithic"}


def conversion_request(form: SourceFormat, request: PrepareRequest) -> ConvertRequest:
    """The request of `convert` for a source of this form. Raises UsageError for options that apply to others only."""
    others: tuple[tuple[Mapping[str, object], str], ...] = (
        (given_options(request, RAW_OPTIONS), "raw files"),
        ({"--exclude": request.index.exclude}, "shards"),
        (
            {
                "--catalog": request.catalog,
                "--key-until": request.index.key_until,
                "--missing": request.index.missing != "error",
            },
            "shards and raw files",
        ),
    )
    for options, these in others:
        for name, is_given in options.items():
            if is_given:
                raise OptionConflict(
                    f"{name} applies to {these} only, but the source is {form.name} ({form.reason})",
                    options=(name,),
                    hint=f"omit {name}"
                    if these == "shards"
                    else f"omit {name}; or, if the source is a folder of raw files, add `--from {RAW_FOLDER}`",
                )
    key = {"key": request.index.key} if request.index.key else {}
    return ConvertRequest(
        from_format=form.name,
        format_options={**key, **request.format_options},
        shard_samples=request.shard_samples,
        shard_size=request.shard_size,
        template=request.template,
        layout=_CONVERT_LAYOUTS[request.layout],
        workers=request.index.workers,
        wait=request.wait,
        restart=request.yes,
        overwrite=request.overwrite,
        dry_run=request.index.dry_run,
        carries_splits=request.split is None,
        finish=False,
    )


def missing_dest_error(source: str, what: str, jsonl: str = "", *, may_stay: bool = False) -> UsageError:
    """Build the error of a source that needs DEST. `jsonl`: a JSONL file among the raw files, which may be meant.

    `may_stay`: the source is JSONL whose lines could also be used in place.
    """
    in_place = shell_command("prepare", source, "--from", IN_PLACE)
    alone = f"; or prepare the JSONL alone: {shell_command('prepare', os.path.join(source, jsonl))}" if jsonl else ""
    return UsageError(
        f"missing DEST: wdsctl copies {what} into shards in a separate folder",
        where=source,
        hint=f"{shell_command('prepare', source, 'DEST')}{alone}"
        f"{f'; or use the lines in place, without the media: {in_place}' if may_stay else ''}",
    )


def check_format_dest(source: str, dest: str) -> None:
    """Check the destination of a source that is neither raw files nor shards. Raises UsageError, PermissionDenied."""
    check_destination([source], dest)
    check_not_in_dataset(dest)


def check_source_and_dest(source: str, dest: str, request: PrepareRequest) -> None:
    """Check the raw folder and the destination before anything is written.

    Raises UsageError, InputError, PermissionDenied. Cost: a walk through the raw folder.
    """
    check_is_raw_folder(source, are_shards=request.index.selection is not None)
    check_source_exists(source)
    check_destination([source], dest)
    check_not_in_dataset(dest, request.catalog)
    check_holds_no_dataset(dest)
    check_raw_folder(source if is_url(source) else locate(source).root, dest, request.parts)
    if not request.parts and not request.from_format:
        check_no_unread_archives(source)


def check_no_layout(form: SourceFormat | None, request: PrepareRequest) -> None:
    """Raises UsageError if the request names a layout, which raw files and shards do not have."""
    if request.layout:
        what = "raw files" if form is not None and form.name == RAW_FOLDER else "shards"
        hint = "omit --layout; to store media separately, run `wdsctl convert SOURCE DEST --layout polylithic`"
        raise OptionConflict(
            f"--layout applies to sources whose rows name files, but this source is {what}",
            options=("--layout",),
            hint=hint,
        )


def check_fitting_options(request: PrepareRequest, *, are_raw: bool, are_polylithic: bool = False) -> None:
    """Check that all options apply to the source, raw files or shards in place: without effect, they would mislead.

    Raises UsageError.
    """
    unfit: tuple[tuple[str, Mapping[str, object]], ...]
    if are_raw:
        source = "raw files"
        in_place = {"--exclude": any(request.index.exclude or ()), "--key": bool(request.index.key)}
        unfit = (("shards in place", in_place), ("tables and other formats", {"--overwrite": request.overwrite}))
    else:
        source = "shards in place"
        copied = given_options(request, WRITING_OPTIONS)
        if are_polylithic:
            copied |= {"--layout": bool(request.layout), "--from": request.from_format not in ("", IN_PLACE)}
        unfit = (("raw files", given_options(request, RAW_OPTIONS)), ("sources that prepare copies to DEST", copied))
    for these, options in unfit:
        for name, is_given in options.items():
            if is_given:
                raise OptionConflict(
                    f"{name} applies to {these} only, but the source is {source}", options=(name,), hint=f"omit {name}"
                )
    option = next(iter(request.format_options), "")
    if option:
        names = ("parts", "on-missing", "key-until") if are_raw else ("key", "key-until")
        own = f"pass `--{option}` instead; or " if option in names else ""
        raise OptionConflict(
            f"-O {option}=... is an option of a format, but the source is {source}",
            options=("--option",),
            hint=f"{own}name the format of the source with `--from`; or omit -O",
        )


def sample_options(request: PrepareRequest) -> dict[str, bool]:
    """The options about samples and shards, and whether the request has them. A media folder has neither."""
    of_samples = "split by seed allow_split_changes sample_type field_map redetect accept_type drawn_on"
    return given_options(request, f"{of_samples} from_format option layout {WRITING_OPTIONS} {RAW_OPTIONS}")


def unused_split_options(request: PrepareRequest) -> list[str]:
    """The options about the splits that `--split` makes, if the request has them without `--split`."""
    given = given_options(request, "by seed allow_split_changes")
    return [] if request.split is not None else [name for name, is_given in given.items() if is_given]


def check_options(request: PrepareRequest) -> None:
    """Check the options that need no data, so that a mistake is found before hours of work. Raises UsageError."""
    unused = next(iter(unused_split_options(request)), "")
    if unused:
        raise OptionConflict(
            f"{unused} only applies with --split", options=(unused,), hint=f"add --split 8,1,1, or omit {unused}"
        )
    if request.redetect and request.sample_type:
        raise OptionConflict(
            "--redetect has no effect with --sample-type, which says what the samples are",
            options=("--redetect", "--sample-type"),
            are_exclusive=True,
            hint="omit --redetect to write this type into dataset.yaml, or omit --sample-type to detect the type",
        )
    given_type = "--sample-type" if request.sample_type else "--field-map" if request.field_map else ""
    if request.accept_type and given_type:
        raise OptionConflict(
            f"--accept-type has no effect with {given_type}, which says what the samples are",
            options=("--accept-type", given_type),
            are_exclusive=True,
            hint=f"omit --accept-type to write this type into dataset.yaml, or omit {given_type} to detect the type",
        )
    if request.index.media.selection is not None:
        parse_media_selection(request.index.media.selection)
    if request.sample_type:
        with as_usage_errors():
            check_sample_type(request.sample_type, where="--sample-type")
            if request.field_map:
                validate_field_map(request.sample_type, request.field_map, where="--field-map")


def check_media_options(root: str, request: PrepareRequest) -> None:
    """Raise UsageError for media options that the catalog of `root`, if there is one, cannot make right."""
    if is_polylithic(root):
        return  # its media have a catalog of their own
    if is_url(root) or os.path.exists(root):
        with open_dataset(root, request.catalog) as dataset:
            check_media_request(dataset, request.index.media)
    else:
        resolve_media_settings(request.index.media, None)


def survey_source(source: str, dest: str, request: PrepareRequest, progress: Progress) -> RawListing:
    """Call `list_source` with the key rule and the plan of `dest`, if it exists.

    Raises also the error of a table whose rows should name the other files.
    """
    try:
        return _survey_source(source, dest, request, progress)
    except RawFolderError as error:
        check_lone_tables(source, error, "--on-missing", "skip")
        raise


def _survey_source(source: str, dest: str, request: PrepareRequest, progress: Progress) -> RawListing:
    if not (is_url(dest) or os.path.isdir(dest)):
        return list_source(source, dest, request, (), progress=progress)
    with open_dataset(dest, request.catalog) as dataset, dataset.checked_ledger() as ledger:
        kept = stored_rule(dataset)
        check_rule_unchanged(dataset.location, request.index.key_until, kept, source)
        return list_source(source, dest, request, ledger.planned_shards(), kept_rule=kept, progress=progress)


def unread_clip_findings(conversion: ConvertReport, sample_type: str, field_map: Mapping[str, str]) -> list[Finding]:
    """A warning if samples have parts of files, and the sample type returns whole files."""
    clips = {f"json[{name}]" for name in CLIP_FIELD.json_names}
    uses = [use for source in conversion.sources for use in source.fields if use.becomes in clips]
    named = [use for use in uses if use.name.startswith("(")]  # several columns together
    if not named or not sample_type or CLIP_FIELD.name in field_map:
        return []
    types = [name for name, fields in SAMPLE_TYPES.items() if CLIP_FIELD in fields]
    return [
        Finding(
            code="WDS265",
            severity="warning",
            message=f"samples of the type {sample_type} have whole files: only {join_with_and(types)} have the field "
            f"clip, which returns the part; pass one with `--sample-type`, or use {named[0].becomes} in your program",
        )
    ]
