"""Renders the statistics of `wdsctl inspect --stats`, with histograms as bars of text."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.cli.commands.inspect_samples import view_suffix
from wdsctl.cli.formatting import display_path, escape_line, format_count, format_duration, format_share, format_size
from wdsctl.cli.output import can_encode, terminal_width
from wdsctl.cli.tables import make_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wdsctl.core.inspect.histograms import Bin
    from wdsctl.core.inspect.stats import ContentKindCount, JsonKeySummary, Measure, StatsReport


MAX_HISTOGRAM_ROWS = 10
MAX_BAR_CHARACTERS, MIN_BAR_CHARACTERS = 32, 4  # of the longest bar, on a wide and on a narrow terminal
_EIGHTH_BLOCKS = " ▏▎▍▌▋▊▉"
_BINS_PER_ROW = (1, 2, 4, 8, 16, 32, 64)


class HistogramRow(NamedTuple):
    low: float  # included
    high: float  # not included
    n: int


def histogram_lines(bins: Iterable[Bin], format_value: Callable[[float], str], *, is_integer: bool) -> Iterator[str]:
    """Format one line per row: range, bar, count. `is_integer`: whether all values are whole numbers."""
    shown = merge_bins(list(bins), is_integer=is_integer)
    labels = [_label(row, format_value, is_integer=is_integer) for row in shown]
    counts = [format_count(row.n) for row in shown]
    label_width, count_width = max(map(len, labels), default=0), max(map(len, counts), default=0)
    available = terminal_width(sys.stdout) - len(f"    {'':{label_width}}    {'':{count_width}}")
    bar_width = max(MIN_BAR_CHARACTERS, min(MAX_BAR_CHARACTERS, available))
    most = max((row.n for row in shown), default=1)
    for label, number, row in zip(labels, counts, shown, strict=True):
        yield f"    {label:>{label_width}}  {draw_bar(row.n / most, bar_width):<{bar_width}}  {number:>{count_width}}"


def merge_bins(bins: list[Bin], *, is_integer: bool) -> list[HistogramRow]:
    """Merge neighbouring bins into at most `MAX_HISTOGRAM_ROWS` rows, empty rows between them included."""
    from wdsctl.core.inspect.histograms import BINS_PER_OCTAVE  # imports numpy

    zero = [HistogramRow(0, 0, each.n) for each in bins if each.low == 0]
    counts = {round(math.log2(each.low) * BINS_PER_OCTAVE): each.n for each in bins if each.low > 0}
    if not counts:
        return zero
    first, last = min(counts), max(counts)
    group = next(
        size for size in _BINS_PER_ROW if last // size - first // size < MAX_HISTOGRAM_ROWS or size == _BINS_PER_ROW[-1]
    )
    rows = [
        HistogramRow(
            2 ** (k * group / BINS_PER_OCTAVE),
            2 ** ((k + 1) * group / BINS_PER_OCTAVE),
            sum(counts.get(i, 0) for i in range(k * group, (k + 1) * group)),
        )
        for k in range(first // group, last // group + 1)
    ]
    # [2, 2.4) contains one integer, [2.4, 2.8) none.
    return zero + [row for row in rows if not is_integer or math.ceil(row.low) < row.high]


def draw_bar(share: float, width: int) -> str:
    """Draw a bar in eighths of a character, or in `#` if stdout cannot encode them. Any share above 0 is visible."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    if not can_encode(sys.stdout, _EIGHTH_BLOCKS):
        return "#" * max(eighths // 8, 1 if share > 0 else 0)
    return "█" * (eighths // 8) + _EIGHTH_BLOCKS[eighths % 8].strip()


def _label(row: HistogramRow, format_value: Callable[[float], str], *, is_integer: bool) -> str:
    if row.high == 0:
        return format_value(0)
    if not is_integer:
        return f"{format_value(row.low)} - {format_value(row.high)}"
    low, high = math.ceil(row.low), math.ceil(row.high) - 1
    return format_value(low) if low == high else f"{format_value(low)} - {format_value(high)}"


#: JSON keys, and kinds of content per part, that are shown; --json has all.
KEYS_SHOWN, KINDS_SHOWN = 40, 12
_TITLES = {
    "bytes": "bytes",
    "parts": "parts",
    "width": "width, pixels",
    "height": "height, pixels",
    "seconds": "duration",
}


def render_stats(report: StatsReport) -> Iterator[RenderableType]:
    split = f" in split {escape_line(report.split)}" if report.split is not None else ""
    yield f"{display_path(report.root)}{view_suffix(report.view)}: {format_count(report.samples, 'sample')}{split}"
    read = f"{format_count(report.read, 'sample')} ({format_size(report.read_bytes)})"
    yield f"  contents: of {read} that were read, drawn by seed {report.seed}"
    for measure in report.measures:
        yield ""
        yield from _measure(measure)
    if report.kinds:
        yield ""
        yield _kinds(report.kinds)
    if report.keys:
        yield ""
        yield from _keys(report)
    for reason, count in report.failed.items():
        yield f"{format_count(count, 'part')} could not be read: {escape_line(reason)}"


def _measure(measure: Measure) -> Iterator[str]:
    format_value = _VALUE_FORMATTERS.get(measure.what, _format_count)
    name = f"{escape_line(measure.part)}: " if measure.part else "sample: "
    origin = "all" if measure.of == "catalog" else "of those read"
    yield f"{name}{_TITLES.get(measure.what, measure.what)} ({format_count(measure.count)}, {origin})"
    if measure.min == measure.max:
        yield f"  each {format_value(measure.min)}"
        return
    mean = f"{measure.mean:,.1f}" if measure.what not in _VALUE_FORMATTERS else format_value(measure.mean)
    total = f", total {format_value(measure.total)}" if measure.what in ("bytes", "seconds") else ""
    about = "" if measure.exact else "~"
    span = f"{format_value(measure.min)} to {format_value(measure.max)}, median {about}{format_value(measure.p50)}"
    yield f"  {span}, mean {mean}, p99 {about}{format_value(measure.p99)}{total}"
    yield from histogram_lines(measure.bins, format_value, is_integer=measure.what != "seconds")


def _bytes(value: float) -> str:
    return format_size(round(value))


def _seconds(value: float) -> str:
    return format_duration(value) if value >= 10 else f"{value:.2g} s"


def _format_count(value: float) -> str:
    return format_count(round(value))


_VALUE_FORMATTERS: dict[str, Callable[[float], str]] = {"bytes": _bytes, "seconds": _seconds}


def _kinds(kinds: Sequence[ContentKindCount]) -> Table:
    rows = []
    for part, group in groupby(kinds, key=lambda kind: kind.part):
        part_kinds = list(group)
        total = sum(kind.count for kind in part_kinds)
        rows += [
            (
                kind.part,
                kind.what,
                format_count(kind.count),
                format_share(kind.count / total),
                "all" if kind.of == "catalog" else "read",
            )
            for kind in part_kinds[:KINDS_SHOWN]
        ]
        if len(part_kinds) > KINDS_SHOWN:
            rows.append((part, f"... and {format_count(len(part_kinds) - KINDS_SHOWN)} more", "", "", ""))
    return make_table(("part", "what", "#count", "#share", "of"), rows)


def _keys(report: StatsReport) -> Iterator[RenderableType]:
    shown = report.keys[:KEYS_SHOWN]
    yield make_table(
        ("part", "key", "#share", "types", "#length", "#range"),
        [(key.part, key.path, format_share(key.share), _types(key), _lengths(key), _range(key)) for key in shown],
    )
    if len(shown) < len(report.keys):
        yield f"... and {format_count(len(report.keys) - len(shown), 'more key')} (--json lists them)"
    if report.keys_left_out:
        values = format_count(report.keys_left_out, "value")
        yield f"there are too many keys, which may be data: {values} under other keys were not counted"


def _types(key: JsonKeySummary) -> str:
    return (
        ", ".join(key.types)
        if len(key.types) == 1
        else ", ".join(f"{t} ({format_count(n)})" for t, n in key.types.items())
    )


def _lengths(key: JsonKeySummary) -> str:
    if key.length_min is None or key.length_max is None or key.length_p50 is None:
        return ""
    if key.length_min == key.length_max:
        return format_count(round(key.length_min))
    about = "" if key.length_exact else "~"
    return (
        f"{format_count(round(key.length_min))}-{format_count(round(key.length_max))} "
        f"({about}{format_count(round(key.length_p50))})"
    )


def _range(key: JsonKeySummary) -> str:
    if key.min is None or key.max is None:
        return ""
    return _format_number(key.min) if key.min == key.max else f"{_format_number(key.min)} to {_format_number(key.max)}"


def _format_number(number: float) -> str:
    """Format a number. JSON may have integers that no float can hold."""
    return f"{number:.6g}" if abs(number) < 1e300 else f"{'-' if number < 0 else ''}1e300 and more"
