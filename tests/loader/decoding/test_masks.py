from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from wdsctl.core.errors import SampleFailed
from wdsctl.loader import SampleDecoder

from .pictures import png_chunk

IDS = [[0, 1, 200], [255, 7, 3]]


def save(image: Image.Image, form: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def palette() -> Image.Image:
    image = Image.fromarray(np.asarray(IDS, np.uint8), "P")
    image.putpalette([255 - i for i in range(256) for _ in range(3)])
    return image


def colors() -> Image.Image:
    ids = np.asarray([[0, 255, 256], [65_536, 70_000, 16_777_215]])
    return Image.fromarray(np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=-1).astype(np.uint8))


def decode_mask(part: str, data: bytes, **options: Any) -> Any:
    return SampleDecoder(**options).function_for(part, kind="mask", field="mask")(data)


@pytest.mark.parametrize("options", [{}, {"image_decode": "pil"}, {"image_decode": "rgb8"}, {"guess_content": True}])
@pytest.mark.parametrize(
    ("image", "ids"),
    [
        (Image.fromarray(np.asarray(IDS, np.uint8)), IDS),
        (palette(), IDS),
        (Image.fromarray(np.asarray([[0, 1], [65_535, 300]], np.uint16)), [[0, 1], [65_535, 300]]),
        (Image.fromarray(np.asarray([[True, False]])), [[1, 0]]),
        (colors(), [[0, 255, 256], [65_536, 70_000, 16_777_215]]),
    ],
)
def test_mask_keeps_file_ids_for_any_image_decode(
    image: Image.Image, ids: list[list[int]], options: dict[str, Any]
) -> None:
    mask = decode_mask("seg.png", save(image), **options)

    assert isinstance(mask, torch.Tensor)
    assert (mask.dtype, mask.tolist()) == (torch.int32, ids)


def test_mask_accepts_other_extensions_and_arrays() -> None:
    data = io.BytesIO()
    np.save(data, np.asarray(IDS))

    assert decode_mask("seg.mask", save(palette())).tolist() == IDS
    assert decode_mask("seg.npy", data.getvalue()).tolist() == IDS


@pytest.mark.parametrize("mode", ["RGBA", "LA", "F"])
def test_mask_refuses_image_modes_without_ids(mode: str) -> None:
    with pytest.raises(SampleFailed, match=f"has the mode {mode}"):
        decode_mask(
            "seg.tiff" if mode == "F" else "seg.png", save(Image.new(mode, (2, 2)), "TIFF" if mode == "F" else "PNG")
        )


def test_damaged_or_too_large_mask_fails_sample() -> None:
    with pytest.raises(SampleFailed):
        decode_mask("seg.png", save(palette())[:60])
    with pytest.raises(SampleFailed):
        decode_mask("seg.png", save(palette()), max_pixels=3)


def test_custom_decoder_overrides_mask_decoding() -> None:
    assert decode_mask("seg.png", b"x", decoders={"seg.png": len}) == 1


def test_mask_of_fewer_gray_levels_is_scaled_as_documented() -> None:
    header = struct.pack(">IIBBBBB", 2, 1, 4, 0, 0, 0, 0)  # 4-bit gray
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0\x1f")), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)

    assert decode_mask("seg.png", png).tolist() == [[17, 255]]
    assert decode_mask("seg.pgm", b"P5 2 1 51\n\x01\x33").tolist() == [[5, 255]]
    assert decode_mask("seg.pgm", b"P5 2 1 255\n\x01\x33").tolist() == [[1, 51]]
