"""`wdsctl convert`: options, and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from wdsctl.cli import errors, options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_size
from wdsctl.cli.tables import finding_lines, labelled_lines, sort_by_severity
from wdsctl.core.convert.request import ConvertRequest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.convert.conversion_report import ConvertedDataset, ConvertReport


EPILOG = """
\b
Examples:
  wdsctl convert shards/ new/ --shard-size 500MB        other shards
  wdsctl convert shards/ new/ --shuffle --seed 7        all samples shuffled
  wdsctl convert shards/@large new/                     the samples of a view
  wdsctl convert a/ b/ c/ all/ --on-collision prefix    merge three datasets
  wdsctl convert shards/ by-split/ --apart split        one dataset per split
  wdsctl convert shards/ small/ --image jpeg:90 --max-side 1024
  wdsctl convert films/ light/ --layout polylithic --media mp4,wav
  wdsctl convert light/ whole/ --layout monolithic      the reverse
  wdsctl convert old/ new/                              .tar.gz to .tar
  wdsctl convert labels.csv shards/ -O files=image      from a CSV table
  wdsctl convert shards/ hub/ --naming hub              shards for the Hub
  wdsctl convert shards/ lit/ --to litdata --shard-size 64MB

\b
convert plans all output files before it writes the first one. If it is
killed, run the same command again: it writes the remaining files. The output
has the same bytes for any number of workers. Tars keep splits, sample type
and field map; other formats and compressed shards cannot store them. convert
skips and counts samples that it cannot read or re-encode, and then exits with
5.
"""

PathsArgument = Annotated[
    list[str],
    typer.Argument(metavar="SOURCE... DEST", help="Datasets (ROOT or ROOT@VIEW) or files, then a new folder or URL."),
]


@takes(ConvertRequest)
def command(request: ConvertRequest, paths: PathsArgument, *, common: options.CommonOptions) -> int:
    """Write a new dataset from existing ones.

    Changes shard size, order or file format, selects samples, merges or divides datasets, stores media separately, or
    re-encodes images and audio. The result is a prepared dataset,
    unless --to names another format. Does not modify the source.
    """
    from wdsctl.cli.formatting import shell_argument
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.convert.convert import convert
    from wdsctl.core.errors import UsageError

    if len(paths) < 2:
        raise UsageError("convert needs a source and a destination", hint="pass both: `wdsctl convert SOURCE... DEST`")
    output = common.output
    with show_progress(output) as shown:
        report = convert(paths[:-1], paths[-1], request, progress=shown)
    output.answer("convert", report, render_convert, names=[report.dest])
    left_out: Iterable[str] = left_out_lines(report) if report.failed or report.kept else ()
    errors.explain_partial_if_quiet(output, errors.error_findings(report.findings), left_out)
    if report.datasets and report.datasets[0].sample_type and not (report.dry_run or report.up_to_date or common.json):
        is_polylithic = request.layout == "polylithic"
        # Of several polylithic datasets, the primary of the last one.
        root = report.dest if is_polylithic and not request.apart else report.datasets[-1 if is_polylithic else 0].path
        output.note(f"next: wdsctl inspect {shell_argument(root)}")
    return errors.convert_exit_code(report)


#: Datasets shown, where it is taken apart into many.
DATASETS_SHOWN = 20

#: Forms that are files beside each other, however they were written: `files` are the pieces that were worked on.
FORMATS_WITHOUT_SHARDS = ("folder", "jsonl", "csv", "tsv")


def render_convert(report: ConvertReport) -> Iterator[RenderableType]:
    sources = dict.fromkeys(display_path(source.path) for source in report.sources)
    route = f"{', '.join(sources)} -> {display_path(report.dest)}"
    if report.up_to_date:
        done = report.samples - report.failed
        yield f"{route}: up to date ({_count_in_files(report, done, report.files)})"
        yield from (f"  {text}" for text in left_out_lines(report))
        yield from finding_lines(sort_by_severity(report.findings))
        return
    yield f"{route}{' (dry run: nothing is written)' if report.dry_run else ''}"
    rows: list[tuple[str, RenderableType]] = []
    for source in report.sources:
        name = f"{display_path(source.path)} is " if len(report.sources) > 1 else ""
        rows.append(("from", f"{name}{source.form}: {source.reason}"))
        rows += [("", f"not {other.form}: {other.reason}") for other in source.rejected]
    done = report.samples - report.failed
    would = "would be: " if report.dry_run else ""
    files = (
        ""
        if report.dry_run
        else f" ({format_count(report.written_files)} written, {format_count(report.kept_files)} kept)"
    )
    if report.form in FORMATS_WITHOUT_SHARDS:
        files = ""
    amount = f"{'about ' if report.dry_run else ''}{format_size(report.size_bytes)}"
    rows.append(
        ("write", f"{would}{_count_in_files(report, done, report.files, f' of {report.form}')}, {amount}{files}")
    )
    rows += [("", text) for text in left_out_lines(report)]
    is_listed = len(report.datasets) > 1 or not report.dry_run or any(dataset.columns for dataset in report.datasets)
    shown = report.datasets if is_listed else ()
    for dataset in shown[:DATASETS_SHOWN]:
        rows.append(("dataset", _dataset(report, dataset)))
    if len(shown) > DATASETS_SHOWN:
        rows.append(("", f"... and {format_count(len(shown) - DATASETS_SHOWN)} more"))
    rows += [("layout", report.layout)] if report.layout else []
    rows += [("note", note) for note in report.notes]
    yield labelled_lines(rows)
    yield from finding_lines(sort_by_severity(report.findings))


def left_out_lines(report: ConvertReport) -> Iterator[str]:
    """What is not in the destination as it is in the sources, with counts."""
    if report.failed:
        yield f"left out: {format_count(report.failed, 'sample')} that could not be read or transcoded"
    if report.kept:
        yield f"unchanged: {format_count(report.kept, 'sample')} that could not be transcoded"
    if report.repeated:
        yield f"left out: {format_count(report.repeated, 'sample')} with a repeated key"
    if report.bare:
        yield f"left out: {format_count(report.bare, 'sample')} without a part to write"
    if report.apart:
        yield f"left out: {format_count(report.apart, 'sample')} without a group (--apart) or split (--naming)"
    if report.left_out_list:
        yield left_out_list_line(report.left_out_list)


def left_out_list_line(path: str) -> str:
    return f"{display_path(path)} lists all samples and files that were left out"


def _count_in_files(report: ConvertReport, samples: int, files: int, of_what: str = "") -> str:
    """`40 samples in 3 files of parquet`; of forms whose files are not counted by shards: `40 samples as jsonl`."""
    if report.form in FORMATS_WITHOUT_SHARDS:
        return f"{format_count(samples, 'sample')} as {report.form}"
    return f"{format_count(samples, 'sample')} in {format_count(files, 'file')}{of_what}"


def _dataset(report: ConvertReport, dataset: ConvertedDataset) -> str:
    splits = ", ".join(f"{escape_line(name)} {format_count(samples)}" for name, samples in dataset.splits.items())
    columns = "" if not dataset.columns else f"columns {', '.join(map(escape_line, dataset.columns))}"
    media = "" if not dataset.media else f"facts of {dataset.media:,} media"
    amount = _count_in_files(report, dataset.samples, dataset.files)
    facts = [amount, dataset.sample_type, splits, columns, media]
    return f"{display_path(dataset.path)}: {', '.join(filter(None, facts))}"
