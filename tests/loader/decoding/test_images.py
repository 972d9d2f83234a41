from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.decoding import pillow
from wdsctl.loader.decoding.images import IMAGE_SPECS, ImageDecodeOptions, image_decode_function

from .pictures import a_deep_png, a_jpeg, a_png, as_pillow_reads, encoded, lying, pixels

NUMPY = [name for name, spec in IMAGE_SPECS.items() if spec.container == "numpy"]
TORCH = [name for name, spec in IMAGE_SPECS.items() if spec.container == "torch"]


def decode(spec: str, data: bytes, max_pixels: int = 10**6, **options: Any) -> Any:
    return image_decode_function(ImageDecodeOptions(IMAGE_SPECS[spec], max_pixels, **options))(data)


def expected(spec: str, data: bytes) -> NDArray[Any]:
    """The pixels that WebDataset's decoder returns, before any transposition."""
    read = as_pillow_reads(data, IMAGE_SPECS[spec].mode)
    scale = {"uint8": read, "uint16": read.astype(np.uint16) * 257, "float32": read.astype(np.float32) / 255.0}
    return scale[IMAGE_SPECS[spec].depth]


@pytest.mark.parametrize("data", [a_jpeg(), a_png()], ids=["jpeg", "png"])
@pytest.mark.parametrize("spec", NUMPY)
def test_array_image_equals_webdataset_decoder(spec: str, data: bytes) -> None:
    image = decode(spec, data)

    assert image.dtype == expected(spec, data).dtype
    assert np.array_equal(image, expected(spec, data))
    assert image.flags.writeable


@pytest.mark.parametrize("data", [a_jpeg(), a_png()], ids=["jpeg", "png"])
@pytest.mark.parametrize("spec", TORCH)
def test_tensor_image_equals_webdataset_decoder_channels_first(spec: str, data: bytes) -> None:
    array = expected(spec, data)

    image = decode(spec, data)

    assert isinstance(image, torch.Tensor)
    assert np.array_equal(image.numpy(), array.transpose(2, 0, 1) if array.ndim == 3 else array)
    assert str(image.dtype) == f"torch.{IMAGE_SPECS[spec].depth}"


def test_color_tensor_is_channels_last_in_memory() -> None:
    image = decode("torchrgb8", a_jpeg(20, 30))

    assert image.shape == (3, 20, 30)
    assert image.unsqueeze(0).is_contiguous(memory_format=torch.channels_last)


def test_float_images_are_scaled_to_0_to_1() -> None:
    image = decode("torchrgb", encoded(np.array([[[0, 128, 255]]], np.uint8), "PNG"))

    assert image.flatten().tolist() == [0.0, pytest.approx(128 / 255), 1.0]


@pytest.mark.parametrize(("spec", "mode"), [("pil", "RGBA"), ("pill", "L"), ("pilrgb", "RGB"), ("pilrgba", "RGBA")])
def test_pil_image_keeps_or_converts_mode(spec: str, mode: str) -> None:
    image = decode(spec, encoded(pixels(20, 30, 4), "PNG"))

    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == (mode, (30, 20))


@pytest.mark.parametrize("form", ["BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000", "TGA"])
def test_common_image_formats_are_decoded(form: str) -> None:
    data = encoded(pixels(), form)

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


def test_cmyk_jpeg_equals_pillow() -> None:
    data = encoded(Image.fromarray(pixels(16, 16, 4), "CMYK"), "JPEG")

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


def test_palette_image_is_converted_to_colors() -> None:
    data = encoded(Image.fromarray(pixels()).convert("P"), "PNG")

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_16_bit_gray_is_scaled_not_clipped(form: str) -> None:
    data = encoded(np.array([[0, 257, 32_896, 65_535]], np.uint16), form)

    assert decode("l8", data).tolist() == [[0, 1, 128, 255]]
    assert decode("rgb8", data)[0, 2].tolist() == [128, 128, 128]
    assert decode("rgba8", data)[0, 2].tolist() == [128, 128, 128, 255]
    assert decode("l", data)[0].tolist() == pytest.approx([0, 257 / 65_535, 32_896 / 65_535, 1])
    assert decode("l16", data).tolist() == [[0, 257, 32_896, 65_535]]
    assert np.asarray(decode("pill", data)).tolist() == [[0, 1, 128, 255]]
    assert np.asarray(decode("pilrgb", data))[0, 2].tolist() == [128, 128, 128]
    assert np.asarray(decode("pill16", data)).tolist() == [[0, 257, 32_896, 65_535]]


def test_16_bit_color_keeps_depth_unless_8_bits_requested() -> None:
    deep = np.random.default_rng(0).integers(0, 65_536, (9, 7, 3), dtype=np.uint16)
    data = a_deep_png(deep)

    assert np.array_equal(decode("rgb16", data), deep)
    assert np.array_equal(decode("torchrgb16", data).numpy(), deep.transpose(2, 0, 1))
    assert np.array_equal(decode("rgb", data), deep.astype(np.float32) / np.float32(65_535))
    assert np.abs(decode("rgb8", data) - deep / 257).max() < 1


def test_8_bit_image_scales_to_full_16_bit_range() -> None:
    data = encoded(np.array([[0, 128, 255]], np.uint8), "PNG")

    assert decode("l16", data).tolist() == [[0, 128 * 257, 65_535]]
    assert np.asarray(decode("pill16", data)).tolist() == [[0, 128 * 257, 65_535]]


def test_transparent_color_of_16_bit_image_becomes_alpha() -> None:
    gray, color = np.array([[[7], [8]]], np.uint16), np.array([[[1, 2, 3], [1, 2, 4]]], np.uint16)

    assert decode("rgba16", a_deep_png(gray, transparent=(7,)))[..., 3].tolist() == [[0, 65_535]]
    assert decode("rgba16", a_deep_png(color, transparent=(1, 2, 3)))[..., 3].tolist() == [[0, 65_535]]
    assert decode("rgba8", a_deep_png(color, transparent=(1, 2, 3)))[..., 3].tolist() == [[0, 255]]
    assert np.asarray(decode("pilrgba", a_deep_png(color, transparent=(1, 2, 3))))[..., 3].tolist() == [[0, 255]]


@pytest.mark.parametrize("spec", ["rgb8", "rgb", "torchrgb8", "torchl16", "l8", "pilrgb", "pil", "pill16"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_option_rotates_images(spec: str, orientation: int) -> None:
    upright = np.asarray(decode(spec, lying(1)))
    data = lying(orientation)

    assert np.array_equal(np.asarray(decode(spec, data)), np.asarray(decode(spec, lying(orientation, marked=False))))
    rotated = np.asarray(decode(spec, data, exif_orientation=True))
    assert rotated.shape == upright.shape
    assert np.abs(rotated.astype(np.float64) - upright).mean() < 0.02 * np.abs(upright.astype(np.float64)).max()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_equals_pillow_exif_transpose(orientation: int) -> None:
    data = lying(orientation)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))

    assert np.array_equal(decode("rgb8", data, exif_orientation=True), np.asarray(expected))


@pytest.mark.parametrize(
    ("size", "min_side", "expected_size"),
    [
        ((256, 300), None, (256, 300)),
        ((256, 300), 200, (256, 300)),
        ((256, 300), 129, (256, 300)),
        ((256, 300), 128, (128, 150)),
        ((257, 301), 128, (129, 151)),
        ((256, 300), 64, (64, 75)),
        ((256, 300), 10, (32, 38)),
        ((20, 300), 1, (10, 150)),
        ((20, 300), 400, (20, 300)),
    ],
)
@pytest.mark.parametrize("spec", ["rgb8", "l8", "rgb", "pilrgb", "pil"])
def test_min_side_reduces_jpeg_to_at_least_min_side(
    spec: str, size: tuple[int, int], min_side: int | None, expected_size: tuple[int, int]
) -> None:
    image = np.asarray(decode(spec, a_jpeg(*size), min_side=min_side or 0))

    assert image.shape[:2] == expected_size
    assert min(expected_size) >= min(min_side or 0, *size)


def test_min_side_leaves_png_at_full_size() -> None:
    assert decode("rgb8", a_png(64, 64), min_side=16).shape == (64, 64, 3)


def test_min_side_combines_with_exif_orientation() -> None:
    assert decode("rgb8", lying(6, size=(64, 96)), min_side=32, exif_orientation=True).shape == (32, 48, 3)


def test_32_bit_image_is_refused_except_as_pil() -> None:
    data = encoded(np.array([[0.5, 1e9]], np.float32), "TIFF")

    with pytest.raises(ValueError, match="image_decode='pil'"):
        decode("rgb8", data)
    assert decode("pil", data).mode == "F"


@pytest.mark.parametrize("spec", ["torchrgb8", "rgb", "pil"])
@pytest.mark.parametrize("data", [a_jpeg(20, 30), a_png(20, 30)], ids=["jpeg", "png"])
def test_image_over_max_pixels_is_refused(spec: str, data: bytes) -> None:
    decode(spec, data, 600)

    with pytest.raises(ValueError, match="the limit is 599"):
        decode(spec, data, 599)


@pytest.mark.parametrize(("spec", "pixel_bytes"), [("torchrgb", 15), ("torchrgb8", 10), ("torchl8", 6), ("pil", 8)])
@pytest.mark.parametrize("data", [a_jpeg(20, 30), a_png(20, 30)], ids=["jpeg", "png"])
def test_image_that_takes_more_memory_than_max_bytes_is_refused(spec: str, pixel_bytes: int, data: bytes) -> None:
    decode(spec, data, max_bytes=600 * pixel_bytes)

    with pytest.raises(ValueError, match="pass a larger max_bytes"):
        decode(spec, data, max_bytes=600 * pixel_bytes - 1)


def test_max_bytes_applies_to_the_size_that_is_decoded() -> None:
    data = a_jpeg(160, 160)
    with pytest.raises(ValueError, match="160 x 160"):
        decode("torchrgb", data, max_bytes=9999)
    assert decode("torchrgb", data, min_side=20, max_bytes=9999).shape == (3, 20, 20)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("spec", ["l8", "rgb", "rgba16"])
def test_image_converted_in_pieces_has_the_same_pixels(spec: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 256, (11, 13), np.uint8)
    image = Image.fromarray(values.astype(np.uint16) * 99) if mode == "I;16" else Image.fromarray(values)
    if mode == "P":
        image.putpalette(bytes(range(255, -1, -1)) * 3)
    data = encoded(image if mode in ("P", "I;16") else image.convert(mode), "TIFF")
    whole = decode(spec, data)

    for size in (1, 5, 13, 40):
        monkeypatch.setattr(pillow, "_PIECE_PIXELS", size)
        assert np.array_equal(decode(spec, data), whole)


def test_eps_is_refused() -> None:
    stream = io.BytesIO()
    Image.fromarray(pixels()).save(stream, "EPS")

    with pytest.raises(ValueError, match="not an image of a supported format"):
        decode("rgb8", stream.getvalue())


def test_error_names_format_that_loader_does_not_decode() -> None:
    with pytest.raises(SampleFailed, match="does not decode HEIC") as error:
        decode("rgb8", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(99))

    assert "install pillow-heif" in error.value.hint
    assert "SampleDecoder(decoders={'heic': decode})" in error.value.hint


@pytest.mark.parametrize("head", [b"\0\0\0\x0cJXL \r\n\x87\n", b"\xff\x0a"])
def test_error_names_jpeg_xl_with_and_without_container(head: bytes) -> None:
    with pytest.raises(SampleFailed, match="does not decode JXL") as error:
        decode("rgb8", head + bytes(99))

    assert "install pillow-jxl-plugin" in error.value.hint


def test_truncated_jpeg_raises_error() -> None:
    with pytest.raises(OSError, match="truncated"):
        decode("torchrgb8", a_jpeg(64, 64)[:-200])
