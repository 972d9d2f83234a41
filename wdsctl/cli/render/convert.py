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


def render(report: ConvertReport) -> Iterator[RenderableType]:
    sources = dict.fromkeys(path(source.path) for source in report.sources)
    route = f"{', '.join(sources)} -> {path(report.dest)}"
    if report.up_to_date:
        yield f"{route}: up to date ({count(report.samples, 'sample')} in {count(report.files, 'file')})"
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
    amount = f"{'about ' if report.dry_run else ''}{size(report.size_bytes)}"
    rows.append(
        ("write", f"{would}{count(done, 'sample')} in {count(report.files, 'file')} of {report.form}, {amount}{files}")
    )
    rows += [("", text) for text in _left_out(report)]
    tells = len(report.datasets) > 1 or not report.dry_run or any(dataset.columns for dataset in report.datasets)
    shown = report.datasets if tells else ()
    for dataset in shown[:DATASETS_SHOWN]:
        rows.append(("dataset", _dataset(dataset)))
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


def _dataset(dataset: ConvertedDataset) -> str:
    splits = ", ".join(f"{safe(name)} {count(samples)}" for name, samples in dataset.splits.items())
    columns = "" if not dataset.columns else f"columns {', '.join(map(safe, dataset.columns))}"
    media = "" if not dataset.media else f"facts of {dataset.media:,} media"
    amount = f"{count(dataset.samples, 'sample')} in {count(dataset.files, 'file')}"
    facts = [amount, dataset.sample_type, splits, columns, media]
    return f"{path(dataset.path)}: {', '.join(filter(None, facts))}"
