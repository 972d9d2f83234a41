"""`wdsctl prepare`: options, and what follows the report. `--help` needs no other command, so functions import them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import errors, options
from wdsctl.cli.declared import takes, typer_info
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_field_map, format_size
from wdsctl.cli.recognition import batch_rows, detection_rows, example_rows, field_lines, preview_rows
from wdsctl.cli.tables import consent_lines, finding_lines, labelled_lines, sort_by_severity
from wdsctl.core.prepare.request import DEST, SOURCE, PrepareRequest
from wdsctl.core.text import pluralize

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.cli import wizard
    from wdsctl.cli.output import Output
    from wdsctl.core.convert.conversion_report import ConvertReport
    from wdsctl.core.index.index import IndexReport
    from wdsctl.core.prepare.prepare import PrepareReport
    from wdsctl.core.prepare.robots import RobotReport
    from wdsctl.core.prepare.source import SourceFormat
    from wdsctl.core.prepare.write import FolderReport
    from wdsctl.core.samples.detect import Detection


#: Of help; the options before these are those that a first user needs.
HELP_SECTIONS = {
    "What samples are": (
        *("parts", "on_missing", "key", "key_until", "redetect", "accept_type", "drawn_on", "explain"),
        *("media", "media_index"),
    ),
    "Shards and splits": (
        *("shard_samples", "shard_size", "template", "layout", "by", "seed", "overwrite", "source_moved"),
        *("allow_split_changes", "exclude", "missing", "sample_rows", "hashed"),
    ),
    "The run": ("wait", "break_lock", "workers", "executor", "ray_address", "catalog"),
}
EPILOG = """
\b
Examples:
  wdsctl prepare photos/ shards/ --split 8,1,1     raw files, class folders
  wdsctl prepare labels.csv shards/                rows that name files
  wdsctl prepare coco/ shards/                     COCO, LLaVA, Parquet, ...
  wdsctl prepare shards/                           tars, in place
  wdsctl prepare texts.jsonl --key id              JSONL of texts, in place
  wdsctl prepare shards/ --media                   with facts of the media
  wdsctl prepare clips/ --media                    a folder of media, in place
  wdsctl prepare photos/ shards/ --shard-size 500MB --parts jpg,txt
  wdsctl prepare shards/ --sample-type CaptioningSample \\
      --field-map "image=jpg,caption=json[text]"

\b
If prepare is killed, run the same command again: it does the remaining work.
On a terminal, it asks for missing options before it writes anything (? lists
the choices), and ends by printing the command that asks no questions.
If DEST was already built, SOURCE must be the folder that it was built from,
or a copy of it. If you moved that folder and then changed it, pass
--source-moved.
"""

SourceArgument = Annotated[str | None, typer_info(SOURCE, "source")]
DestArgument = Annotated[str | None, typer_info(DEST, "dest")]
ExplainOption = Annotated[
    bool, typer.Option("--explain", help="Explain why each other format and sample type does not fit.")
]


@takes(PrepareRequest, before="overwrite")
def command(
    request: PrepareRequest,
    source: SourceArgument = None,
    dest: DestArgument = None,
    *,
    explain: ExplainOption = False,
    common: options.CommonOptions,
) -> int:
    """Build a training dataset from raw files, tables, tars or JSONL.

    Recognises the format of SOURCE, reports it, and writes the samples as shards into DEST; uses tars and JSONL
    of texts in place. Then indexes the shards, detects the sample type, and assigns the samples to splits. With --media
    and without DEST, catalogs a folder of media files in place.
    """
    from wdsctl.cli import wizard
    from wdsctl.cli.commands.index import render_media_folder_index
    from wdsctl.cli.formatting import shell_argument
    from wdsctl.cli.output import terminal_width
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.dataset.root_spec import parse_root_spec
    from wdsctl.core.index.write_dataset_yaml import UnsureTypeError
    from wdsctl.core.prepare.checks import sample_options
    from wdsctl.core.prepare.prepare import catalog_media_folder

    spec = wizard.ask_source(common) if source is None else parse_root_spec(source)
    request = replace(request, index=replace(request.index, selection=spec.selection))
    if dest is None:
        with show_progress(common.output) as progress:
            folder_report = catalog_media_folder(
                spec, request, {**sample_options(request), "--explain": explain}, progress
            )
        if folder_report is not None:
            common.output.answer("prepare", folder_report, render_media_folder_index, names=[folder_report.catalog])
            errors.explain_partial_if_quiet(common.output, errors.error_findings(folder_report.findings))
            return errors.media_folder_exit_code(folder_report)
    output = common.output
    try:
        outcome = wizard.prepare_interactively(
            wizard.WizardCommand(source=spec.root, dest=dest, request=request), common
        )
    except UnsureTypeError as error:
        if not common.json:  # what was found and left out comes before the question that remains
            render = prepare_renderer(request, explain=explain, is_sure=False)
            output.answer("prepare", error.report, render, names=())
        raise
    report = outcome.report
    keeps_type = report.detection is None
    if explain and keeps_type:
        report = _with_detection(report, outcome.command, request.catalog)
    output.answer(
        "prepare",
        report,
        prepare_renderer(
            outcome.command.request, explain=explain, accepted=outcome.command.accepted, keeps_type=keeps_type
        ),
        names=[report.primary or report.dest],
    )
    if not (report.dry_run or report.up_to_date or common.json):
        verb = "inspect" if report.split is not None else "validate"
        allowed = () if report.from_folder else common.allow_path or ()  # what links lead to lies in the shards then
        again = [("--catalog", request.catalog)] if request.catalog else []
        again += [("--allow-path", folder) for folder in allowed]
        options_again = "".join(f" {name} {shell_argument(value)}" for name, value in again)
        output.note(f"next: wdsctl {verb} {shell_argument(report.dest)}{options_again}")
    if outcome.has_prompted:
        lines = wizard.command_lines(outcome.command, terminal_width(sys.stderr), common.allow_path or ())
        output.note("the same without questions:", *lines)
    _explain_partial_if_quiet(report, output)
    codes = [errors.index_exit_code(report.index)] if report.index is not None else []
    codes += [errors.convert_exit_code(report.conversion)] if report.conversion is not None else []
    return max(codes, default=0)


def _with_detection(report: PrepareReport, prepared: wizard.WizardCommand, catalog: str | None) -> PrepareReport:
    """The report with what detection finds, of a dataset that keeps its dataset.yaml. Reads a few samples."""
    from wdsctl.core.dataset.root_spec import parse_root_spec
    from wdsctl.core.index.write_dataset_yaml import detect_dataset_type
    from wdsctl.core.opened.opening import open_dataset

    if not report.former_type or report.index is None or not report.index.samples or report.primary:
        return report
    with open_dataset(prepared.dest or parse_root_spec(prepared.source).root, catalog) as dataset:
        return replace(report, detection=detect_dataset_type(dataset, report.index.generation))


def _explain_partial_if_quiet(report: PrepareReport, output: Output) -> None:
    from wdsctl.cli.commands.convert import left_out_lines

    done = report.conversion
    findings = [*(done.findings if done is not None else ()), *(report.index.findings if report.index else ())]
    left_out: Iterable[str] = left_out_lines(done) if done is not None and (done.failed or done.kept) else ()
    errors.explain_partial_if_quiet(output, errors.error_findings(findings), left_out)


#: Names of left-out files shown.
EXAMPLES_SHOWN = 3
#: Names of dropped samples shown.
NAMES_SHOWN = 10
_RENAMED_ADVICE = (
    "if you renamed files, the shards have their samples under both names; "
    "`--missing drop --dry-run` lists the old ones"
)


def prepare_renderer(
    request: PrepareRequest,
    *,
    explain: bool = False,
    is_sure: bool = True,
    accepted: Detection | None = None,
    keeps_type: bool = False,
) -> Callable[[PrepareReport], Iterator[RenderableType]]:
    """A renderer that marks a sample type as given by the user, without the reasons for a detected one.

    `explain`: show every form and sample type that was rejected. `is_sure`: whether the sample type was written.
    `accepted`: the type of some samples that the user confirmed. `keeps_type`: the dataset keeps its dataset.yaml,
    whatever detection finds.
    """
    note = "" if accepted is not None else _given_type_note(request)
    return partial(
        render_prepare, type_note=note, explain=explain, is_sure=is_sure, accepted=accepted, keeps_type=keeps_type
    )


def render_prepare(
    report: PrepareReport,
    *,
    type_note: str = "",
    explain: bool = False,
    is_sure: bool = True,
    accepted: Detection | None = None,
    keeps_type: bool = False,
) -> Iterator[RenderableType]:
    from wdsctl.cli.commands.convert import left_out_lines
    from wdsctl.cli.commands.index import render_worst_findings, totals_text

    types = _type_rows(report, type_note, explain=explain, is_sure=is_sure, accepted=accepted, keeps_type=keeps_type)
    if report.up_to_date and report.index is not None:
        yield f"{display_path(report.dest)}: up to date ({totals_text(report.index)})"
        is_redetected = report.former_type and report.detection is not None and not type_note
        if explain or is_redetected:
            yield labelled_lines([*_form(report, explain=explain), *types])
        if report.folder is not None:
            yield from (f"  {what}  {line}" for what, line in _changed_sample_rows(report.folder))
        if report.folder is not None and (report.folder.vanished or report.folder.stale or report.folder.left_out_list):
            yield from (f"  {line}" for line in _left_out(report.folder))
        if report.conversion is not None:
            yield from (f"  {line}" for line in left_out_lines(report.conversion))
    else:
        has_route = report.source != report.dest
        route = f"{display_path(report.source)} -> " if has_route else ""
        yield f"{route}{display_path(report.dest)}{' (dry run: nothing is written)' if report.dry_run else ''}"
        yield labelled_lines(list(_steps(report, types, explain=explain, is_chosen=bool(type_note))))
    yield from consent_lines(report.consents)
    if report.conversion is not None:
        yield from finding_lines(sort_by_severity(report.conversion.findings))
    if report.index is not None:
        yield from render_worst_findings(report.index)
    elif report.folder is not None:
        yield from finding_lines(report.folder.findings)


def _form(report: PrepareReport, *, explain: bool) -> Iterator[tuple[str, RenderableType]]:
    if report.form is None:
        return
    yield "from", f"{report.form.name}: {report.form.reason}"
    yield from (("", f"not {each.name}: {each.reason}") for each in report.form.rejected[: None if explain else 1])
    from wdsctl.core.importers import CHOSEN_BY_USER  # `prepare --help` needs no importers

    if explain and report.form.reason != CHOSEN_BY_USER and report.form.name != "shards":
        yield from (("", line) for line in _unlike_formats(report.form))


def _steps(
    report: PrepareReport, types: Iterable[tuple[str, RenderableType]], *, explain: bool, is_chosen: bool
) -> Iterator[tuple[str, RenderableType]]:
    """What the source is, and what each step of `prepare` did. `types`: the rows about the sample type, which the user
    has chosen if `is_chosen`.
    """
    from wdsctl.cli.commands.split import rule_text, splits_table

    conversion_sources = () if report.conversion is None else report.conversion.sources
    if report.sample_type:
        fields = [field for source in conversion_sources for field in source.fields]
        is_decided = not report.dry_run or is_chosen or report.detection is None or report.detection.is_sure
        yield from batch_rows(report.sample_type, report.field_map, report.detection, fields, is_decided=is_decided)
    yield from _form(report, explain=explain)
    if report.conversion is not None:
        yield from _conversion(report.conversion)
    if report.robot is not None:
        yield from _robot(report.robot, dry_run=report.dry_run)
    if report.folder is not None:
        yield from _folder(report.folder)
    if report.index is not None:
        yield from _index(report.index, with_changes=report.conversion is None)
    yield from types
    if report.split is not None:
        is_of_source = report.conversion is not None and report.split.by == "keys"
        yield "split", "as in the source" if is_of_source else rule_text(report.split)
        yield "", splits_table(report.split.splits)
    for row, (key, line) in enumerate(example_rows(report.examples)):
        yield ("" if row else "samples"), f"{key}: {line}"


def _type_rows(
    report: PrepareReport,
    type_note: str,
    *,
    explain: bool,
    is_sure: bool,
    accepted: Detection | None,
    keeps_type: bool,
) -> Iterator[tuple[str, RenderableType]]:
    """The sample type, and where it comes from; the latter only if the report begins with the type."""
    label = "why" if report.sample_type and not report.up_to_date else "type"
    if report.detection is not None and (report.index is not None or report.dry_run):
        yield from (
            [(label, type_note)] if type_note else detection_rows(report.detection, label=label, explain=explain)
        )
        yield from preview_rows(accepted, report.detection) if accepted is not None else ()
        if report.former_type and not type_note:
            from wdsctl.core.samples.field_map import type_text  # `prepare --help` needs no names of media

            is_same = report.former_type == type_text(report.detection.sample_type, report.detection.field_map)
            former = "the same type and fields" if is_same else escape_line(report.former_type)
            verb = "has" if is_same or keeps_type else "had"
            yield "", f"dataset.yaml {verb} {former}{'' if is_same or not keeps_type else ' (--redetect replaces it)'}"
        if is_sure and not keeps_type and report.index is not None and not report.dry_run:
            config = os.path.join(os.path.dirname(report.index.catalog), "dataset.yaml")
            yield "", display_path(os.path.join(report.dest, "monolithic.yaml") if report.primary else config)
    elif report.sample_type:
        field_map = f": {format_field_map(dict(report.field_map))}" if report.field_map else ""
        origin = f"from {'monolithic.yaml' if report.primary else 'dataset.yaml'}"
        if report.form is not None and report.conversion is not None:
            origin = f"defined by {report.form.name}"
        yield label, f"{report.sample_type}{field_map} ({origin})"


def _unlike_formats(form: SourceFormat) -> Iterator[str]:
    """A line for each form that does not match at all, with what it would be."""
    from wdsctl.core import importers

    named = {form.name, *(each.name for each in form.rejected)}
    for name in importers.IMPORT_FORMATS:
        if name not in named:
            yield f"not {name}: does not look like {importers.get_importer(name).about}"


def _conversion(report: ConvertReport) -> list[tuple[str, RenderableType]]:
    """The fields of the source, the shards that were written, and what was left out of them."""
    from wdsctl.cli.commands.convert import left_out_lines

    rows: list[tuple[str, RenderableType]] = [
        ("fields" if not i else "", line)
        for i, line in enumerate(field_lines([field for source in report.sources for field in source.fields]))
    ]
    would = "would be: " if report.dry_run else ""
    amount = f"{'about ' if report.dry_run else ''}{format_size(report.size_bytes)}"
    done = report.samples - report.failed
    rows.append(("write", f"{would}{format_count(done, 'sample')} in {format_count(report.files, 'shard')}, {amount}"))
    rows += [("layout", report.layout)] if report.layout else []
    return rows + [("", line) for line in left_out_lines(report)]


def _robot(robot: RobotReport, *, dry_run: bool) -> list[tuple[str, RenderableType]]:
    """The features of a LeRobot dataset, and what was written of it."""
    rows: list[tuple[str, RenderableType]] = [
        ("fields" if not i else "", line) for i, line in enumerate(field_lines(robot.fields))
    ]
    kept = robot.tables - robot.written
    done = "would be written" if dry_run else f"{format_count(robot.written)} written, {format_count(kept)} kept"
    amount = f"{format_count(robot.frames, 'frame')} of {format_count(robot.episodes, 'episode')}"
    rows.append(("write", f"{amount} at {robot.fps:g} fps in {format_count(robot.tables, 'file')} of frames/ ({done})"))
    rows.append(("", f"{format_count(robot.videos, 'video file')} {'stays' if robot.videos == 1 else 'stay'} in place"))
    return rows


def _given_type_note(request: PrepareRequest) -> str:
    if not request.sample_type and not request.field_map:
        return ""
    fields = format_field_map(dict(request.field_map))
    return f"{': '.join(filter(None, (request.sample_type, fields)))} (chosen by the user)"


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
    rows += _changed_sample_rows(folder)
    return rows + [("", line) for line in _left_out(folder)]


def _left_out(folder: FolderReport) -> list[str]:
    """What of the folder is not in the shards as it is there, with the names of the first files that were left out."""
    from wdsctl.cli.commands.convert import left_out_list_line

    changed = "although their files have changed"
    reasons = (
        (folder.incomplete, "incomplete sample", ""),
        (folder.strays, "stray file", ""),
        (folder.unreadable, "unreadable file or folder", "unreadable files or folders"),
        (folder.ignored, "file or folder skipped", "files or folders skipped"),
        (
            folder.vanished,
            "sample stays in its shard although its files are missing",
            "samples stay in their shards although their files are missing",
        ),
        (folder.stale, "shard is unchanged although its files have changed", f"shards are unchanged {changed}"),
    )
    left_out = ", ".join(pluralize(n, noun, plural) for n, noun, plural in reasons if n)
    if not left_out:
        return []
    shown = folder.examples[:EXAMPLES_SHOWN]
    more = folder.incomplete + folder.strays + folder.unreadable - len(shown)
    return [
        f"problems: {left_out}",
        *shown,
        *([f"... and {format_count(more)} more"] if shown and more > 0 else []),
        *([left_out_list_line(folder.left_out_list)] if folder.left_out_list else []),
        *([_RENAMED_ADVICE] if folder.vanished and folder.added else []),
    ]


def _changed_sample_rows(folder: FolderReport) -> list[tuple[str, str]]:
    """The samples that the shards had before and lack now, by name, and the number of new ones."""
    rows = []
    if folder.dropped:
        hidden = len(folder.dropped) - NAMES_SHOWN
        more = f" and {format_count(hidden)} more (--json has all)" if hidden > 0 else ""
        names = ", ".join(map(escape_line, folder.dropped[:NAMES_SHOWN]))
        rows.append(("dropped", f"{pluralize(len(folder.dropped), 'sample')}: {names}{more}"))
    is_first_run = folder.added >= folder.samples and not folder.dropped
    if folder.added and not is_first_run:
        rows.append(("new", f"{pluralize(folder.added, 'sample')} in new shards"))
    return rows


def _index(index: IndexReport, *, with_changes: bool) -> list[tuple[str, RenderableType]]:
    from wdsctl.cli.commands.index import changes_text, media_rows_text, media_summary, totals_text

    changes = f" ({changes_text(index)})" if with_changes else ""
    rows: list[tuple[str, RenderableType]] = [
        ("index", f"{totals_text(index)}{changes}"),
        ("", display_path(index.catalog)),
    ]
    if index.media is not None:
        rows += [("media", media_summary(index.media))]
        rows += [("", line) for line in media_rows_text(index.media.lines)]
    return rows
