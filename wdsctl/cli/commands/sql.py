"""`wdsctl sql`: ask the catalog."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wdsctl.cli import options

EPILOG = """
\b
Examples:
  wdsctl sql shards/ 'SELECT * FROM v_split'
  wdsctl sql shards/ "SELECT key, size FROM v_part
      WHERE part = 'jpg' ORDER BY size DESC LIMIT 10"
  wdsctl sql shards/ 'SELECT key, width FROM v_media' --csv > sizes.csv
  wdsctl sql shards/@big 'SELECT count(*) FROM v_sample' --json
  wdsctl sql shards/ - < query.sql

\b
Views: v_shard, v_sample, v_part, v_split, v_media, v_file of the catalog,
v_excluded, v_run, v_finding, v_view, v_quarantine. docs/catalog.md lists
their columns. Only reading is possible. An answer without rows is an answer:
the exit code is 0.
"""


def command(
    root: options.Root,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A SELECT over the documented views; - reads stdin.")],
    *,
    as_table: Annotated[bool, typer.Option("--table", help="Draw tables. [default on a terminal]")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV, with a line of names.")] = False,
    as_tsv: Annotated[
        bool, typer.Option("--tsv", help="Write lines with tabs, and a line of names. [default elsewhere]")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Stop after N rows.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up after so long.")
    ] = None,
    catalog: options.Catalog = None,
    common: options.Common,
) -> int:
    """Ask the catalog in SQL. Reads the documented views, row by row."""
    from wdsctl.cli.output import write_drawn
    from wdsctl.cli.render.sql import pieces
    from wdsctl.core.errors import UsageError
    from wdsctl.core.verbs.sql import sql

    chosen = [form for form, is_asked in (("table", as_table), ("csv", as_csv), ("tsv", as_tsv)) if is_asked]
    if len(chosen) + common.json > 1:
        raise UsageError("only one form of answer is possible", hint="take one of --table, --csv, --tsv and --json")
    form = "json" if common.json else chosen[0] if chosen else "table" if sys.stdout.isatty() else "tsv"
    text = sys.stdin.read() if query == "-" else query
    with sql(root, text, catalog=catalog, timeout_seconds=timeout or 0) as answer:
        if answer.note:
            common.output.say(f"note: {answer.note}")
        for piece in pieces(answer, form, limit=limit or 0, no_color=common.no_color, say=common.output.say):
            write_drawn(sys.stdout, piece)  # each form is harmless in its own way
    return 0
