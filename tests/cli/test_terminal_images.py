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
    sixel_sequence,
)
from wdsctl.core.media.png import encode_png
from wdsctl.core.media.thumbnail import RgbImage

#: Red, green, blue over white, black, grey.
SMALL = RgbImage(3, 2, bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 128, 128, 128]))
NOISE = RgbImage(100, 90, bytes((i * 7919 >> 3) % 256 for i in range(27_000)))


@pytest.mark.parametrize(
    ("environment", "protocol"),
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
def test_detect_image_protocol_reads_environment(environment: dict[str, str], protocol: ImageProtocol) -> None:
    assert detect_image_protocol(environment) == protocol
    assert choose_image_protocol("auto", Stream(is_terminal=True), is_colored=True, environment=environment) == protocol


def test_image_protocol_is_none_in_pipe_or_without_colours() -> None:
    for stream, is_colored in ((Stream(), True), (Stream(is_terminal=True), False)):
        assert choose_image_protocol("kitty", stream, is_colored=is_colored, environment={}) == "none"
    assert max_image_size("none", 80) is None
    assert max_image_size("blocks", 40) == (34, 40)


@pytest.mark.parametrize("picture", [SMALL, NOISE])
def test_png_file_is_readable_by_pillow(picture: RgbImage) -> None:
    with Image.open(io.BytesIO(encode_png(picture.width, picture.height, "RGB", picture.rgb))) as image:
        assert (image.size, image.mode, image.tobytes()) == ((picture.width, picture.height), "RGB", picture.rgb)


def test_kitty_sequence_splits_pixels_into_chunks() -> None:
    pieces = [piece.removeprefix("\x1b_G") for piece in kitty_sequence(NOISE).split("\x1b\\")[:-1]]
    heads, data = zip(*(piece.split(";") for piece in pieces), strict=True)
    assert "s=100,v=90" in heads[0]
    assert [head[-3:] for head in heads[:-1]] == ["m=1"] * (len(heads) - 1)
    assert heads[-1].endswith("m=0")
    assert max(map(len, data)) <= 4096
    assert zlib.decompress(b64decode("".join(data))) == NOISE.rgb


def test_iterm_sequence_has_png_with_size() -> None:
    head, data = iterm_sequence(SMALL).removeprefix("\x1b]1337;File=").removesuffix("\x07").split(":")
    assert b64decode(data) == encode_png(SMALL.width, SMALL.height, "RGB", SMALL.rgb)
    assert f"size={len(encode_png(SMALL.width, SMALL.height, 'RGB', SMALL.rgb))}" in head


def test_sixel_sequence_draws_every_pixel_once() -> None:
    body = sixel_sequence(SMALL).removeprefix('\x1bP0;1q"1;1;3;2').removesuffix("\x1b\\")
    strokes = [part for part in body.split("#")[1:] if ";" not in part]
    bits = [[0, 0, 0] for _ in strokes]
    for stroke, row in zip(strokes, bits, strict=True):
        for x, letter in enumerate(stroke.rstrip("$").lstrip("0123456789")):
            row[x] = ord(letter) - 63
    assert [sum(column) for column in zip(*bits, strict=True)] == [3, 3, 3]


def test_image_protocol_is_none_if_encoding_lacks_half_blocks() -> None:
    stream = io.TextIOWrapper(Terminal(), "latin-1")
    assert choose_image_protocol("auto", stream, is_colored=True, environment={}) == "none"
    assert choose_image_protocol("blocks", stream, is_colored=True, environment={}) == "none"
    assert choose_image_protocol("sixel", stream, is_colored=True, environment={}) == "sixel"


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True
