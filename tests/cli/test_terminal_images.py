from __future__ import annotations

import io
import zlib
from base64 import b64decode

import pytest
from PIL import Image

from tests.cli.conftest import Stream
from wdsctl.cli.terminal_images import (
    ImageProtocol,
    choose_image_protocol,
    detect_image_protocol,
    iterm_sequence,
    kitty_sequence,
    max_image_size,
    png_file,
    sixel_sequence,
)
from wdsctl.core.media.thumbnail import RgbImage

#: Red, green, blue over white, black, grey.
SMALL = RgbImage(3, 2, bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 128, 128, 128]))
NOISE = RgbImage(100, 90, bytes((i * 7919 >> 3) % 256 for i in range(27_000)))


@pytest.mark.parametrize(
    ("environment", "manner"),
    [
        ({}, "blocks"),
        ({"TERM": "xterm-256color"}, "blocks"),
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"LC_TERMINAL": "iTerm2"}, "iterm"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-sixel"}, "sixel"),
        ({"TERM": "xterm-kitty", "TMUX": "socket,1,0"}, "blocks"),
        ({"TERM": "screen-256color", "TERM_PROGRAM": "iTerm.app"}, "blocks"),
    ],
)
def test_a_terminal_is_known_by_what_it_says_of_itself(environment: dict[str, str], manner: ImageProtocol) -> None:
    assert detect_image_protocol(environment) == manner
    assert choose_image_protocol("auto", Stream(is_terminal=True), is_colored=True, environment=environment) == manner


def test_nothing_is_drawn_into_a_pipe_or_without_colours() -> None:
    for stream, is_colored in ((Stream(), True), (Stream(is_terminal=True), False)):
        assert choose_image_protocol("kitty", stream, is_colored=is_colored, environment={}) == "none"
    assert max_image_size("none", 80) is None
    assert max_image_size("blocks", 40) == (34, 40)


@pytest.mark.parametrize("picture", [SMALL, NOISE])
def test_a_png_is_what_others_read(picture: RgbImage) -> None:
    with Image.open(io.BytesIO(png_file(picture))) as image:
        assert (image.size, image.mode, image.tobytes()) == ((picture.width, picture.height), "RGB", picture.rgb)


def test_kitty_gets_the_pixels_in_pieces_it_takes() -> None:
    pieces = [piece.removeprefix("\x1b_G") for piece in kitty_sequence(NOISE).split("\x1b\\")[:-1]]
    heads, data = zip(*(piece.split(";") for piece in pieces), strict=True)
    assert "s=100,v=90" in heads[0]
    assert [head[-3:] for head in heads[:-1]] == ["m=1"] * (len(heads) - 1)
    assert heads[-1].endswith("m=0")
    assert max(map(len, data)) <= 4096
    assert zlib.decompress(b64decode("".join(data))) == NOISE.rgb


def test_iterm_gets_a_file_with_its_size() -> None:
    head, data = iterm_sequence(SMALL).removeprefix("\x1b]1337;File=").removesuffix("\x07").split(":")
    assert b64decode(data) == png_file(SMALL)
    assert f"size={len(png_file(SMALL))}" in head


def test_sixels_draw_every_pixel_once() -> None:
    body = sixel_sequence(SMALL).removeprefix('\x1bP0;1q"1;1;3;2').removesuffix("\x1b\\")
    strokes = [part for part in body.split("#")[1:] if ";" not in part]
    bits = [[0, 0, 0] for _ in strokes]
    for stroke, row in zip(strokes, bits, strict=True):
        for x, letter in enumerate(stroke.rstrip("$").lstrip("0123456789")):
            row[x] = ord(letter) - 63
    assert [sum(column) for column in zip(*bits, strict=True)] == [3, 3, 3]


def test_a_terminal_without_half_blocks_gets_no_picture_made_of_them() -> None:
    stream = io.TextIOWrapper(Terminal(), "latin-1")
    assert choose_image_protocol("auto", stream, is_colored=True, environment={}) == "none"
    assert choose_image_protocol("blocks", stream, is_colored=True, environment={}) == "none"
    assert choose_image_protocol("sixel", stream, is_colored=True, environment={}) == "sixel"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True
