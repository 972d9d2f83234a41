"""A picture that no decoder takes is refused with the true cause, not as damaged."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from tests.loader.decoding import pictures
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


GRAY = np.zeros((8, 8), np.uint16)
ODD_TIFFS: list[tuple[str, bytes]] = [
    ("4 channels with 16 bits unsigned", pictures.a_tiff(np.zeros((8, 8, 4), np.uint16), 1)),
    ("2 channels with 8 bits unsigned", pictures.a_tiff(np.zeros((8, 8, 2), np.uint8), 1)),
    ("2 channels with 16 bits unsigned", pictures.a_tiff(np.zeros((8, 8, 2), np.uint16), 1, tags={338: (2,)})),
    ("1 channel with 16 bits unsigned whose 0 is white in big-endian order", pictures.a_tiff(GRAY, 0, order=">")),
    ("1 channel with 10 bits unsigned", pictures.a_tiff(GRAY, 1, packed=bytes(80), tags={258: (10,)})),
    ("1 channel with 14 bits unsigned", pictures.a_tiff(GRAY, 1, packed=bytes(112), tags={258: (14,)})),
    ("3 channels with 12 bits unsigned", pictures.a_tiff(GRAY, 2, packed=bytes(288), tags={258: (12,) * 3, 277: (3,)})),
    ("3 channels with 5 and 6 bits unsigned", pictures.a_tiff(GRAY, 2, tags={258: (5, 6, 5), 277: (3,)})),
    ("1 channel with 32 bits unsigned in big-endian order", pictures.a_tiff(GRAY.astype(np.uint32), 1, order=">")),
    ("1 channel with 32 bits floating-point in LogL", pictures.a_tiff(GRAY.astype("f4"), 32844, tags={339: (3,)})),
    ("1 channel with 16 bits unsigned as palette indices", pictures.a_tiff(GRAY, 3)),
    (
        "4 channels with 8 bits unsigned in separate planes",
        pictures.a_tiff(np.zeros((8, 8, 4), np.uint8), 2, planar=True, tags={338: (0,)}),
    ),
]


@pytest.mark.parametrize(("kind", "data"), ODD_TIFFS, ids=[kind for kind, _ in ODD_TIFFS])
def test_tiff_of_a_kind_that_pillow_lacks_is_not_called_damaged(kind: str, data: bytes) -> None:
    assert explain_refusal(data) == f"it is a TIFF of {kind}, which Pillow does not read"
    with pytest.raises(SampleFailed, match=f"a TIFF of {kind}, which Pillow"):
        SampleDecoder()("tif", data)


def test_jpeg_of_two_channels_and_wrong_checksum_of_png_are_named() -> None:
    two = pictures.a_lossless_jpeg(np.zeros((8, 8, 2), np.uint8))
    png = pictures.a_png()
    at = png.index(b"IDAT") - 4
    text = pictures.png_chunk(b"tEXt", b"a\0b")

    assert explain_refusal(two) == "it is a lossless JPEG of 2 channels, which Pillow does not read"
    with pytest.raises(SampleFailed, match="the checksum of its chunk tEXt is wrong"):
        SampleDecoder()("png", png[:at] + text[:-1] + b"?" + png[at:])


def test_signed_16_bits_are_called_so() -> None:
    with pytest.raises(SampleFailed, match="an image of signed 16 bits per pixel has no defined range of values"):
        SampleDecoder()("tif", pictures.a_tiff(GRAY.astype(np.int16), 1, tags={339: (2,)}))


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html><svg/>404</html>", "not an image of a supported format: its content is text"),
        (
            b'<?xml version="1.0"?>\n<!-- a drawing -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
            "it is an SVG drawing, which has no pixels until it is rendered",
        ),
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
