from __future__ import annotations

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.jpeg import frame_segment, is_scalable_jpeg
from wdsctl.loader import SampleDecoder
from wdsctl.loader.decoding import jpeg
from wdsctl.loader.decoding.images import ImageDecodeOptions, ImageSpec

from .pictures import a_jpeg, a_lossless_jpeg, a_png, as_pillow_reads, encoded, pixels

SIZES = [(1, 1), (1, 7), (7, 1), (8, 8), (15, 17), (31, 64), (63, 61), (100, 3)]


def options_for(mode: str, max_pixels: int = 10**6, min_side: int = 0) -> ImageDecodeOptions:
    return ImageDecodeOptions(ImageSpec("numpy", mode), max_pixels, min_side=min_side)


def decode(data: bytes, mode: str, min_side: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    size = jpeg.jpeg_output_size(data, options_for(mode, min_side=min_side))
    assert size is not None
    out = np.empty((*size, *{"L": (), "RGB": (3,), "RGBA": (4,)}[mode]), np.uint8)
    assert jpeg.decode_into(out, data, options_for(mode, min_side=min_side))
    return out


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("progressive", [False, True])
def test_decoded_jpeg_equals_pillow(size: tuple[int, int], subsampling: str, progressive: bool) -> None:
    data = a_jpeg(*size, subsampling=subsampling, progressive=progressive)

    for mode in ("RGB", "RGBA"):
        assert np.array_equal(decode(data, mode), as_pillow_reads(data, mode))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("subsampling", ["440", "420", "411"])
def test_simplejpeg_encoded_file_equals_pillow(size: tuple[int, int], subsampling: str) -> None:
    data = simplejpeg.encode_jpeg(pixels(*size), 90, "RGB", subsampling)

    assert np.array_equal(decode(data, "RGB"), as_pillow_reads(data, "RGB"))


@pytest.mark.parametrize("size", [(64, 64), (65, 67), (100, 33), (17, 255), (9, 40), (129, 8)])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("progressive", [False, True])
def test_reduced_jpeg_equals_pillow_draft(size: tuple[int, int], subsampling: str, progressive: bool) -> None:
    data = a_jpeg(*size, subsampling=subsampling, progressive=progressive)

    for min_side in (1, 8, 16, 30):
        reduced = Image.open(io.BytesIO(data))
        factor = jpeg.reduction_factor(*size, min_side)
        reduced.draft(None, (size[1] // factor, size[0] // factor))
        assert np.array_equal(decode(data, "RGB", min_side), np.asarray(reduced.convert("RGB")))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("progressive", [False, True])
def test_gray_jpeg_equals_pillow_in_every_mode(mode: str, progressive: bool) -> None:
    data = encoded(pixels(33, 47, 1)[..., 0], "JPEG", quality=80, progressive=progressive)

    assert np.array_equal(decode(data, mode), as_pillow_reads(data, mode))


def test_rgb_jpeg_equals_pillow() -> None:
    data = a_jpeg(33, 47, keep_rgb=True)

    assert np.array_equal(decode(data, "RGB"), as_pillow_reads(data, "RGB"))


@pytest.mark.parametrize(
    ("data", "mode"),
    [
        (encoded(Image.fromarray(pixels(16, 16, 4), "CMYK"), "JPEG"), "RGB"),  # differs from Pillow's conversion
        (a_jpeg(), "L"),  # the luma of the file is not Pillow's gray
        (a_png(), "RGB"),
        (b"\xff\xd8\xff and then nonsense", "RGB"),
        (b"", "RGB"),
    ],
)
def test_jpeg_output_size_is_none_for_files_left_to_pillow(data: bytes, mode: str) -> None:
    assert jpeg.jpeg_output_size(data, options_for(mode)) is None


def test_jpeg_output_size_refuses_too_many_pixels() -> None:
    with pytest.raises(ValueError, match="30 x 20 pixels, the limit is 599"):
        jpeg.jpeg_output_size(a_jpeg(20, 30), options_for("RGB", 599))

    assert jpeg.jpeg_output_size(a_jpeg(20, 30), options_for("RGB", 600)) == (20, 30)


def test_decode_into_returns_false_for_truncated_jpeg() -> None:
    data = a_jpeg(64, 64)

    assert not jpeg.decode_into(np.empty((64, 64, 3), np.uint8), data[: len(data) // 2], options_for("RGB"))


def with_segment(data: bytes, extra: bytes) -> bytes:
    """The JPEG with these bytes after its first marker."""
    return data[:2] + extra + data[2:]


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_lossless_jpeg_is_never_reduced(channels: int, mode: str) -> None:
    # libjpeg-turbo would write all of its pixels into memory for the reduced ones.
    data = a_lossless_jpeg(pixels(64, 96, channels), adobe=channels > 1)

    assert jpeg.jpeg_output_size(data, options_for(mode, min_side=8)) is None
    for name in (mode.lower() + "8", "pil" + mode.lower()):
        image = np.asarray(SampleDecoder(name, min_side=8)("jpg", data))
        assert np.array_equal(image, as_pillow_reads(data, mode))
    assert SampleDecoder(min_side=8).image_sizes(data, upright=False) == ((96, 64), (96, 64))


def test_lossless_jpeg_of_few_bits_is_refused() -> None:
    data = a_lossless_jpeg(np.full((16, 16, 1), 15, np.uint8), bits=4)  # simplejpeg reads it, 16 times too dark

    with pytest.raises(SampleFailed, match="a lossless JPEG of 4 bits per channel, which Pillow does not read"):
        SampleDecoder("l8")("jpg", data)


@pytest.mark.parametrize(
    "extra",
    [b"", b"\xff\xff\xff", b"garbage\xff\0", b"\xff\xd0\xff\1", b"\xff\xe5\0\0", b"\xff\xe5\0\6\xff\xc0\0\1"],
)
def test_frame_is_found_as_libjpeg_finds_it(extra: bytes) -> None:
    lossless, scalable = a_lossless_jpeg(pixels(16, 16, 1)), a_jpeg()
    assert simplejpeg.decode_jpeg_header(with_segment(lossless, extra), strict=False)[:2] == (16, 16)

    assert frame_segment(with_segment(lossless, extra))[0] == 0xC3
    assert not is_scalable_jpeg(with_segment(lossless, extra))
    assert frame_segment(with_segment(scalable, extra))[0] == 0xC0


def test_search_for_the_frame_ends() -> None:
    assert not is_scalable_jpeg(b"\xff\xd8" + b"\xff\1" * 200_000 + a_jpeg()[2:])
    assert not is_scalable_jpeg(a_jpeg()[:20])


def test_jpeg_of_sampling_441_is_left_to_pillow() -> None:
    data = a_jpeg(40, 60, subsampling="4:2:0")
    at = data.index(b"\xff\xc0") + 11
    data = data[:at] + b"\x14" + data[at + 1 :]  # four rows of luma per row of color: simplejpeg raises KeyError
    with pytest.raises(KeyError):
        simplejpeg.decode_jpeg_header(data)

    assert jpeg.jpeg_output_size(data, options_for("RGB")) is None
