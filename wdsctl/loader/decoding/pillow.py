"""Every image that is not a plain JPEG, through Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from wdsctl.core.media.image import orientation_of
from wdsctl.loader.decoding import deep_color, orientation
from wdsctl.loader.decoding.jpeg import divisor
from wdsctl.loader.decoding.limits import refuse_bomb

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.ImageFile import ImageFile

    from wdsctl.loader.decoding.specs import ImageOptions

#: The formats that Pillow imports with its first image.
COMMON = ("JPEG", "PNG", "GIF", "BMP", "DIB", "PPM")

#: The rest of what is opened; the first of them imports all of Pillow's plugins (0.1 s). Formats that run other
#: programs (EPS calls Ghostscript) or that no dataset holds are not read: what nobody needs cannot be attacked.
RARE = ("WEBP", "TIFF", "AVIF", "JPEG2000", "ICO", "TGA", "SGI", "PCX")

#: What Pillow and libjpeg-turbo raise about files that are damaged or too large.
BAD_IMAGE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, SyntaxError, EOFError, RuntimeError, OverflowError, IndexError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)

#: Modes of 32 bits a pixel have no natural range. PNG and PPM store 16 bits in them in some releases of Pillow.
SIXTEEN_BITS_IN_I = ("PNG", "PPM")


def read_image(data: bytes, options: ImageOptions) -> Image.Image:
    """Pillow's image in its own mode; of an animation the first frame. Raises ValueError, OSError, ..."""
    image = _opened(data, options)
    image.load()
    return orientation.turned_image(image) if options.exif_orientation else image


def read_pixels(data: bytes, options: ImageOptions) -> NDArray[Any]:
    """(height, width) or (height, width, channels) of the mode in `options`: uint8, or uint16 where the file has that.

    Transparency is dropped where the mode has none, palettes become colors. Color of 16 bits is uint16 unless 8 are
    asked for. Raises ValueError for 32 bits a channel, and what Pillow raises about damaged files.
    """
    image = _opened(data, options)
    # A transparent color is one of 16 bits, too: nothing equals it in the 8 bits that Pillow reads.
    asks_deep = options.spec.depth != "uint8" or (options.spec.mode == "RGBA" and "transparency" in image.info)
    is_deep = asks_deep and deep_color.is_deep(image)
    image.load()
    if is_deep:
        pixels = _in_mode(deep_color.colors_of(data, image), options.spec.mode, image.info.get("transparency"))
    else:
        pixels = pixels_of(image, options.spec.mode)
    return orientation.turned(pixels, orientation_of(image)) if options.exif_orientation else pixels


def _opened(data: bytes, options: ImageOptions) -> ImageFile:
    """With its header read, and the reduction chosen."""
    image = _identify(data)
    refuse_bomb(image.width, image.height, options.max_pixels)
    by = divisor(image.height, image.width, options.min_side)
    if by > 1:
        image.draft(None, (image.width // by, image.height // by))  # of any format but JPEG this changes nothing
    return image


def _identify(data: bytes) -> ImageFile:
    try:
        return Image.open(io.BytesIO(data), formats=COMMON)
    except UnidentifiedImageError:
        Image.init()
        available = [name for name in RARE if name in Image.OPEN]
    try:
        return Image.open(io.BytesIO(data), formats=available)
    except UnidentifiedImageError:
        # Pillow's own message is the address of the buffer.
        raise ValueError(_unknown(data)) from None


def _unknown(data: bytes) -> str:
    return "this is no image of a format that is read here" if data else "there are no bytes in it"


def pixels_of(image: Image.Image, mode: str) -> NDArray[Any]:
    """An image that is loaded, in this mode: see `read_pixels`."""
    if is_deep_gray(image):
        gray = np.asarray(image).astype(np.uint16)[..., None]
        return _in_mode(gray, mode, image.info.get("transparency"))
    if image.mode in ("I", "F"):
        raise ValueError(
            f"an image of mode {image.mode} has 32 bits a pixel, which have no natural range: "
            "take it as it is with image_decode='pil'"
        )
    if mode != "RGBA":
        # Dropped in any case, but Pillow would warn that it is.
        image.info.pop("transparency", None)
    return np.asarray(image.convert(mode))


def is_deep_gray(image: Image.Image) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS_IN_I)


def _in_mode(pixels: NDArray[np.uint16], mode: str, transparent: Any) -> NDArray[np.uint16]:
    """From 1, 3 or 4 channels to those of the mode; `transparent`: the one color that is, if any."""
    channels = pixels.shape[2]
    if mode == "L":
        return pixels[..., 0] if channels == 1 else _luma(pixels)
    colors = pixels[..., :3] if channels > 1 else pixels.repeat(3, axis=2)
    if mode == "RGB":
        return colors
    alpha = pixels[..., 3:] if channels == 4 else _opaque_but(pixels, transparent)
    return np.concatenate([colors, alpha], axis=2)


def _luma(pixels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """ITU-R 601, in Pillow's integers."""
    red, green, blue = (pixels[..., i].astype(np.uint64) for i in range(3))
    return ((red * 19_595 + green * 38_470 + blue * 7_471 + 32_768) >> 16).astype(np.uint16)


def _opaque_but(pixels: NDArray[np.uint16], transparent: Any) -> NDArray[np.uint16]:
    if transparent is None:
        return np.full_like(pixels[..., :1], 65_535)
    is_transparent = (pixels == np.asarray(transparent)).all(axis=2, keepdims=True)
    return np.where(is_transparent, 0, 65_535).astype(np.uint16)
