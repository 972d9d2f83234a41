"""Histograms as bars of text: at most so many rows, as wide as 80 columns hold, or as the terminal is."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.cli.figures import count
from wdsctl.cli.output import can_write, width

if TYPE_CHECKING:
    from wdsctl.core.stats_histogram import Bin

ROWS = 10
BAR, LEAST_BAR = 32, 4  # letters of the longest bar, and where there is no room for it
_EIGHTHS = " ▏▎▍▌▋▊▉"
_OCTAVE = 4  # bins of the histogram
_GROUPS = (1, 2, 4, 8, 16, 32, 64)


class Row(NamedTuple):
    low: float  # included
    high: float  # not included
    n: int


def lines(bins: Iterable[Bin], said: Callable[[float], str], *, is_whole: bool) -> Iterator[str]:
    """A line a row: its range, a bar, its count. `said`: a number in words. `is_whole`: of whole numbers alone."""
    shown = rows(list(bins), is_whole=is_whole)
    labels = [_label(row, said, is_whole=is_whole) for row in shown]
    counts = [count(row.n) for row in shown]
    label_width, count_width = max(map(len, labels), default=0), max(map(len, counts), default=0)
    room = width(sys.stdout) - len(f"    {'':{label_width}}    {'':{count_width}}")
    bar_width = max(LEAST_BAR, min(BAR, room))
    most = max((row.n for row in shown), default=1)
    for label, number, row in zip(labels, counts, shown, strict=True):
        yield f"    {label:>{label_width}}  {bar(row.n / most, bar_width):<{bar_width}}  {number:>{count_width}}"


def rows(bins: list[Bin], *, is_whole: bool) -> list[Row]:
    """Neighbouring bins put together until there are few; empty ones in between are there, too."""
    zero = [Row(0, 0, each.n) for each in bins if each.low == 0]
    places = {round(math.log2(each.low) * _OCTAVE): each.n for each in bins if each.low > 0}
    if not places:
        return zero
    first, last = min(places), max(places)
    group = next(size for size in _GROUPS if last // size - first // size < ROWS or size == _GROUPS[-1])
    made = [
        Row(
            2 ** (k * group / _OCTAVE),
            2 ** ((k + 1) * group / _OCTAVE),
            sum(places.get(i, 0) for i in range(k * group, (k + 1) * group)),
        )
        for k in range(first // group, last // group + 1)
    ]
    # Between 2 and 2.4 there is one whole number, between 2.4 and 2.8 there is none.
    return zero + [row for row in made if not is_whole or math.ceil(row.low) < row.high]


def bar(share: float, letters: int) -> str:
    """A bar of eighths of letters; of whole ones where the output has no such letters. What is there, is seen."""
    eighths = max(round(share * letters * 8), 1 if share > 0 else 0)
    if not can_write(sys.stdout, _EIGHTHS):
        return "#" * max(eighths // 8, 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _label(row: Row, said: Callable[[float], str], *, is_whole: bool) -> str:
    if row.high == 0:
        return said(0)
    if not is_whole:
        return f"{said(row.low)} - {said(row.high)}"
    low, high = math.ceil(row.low), math.ceil(row.high) - 1
    return said(low) if low == high else f"{said(low)} - {said(high)}"
