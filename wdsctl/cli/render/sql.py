"""The rows of a query as a table, CSV, lines with tabs, or one JSON document: a piece at a time, however many."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from wdsctl.cli.figures import count
from wdsctl.cli.output import drawn, has_color, in_json, listed
from wdsctl.cli.render.pieces import table
from wdsctl.core.printable import harmless

if TYPE_CHECKING:
    from wdsctl.core.verbs.sql import Answer

BLOCK = 500  # rows that are drawn or written together
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

Row = Sequence[Any]


def pieces(
    answer: Answer, form: str, *, limit: int = 0, no_color: bool = False, say: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """The text of an answer. `limit`: rows, 0 for all; `say` is told where there were more."""
    blocks = _blocks(answer.rows, limit, say)
    if form == "json":
        yield from _json(answer.columns, blocks)
    elif form == "csv":
        yield from _csv(answer.columns, blocks)
    elif form == "tsv":
        yield from _tsv(answer.columns, blocks)
    else:
        yield from _tables(answer.columns, blocks, is_colored=has_color(sys.stdout, no_color))


def _blocks(rows: Iterator[Row], limit: int, say: Callable[[str], None]) -> Iterator[list[Row]]:
    left = limit or sys.maxsize
    while left and (block := list(islice(rows, min(BLOCK, left)))):
        left -= len(block)
        yield block
    if limit and not left and next(rows, None) is not None:
        say(f"note: there are more than {count(limit, 'row')}")


def _tables(columns: Sequence[str], blocks: Iterator[list[Row]], *, is_colored: bool) -> Iterator[str]:
    """A table a block, each as wide as it needs to be. Columns that hold numbers alone are figures."""
    block = next(blocks, [])
    while True:
        are_figures = [bool(block) and all(_is_figure(row[i]) for row in block) for i in range(len(columns))]
        names = [f"#{name}" if is_figure else name for name, is_figure in zip(columns, are_figures, strict=True)]
        yield drawn(
            [table(names, [[_cell(value) for value in row] for row in block])], sys.stdout, is_colored=is_colored
        )
        block = next(blocks, [])
        if not block:
            return


def _csv(columns: Sequence[str], blocks: Iterator[list[Row]]) -> Iterator[str]:
    r"""As RFC 4180 has it, with the line ends of this system; other controls are \x1b and \u202e. NULL is nothing,
    text that is empty is ""."""
    yield _csv_lines([columns])
    for block in blocks:
        yield _csv_lines([[_bare(value) for value in row] for row in block])


def _csv_lines(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(rows)
    return harmless(text.getvalue())


def _tsv(columns: Sequence[str], blocks: Iterator[list[Row]]) -> Iterator[str]:
    r"""Tabs and line ends in text are \t, \n and \r, controls \x1b and \u202e, a backslash is two; NULL is nothing."""
    yield _tsv_lines([columns])
    for block in blocks:
        yield _tsv_lines(block)


def _tsv_lines(rows: Sequence[Row]) -> str:
    return harmless("".join("\t".join(_bare(value).translate(_ESCAPES) for value in row) + "\n" for row in rows))


def _json(columns: Sequence[str], blocks: Iterator[list[Row]]) -> Iterator[str]:
    """One document, a row a line. Columns of one name are numbered: `key`, `key_2`."""
    names = _told_apart(columns)
    lines = (",\n".join(in_json(dict(zip(names, map(_plain, row), strict=True))) for row in block) for block in blocks)
    yield from listed({"command": "sql", "columns": names}, "rows", lines)


def _told_apart(columns: Sequence[str]) -> list[str]:
    names: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def _is_figure(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else _bare(value)


def _bare(value: Any) -> str:
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """What JSON has: bytes in hex; infinities, which it has not, as text."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
