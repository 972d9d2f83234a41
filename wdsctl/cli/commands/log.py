"""`wdsctl log`: what was done to a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl log shards/           the last 20 runs, the latest first
  wdsctl log shards/ -n 0      all of them
  wdsctl log shards/ 17        one of them, with what it found
  wdsctl diff shards/ --since 3   what has changed since generation 3

\b
Runs that write or check are noted, in .wdsctl/ledger.sqlite. One that was
killed noted no end. Exits with 3 where no run is noted.
"""


def command(
    root: options.Root,
    run: Annotated[int | None, typer.Argument(metavar="[RUN]", min=1, help="The number of one run.")] = None,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="So many runs, 0 for all.")] = 20,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """List what was done to a dataset. When, how it ended, from what to what."""
    from wdsctl.cli.render.log import render_log, render_run
    from wdsctl.core.verbs.log import log, log_of_run

    if run is not None:
        common.output.answer("log", log_of_run(root, run, catalog=catalog), render_run)
        return 0
    report = log(root, limit=limit, catalog=catalog)
    common.output.answer("log", report, render_log)
    return 0 if report.runs else 3
