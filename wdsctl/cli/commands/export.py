"""`wdsctl export`: another tool's metadata beside the shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsctl.cli import options
from wdsctl.cli.declared import takes
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration
from wdsctl.cli.tables import labelled_lines
from wdsctl.core.export.request import ExportReport, ExportRequest

if TYPE_CHECKING:
    from rich.console import RenderableType


EPILOG = """
\b
Examples:
  wdsctl export shards/ --to energon             .nv-meta and SHARD.tar.idx
  wdsctl export s3://bucket/shards --to energon nv/
                                                 into a folder, to upload

\b
Targets:
  energon  Megatron Energon: .nv-meta/, and SHARD.tar.idx beside each shard
  wids     webdataset's random access: index.json, and index-SPLIT.json
  hub      Hugging Face: a card, README.md, with splits, features and counts
  croissant
           Croissant 1.1: croissant.json, with provenance from the ledger

\b
export takes everything from the catalog: it opens no shard and changes none.
Each file is whole or absent. Existing metadata stays without --overwrite. To
write the data itself in another format, use `wdsctl convert`.
"""


@takes(ExportRequest)
def command(request: ExportRequest, *, common: options.CommonOptions) -> int:
    """Write metadata for other tools beside the shards. Opens no shard."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.export.export import export

    with show_progress(common.output) as progress:
        report = export(request, progress=progress)
        for note in report.notes:
            progress.note(escape_line(note))
    common.output.answer("export", report, render_export, names=[report.path])
    return 0


def render_export(report: ExportReport) -> Iterator[RenderableType]:
    splits = ", ".join(f"{escape_line(name)} {format_count(samples)}" for name, samples in report.splits.items())
    yield (
        f"{display_path(report.root)}: exported {format_count(report.samples, 'sample')} in "
        f"{format_count(report.shards, 'shard')} to {report.target} in {format_duration(report.seconds)}"
    )
    yield labelled_lines(
        [
            ("metadata", f"{display_path(report.path)} ({format_count(report.files, 'file')} in total)"),
            *([("samples", splits)] if splits else []),
        ]
    )
