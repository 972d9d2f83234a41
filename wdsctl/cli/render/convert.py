"""What `wdsctl convert` did: where from, what was made, what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli.figures import count, path, safe, size
from wdsctl.cli.render.pieces import finding_lines, gravest_first, labelled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.verbs.convert_report import ConvertedDataset, ConvertReport

#: Datasets shown, where it is taken apart into many.
DATASETS_SHOWN = 20

#: Forms that are files beside each other, however they were written: `files` are the pieces that were worked on.
LOOSE = ("folder", "jsonl")


def render(report: ConvertReport) -> Iterator[RenderableType]:
    sources = dict.fromkeys(path(source.path) for source in report.sources)
    route = f"{', '.join(sources)} -> {path(report.dest)}"
    if report.up_to_date:
        done = report.samples - report.failed
        yield f"{route}: up to date ({_in_files(report, done, report.files)})"
        yield from (f"  {text}" for text in _left_out(report))
        yield from finding_lines(gravest_first(report.findings))
        return
    yield f"{route}{' (dry run: nothing is written)' if report.dry_run else ''}"
    rows: list[tuple[str, RenderableType]] = []
    for source in report.sources:
        name = f"{path(source.path)} is " if len(report.sources) > 1 else ""
        rows.append(("from", f"{name}{source.form}: {source.reason}"))
        rows += [("", f"not {other.form}: {other.reason}") for other in source.rejected]
    done = report.samples - report.failed
    would = "would be: " if report.dry_run else ""
    files = "" if report.dry_run else f" ({count(report.written_files)} written, {count(report.kept_files)} kept)"
    if report.form in LOOSE:
        files = ""
    amount = f"{'about ' if report.dry_run else ''}{size(report.size_bytes)}"
    rows.append(("write", f"{would}{_in_files(report, done, report.files, f' of {report.form}')}, {amount}{files}"))
    rows += [("", text) for text in _left_out(report)]
    tells = len(report.datasets) > 1 or not report.dry_run or any(dataset.columns for dataset in report.datasets)
    shown = report.datasets if tells else ()
    for dataset in shown[:DATASETS_SHOWN]:
        rows.append(("dataset", _dataset(report, dataset)))
    if len(shown) > DATASETS_SHOWN:
        rows.append(("", f"... and {count(len(shown) - DATASETS_SHOWN)} more"))
    rows += [("note", note) for note in report.notes]
    yield labelled(rows)
    yield from finding_lines(gravest_first(report.findings))


def _left_out(report: ConvertReport) -> Iterator[str]:
    if report.failed:
        yield f"left out: {count(report.failed, 'sample')} that could not be read or written anew"
    if report.kept:
        yield f"as they were: {count(report.kept, 'sample')} that could not be written anew"
    if report.repeated:
        yield f"left out: {count(report.repeated, 'sample')} whose key came before"
    if report.bare:
        yield f"left out: {count(report.bare, 'sample')} without a part that goes along"
    if report.apart:
        yield f"left out: {count(report.apart, 'sample')} that say nothing of where they belong"


def _in_files(report: ConvertReport, samples: int, files: int, of_what: str = "") -> str:
    """`40 samples in 3 files of parquet`; of forms whose files are not counted by shards: `40 samples as jsonl`."""
    if report.form in LOOSE:
        return f"{count(samples, 'sample')} as {report.form}"
    return f"{count(samples, 'sample')} in {count(files, 'file')}{of_what}"


def _dataset(report: ConvertReport, dataset: ConvertedDataset) -> str:
    splits = ", ".join(f"{safe(name)} {count(samples)}" for name, samples in dataset.splits.items())
    columns = "" if not dataset.columns else f"columns {', '.join(map(safe, dataset.columns))}"
    media = "" if not dataset.media else f"facts of {dataset.media:,} media"
    amount = _in_files(report, dataset.samples, dataset.files)
    facts = [amount, dataset.sample_type, splits, columns, media]
    return f"{path(dataset.path)}: {', '.join(filter(None, facts))}"
