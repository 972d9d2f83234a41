from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from wdsctl.loader.decoding.images import image_function
from wdsctl.loader.decoding.specs import IMAGE_SPECS

from .pictures import a_jpeg, a_png, as_pillow_reads, encoded, pixels

NUMPY = [name for name, spec in IMAGE_SPECS.items() if spec.container == "numpy"]
TORCH = [name for name, spec in IMAGE_SPECS.items() if spec.container == "torch"]


def decode(spec: str, data: bytes, max_pixels: int = 10**6) -> Any:
    return image_function(IMAGE_SPECS[spec], max_pixels)(data)


def wanted(spec: str, data: bytes) -> NDArray[Any]:
    """What WebDataset's decoder makes of it, before any transposition."""
    read = as_pillow_reads(data, IMAGE_SPECS[spec].mode)
    return read.astype(np.float32) / 255.0 if IMAGE_SPECS[spec].is_float else read


@pytest.mark.parametrize("data", [a_jpeg(), a_png()], ids=["jpeg", "png"])
@pytest.mark.parametrize("spec", NUMPY)
def test_an_array_is_what_webdataset_makes(spec: str, data: bytes) -> None:
    image = decode(spec, data)

    assert image.dtype == wanted(spec, data).dtype
    assert np.array_equal(image, wanted(spec, data))
    assert image.flags.writeable


@pytest.mark.parametrize("data", [a_jpeg(), a_png()], ids=["jpeg", "png"])
@pytest.mark.parametrize("spec", TORCH)
def test_a_tensor_is_what_webdataset_makes_channels_first(spec: str, data: bytes) -> None:
    array = wanted(spec, data)

    image = decode(spec, data)

    assert isinstance(image, torch.Tensor)
    assert np.array_equal(image.numpy(), array.transpose(2, 0, 1) if array.ndim == 3 else array)
    assert image.dtype is (torch.float32 if IMAGE_SPECS[spec].is_float else torch.uint8)


def test_a_color_tensor_lies_channels_last_in_memory() -> None:
    image = decode("torchrgb8", a_jpeg(20, 30))

    assert image.shape == (3, 20, 30)
    assert image.unsqueeze(0).is_contiguous(memory_format=torch.channels_last)


def test_floats_lie_between_0_and_1() -> None:
    image = decode("torchrgb", encoded(np.array([[[0, 128, 255]]], np.uint8), "PNG"))

    assert image.flatten().tolist() == [0.0, pytest.approx(128 / 255), 1.0]


@pytest.mark.parametrize(("spec", "mode"), [("pil", "RGBA"), ("pill", "L"), ("pilrgb", "RGB"), ("pilrgba", "RGBA")])
def test_a_pil_image_is_as_it_is_or_converted(spec: str, mode: str) -> None:
    image = decode(spec, encoded(pixels(20, 30, 4), "PNG"))

    assert isinstance(image, Image.Image)
    assert (image.mode, image.size) == (mode, (30, 20))


@pytest.mark.parametrize("form", ["BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000", "TGA"])
def test_every_usual_format_is_read(form: str) -> None:
    data = encoded(pixels(), form)

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


def test_a_cmyk_jpeg_is_read_as_pillow_reads_it() -> None:
    data = encoded(Image.fromarray(pixels(16, 16, 4), "CMYK"), "JPEG")

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


def test_a_palette_becomes_its_colors() -> None:
    data = encoded(Image.fromarray(pixels()).convert("P"), "PNG")

    assert np.array_equal(decode("rgb8", data), as_pillow_reads(data, "RGB"))


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_clipped(form: str) -> None:
    data = encoded(np.array([[0, 257, 32_896, 65_535]], np.uint16), form)

    assert decode("l8", data).tolist() == [[0, 1, 128, 255]]
    assert decode("rgb8", data)[0, 2].tolist() == [128, 128, 128]
    assert decode("rgba8", data)[0, 2].tolist() == [128, 128, 128, 255]
    assert decode("l", data)[0].tolist() == pytest.approx([0, 257 / 65_535, 32_896 / 65_535, 1])


def test_thirty_two_bits_a_pixel_are_refused_with_the_way_out() -> None:
    data = encoded(np.array([[0.5, 1e9]], np.float32), "TIFF")

    with pytest.raises(ValueError, match="image_decode='pil'"):
        decode("rgb8", data)
    assert decode("pil", data).mode == "F"


@pytest.mark.parametrize("spec", ["torchrgb8", "rgb", "pil"])
@pytest.mark.parametrize("data", [a_jpeg(20, 30), a_png(20, 30)], ids=["jpeg", "png"])
def test_an_image_of_more_pixels_than_allowed_is_refused(spec: str, data: bytes) -> None:
    decode(spec, data, 600)

    with pytest.raises(ValueError, match="at most 599 are allowed"):
        decode(spec, data, 599)


def test_a_format_that_runs_programs_is_not_opened() -> None:
    stream = io.BytesIO()
    Image.fromarray(pixels()).save(stream, "EPS")

    with pytest.raises(ValueError, match="no image of a format that is read here"):
        decode("rgb8", stream.getvalue())


def test_a_truncated_jpeg_is_an_error_and_not_half_an_image() -> None:
    with pytest.raises(OSError, match="truncated"):
        decode("torchrgb8", a_jpeg(64, 64)[:-200])
