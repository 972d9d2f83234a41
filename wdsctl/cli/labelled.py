"""Lines of a label and a text, which are drawn by Rich on a terminal and need no drawing elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_LONG = 10_000  # letters from which on Rich may break a text even where nothing bounds it


@dataclass(frozen=True, slots=True)
class Labelled:
    """`label  text`, where the text wraps below itself. `gap`: blanks behind the longest label."""

    rows: Sequence[tuple[str, RenderableType]]
    gap: int

    def __rich__(self) -> Table:
        from rich.table import Table

        grid = Table.grid(padding=(0, self.gap, 0, 0))
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for label, text in self.rows:
            grid.add_row(f"  {label}", text)
        return grid

    def lines(self) -> list[str] | None:
        """The same where nothing is coloured and no line too long; None where only Rich can tell."""
        width = max((len(label) for label, _ in self.rows), default=0) + self.gap
        made: list[str] = []
        for label, text in self.rows:
            if not isinstance(text, str) or len(text) > _LONG or not (label.isascii() and text.isprintable()):
                return None
            made.append(f"  {label:{width}}{text}")
        return made or None
