"""Histograms as bars of text: at most so many rows, wide enough for 80 columns."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.cli.figures import count

if TYPE_CHECKING:
    from wdsctl.core.stats_histogram import Bin

ROWS = 10
BAR = 32  # letters of the longest bar
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
    width = max(map(len, labels), default=0)
    most = max((row.n for row in shown), default=1)
    for label, row in zip(labels, shown, strict=True):
        yield f"    {label:>{width}}  {bar(row.n / most):<{BAR}}  {count(row.n):>9}"


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


def bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of letters; of whole ones where the output has no such letters. What is there, is seen."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    if not _has_blocks(sys.stdout.encoding):
        return "#" * max(eighths // 8, 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _label(row: Row, said: Callable[[float], str], *, is_whole: bool) -> str:
    if row.high == 0:
        return said(0)
    if not is_whole:
        return f"{said(row.low)} - {said(row.high)}"
    low, high = math.ceil(row.low), math.ceil(row.high) - 1
    return said(low) if low == high else f"{said(low)} - {said(high)}"


def _has_blocks(encoding: str | None) -> bool:
    try:
        _EIGHTHS.encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
