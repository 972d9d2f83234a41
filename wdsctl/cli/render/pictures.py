"""Pictures in a terminal: by its own protocol where the environment names one, else by coloured half-blocks.

Kitty's graphics protocol: https://sw.kovidgoyal.net/kitty/graphics-protocol/. iTerm2's inline images:
https://iterm2.com/documentation-images.html. Sixel: DEC's VT330/VT340 programmer reference, chapter 14. The terminal is
never asked: an answer that does not come would hang, and one that comes late would be typed into the shell.
"""

from __future__ import annotations

import os
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

from wdsctl.cli.output import can_write

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from wdsctl.core.media.thumbnail import Picture

Manner = Literal["blocks", "kitty", "iterm", "sixel", "none"]
Asked = Literal["auto", "blocks", "kitty", "iterm", "sixel", "none"]

HALF = "▀"  # the upper half of a cell
COLUMNS, ROWS = 60, 20  # of the terminal, at most
CELL = (10, 20)  # pixels of a cell where the terminal has pixels: what most fonts come near to
_CHUNK = 4096  # bytes of base64 that Kitty's protocol takes in one go
_INDENT = 4


def manner_of(asked: Asked, stream: TextIO, *, is_colored: bool, environment: Mapping[str, str] = os.environ) -> Manner:
    """How to draw on this stream: nothing where it is no terminal, or shows no colours."""
    if asked == "none" or not stream.isatty() or not is_colored:
        return "none"
    manner = detected(environment) if asked == "auto" else asked
    return "none" if manner == "blocks" and not can_write(stream, HALF) else manner


def detected(environment: Mapping[str, str]) -> Manner:
    """By what terminals say of themselves. Multiplexers pass pictures on only where they are told to: blocks there."""
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


def largest(manner: Manner, columns: int) -> tuple[int, int] | None:
    """(width, height) of the pictures that are wanted, in pixels; None for none."""
    room = max(8, min(COLUMNS, columns - _INDENT - 2))
    if manner == "none":
        return None
    return (room, 2 * ROWS) if manner == "blocks" else (room * CELL[0], ROWS * CELL[1])


def drawing(picture: Picture, manner: Manner) -> RenderableType:
    """What to print for a picture. Blocks are text with colours; the others bytes that only their terminal reads."""
    if manner == "blocks":
        return blocks(picture)
    made = {"kitty": kitty, "iterm": iterm, "sixel": sixel}[manner](picture)
    return Raw(" " * _INDENT + made)


def blocks(picture: Picture) -> RenderableType:
    """Two pixels a cell: the upper half's colour is that of the letter, the lower half's that of the background."""
    from rich.text import Text

    text = Text(no_wrap=True)
    width, rgb = picture.width, picture.rgb
    for y in range(0, picture.height, 2):
        text.append(" " * _INDENT)
        for x in range(width):
            above, below = 3 * (y * width + x), 3 * ((y + 1) * width + x)
            upper = _hex(rgb[above : above + 3])
            lower = f" on {_hex(rgb[below : below + 3])}" if y + 1 < picture.height else ""
            text.append(HALF, f"{upper}{lower}")
        if y + 2 < picture.height:
            text.append("\n")
    return text


def kitty(picture: Picture) -> str:
    """Compressed RGB, in pieces, with its size in cells."""
    data = b64encode(zlib.compress(picture.rgb)).decode()
    columns, rows = _cells(picture)
    head = f"a=T,q=2,f=24,o=z,s={picture.width},v={picture.height},c={columns},r={rows},"
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [""]
    return "".join(
        f"\x1b_G{head if i == 0 else ''}m={int(i + 1 < len(pieces))};{piece}\x1b\\" for i, piece in enumerate(pieces)
    )


def iterm(picture: Picture) -> str:
    """An inline file: a PNG."""
    file = png(picture)
    columns, rows = _cells(picture)
    options = f"inline=1;size={len(file)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;File={options}:{b64encode(file).decode()}\x07"


def png(picture: Picture) -> bytes:
    """The picture as a file (https://www.w3.org/TR/png-3/)."""
    stride = 3 * picture.width
    rows = b"".join(b"\0" + picture.rgb[at : at + stride] for at in range(0, stride * picture.height, stride))
    header = struct.pack(">IIBBBBB", picture.width, picture.height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def sixel(picture: Picture) -> str:
    """In 216 colours, six steps of each, six rows of pixels at a time."""
    width = picture.width
    colors = [
        36 * _step(picture.rgb[i]) + 6 * _step(picture.rgb[i + 1]) + _step(picture.rgb[i + 2])
        for i in range(0, 3 * width * picture.height, 3)
    ]
    palette = "".join(f"#{c};2;{20 * (c // 36)};{20 * (c // 6 % 6)};{20 * (c % 6)}" for c in sorted(set(colors)))
    bands = "-".join(
        _band([colors[y * width : (y + 1) * width] for y in range(top, min(top + 6, picture.height))])
        for top in range(0, picture.height, 6)
    )
    return f'\x1bP0;1q"1;1;{width};{picture.height}{palette}{bands}\x1b\\'


def _band(rows: list[list[int]]) -> str:
    """One line of cells of six pixels: each colour draws over the whole line in its turn."""
    drawn = []
    for color in sorted({each for row in rows for each in row}):
        bits = bytes(63 + sum(1 << i for i, row in enumerate(rows) if row[x] == color) for x in range(len(rows[0])))
        drawn.append(f"#{color}{_shortened(bits.decode())}")
    return "$".join(drawn)


def _shortened(line: str) -> str:
    """Repetitions as `!N`."""
    made = []
    at = 0
    while at < len(line):
        end = at + 1
        while end < len(line) and line[end] == line[at]:
            end += 1
        made.append(f"!{end - at}{line[at]}" if end - at > 3 else line[at:end])
        at = end
    return "".join(made)


@dataclass(frozen=True, slots=True)
class Raw:
    """A sequence for the terminal, which takes no room in the text and is never wrapped or cut."""

    sequence: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        return self._segments()

    def _segments(self) -> Iterator[Segment]:
        from rich.segment import ControlType, Segment

        yield Segment(self.sequence, None, [(ControlType.CURSOR_FORWARD, 0)])
        yield Segment.line()


def _cells(picture: Picture) -> tuple[int, int]:
    return max(1, round(picture.width / CELL[0])), max(1, round(picture.height / CELL[1]))


def _step(value: int) -> int:
    return (value * 5 + 127) // 255


def _hex(rgb: bytes) -> str:
    return f"#{rgb.hex()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
