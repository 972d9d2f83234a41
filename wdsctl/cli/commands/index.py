"""`wdsctl index`: bring the catalog up to date with the shards."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl index shards/                        read what is new or has changed
  wdsctl index shards/ --missing drop         forget shards that are gone
  wdsctl index shards/ --rebuild              make the catalog again
"""


def command(
    root: options.Root,
    *,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the catalog again from all shards.")] = False,
    missing: options.Missing = "error",
    exclude: options.Exclude = None,
    workers: options.Workers = None,
    catalog: options.Catalog = None,
    dry_run: options.DryRun = False,
    common: options.Common,
) -> int:
    """Bring the catalog up to date. Only shards that are new or have changed are read."""
    from wdsctl.cli.progress import listening
    from wdsctl.cli.render.index import render
    from wdsctl.core.findings import at_least
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
            progress=progress,
        )
    common.output.answer("index", report, render)
    return 5 if at_least(report.findings, "error") else 0
