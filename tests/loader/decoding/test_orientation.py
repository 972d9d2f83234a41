from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from wdsctl.core.samples.picture_change import orient_pixels
from wdsctl.loader.decoding import pillow
from wdsctl.loader.decoding.images import IMAGE_SPECS, ImageDecodeOptions, image_decode_function

from .pictures import a_jpeg, encoded, lying, pixels


def upright(data: bytes) -> Image.Image:
    image: Image.Image = image_decode_function(ImageDecodeOptions(IMAGE_SPECS["pilrgb"], 10**6, exif_orientation=True))(
        data
    )
    return image


def with_exif(exif: bytes) -> bytes:
    """A JPEG file with this EXIF segment after its first two bytes."""
    data = a_jpeg()
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + data[2:]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_jpeg_orientation_reads_exif_tag(orientation: int) -> None:
    assert pillow.jpeg_orientation(lying(orientation)) == orientation


def test_jpeg_orientation_defaults_to_1() -> None:
    assert pillow.jpeg_orientation(a_jpeg()) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orient_pixels_equals_orient_image(orientation: int) -> None:
    array = pixels(5, 7)
    image = Image.fromarray(array)
    image.getexif()[0x112] = orientation

    assert np.array_equal(orient_pixels(array, orientation), np.asarray(pillow.orient_image(image)))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_exif_orientation_rotates_every_format(form: str) -> None:
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
        b"MM\0*\0\0\0\x08\xff\xff",  # claims 65,535 entries
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x09\0\0\0\0\0\0",  # orientation 9
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x02\0\0\0\x04abc\0\0\0\0\0",  # a text
    ],
)
@pytest.mark.filterwarnings("ignore")  # Pillow warns of broken EXIF
def test_broken_exif_is_ignored(exif: bytes) -> None:
    data = with_exif(exif)

    assert pillow.jpeg_orientation(data) == 1
    assert np.array_equal(np.asarray(upright(data)), np.asarray(Image.open(io.BytesIO(a_jpeg()))))


def test_rotated_image_is_not_rotated_twice() -> None:
    once = upright(lying(8))

    assert np.array_equal(np.asarray(pillow.orient_image(once)), np.asarray(once))
    assert upright(encoded(once, "PNG")).size == once.size


def a_tiff(stored: Any, orientation: int) -> bytes:
    image = Image.fromarray(stored)
    exif = Image.Exif()
    exif[0x112] = orientation
    file = io.BytesIO()
    image.save(file, "TIFF", exif=exif)
    return file.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("spec", ["rgb8", "pilrgb"])
def test_tiff_stays_as_stored_only_on_request(orientation: int, spec: str) -> None:
    stored = pixels(5, 7)
    data = a_tiff(stored, orientation)

    def decode(exif_orientation: bool | None) -> Any:
        return np.asarray(
            image_decode_function(ImageDecodeOptions(IMAGE_SPECS[spec], 10**6, exif_orientation=exif_orientation))(data)
        )

    assert np.array_equal(decode(False), stored)
    assert np.array_equal(decode(True), orient_pixels(stored, orientation))
    assert np.array_equal(decode(None), decode(True))  # as Pillow loads it


@pytest.mark.parametrize("orientation", range(1, 9))
def test_ids_of_tiff_stay_as_stored(orientation: int) -> None:
    stored = np.arange(35, dtype=np.uint16).reshape(5, 7)
    options = ImageDecodeOptions(IMAGE_SPECS["rgb8"], 10**6, exif_orientation=False)

    assert np.array_equal(pillow.read_ids(a_tiff(stored, orientation), options), stored)
