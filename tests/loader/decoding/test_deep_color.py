from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from wdsctl.loader.decoding import pillow
from wdsctl.loader.decoding.images import IMAGE_SPECS, ImageDecodeOptions, image_decode_function

from .pictures import a_deep_png, a_jpeg, a_png, encoded, pixels


def deep(channels: int, *, seed: int = 0) -> NDArray[np.uint16]:
    return np.random.default_rng(seed).integers(0, 65_536, (9, 11, channels), dtype=np.uint16)


def a_deep_tiff(values: NDArray[np.uint16], compression: str) -> bytes:
    """A TIFF written by FFmpeg, since Pillow cannot write 16-bit color."""
    context: Any = av.CodecContext.create("tiff", "w")
    height, width, channels = values.shape
    context.width, context.height, context.time_base = width, height, Fraction(1)
    context.pix_fmt = {3: "rgb48le", 4: "rgba64le"}[channels]
    context.options = {"compression_algo": compression}
    frame = av.VideoFrame.from_ndarray(values, format=context.pix_fmt)
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])


def decode(spec: str, data: bytes) -> Any:
    return image_decode_function(ImageDecodeOptions(IMAGE_SPECS[spec], 10**6))(data)


@pytest.mark.parametrize(("spec", "channels"), [("rgb16", 3), ("rgba16", 4)])
def test_16_bit_color_png_keeps_every_bit(spec: str, channels: int) -> None:
    assert np.array_equal(decode(spec, a_deep_png(deep(channels))), deep(channels))


@pytest.mark.parametrize("compression", ["raw", "lzw", "deflate", "packbits"])
@pytest.mark.parametrize(("spec", "channels"), [("rgb16", 3), ("rgba16", 4)])
def test_16_bit_color_tiff_keeps_every_bit(spec: str, channels: int, compression: str) -> None:
    assert np.array_equal(decode(spec, a_deep_tiff(deep(channels), compression)), deep(channels))


def test_16_bit_gray_with_alpha_keeps_every_bit() -> None:
    gray, alpha = deep(2)[..., 0], deep(2)[..., 1]
    image = decode("rgba16", a_deep_png(deep(2)))

    assert all(np.array_equal(image[..., i], gray) for i in range(3))
    assert np.array_equal(image[..., 3], alpha)


def test_16_bit_channels_convert_at_full_depth() -> None:
    data = a_deep_png(deep(4))
    red, green, blue = (deep(4)[..., i].astype(np.float64) for i in range(3))

    assert np.array_equal(decode("rgb16", data), deep(4)[..., :3])
    assert (decode("rgba16", a_deep_png(deep(3)))[..., 3] == 65_535).all()
    assert np.abs(decode("l16", data) - (0.299 * red + 0.587 * green + 0.114 * blue)).max() < 1.5


def test_has_deep_color_is_true_only_for_16_bit_color() -> None:
    def is_deep(data: bytes) -> bool:
        import io

        return pillow.has_deep_color(Image.open(io.BytesIO(data)))

    assert is_deep(a_deep_png(deep(3)))
    assert not is_deep(a_deep_png(deep(1)))
    assert not any(map(is_deep, (a_png(), a_jpeg(), encoded(pixels(), "TIFF"))))


def test_truncated_16_bit_png_raises_error() -> None:
    data = a_deep_png(np.tile(deep(3), (20, 20, 1)))

    with pytest.raises(OSError, match="truncated"):
        decode("rgb16", data[: len(data) // 2])


def test_read_deep_color_refuses_pixels_that_differ_from_pillow() -> None:
    image = Image.fromarray(np.zeros((9, 11, 3), np.uint8))
    image.format = "PNG"

    with pytest.raises(ValueError, match=r"two readers return different pixels.*torchrgb8"):
        pillow.read_deep_color(a_deep_png(deep(3)), image)


def test_read_deep_color_refuses_files_ffmpeg_cannot_read() -> None:
    image = Image.fromarray(np.zeros((20, 30, 3), np.uint8))
    image.format = "PNG"

    with pytest.raises(ValueError, match="cannot read its 16 bits per channel"):
        pillow.read_deep_color(a_jpeg(), image)
