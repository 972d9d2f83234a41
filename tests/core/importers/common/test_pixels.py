"""Raw images and arrays as files."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image

from wdsctl.core.importers.common.values import encode_npy
from wdsctl.core.samples.stored_values import raw_image_to_png


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
def test_raw_image_to_png_preserves_pixels(mode: str) -> None:
    depth = len(mode)
    pixels = np.random.default_rng(0).integers(0, 256, 7 * 5 * depth, np.uint8).tobytes()

    image = Image.open(io.BytesIO(raw_image_to_png(struct.pack("<3I", 7, 5, len(mode)) + mode.encode() + pixels)))

    assert (image.mode, image.size) == (mode, (7, 5))
    assert image.tobytes() == pixels


@pytest.mark.parametrize(
    "data",
    [
        b"",
        struct.pack("<3I", 7, 5, 3) + b"RGB",
        struct.pack("<3I", 1, 1, 1) + b"F\0\0\0\0",
        struct.pack("<3I", 0, 0, 1) + b"L",
        struct.pack("<3I", 2**32 - 1, 2**32 - 1, 2**32 - 1) + b"L",
    ],
)
def test_raw_image_to_png_refuses_invalid_data(data: bytes) -> None:
    with pytest.raises(ValueError, match="raw image"):
        raw_image_to_png(data)


def test_encode_npy_refuses_object_arrays() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        encode_npy(np.array([{}], object))
