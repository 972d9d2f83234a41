"""`wdsctl export`: another tool's metadata beside the shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration
from wdsctl.cli.tables import labelled_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wdsctl.core.export.request import ExportReport


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


def command(
    root: options.RootArgument,
    out: Annotated[
        str | None,
        typer.Argument(metavar="[OUT]", help="The folder to write to. [default: the folder of the shards]"),
    ] = None,
    *,
    to: Annotated[
        Literal["energon", "wids", "hub", "croissant"],
        typer.Option("--to", metavar="energon|wids|hub|croissant", help="Metadata to write: see below."),
    ],
    split_set: Annotated[str, typer.Option("--set", metavar="SET", help="Export the splits of this split set.")] = "",
    sample_tables: Annotated[
        bool,
        typer.Option(
            "--sample-tables/--no-sample-tables",
            help="energon: write index.sqlite, which joins, lookups by key and `energon mount` need.",
        ),
    ] = True,
    hashed: Annotated[bool, typer.Option("--hash", help="wids: read all shards, and list their MD5 hashes.")] = False,
    license_id: Annotated[
        str, typer.Option("--license", metavar="ID", help="hub, croissant: the license, such as cc-by-4.0.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing metadata. Files of other names stay.")
    ] = False,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Write metadata for other tools beside the shards. Opens no shard."""
    from wdsctl.cli.progress import show_progress
    from wdsctl.core.export.export import export
    from wdsctl.core.export.request import ExportRequest

    request = ExportRequest(
        target=to,
        out=out or "",
        split_set=split_set,
        overwrite=overwrite,
        sample_tables=sample_tables,
        hashed=hashed,
        license_id=license_id,
    )
    with show_progress(common.output) as progress:
        report = export(root, request, catalog=catalog, progress=progress)
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
