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
  wdsctl index shards/ --column bytes=size:jpg --column tokens=lengths:tokens

\b
A column is a whole number a sample, for packing and balancing. FUNCTION is
  MODULE:NAME           of Python: gets {"__key__": key, "txt": bytes, ...}
  size:PART             bytes of a part; nothing is read
  chars:PART            characters of a text
  json:PART:FIELD.PATH  a number in JSON, or the length of a string or list
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


def command(
    root: options.Root,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the catalog again from all shards.")] = False,
    missing: options.Missing = "error",
    exclude: options.Exclude = None,
    column: Column = None,
    drop_column: DropColumn = None,
    on_error: OnError = "error",
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Bring the catalog up to date. Only shards that are new or have changed are read."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.index import render
    from wdsctl.core.verbs.column import parse_columns
    from wdsctl.core.verbs.index import index

    with listening(common.output) as progress:
        report = index(
            root,
            catalog=catalog,
            workers=options.worker_count(workers),
            rebuild=rebuild,
            missing=missing,
            exclude=exclude,
            dry_run=dry_run,
            columns=parse_columns(column or ()),
            drop_columns=drop_column or (),
            on_error=on_error,
            progress=progress,
        )
    common.output.answer("index", report, render)
    return exit_codes.of_index(report)
