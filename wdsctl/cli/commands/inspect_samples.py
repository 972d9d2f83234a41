"""Renders samples for people: texts, JSON, arrays, and images in the terminal.

Control characters in samples never reach the terminal. Images use the terminal's own protocol if environment variables
name one, else coloured half-blocks. The terminal is never queried: without a reply, wdsctl would hang, and a late reply
would be typed into the shell.

Kitty's graphics protocol: https://sw.kovidgoyal.net/kitty/graphics-protocol/. iTerm2's inline images:
https://iterm2.com/documentation-images.html. Sixel: DEC's VT330/VT340 programmer reference, chapter 14.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TextIO

from wdsctl.cli.formatting import display_path, escape_line, format_count, format_size, relative_paths
from wdsctl.cli.output import can_encode
from wdsctl.core.dataset.location import shell_command
from wdsctl.core.media.facts import Unreadable, describe_facts

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    from wdsctl.core.inspect.samples import SamplesReport, SampleView, Thumbnails
    from wdsctl.core.media.thumbnail import RgbImage
    from wdsctl.core.samples.preview import ArrayFacts, InspectedPart


ImageProtocol = Literal["blocks", "kitty", "iterm", "sixel", "none"]
ImagesChoice = Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]

UPPER_HALF_BLOCK = "▀"  # the upper half of a cell
MAX_IMAGE_COLUMNS, MAX_IMAGE_ROWS = 60, 20  # of the terminal
CELL_PIXELS = (10, 20)  # width and height of a cell with most fonts
_KITTY_CHUNK_BYTES = 4096  # of base64, the maximum of Kitty's protocol
_INDENT_COLUMNS = 4


def choose_image_protocol(
    choice: ImagesChoice, stream: TextIO, *, is_colored: bool, environment: Mapping[str, str] = os.environ
) -> ImageProtocol:
    """Choose how to draw images: "none" if the stream is not a terminal with colours."""
    if choice == "none" or not stream.isatty() or not is_colored:
        return "none"
    protocol = detect_image_protocol(environment) if choice == "auto" else choice
    return "none" if protocol == "blocks" and not can_encode(stream, UPPER_HALF_BLOCK) else protocol


def detect_image_protocol(environment: Mapping[str, str]) -> ImageProtocol:
    """Detect the terminal's protocol by its environment variables. Multiplexers do not pass images on by default."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or environment.get("STY") or term.startswith(("screen", "tmux")):
        return "blocks"
    if environment.get("KITTY_WINDOW_ID") or term == "xterm-kitty" or program == "ghostty" or term == "xterm-ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    if "sixel" in term or term in ("foot", "mlterm", "contour", "yaft-256color") or term.startswith("foot-"):
        return "sixel"
    return "blocks"


def max_image_size(protocol: ImageProtocol, columns: int) -> tuple[int, int] | None:
    """(width, height) of thumbnails in pixels; None for no thumbnails."""
    if protocol == "none":
        return None
    width = max(8, min(MAX_IMAGE_COLUMNS, columns - _INDENT_COLUMNS - 2))
    if protocol == "blocks":
        return width, 2 * MAX_IMAGE_ROWS
    return width * CELL_PIXELS[0], MAX_IMAGE_ROWS * CELL_PIXELS[1]


def render_image(image: RgbImage, protocol: ImageProtocol) -> RenderableType:
    """Render an image as coloured text, or as the control sequence of a protocol."""
    if protocol == "blocks":
        return render_blocks(image)
    sequence = {"kitty": kitty_sequence, "iterm": iterm_sequence, "sixel": sixel_sequence}[protocol](image)
    return ControlSequence(" " * _INDENT_COLUMNS + sequence)


def render_blocks(image: RgbImage) -> RenderableType:
    """Two pixels per cell: the upper one in the foreground colour, the lower one in the background colour."""
    from rich.text import Text

    text = Text(no_wrap=True)
    width, rgb = image.width, image.rgb
    for y in range(0, image.height, 2):
        text.append(" " * _INDENT_COLUMNS)
        for x in range(width):
            above, below = 3 * (y * width + x), 3 * ((y + 1) * width + x)
            upper = _hex(rgb[above : above + 3])
            lower = f" on {_hex(rgb[below : below + 3])}" if y + 1 < image.height else ""
            text.append(UPPER_HALF_BLOCK, f"{upper}{lower}")
        if y + 2 < image.height:
            text.append("\n")
    return text


def kitty_sequence(image: RgbImage) -> str:
    """Compressed RGB in chunks, with its size in cells."""
    data = b64encode(zlib.compress(image.rgb)).decode()
    columns, rows = _cells(image)
    head = f"a=T,q=2,f=24,o=z,s={image.width},v={image.height},c={columns},r={rows},"
    chunks = [data[i : i + _KITTY_CHUNK_BYTES] for i in range(0, len(data), _KITTY_CHUNK_BYTES)] or [""]
    return "".join(
        f"\x1b_G{head if i == 0 else ''}m={int(i + 1 < len(chunks))};{chunk}\x1b\\" for i, chunk in enumerate(chunks)
    )


def iterm_sequence(image: RgbImage) -> str:
    """An inline PNG file."""
    file = png_file(image)
    columns, rows = _cells(image)
    options = f"inline=1;size={len(file)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={options}:{b64encode(file).decode()}\x07"


def png_file(image: RgbImage) -> bytes:
    """The image as a PNG file (https://www.w3.org/TR/png-3/)."""
    stride = 3 * image.width
    rows = b"".join(b"\0" + image.rgb[at : at + stride] for at in range(0, stride * image.height, stride))
    header = struct.pack(">IIBBBBB", image.width, image.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def sixel_sequence(image: RgbImage) -> str:
    """216 colours, six levels of each channel, in bands of six rows of pixels."""
    width = image.width
    colors = [
        36 * _step(image.rgb[i]) + 6 * _step(image.rgb[i + 1]) + _step(image.rgb[i + 2])
        for i in range(0, 3 * width * image.height, 3)
    ]
    palette = "".join(f"#{c};2;{20 * (c // 36)};{20 * (c // 6 % 6)};{20 * (c % 6)}" for c in sorted(set(colors)))
    bands = "-".join(
        _sixel_band([colors[y * width : (y + 1) * width] for y in range(top, min(top + 6, image.height))])
        for top in range(0, image.height, 6)
    )
    return f'\x1bP0;1q"1;1;{width};{image.height}{palette}{bands}\x1b\\'


def _sixel_band(rows: list[list[int]]) -> str:
    """A band of six rows of pixels, drawn once per colour."""
    drawn = []
    for color in sorted({each for row in rows for each in row}):
        bits = bytes(63 + sum(1 << i for i, row in enumerate(rows) if row[x] == color) for x in range(len(rows[0])))
        drawn.append(f"#{color}{_run_length_encode(bits.decode())}")
    return "$".join(drawn)


def _run_length_encode(line: str) -> str:
    """Encode more than three equal characters as `!N`."""
    runs = ["".join(group) for _, group in groupby(line)]
    return "".join(f"!{len(run)}{run[0]}" if len(run) > 3 else run for run in runs)


@dataclass(frozen=True, slots=True)
class ControlSequence:
    """A control sequence for the terminal, of width zero, which is never wrapped or cut."""

    sequence: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        return self._segments()

    def _segments(self) -> Iterator[Segment]:
        from rich.segment import ControlType, Segment

        yield Segment(self.sequence, None, [(ControlType.CURSOR_FORWARD, 0)])
        yield Segment.line()


def _cells(image: RgbImage) -> tuple[int, int]:
    return max(1, round(image.width / CELL_PIXELS[0])), max(1, round(image.height / CELL_PIXELS[1]))


def _step(value: int) -> int:
    return (value * 5 + 127) // 255


def _hex(rgb: bytes) -> str:
    return f"#{rgb.hex()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


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


def view_suffix(view: str) -> str:
    """`@NAME`, or empty."""
    return f"@{escape_line(view)}" if view else ""


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
        for i, part in enumerate(self.sample.parts):
            yield self._label(part)
            thumbnail = self.images.get((self.number, i))
            if isinstance(thumbnail, Unreadable):
                yield f"    no thumbnail: {thumbnail.reason}"
            elif thumbnail is not None:
                yield render_image(thumbnail, self.protocol)
            yield from self._content(part)

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
            get_all = shell_command("get", self.root, self.sample.key, "--part", part.name)
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
