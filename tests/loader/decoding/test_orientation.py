from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from wdsctl.loader.decoding import pillow
from wdsctl.loader.decoding.images import IMAGE_SPECS, ImageDecodeOptions, image_decode_function

from .pictures import a_jpeg, encoded, lying, pixels


def upright(data: bytes) -> Image.Image:
    image: Image.Image = image_decode_function(ImageDecodeOptions(IMAGE_SPECS["pilrgb"], 10**6, exif_orientation=True))(
        data
    )
    return image


def with_exif(exif: bytes) -> bytes:
    """A JPEG file with this segment behind its first two bytes."""
    data = a_jpeg()
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + data[2:]


@pytest.mark.parametrize("mark", range(1, 9))
def test_the_mark_of_a_jpeg_is_read(mark: int) -> None:
    assert pillow.jpeg_orientation(lying(mark)) == mark


def test_a_jpeg_without_a_mark_lies_as_it_is() -> None:
    assert pillow.jpeg_orientation(a_jpeg()) == 1


@pytest.mark.parametrize("mark", range(1, 9))
def test_arrays_are_turned_as_pillow_turns_images(mark: int) -> None:
    array = pixels(5, 7)
    image = Image.fromarray(array)
    image.getexif()[0x112] = mark

    assert np.array_equal(pillow.orient_pixels(array, mark), np.asarray(pillow.orient_image(image)))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_every_format_that_has_a_mark_is_turned(form: str) -> None:
    if form not in Image.SAVE and not (Image.init() and form in Image.SAVE):
        pytest.skip(f"this Pillow does not write {form}")

    image = upright(lying(6, form, size=(24, 40)))

    assert image.size == (40, 24)
    difference = np.abs(np.asarray(image).astype(int) - pixels(24, 40))
    assert difference.mean() < 12, "what the compression loses, and no more"


@pytest.mark.parametrize(
    "exif",
    [
        b"",
        b"MM\0*",
        b"no TIFF header at all",
        b"MM\0*\0\0\0\x08\xff\xff",  # promises 65,535 entries
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0\0\0\0\0",  # orientation 9
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x04abc\0\0\0\0\0",  # a text
    ],
)
@pytest.mark.filterwarnings("ignore")  # Pillow warns of what is broken
def test_a_broken_mark_says_nothing_of_the_pixels(exif: bytes) -> None:
    data = with_exif(exif)

    assert pillow.jpeg_orientation(data) == 1
    assert np.array_equal(np.asarray(upright(data)), np.asarray(Image.open(io.BytesIO(a_jpeg()))))


def test_a_turned_image_is_not_turned_again() -> None:
    once = upright(lying(8))

    assert np.array_equal(np.asarray(pillow.orient_image(once)), np.asarray(once))
    assert upright(encoded(once, "PNG")).size == once.size
