from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from wdsctl.core.errors import SampleFailed
from wdsctl.loader import SampleDecoder

IDS = [[0, 1, 200], [255, 7, 3]]


def saved(image: Image.Image, form: str = "PNG") -> bytes:
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


def decoded(part: str, data: bytes, **options: Any) -> Any:
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
def test_a_mask_has_the_ids_of_its_file_whatever_images_are_decoded_to(
    image: Image.Image, ids: list[list[int]], options: dict[str, Any]
) -> None:
    mask = decoded("seg.png", saved(image), **options)

    assert isinstance(mask, torch.Tensor)
    assert (mask.dtype, mask.tolist()) == (torch.int32, ids)


def test_a_mask_may_have_another_extension_or_be_an_array() -> None:
    data = io.BytesIO()
    np.save(data, np.asarray(IDS))

    assert decoded("seg.mask", saved(palette())).tolist() == IDS
    assert decoded("seg.npy", data.getvalue()).tolist() == IDS


@pytest.mark.parametrize("mode", ["RGBA", "LA", "F"])
def test_an_image_that_holds_no_ids_is_refused(mode: str) -> None:
    with pytest.raises(SampleFailed, match=f"has the mode {mode}"):
        decoded(
            "seg.tiff" if mode == "F" else "seg.png", saved(Image.new(mode, (2, 2)), "TIFF" if mode == "F" else "PNG")
        )


def test_damaged_and_too_large_masks_are_refused() -> None:
    with pytest.raises(SampleFailed):
        decoded("seg.png", saved(palette())[:60])
    with pytest.raises(SampleFailed):
        decoded("seg.png", saved(palette()), max_pixels=3)


def test_a_decoder_of_ones_own_wins() -> None:
    assert decoded("seg.png", b"x", decoders={"seg.png": len}) == 1
