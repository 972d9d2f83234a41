"""From a file's bytes to an image as the spec wants it. Made once a dataset; nothing is looked up per image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wdsctl.loader.decoding import jpeg, pillow
from wdsctl.loader.decoding.layout import channels_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from PIL import Image

    from wdsctl.loader.decoding.memory import BatchMemory
    from wdsctl.loader.decoding.specs import ImageSpec

    #: Where an image goes: shape -> (the array to fill, what is handed out).
    Take = Callable[[tuple[int, ...]], tuple[NDArray[Any], Any]]

CHANNELS = {"L": (), "RGB": (3,), "RGBA": (4,)}


def image_function(spec: ImageSpec, max_pixels: int, memory: BatchMemory | None = None) -> Callable[[bytes], Any]:
    """What decodes one image; into `memory`, where the spec is one of tensors and a memory is given."""
    if spec.container == "pil":
        return lambda data: _as_pil(data, spec.mode, max_pixels)
    dtype = np.float32 if spec.is_float else np.uint8
    take = memory.take if memory is not None else _taker(spec, dtype)
    read = _read_float if spec.is_float else _read_bytes
    return lambda data: read(data, spec.mode, max_pixels, take)


def image_dtype(spec: ImageSpec) -> torch.dtype:
    return torch.float32 if spec.is_float else torch.uint8


def _taker(spec: ImageSpec, dtype: type[np.generic]) -> Take:
    if spec.container == "numpy":

        def take_array(shape: tuple[int, ...]) -> tuple[NDArray[Any], Any]:
            array = np.empty(shape, dtype)
            return array, array

        return take_array

    def take_tensor(shape: tuple[int, ...]) -> tuple[NDArray[Any], Any]:
        array = np.empty(shape, dtype)
        tensor = torch.from_numpy(array)
        return array, channels_first(tensor, len(shape))

    return take_tensor


def _read_bytes(data: bytes, mode: str, max_pixels: int, take: Take) -> Any:
    size = jpeg.size_of(data, mode, max_pixels)
    if size is None:
        pixels = _eight_bits(pillow.pixels_of(pillow.open_image(data, max_pixels), mode))
        array, image = take(pixels.shape)
        np.copyto(array, pixels)
        return image
    array, image = take(size + CHANNELS[mode])
    if not jpeg.decode_into(array, data, mode):
        np.copyto(array, pillow.pixels_of(pillow.open_image(data, max_pixels), mode))
    return image


def _read_float(data: bytes, mode: str, max_pixels: int, take: Take) -> Any:
    pixels = _pixels(data, mode, max_pixels)
    array, image = take(pixels.shape)
    largest = np.float32(65_535 if pixels.dtype == np.uint16 else 255)
    np.true_divide(pixels, largest, out=array, dtype=np.float32)
    return image


def _pixels(data: bytes, mode: str, max_pixels: int) -> NDArray[Any]:
    size = jpeg.size_of(data, mode, max_pixels)
    if size is not None:
        array = np.empty(size + CHANNELS[mode], np.uint8)
        if jpeg.decode_into(array, data, mode):
            return array
    return pillow.pixels_of(pillow.open_image(data, max_pixels), mode)


def _eight_bits(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    return ((pixels.astype(np.uint32) * 255 + 32_767) // 65_535).astype(np.uint8)


def _as_pil(data: bytes, mode: str, max_pixels: int) -> Image.Image:
    image = pillow.open_image(data, max_pixels)
    return image.convert(mode) if mode else image
