"""A picture that no decoder takes is refused with the true cause, not as damaged."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.decode_check import check_image_decodes
from wdsctl.core.media.facts import Unreadable
from wdsctl.core.media.probe import probe_media
from wdsctl.core.media.refusals import explain_refusal
from wdsctl.core.media.sniff import sniff
from wdsctl.loader import SampleDecoder


def a_jpeg(marker: int, bits: int = 8) -> bytes:
    """A JPEG whose frame begins with this marker, of so many bits per channel."""
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "JPEG")
    data = file.getvalue()
    at = data.index(b"\xff\xc0")
    return data[: at + 1] + bytes([marker]) + data[at + 2 : at + 4] + bytes([bits]) + data[at + 5 :]


def a_tiff(channels: int, bits: int, form: int = 1, compression: int = 1) -> bytes:
    """A TIFF of 4 x 4 pixels. `form`: 1 unsigned, 3 floating-point."""
    pixels = bytes(4 * 4 * channels * bits // 8)
    head = 8 + 2 + 12 * 10 + 4
    depth = struct.pack(f"<{channels}H", *[bits] * channels)
    entries = {256: (4, 1, 4), 257: (4, 1, 4), 259: (3, 1, compression), 262: (3, 1, 2 if channels == 3 else 1)}
    entries |= {258: (3, channels, head if channels > 2 else bits), 273: (4, 1, head + len(depth))}
    entries |= {277: (3, 1, channels), 278: (4, 1, 4), 279: (4, 1, len(pixels)), 339: (3, 1, form)}
    rows = b"".join(struct.pack("<HHII", tag, *entry) for tag, entry in sorted(entries.items()))
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + rows + bytes(4) + depth + pixels


@pytest.mark.parametrize(
    ("part", "data", "cause"),
    [
        ("jpg", a_jpeg(0xC1, bits=12), "it is a JPEG of 12 bits per channel, which Pillow does not read"),
        ("jpg", a_jpeg(0xC3, bits=16), "it is a lossless JPEG of 16 bits per channel, which Pillow does not read"),
        ("jpg", a_jpeg(0xF7), "it is JPEG-LS, which Pillow does not read"),
        ("tif", a_tiff(1, 64, 3), "it is a TIFF of 1 channel with 64 bits floating-point, which Pillow does not read"),
        ("tif", a_tiff(3, 32, 3), "it is a TIFF of 3 channels with 32 bits floating-point, which Pillow does not read"),
        ("tif", a_tiff(1, 16, 3), "it is a TIFF of 1 channel with 16 bits floating-point, which Pillow does not read"),
        ("tif", a_tiff(5, 8), "it is a TIFF of 5 channels with 8 bits unsigned, which Pillow does not read"),
        ("tif", a_tiff(1, 8, 1, 50002), "it is a TIFF with JPEG XL compression, which Pillow does not read"),
    ],
)
def test_picture_that_pillow_refuses_has_its_true_cause_everywhere(part: str, data: bytes, cause: str) -> None:
    assert probe_media(ByteRangeFile.from_bytes(data), sniff(data, len(data))) == Unreadable(reason=cause)
    assert check_image_decodes(data) == ("broken", cause)
    with pytest.raises(SampleFailed, match=cause):
        SampleDecoder()(part, data)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html>404</html>", "not an image of a supported format: its content is text"),
        (b'{"error": 403}', "not an image of a supported format: its content is JSON"),
        (a_jpeg(0xC0)[:20], "its header is damaged or cut off"),
        (a_tiff(3, 8)[:40], "its header is damaged or cut off"),
        (a_tiff(3, 8), "its header is damaged or cut off"),  # Pillow reads such files, so something else is wrong
    ],
)
def test_refusal_names_other_content_and_damage(data: bytes, cause: str) -> None:
    assert explain_refusal(data) == cause


def test_float_tiff_of_one_channel_is_no_refusal() -> None:
    file = io.BytesIO()
    Image.fromarray(np.ones((4, 4), np.float32)).save(file, "TIFF")

    assert check_image_decodes(file.getvalue()).outcome == "sound"
