"""Image decoding: the values of `image_decode`, and the function that decodes one image by them.

The function is built once per dataset, so that nothing is looked up per image.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from PIL import Image

from wdsctl.core.media.kinds import MAX_DECODABLE_BYTES
from wdsctl.core.samples.picture_change import orient_pixels
from wdsctl.loader.decoding import jpeg, pillow
from wdsctl.loader.decoding import pillow as orientation
from wdsctl.loader.decoding.memory import channels_first
from wdsctl.loader.decoding.pillow import CHANNEL_SHAPES, row_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wdsctl.loader.decoding.jpeg import DecodeThreads
    from wdsctl.loader.decoding.memory import BatchMemory

    #: shape -> (the array to fill, the value to return)
    TakeBuffer = Callable[[tuple[int, ...]], tuple[NDArray[Any], Any]]

ImageContainer = Literal["numpy", "torch", "pil"]
PixelDepth = Literal["uint8", "uint16", "float32"]


class ImageSpec(NamedTuple):
    """What an image is decoded to. `mode`: Pillow's (L, RGB, RGBA); empty keeps the mode of the file."""

    container: ImageContainer
    mode: str
    depth: PixelDepth = "uint8"

    @property
    def pixel_bytes(self) -> int:
        """Bytes of memory that decoding takes for each pixel, at most: of the result, Pillow's image, and a copy."""
        if self.container == "pil":
            return 8
        channels = len(self.mode)
        return max(channels * (1 + np.dtype(self.depth).itemsize), channels * 2 + 4)


def _numeric_specs() -> dict[str, ImageSpec]:
    depths: tuple[tuple[str, PixelDepth], ...] = (("8", "uint8"), ("16", "uint16"), ("", "float32"))
    containers: tuple[tuple[str, ImageContainer], ...] = (("", "numpy"), ("torch", "torch"))
    return {
        f"{prefix}{mode.lower()}{suffix}": ImageSpec(container, mode, depth)
        for prefix, container in containers
        for suffix, depth in depths
        for mode in ("L", "RGB", "RGBA")
    }


#: By the names that WebDataset and Energon use, with 16 bits named in the same way.
IMAGE_SPECS: dict[str, ImageSpec] = {
    **_numeric_specs(),
    "torch": ImageSpec("torch", "RGB", "float32"),
    "pil": ImageSpec("pil", ""),
    "pill": ImageSpec("pil", "L"),
    "pill16": ImageSpec("pil", "L", "uint16"),  # Pillow has no 16-bit color
    "pilrgb": ImageSpec("pil", "RGB"),
    "pilrgba": ImageSpec("pil", "RGBA"),
}


class ImageDecodeOptions(NamedTuple):
    """How images are decoded. `exif_orientation`: upright, or as stored; None: as stored, but TIFF as Pillow turns it.

    `min_side`: 0 for the full size; see `jpeg.reduction_factor`. `max_bytes`: of memory, while an image is decoded.
    `on_damage` is called with what libjpeg-turbo says about a JPEG that is then left to Pillow.
    """

    spec: ImageSpec
    max_pixels: int
    exif_orientation: bool | None = None
    min_side: int = 0
    on_damage: Callable[[str], None] | None = None
    max_bytes: int = MAX_DECODABLE_BYTES


def image_decode_function(
    options: ImageDecodeOptions, memory: BatchMemory | None = None, threads: DecodeThreads | None = None
) -> Callable[[bytes], Any]:
    """A function that decodes the bytes of one image, into `memory` if the spec is a tensor.

    With `threads`, JPEG pixels are filled in when the threads run.
    """
    spec = options.spec
    if spec.container == "pil":
        return lambda data: _decode_pil(data, options)
    take = memory.take if memory is not None else _buffer_allocator(spec)
    fill = threads.fill if threads is not None else _call
    return lambda data: _decode_image(data, options, take, fill)


def image_dtype(spec: ImageSpec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec.depth)
    return dtype


def _buffer_allocator(spec: ImageSpec) -> TakeBuffer:
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


def _decode_image(
    data: bytes, options: ImageDecodeOptions, take: TakeBuffer, fill: Callable[[Callable[[], None]], None]
) -> Any:
    size = jpeg.jpeg_output_size(data, options)
    if size is None or (options.exif_orientation and orientation.jpeg_orientation(data) != 1):
        pixels = _decode_pixels(data, options, size)
        array, image = take(pixels.shape)
        _write_scaled(array, pixels)
        return image
    array, image = take(size + CHANNEL_SHAPES[options.spec.mode])
    fill(partial(_fill_upright_jpeg, array, data, options))
    return image


def decode_mask(data: bytes, options: ImageDecodeOptions) -> torch.Tensor:
    """int32 (height, width): the ids of a mask as the file has them. Raises ValueError for images that hold no ids."""
    return torch.from_numpy(pillow.read_ids(data, options))


def _call(function: Callable[[], None]) -> None:
    function()


def _fill_upright_jpeg(array: NDArray[Any], data: bytes, options: ImageDecodeOptions) -> None:
    """Decode an upright JPEG of the array's size into it."""
    if array.dtype != np.uint8:
        _write_scaled(array, _decode_pixels(data, options, array.shape[:2]))
    elif not jpeg.decode_into(array, data, options):
        _write_scaled(array, pillow.read_pixels(data, options))


def _decode_pixels(data: bytes, options: ImageDecodeOptions, size: tuple[int, ...] | None) -> NDArray[Any]:
    """The pixels by the decoder that reads the file, oriented if requested. `size`: from `jpeg.jpeg_output_size`."""
    if size is not None:
        array = np.empty(size + CHANNEL_SHAPES[options.spec.mode], np.uint8)
        if jpeg.decode_into(array, data, options):
            return orient_pixels(array, orientation.jpeg_orientation(data)) if options.exif_orientation else array
        del array  # before Pillow takes as much
    return pillow.read_pixels(data, options)


def _write_scaled(array: NDArray[Any], pixels: NDArray[Any]) -> None:
    """Copy 8- or 16-bit pixels into an array of another dtype. The full range stays the full range."""
    for rows in row_blocks(array.shape):
        _write_rows(array[rows], pixels[rows])


def _write_rows(array: NDArray[Any], pixels: NDArray[Any]) -> None:
    if array.dtype == np.float32:
        largest = np.float32(65_535 if pixels.dtype == np.uint16 else 255)
        np.true_divide(pixels, largest, out=array, dtype=np.float32)
    elif array.dtype == np.uint16:
        np.multiply(pixels, 257 if pixels.dtype == np.uint8 else 1, out=array, dtype=np.uint16)
    else:
        np.copyto(array, _to_uint8(pixels))


def _to_uint8(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    scaled = np.empty(pixels.shape, np.uint8)
    for rows in row_blocks(pixels.shape):
        scaled[rows] = (pixels[rows].astype(np.uint32) * 255 + 32_767) // 65_535
    return scaled


def _decode_pil(data: bytes, options: ImageDecodeOptions) -> Image.Image:
    mode, depth = options.spec.mode, options.spec.depth
    if depth == "uint16":
        pixels = pillow.read_pixels(data, options)
        return Image.fromarray(pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * 257)
    image = pillow.read_image(data, options)
    if not mode:
        return image
    if mode == "RGBA" and pillow.has_deep_transparency(data, image):
        return Image.fromarray(_to_uint8(pillow.read_pixels(data, options)))
    if pillow.is_deep_gray(image):  # Pillow would clip 16 bits instead of scaling them
        return Image.fromarray(_to_uint8(pillow.image_pixels(image, mode)))
    if mode != "RGBA":
        image.info.pop("transparency", None)  # convert() drops it with a warning
    return image.convert(mode)
