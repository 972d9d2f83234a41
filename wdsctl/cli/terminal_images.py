"""Draw images in the terminal, by its own protocol if environment variables name one, else as coloured half-blocks.

The terminal is never queried: without a reply, wdsctl would hang, and a late reply would be typed into the shell.

Kitty's graphics protocol: https://sw.kovidgoyal.net/kitty/graphics-protocol/. iTerm2's inline images:
https://iterm2.com/documentation-images.html. Sixel: DEC's VT330/VT340 programmer reference, chapter 14.
"""

from __future__ import annotations

import os
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TextIO

from wdsctl.cli.output import can_encode
from wdsctl.core.media.png import encode_png

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from wdsctl.core.media.thumbnail import RgbImage


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
    file = encode_png(image.width, image.height, "RGB", image.rgb)
    columns, rows = _cells(image)
    options = f"inline=1;size={len(file)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={options}:{b64encode(file).decode()}\x07"


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
