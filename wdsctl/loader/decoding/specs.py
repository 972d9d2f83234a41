"""The words for what an image becomes, as WebDataset and Energon use them, and 16 bits in the same way."""

from __future__ import annotations

from typing import Literal, NamedTuple

Container = Literal["numpy", "torch", "pil"]
Depth = Literal["uint8", "uint16", "float32"]


class ImageSpec(NamedTuple):
    """`mode` is Pillow's (L, RGB, RGBA), empty for an image as it is."""

    container: Container
    mode: str
    depth: Depth = "uint8"


def _specs() -> dict[str, ImageSpec]:
    depths: tuple[tuple[str, Depth], ...] = (("8", "uint8"), ("16", "uint16"), ("", "float32"))
    containers: tuple[tuple[str, Container], ...] = (("", "numpy"), ("torch", "torch"))
    return {
        f"{prefix}{mode.lower()}{suffix}": ImageSpec(container, mode, depth)
        for prefix, container in containers
        for suffix, depth in depths
        for mode in ("L", "RGB", "RGBA")
    }


IMAGE_SPECS: dict[str, ImageSpec] = {
    **_specs(),
    "torch": ImageSpec("torch", "RGB", "float32"),
    "pil": ImageSpec("pil", ""),
    "pill": ImageSpec("pil", "L"),
    "pill16": ImageSpec("pil", "L", "uint16"),  # Pillow has no color of 16 bits
    "pilrgb": ImageSpec("pil", "RGB"),
    "pilrgba": ImageSpec("pil", "RGBA"),
}


class ImageOptions(NamedTuple):
    """How images are decoded. `min_side`: 0 for the full size; see `jpeg.divisor`."""

    spec: ImageSpec
    max_pixels: int
    exif_orientation: bool = False
    min_side: int = 0
