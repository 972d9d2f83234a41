"""JPEG through libjpeg-turbo (`simplejpeg`): Pillow's pixels to the bit, in half its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simplejpeg import decode_jpeg, decode_jpeg_header

from wdsctl.loader.decoding.limits import refuse_bomb

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"\xff\xd8\xff"

#: Color spaces of files for which the pixels equal Pillow's, by Pillow's name of the wanted mode. CMYK and YCCK differ;
#: gray from a color file is the luma there, and a weighted sum of the rounded RGB in Pillow.
SAME_AS_PILLOW: dict[str, tuple[str, ...]] = {
    "L": ("Gray",),
    "RGB": ("YCbCr", "Gray", "RGB"),
    "RGBA": ("YCbCr", "Gray", "RGB"),
}
_WANTED = {"L": "GRAY", "RGB": "RGB", "RGBA": "RGBA"}


def size_of(data: bytes, mode: str, max_pixels: int) -> tuple[int, int] | None:
    """(height, width) of a file that `decode_into` may decode, None of one that is Pillow's. 1.5 us.

    Raises ValueError where the header promises more than `max_pixels`.
    """
    if data[:3] != MAGIC:
        return None
    try:
        height, width, colors, _ = decode_jpeg_header(data)
    except ValueError:
        return None  # damaged, or a kind that libjpeg-turbo does not read: Pillow has the last word
    refuse_bomb(width, height, max_pixels)
    return (height, width) if colors in SAME_AS_PILLOW[mode] else None


def decode_into(pixels: NDArray[np.uint8], data: bytes, mode: str) -> bool:
    """Fill `pixels`, which is C-contiguous and as large as the image. False where the file is damaged.

    Damage that a decoder can paint over is refused here and left to Pillow, so that what is accepted, and what it
    looks like, depends on one decoder only.
    """
    buffer: Any = pixels
    try:
        decode_jpeg(data, _WANTED[mode], buffer=buffer)
    except ValueError:
        return False
    return True
