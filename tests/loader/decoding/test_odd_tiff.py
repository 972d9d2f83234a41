"""TIFF and PNG that Pillow reads wrongly or in part have the right pixels, or are refused with the cause."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.decode_check import check_image_decodes
from wdsctl.loader import SampleDecoder

from .pictures import a_tiff, png_chunk

DEEP = np.random.default_rng(0).integers(0, 65_536, (19, 21, 4), dtype=np.uint16)
LAYOUTS: list[dict[str, Any]] = [
    {"order": order, "planar": planar, "tile": tile, "deflate": deflate}
    for order in "<>"
    for planar in (False, True)
    for tile in (0, 16)
    for deflate in (False, True)
]


def decode(mode: str, data: bytes, part: str = "tif", **options: Any) -> NDArray[Any]:
    return np.asarray(SampleDecoder(mode, **options)(part, data))


def differences(values: NDArray[np.uint16], step: int) -> NDArray[np.uint16]:
    """The differences to the left neighbour in blocks of `step` pixels."""
    blocks = [values[:, x : x + step] for x in range(0, values.shape[1], step)]
    return np.concatenate([np.diff(block, axis=1, prepend=np.uint16(0)) for block in blocks], axis=1)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_16_bit_color_keeps_every_bit_in_every_layout(layout: dict[str, Any]) -> None:
    rgb, rgba = a_tiff(DEEP[..., :3], 2, **layout), a_tiff(DEEP, 2, tags={338: (2,)}, **layout)

    assert np.array_equal(decode("rgb16", rgb), DEEP[..., :3])
    assert np.array_equal(decode("rgba16", rgba), DEEP)
    assert np.array_equal(decode("pil", rgb), DEEP[..., :3] >> 8)
    assert np.array_equal(decode("rgb16", a_tiff(DEEP, 2, tags={338: (0,)}, **layout)), DEEP[..., :3])
    assert check_image_decodes(rgb).outcome == "sound"


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each["deflate"]], ids=str)
def test_16_bit_color_of_differences_keeps_every_bit(layout: dict[str, Any]) -> None:
    stored = differences(DEEP[..., :3], layout["tile"] or 21)

    assert np.array_equal(decode("rgb16", a_tiff(stored, 2, tags={317: (2,)}, **layout)), DEEP[..., :3])


@pytest.mark.parametrize(("orientation", "turns"), [(3, 2), (6, -1), (8, 1)])
def test_16_bit_color_is_turned_as_8_bits_are(orientation: int, turns: int) -> None:
    data = a_tiff(DEEP[..., :3], 2, tags={274: (orientation,)})

    assert np.array_equal(decode("rgb16", data), np.rot90(DEEP[..., :3], turns))
    assert np.array_equal(decode("rgb16", data, exif_orientation=True), np.rot90(DEEP[..., :3], turns))


def test_16_bit_color_multiplied_with_alpha_has_8_bits() -> None:
    data = a_tiff(DEEP, 2, tags={338: (1,)})

    with pytest.raises(SampleFailed, match="its colors are multiplied with its alpha"):
        decode("rgb16", data)
    assert decode("rgb8", data).shape == (19, 21, 3)


def test_planes_of_16_bit_cmyk_are_refused() -> None:
    with pytest.raises(SampleFailed, match="a TIFF of CMYK with 16 bits in separate planes"):
        decode("rgb8", a_tiff(DEEP, 5, planar=True))


@pytest.mark.parametrize("deflate", [False, True])
def test_16_bit_gray_whose_zero_is_white_is_inverted(*, deflate: bool) -> None:
    gray, data = DEEP[..., 0], a_tiff(DEEP[..., 0], 0, deflate=deflate)

    assert np.array_equal(decode("l16", data), 65_535 - gray)
    assert np.array_equal(decode("pil", data), 65_535 - gray)
    assert np.abs(decode("l8", data) - (65_535 - gray) / 257).max() <= 0.5


def test_12_bit_gray_fills_the_range() -> None:
    gray = DEEP[..., 0] >> 4
    packed = b"".join(int("".join(f"{value:012b}" for value in row).ljust(256, "0"), 2).to_bytes(32) for row in gray)
    data = a_tiff(gray, 1, packed=packed, tags={258: (12,)})

    assert np.abs(decode("l16", data) - gray * (65_535 / 4095)).max() < 1
    assert np.array_equal(decode("pil", data), decode("l16", data))


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if not each["planar"]], ids=str)
def test_signed_8_bits_have_no_range(layout: dict[str, Any]) -> None:
    values = np.arange(-60, 4, dtype=np.int8).reshape(8, 8)
    data = a_tiff(values, 1, tags={339: (2,)}, **layout)

    with pytest.raises(SampleFailed, match="an image of signed 8 bits per pixel has no defined range of values"):
        decode("l8", data)
    assert np.array_equal(decode("pil", data), values)
    mask = SampleDecoder().function_for("tif", kind="mask")(data)
    assert np.array_equal(mask, values)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_transparent_gray_of_few_bits_is_found(bits: int) -> None:
    file = io.BytesIO()
    Image.fromarray((np.arange(8)[None] % (1 << bits)).astype(np.uint8)).save(file, "PNG", bits=bits)
    data = file.getvalue()
    head = bytes([*data[16:24], bits, 0, 0, 0, 0])  # gray, as Pillow writes palettes only
    rows = data.index(b"IDAT") - 4
    data = data[:8] + png_chunk(b"IHDR", head) + png_chunk(b"tRNS", b"\0\1") + data[rows:]

    expected = [0 if value % (1 << bits) == 1 else 255 for value in range(8)]
    assert decode("rgba8", data, "png")[0, :, 3].tolist() == expected
