from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.build import an_image
from tests.core.films import a_film, a_wav
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.sniff import sniff
from wdsctl.core.media.thumbnail import RgbImage, make_thumbnail


def drawn(data: bytes, width: int = 12, height: int = 12) -> RgbImage | Unreadable:
    content = sniff(data)
    return make_thumbnail(ByteRangeFile.from_bytes(data), content.kind, content.format, width, height)


def a_picture(data: bytes, width: int = 12, height: int = 12) -> RgbImage:
    made = drawn(data, width, height)
    assert isinstance(made, RgbImage)
    assert len(made.rgb) == 3 * made.width * made.height
    return made


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_an_image_fits_and_keeps_its_shape_and_colour(form: str) -> None:
    made = a_picture(an_image(form))
    assert (made.width, made.height) == (12, 8)
    assert np.frombuffer(made.rgb, np.uint8).reshape(-1, 3).mean(0) == pytest.approx([200, 30, 60], abs=6)


def test_an_image_is_turned_as_it_is_to_be_seen() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    made = a_picture(an_image("JPEG", exif=exif))
    assert (made.width, made.height) == (8, 12)


def test_a_small_image_is_not_made_larger() -> None:
    made = a_picture(an_image("PNG"), 600, 400)
    assert (made.width, made.height) == (48, 32)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
def test_every_mode_becomes_colours(mode: str) -> None:
    file = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(file, "PNG")
    else:
        Image.new("L", (8, 8), 255).convert(mode).save(file, "TIFF" if mode in ("CMYK", "F", "LA") else "PNG")
    made = a_picture(file.getvalue())
    assert (made.width, made.height) == (8, 8)


def test_a_video_is_its_first_frame() -> None:
    made = a_picture(a_film("mp4", video="libx264"), 32, 32)
    assert (made.width, made.height) == (32, 24)
    assert max(made.rgb) - min(made.rgb) < 12
    turned = a_picture(a_film("mp4", video="libx264", rotation=90), 32, 32)
    assert (turned.width, turned.height) == (24, 32)


def test_a_bomb_is_refused_by_its_header() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    bomb = b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    made = drawn(bomb)
    assert isinstance(made, Unreadable)
    assert "60000x60000" in made.reason


@pytest.mark.parametrize("data", [an_image("PNG")[:60], an_image("JPEG")[:300], an_image("WEBP")[:40], a_wav()])
def test_what_cannot_be_decoded_says_so(data: bytes) -> None:
    made = drawn(data)
    assert isinstance(made, Unreadable)


def test_a_film_that_is_cut_off_says_so() -> None:
    assert isinstance(drawn(a_film("mp4", video="libx264")[:400]), Unreadable)
