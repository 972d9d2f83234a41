"""The words for what an image becomes, as WebDataset and Energon use them."""

from __future__ import annotations

from typing import Literal, NamedTuple

Container = Literal["numpy", "torch", "pil"]


class ImageSpec(NamedTuple):
    """`mode` is Pillow's (L, RGB, RGBA), empty for an image as it is."""

    container: Container
    mode: str
    is_float: bool = False


IMAGE_SPECS: dict[str, ImageSpec] = {
    "l8": ImageSpec("numpy", "L"),
    "rgb8": ImageSpec("numpy", "RGB"),
    "rgba8": ImageSpec("numpy", "RGBA"),
    "l": ImageSpec("numpy", "L", is_float=True),
    "rgb": ImageSpec("numpy", "RGB", is_float=True),
    "rgba": ImageSpec("numpy", "RGBA", is_float=True),
    "torchl8": ImageSpec("torch", "L"),
    "torchrgb8": ImageSpec("torch", "RGB"),
    "torchrgba8": ImageSpec("torch", "RGBA"),
    "torchl": ImageSpec("torch", "L", is_float=True),
    "torch": ImageSpec("torch", "RGB", is_float=True),
    "torchrgb": ImageSpec("torch", "RGB", is_float=True),
    "torchrgba": ImageSpec("torch", "RGBA", is_float=True),
    "pil": ImageSpec("pil", ""),
    "pill": ImageSpec("pil", "L"),
    "pilrgb": ImageSpec("pil", "RGB"),
    "pilrgba": ImageSpec("pil", "RGBA"),
}
