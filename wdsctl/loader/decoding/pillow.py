"""Every image that is not a plain JPEG, through Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from wdsctl.loader.decoding.limits import refuse_bomb

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def open_image(data: bytes, max_pixels: int) -> Image.Image:
    """The image with its pixels, in its own mode; of an animation the first frame. Raises ValueError, OSError, ..."""
    image = _identify(data)
    refuse_bomb(image.width, image.height, max_pixels)
    image.load()
    return image


def pixels_of(image: Image.Image, mode: str) -> NDArray[Any]:
    """(height, width) or (height, width, channels), uint8; uint16 of an image with 16 bits a channel.

    Transparency is dropped where `mode` has none, palettes become colors. Orientation marks (EXIF) are not followed, as
    in WebDataset and Energon. Raises ValueError for 32 bits a channel.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS_IN_I):
        return _in_channels(np.asarray(image).astype(np.uint16), mode)
    if image.mode in ("I", "F"):
        raise ValueError(
            f"an image of mode {image.mode} has 32 bits a pixel, which have no natural range: "
            "take it as it is with image_decode='pil'"
        )
    return np.asarray(image.convert(mode))


def _identify(data: bytes) -> Image.Image:
    try:
        return Image.open(io.BytesIO(data), formats=COMMON)
    except UnidentifiedImageError:
        Image.init()
        available = [name for name in RARE if name in Image.OPEN]
    try:
        return Image.open(io.BytesIO(data), formats=available)
    except UnidentifiedImageError:
        # Pillow's own message is the address of the buffer.
        raise ValueError("this is no image of a format that is read here") from None


def _in_channels(gray: NDArray[np.uint16], mode: str) -> NDArray[np.uint16]:
    if mode == "L":
        return gray
    channels = [gray, gray, gray] if mode == "RGB" else [gray, gray, gray, np.full_like(gray, 65_535)]
    return np.stack(channels, axis=-1)
