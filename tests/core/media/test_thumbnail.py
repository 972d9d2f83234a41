from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tests.build import an_image
from tests.core.media_files import a_media_file, a_wav
from tests.loader.decoding.pictures import a_lossless_jpeg
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.sniff import sniff
from wdsctl.core.media.thumbnail import RgbImage, make_thumbnail


def draw(data: bytes, width: int = 12, height: int = 12) -> RgbImage | Unreadable:
    content = sniff(data)
    return make_thumbnail(ByteRangeFile.from_bytes(data), content.kind, content.format, width, height)


def a_picture(data: bytes, width: int = 12, height: int = 12) -> RgbImage:
    thumbnail = draw(data, width, height)
    assert isinstance(thumbnail, RgbImage)
    assert len(thumbnail.rgb) == 3 * thumbnail.width * thumbnail.height
    return thumbnail


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_thumbnail_keeps_aspect_ratio_and_color(form: str) -> None:
    thumbnail = a_picture(an_image(form))
    assert (thumbnail.width, thumbnail.height) == (12, 8)
    assert np.frombuffer(thumbnail.rgb, np.uint8).reshape(-1, 3).mean(0) == pytest.approx([200, 30, 60], abs=6)


def test_thumbnail_applies_exif_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    thumbnail = a_picture(an_image("JPEG", exif=exif))
    assert (thumbnail.width, thumbnail.height) == (8, 12)


def test_thumbnail_does_not_enlarge_small_image() -> None:
    thumbnail = a_picture(an_image("PNG"), 600, 400)
    assert (thumbnail.width, thumbnail.height) == (48, 32)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "F"])
def test_thumbnail_supports_every_image_mode(mode: str) -> None:
    file = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000).save(file, "PNG")
    else:
        Image.new("L", (8, 8), 255).convert(mode).save(file, "TIFF" if mode in ("CMYK", "F", "LA") else "PNG")
    thumbnail = a_picture(file.getvalue())
    assert (thumbnail.width, thumbnail.height) == (8, 8)


def test_thumbnail_of_video_is_first_frame() -> None:
    thumbnail = a_picture(a_media_file("mp4", video="libx264"), 32, 32)
    assert (thumbnail.width, thumbnail.height) == (32, 24)
    assert max(thumbnail.rgb) - min(thumbnail.rgb) < 12
    rotated = a_picture(a_media_file("mp4", video="libx264", rotation=90), 32, 32)
    assert (rotated.width, rotated.height) == (24, 32)


def test_thumbnail_refuses_decompression_bomb() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    bomb = b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    thumbnail = draw(bomb)
    assert isinstance(thumbnail, Unreadable)
    assert "60000x60000" in thumbnail.reason


@pytest.mark.parametrize("data", [an_image("PNG")[:60], an_image("JPEG")[:300], an_image("WEBP")[:40], a_wav()])
def test_thumbnail_of_undecodable_data_is_unreadable(data: bytes) -> None:
    thumbnail = draw(data)
    assert isinstance(thumbnail, Unreadable)


def test_thumbnail_of_truncated_video_is_unreadable() -> None:
    assert isinstance(draw(a_media_file("mp4", video="libx264")[:400]), Unreadable)


def test_thumbnail_of_lossless_jpeg_is_resized_after_full_decoding() -> None:
    colors = np.full((64, 96, 3), (200, 30, 60), np.uint8)

    thumbnail = a_picture(a_lossless_jpeg(colors, adobe=True))

    assert (thumbnail.width, thumbnail.height) == (12, 8)
    assert np.frombuffer(thumbnail.rgb, np.uint8).reshape(-1, 3).mean(0) == pytest.approx([200, 30, 60])
