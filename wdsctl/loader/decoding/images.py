"""From a file's bytes to an image as the spec wants it. Made once a dataset; nothing is looked up per image."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from wdsctl.loader.decoding import jpeg, orientation, pillow
from wdsctl.loader.decoding.layout import channels_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wdsctl.loader.decoding.memory import BatchMemory
    from wdsctl.loader.decoding.specs import ImageOptions, ImageSpec
    from wdsctl.loader.decoding.threads import DecodeThreads

    #: Where an image goes: shape -> (the array to fill, what is handed out).
    Take = Callable[[tuple[int, ...]], tuple[NDArray[Any], Any]]

CHANNELS = {"L": (), "RGB": (3,), "RGBA": (4,)}


def image_function(
    options: ImageOptions, memory: BatchMemory | None = None, threads: DecodeThreads | None = None
) -> Callable[[bytes], Any]:
    """What decodes one image; into `memory`, where the spec is one of tensors and a memory is given.

    With `threads`, JPEG is filled in when they run.
    """
    spec = options.spec
    if spec.container == "pil":
        return lambda data: _as_pil(data, options)
    take = memory.take if memory is not None else _taker(spec)
    fill = threads.fill if threads is not None else _now
    return lambda data: _read(data, options, take, fill)


def image_dtype(spec: ImageSpec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec.depth)
    return dtype


def _taker(spec: ImageSpec) -> Take:
    dtype = np.dtype(spec.depth)
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


def _read(data: bytes, options: ImageOptions, take: Take, fill: Callable[[Callable[[], None]], None]) -> Any:
    size = jpeg.size_of(data, options)
    if size is None or (options.exif_orientation and orientation.of_jpeg(data) != 1):
        pixels = _pixels(data, options, size)
        array, image = take(pixels.shape)
        _write(array, pixels)
        return image
    array, image = take(size + CHANNELS[options.spec.mode])
    fill(partial(_fill, array, data, options))
    return image


def _now(fill: Callable[[], None]) -> None:
    fill()


def _fill(array: NDArray[Any], data: bytes, options: ImageOptions) -> None:
    """An upright JPEG, as large as the array."""
    if array.dtype != np.uint8:
        _write(array, _pixels(data, options, array.shape[:2]))
    elif not jpeg.decode_into(array, data, options):
        _write(array, pillow.read_pixels(data, options))


def _pixels(data: bytes, options: ImageOptions, size: tuple[int, ...] | None) -> NDArray[Any]:
    """By whichever decoder reads it, turned if that is asked for; `size` is that of `jpeg.size_of`."""
    if size is not None:
        array = np.empty(size + CHANNELS[options.spec.mode], np.uint8)
        if jpeg.decode_into(array, data, options):
            return orientation.turned(array, orientation.of_jpeg(data)) if options.exif_orientation else array
    return pillow.read_pixels(data, options)


def _write(array: NDArray[Any], pixels: NDArray[Any]) -> None:
    """From 8 or 16 bits to what the array holds. The full range stays the full range."""
    if array.dtype == np.float32:
        largest = np.float32(65_535 if pixels.dtype == np.uint16 else 255)
        np.true_divide(pixels, largest, out=array, dtype=np.float32)
    elif array.dtype == np.uint16:
        np.multiply(pixels, 257 if pixels.dtype == np.uint8 else 1, out=array, dtype=np.uint16)
    else:
        np.copyto(array, _eight_bits(pixels))


def _eight_bits(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    return ((pixels.astype(np.uint32) * 255 + 32_767) // 65_535).astype(np.uint8)


def _as_pil(data: bytes, options: ImageOptions) -> Image.Image:
    mode, depth = options.spec.mode, options.spec.depth
    if depth == "uint16":
        pixels = pillow.read_pixels(data, options)
        return Image.fromarray(pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * 257)
    image = pillow.read_image(data, options)
    if not mode:
        return image
    if pillow.is_deep_gray(image):  # Pillow would clip 16 bits where it should scale them
        return Image.fromarray(_eight_bits(pillow.pixels_of(image, mode)))
    if mode != "RGBA":
        image.info.pop("transparency", None)  # dropped in any case, but Pillow would warn that it is
    return image.convert(mode)
