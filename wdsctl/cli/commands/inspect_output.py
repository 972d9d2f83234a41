"""Renders samples and statistics of `wdsctl inspect`. Control characters in samples never reach the terminal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from wdsctl.cli.formatting import (
    display_path,
    escape_line,
    format_count,
    format_duration,
    format_share,
    format_size,
    relative_paths,
    view_suffix,
)
from wdsctl.cli.output import can_encode, terminal_width
from wdsctl.cli.tables import PARTS_SHOWN, make_table, more_parts
from wdsctl.cli.terminal_images import ImageProtocol, render_image
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.media.facts import Unreadable, describe_facts

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from wdsctl.core.inspect.histograms import Bin
    from wdsctl.core.inspect.samples import SamplesReport, SampleView, Thumbnails
    from wdsctl.core.inspect.stats import ContentKindCount, JsonKeySummary, Measure, StatsReport
    from wdsctl.core.samples.array_facts import ArrayFacts
    from wdsctl.core.samples.preview import InspectedPart


#: Lines and characters of a text or JSON that are shown; `wdsctl get` writes all.
MAX_TEXT_LINES, MAX_TEXT_CHARACTERS = 40, 3_000
_HEX_BYTES_PER_LINE = 16
_NUMBER_LIST = re.compile(r"\[\n([^\[\]{}\"]*)\n *\]")


def samples_renderer(
    images: Thumbnails, protocol: ImageProtocol
) -> Callable[[SamplesReport], Iterator[RenderableType]]:
    """A renderer for reports that draws images with this protocol."""

    def render(report: SamplesReport) -> Iterator[RenderableType]:
        yield f"{display_path(report.root)}{view_suffix(report.view)}: {_describe_choice(report)}"
        for number, sample in enumerate(report.shown):
            yield ""
            yield from _SampleView(report.root, sample, number, images, protocol).lines()

    return render


def _describe_choice(report: SamplesReport) -> str:
    split = f" in split {escape_line(report.split)}" if report.split is not None else ""
    shown = format_count(len(report.shown))
    if report.how == "key":
        return f"{format_count(len(report.shown), 'sample')} with this key"
    if report.how == "random":
        return f"{shown} of {format_count(report.samples, 'sample')}{split}, drawn by seed {report.seed}"
    return f"the first {shown} of {format_count(report.samples, 'sample')}{split}"


@dataclass(frozen=True, slots=True)
class _SampleView:
    root: str
    sample: SampleView
    number: int
    images: Thumbnails
    protocol: ImageProtocol

    def lines(self) -> Iterator[RenderableType]:
        yield self._head()
        for i, part in enumerate(self.sample.parts[:PARTS_SHOWN]):
            yield self._label(part)
            thumbnail = self.images.get((self.number, i))
            if isinstance(thumbnail, Unreadable):
                yield f"    no thumbnail: {thumbnail.reason}"
            elif thumbnail is not None:
                yield render_image(thumbnail, self.protocol)
            yield from self._content(part)
        yield from more_parts(len(self.sample.parts))

    def _head(self) -> Text:
        from rich.text import Text

        sample = self.sample
        splits = f", {', '.join(map(escape_line, sample.splits))}" if sample.splits else ""
        where = (
            ""
            if sample.shard == sample.key
            else f"  in {escape_line(sample.shard)}, position {format_count(sample.position)}"
        )
        return Text.assemble(
            (escape_line(sample.key), "bold"), f"{where}{splits}, {format_size(sample.size_bytes)}", no_wrap=False
        )

    def _label(self, part: InspectedPart) -> Text:
        from rich.text import Text

        summary = "  ".join(filter(None, (format_size(part.size_bytes), escape_line(_part_summary(part)))))
        return Text.assemble("  ", (escape_line(part.name), "bold"), f"  {summary}")

    def _content(self, part: InspectedPart) -> Iterator[RenderableType]:
        if part.has_value:
            yield from self._text(part, pretty_json(part.value), is_json=True)
        elif part.text is not None:
            yield from self._text(part, part.text)
        elif part.head_hex:
            yield from (f"    {line}" for line in hex_lines(bytes.fromhex(part.head_hex)))

    def _text(self, part: InspectedPart, text: str, *, is_json: bool = False) -> Iterator[RenderableType]:
        from rich.highlighter import JSONHighlighter
        from rich.padding import Padding
        from rich.text import Text

        shown = shorten_text(text)
        rendered = Text(escape_controls(shown), overflow="fold")
        if is_json:
            JSONHighlighter().highlight(rendered)
        if shown.strip():
            yield Padding(rendered, (0, 0, 0, 4), expand=False)
        if len(shown) < len(text) or part.is_cut:
            more = f"{format_count(len(text) - len(shown), 'more character')}" if not part.is_cut else "more"
            get_all = shell_command("get", self.root, "--part", part.name, operands=[self.sample.key])
            yield f"    ... {more} ({relative_paths(escape_line(get_all))})"


def _part_summary(part: InspectedPart) -> str:
    """A one-line summary of a part; empty if its content is shown."""
    if part.problem:
        return f"cannot be read: {part.problem}"
    if isinstance(part.facts, Unreadable):
        return f"{part.format or part.kind}: {part.facts.reason}"
    if part.facts is not None:
        return describe_facts(part.facts)
    if part.array is not None:
        return describe_array(part.array)
    if part.kind in ("text", "integer", "number", "json"):
        return ""
    return f"{part.kind}, {part.format}" if part.format not in ("", part.kind) else part.kind


def describe_array(array: ArrayFacts) -> str:
    """`float32 3 x 224 x 224, -1.5 to 2.25, mean 0.31`."""
    shape = " x ".join(map(format_count, array.shape)) or "one number"
    facts = [f"{array.dtype} {shape}"]
    if array.min is not None and array.max is not None and array.mean is not None:
        facts += [f"{array.min:.6g} to {array.max:.6g}", f"mean {array.mean:.6g}"]
    if array.odd:
        facts.append(f"{format_count(array.odd)} not finite")
    return ", ".join(facts)


def pretty_json(value: object) -> str:
    """Indented JSON, with lists of numbers on one line. JSON strings have no line ends that the pattern could match."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _NUMBER_LIST.sub(lambda match: f"[{' '.join(match[1].split())}]", text)


def shorten_text(text: str) -> str:
    """The first lines of a text, up to `MAX_TEXT_CHARACTERS`."""
    return "\n".join(text[:MAX_TEXT_CHARACTERS].split("\n")[:MAX_TEXT_LINES])


def escape_controls(text: str) -> str:
    r"""Replace tabs by blanks, and escape control characters other than line ends, as in `\x1b`."""
    expanded = text.replace("\r\n", "\n").expandtabs(4).rstrip("\n")
    return "".join(
        char if char.isprintable() or char in _HARMLESS_CHARACTERS else escape_line(char) for char in expanded
    )


#: Not printable for Python, but harmless in a terminal: line ends, other blanks, and joiners of scripts and emojis.
_HARMLESS_CHARACTERS = frozenset("\n\u00a0\u3000\u2009\u202f\u200c\u200d")


def hex_lines(data: bytes) -> Iterator[str]:
    """Lines of bytes in hex and ASCII, like those of `xxd`."""
    for at in range(0, len(data), _HEX_BYTES_PER_LINE):
        piece = data[at : at + _HEX_BYTES_PER_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{at:02x}  {piece.hex(' '):<{3 * _HEX_BYTES_PER_LINE - 1}}  {letters}"


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
    names = chain((measure.part for measure in report.measures), (kind.part for kind in report.kinds))
    parts = dict.fromkeys(filter(None, names))
    shown = {"", *islice(parts, PARTS_SHOWN)}
    for measure in report.measures:
        if measure.part in shown:
            yield ""
            yield from _measure(measure)
    if report.kinds:
        yield ""
        yield _kinds([kind for kind in report.kinds if kind.part in shown])
    yield from more_parts(len(parts))
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
        yield f"too many different keys, so the counts lack {values} of other keys"


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
