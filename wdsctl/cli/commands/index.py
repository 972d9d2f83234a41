"""`wdsctl index`: bring the catalog up to date with the shards."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from wdsctl.cli import exit_codes, options

EPILOG = """
\b
Examples:
  wdsctl index shards/                        read what is new or has changed
  wdsctl index shards/ --missing drop         forget shards that are gone
  wdsctl index shards/ --rebuild              make the catalog again
  wdsctl index 'shards/a-{000..199}.tar'      these shards, and no others
  wdsctl index 'shards/**/train-*.tar'        what matches, now and later
  wdsctl index shards/ --hash                 with the SHA-256 of every shard
  wdsctl index shards/ --media                facts of images, sounds, videos
  wdsctl index shards/ --media jpg,mp4        of these parts alone
  wdsctl index shards/ --column bytes=size:jpg --column tokens=lengths:tokens

\b
A column is a whole number a sample, for packing and balancing. FUNCTION is
  MODULE:NAME           of Python: gets {"__key__": key, "txt": bytes, ...}
  size:PART             bytes of a part; nothing is read
  chars:PART            characters of a text
  json:PART:FIELD.PATH  a number in JSON, or the length of a string or list
  media:PART:NUMBER     a fact of media: width, height, duration_ms, frames
"""

Column = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME=FUNCTION", help="Work out a number for every sample (repeatable)."),
]
DropColumn = Annotated[
    list[str] | None, typer.Option("--drop-column", metavar="NAME", help="Forget a column (repeatable).")
]
OnError = Annotated[
    Literal["error", "zero"],
    typer.Option(
        "--on-error", metavar="error|zero", help="A sample for which FUNCTION fails: do not publish, or take 0."
    ),
]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="A column's FUNCTION may come from a module in the dataset's own folder.")
]
DropMedia = Annotated[bool, typer.Option("--drop-media", help="Forget the facts of media.")]


def command(
    root: options.Shards,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the catalog again from all shards.")] = False,
    missing: options.Missing = "error",
    exclude: options.Exclude = None,
    key: options.Key = None,
    key_until: options.KeyUntil = None,
    column: Column = None,
    drop_column: DropColumn = None,
    on_error: OnError = "error",
    trust_code: TrustCode = False,
    media: options.Media = None,
    media_index: options.MediaIndex = False,
    drop_media: DropMedia = False,
    sample_rows: options.SampleRows = None,
    hashed: options.Hash = None,
    wait: options.Wait = 0.0,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Bring the catalog up to date. Only shards that are new or have changed are read.

    With --media, ROOT may also be a folder of media files, without shards.
    """
    from wdsctl.cli.commands import media_folder
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.index import render
    from wdsctl.core.root_spec import root_spec
    from wdsctl.core.verbs.column_request import parse_columns
    from wdsctl.core.verbs.index import index
    from wdsctl.core.verbs.media_request import MediaRequest

    asked = MediaRequest(selection=media, keyframes=media_index, drop=drop_media)
    spec = root_spec(root)
    root = spec.root
    if spec.selection is None and media_folder.is_one(root, catalog, media):
        media_folder.refuse(
            columns=bool(column or drop_column),
            missing=missing,
            of_shards=hashed is not None or sample_rows is not None,
        )
        request = media_folder.Request(
            root, catalog, asked, exclude, workers, rebuild=rebuild, dry_run=dry_run, wait=wait
        )
        return media_folder.run(request, "index", common)
    with listening(common.output) as progress:
        report = index(
            spec,
            catalog=catalog,
            workers=options.worker_count(workers),
            rebuild=rebuild,
            missing=missing,
            exclude=exclude,
            dry_run=dry_run,
            columns=parse_columns(column or ()),
            drop_columns=drop_column or (),
            on_error=on_error,
            trust_code=trust_code,
            media=asked,
            key=key,
            key_until=key_until,
            sample_rows=sample_rows,
            hashed=hashed,
            wait=wait,
            progress=progress,
        )
    common.output.answer("index", report, render)
    return exit_codes.of_index(report)
