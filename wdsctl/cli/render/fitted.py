"""A table that is never cut: where the terminal is too narrow for its columns, its rows are drawn as lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table

#: Letters of a line that a column of text needs at least: narrower ones are no longer read.
LEAST = 8


class Fitted(Table):
    """Rich cuts columns that are not to be wrapped, so that 12,345 becomes 12, and drops the last ones."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows or self._needed() <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._lists()

    def _needed(self) -> int:
        """Letters of a line that hold every figure as a whole, and of every text enough to read it."""
        gaps = sum(self.padding[1::2]) * (len(self.columns) - 1)
        return sum(map(_least, self.columns)) + gaps

    def _lists(self) -> Iterator[Table | str]:
        """`name  value` of a row, line by line, without what is empty; a blank line between two rows."""
        names = [str(column.header) for column in self.columns]
        for number, row in enumerate(zip_longest(*(column.cells for column in self.columns), fillvalue="")):
            if number:
                yield ""
            drawn = Table.grid(padding=(0, 2, 0, 0))
            drawn.add_column(style="bold", overflow="fold")
            drawn.add_column(overflow="fold")
            for name, cell in zip(names, row, strict=True):
                if cell:
                    drawn.add_row(name, cell)
            yield drawn


def _least(column: Column) -> int:
    widest = max(cell_len(str(cell)) for cell in (column.header, *column.cells))
    return widest if column.no_wrap else min(widest, LEAST)
