"""`wdsctl sql`: query the catalog. Rows are streamed as a table, CSV, TSV or one JSON document."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wdsctl.cli import options
from wdsctl.cli.formatting import format_count
from wdsctl.cli.output import has_color, json_line, json_list_document, render_text, tsv_lines
from wdsctl.cli.tables import make_table
from wdsctl.core.text import escape_control_chars

if TYPE_CHECKING:
    from wdsctl.core.views.sql import QueryResult


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
v_sample_split, v_excluded, v_run, v_finding, v_view, v_quarantine.
docs/catalog.md lists their columns. Queries cannot write. The exit code is 0
even without rows.
"""


def command(
    root: options.SamplesArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A SELECT over the documented views; - reads stdin.")],
    *,
    as_table: Annotated[bool, typer.Option("--table", help="Print tables. [default on a terminal]")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header line.")] = False,
    as_tsv: Annotated[
        bool, typer.Option("--tsv", help="Print tab-separated values with a header line. [default elsewhere]")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Print at most N rows.")] = None,
    timeout: options.TimeoutOption = None,
    catalog: options.CatalogOption = None,
    common: options.CommonOptions,
) -> int:
    """Query the catalog with SQL. Reads the documented views."""
    from wdsctl.cli.output import write_styled
    from wdsctl.core.errors import OptionConflict
    from wdsctl.core.views.sql import sql

    flags = {"json": common.json, "table": as_table, "csv": as_csv, "tsv": as_tsv}
    selected = [name for name, is_set in flags.items() if is_set]
    if len(selected) > 1:
        names = [f"--{name}" for name in selected]
        raise OptionConflict(
            f"{' and '.join(names)} exclude each other",
            options=names,
            are_exclusive=True,
            hint="pass one of --table, --csv, --tsv and --json",
        )
    output_format = selected[0] if selected else "table" if sys.stdout.isatty() else "tsv"
    text = sys.stdin.read() if query == "-" else query
    with sql(root, text, catalog=catalog, timeout_seconds=timeout or 0) as result:
        if result.note:
            common.output.note(f"note: {result.note}")
        for chunk in format_result(
            result, output_format, limit=limit or 0, no_color=common.no_color, note=common.output.note
        ):
            write_styled(sys.stdout, chunk)  # every format escapes control characters in its own way
    return 0


BLOCK_ROWS = 500  # rows formatted and written together

SqlRow = Sequence[Any]


def format_result(
    result: QueryResult,
    output_format: str,
    *,
    limit: int = 0,
    no_color: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[str]:
    """Yield the text of a result in chunks. `limit`: rows, 0 for all; `note` receives a message if there are more."""
    blocks = _blocks(result.rows, limit, note)
    if output_format == "json":
        yield from _json(result.columns, blocks)
    elif output_format == "csv":
        yield _csv_lines([result.columns])
        for block in blocks:
            yield _csv_lines([[_raw_text(value) for value in row] for row in block])
    elif output_format == "tsv":
        yield tsv_lines([result.columns])
        yield from map(tsv_lines, blocks)
    else:
        yield from _tables(result.columns, blocks, is_colored=has_color(sys.stdout, no_color))


def _blocks(rows: Iterator[SqlRow], limit: int, note: Callable[[str], None]) -> Iterator[list[SqlRow]]:
    remaining = limit or sys.maxsize
    while remaining and (block := list(islice(rows, min(BLOCK_ROWS, remaining)))):
        remaining -= len(block)
        yield block
    if limit and not remaining and next(rows, None) is not None:
        note(f"note: the query has more than {format_count(limit, 'row')}")


def _tables(columns: Sequence[str], blocks: Iterator[list[SqlRow]], *, is_colored: bool) -> Iterator[str]:
    """One table per block, with widths of its own. Columns that contain only numbers are right-aligned."""
    block = next(blocks, [])
    while True:
        are_numeric = [
            bool(block) and all(row[i] is None or isinstance(row[i], int | float) for row in block)
            for i in range(len(columns))
        ]
        names = [f"#{name}" if is_numeric else name for name, is_numeric in zip(columns, are_numeric, strict=True)]
        cells = [[f"{value:g}" if isinstance(value, float) else _raw_text(value) for value in row] for row in block]
        yield render_text([make_table(names, cells)], sys.stdout, is_colored=is_colored)
        block = next(blocks, [])
        if not block:
            return


def _csv_lines(rows: Sequence[SqlRow]) -> str:
    r"""CSV as in RFC 4180, with \n; other control characters as \x1b or \u202e. NULL and an empty text are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(rows)
    return escape_control_chars(text.getvalue())


def _json(columns: Sequence[str], blocks: Iterator[list[SqlRow]]) -> Iterator[str]:
    """One JSON document with one row per line. Repeated column names are numbered: `key`, `key_2`."""
    names = _number_duplicates(columns)
    lines = (
        ",\n".join(json_line(dict(zip(names, map(_json_value, row), strict=True))) for row in block) for block in blocks
    )
    yield from json_list_document({"command": "sql", "columns": names}, "rows", lines)


def _number_duplicates(columns: Sequence[str]) -> list[str]:
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def _raw_text(value: Any) -> str:
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes) else str(value)


def _json_value(value: Any) -> Any:
    """The value as JSON: bytes in hex, infinities as text."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
