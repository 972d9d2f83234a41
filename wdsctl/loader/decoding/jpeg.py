"""JPEG through libjpeg-turbo (`simplejpeg`): Pillow's pixels to the bit, in half its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simplejpeg import decode_jpeg, decode_jpeg_header

from wdsctl.loader.decoding.limits import refuse_bomb

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wdsctl.loader.decoding.specs import ImageOptions

MAGIC = b"\xff\xd8\xff"

#: Color spaces of files for which the pixels equal Pillow's, by Pillow's name of the wanted mode. CMYK and YCCK differ;
#: gray from a color file is the luma there, and a weighted sum of the rounded RGB in Pillow.
SAME_AS_PILLOW: dict[str, tuple[str, ...]] = {
    "L": ("Gray",),
    "RGB": ("YCbCr", "Gray", "RGB"),
    "RGBA": ("YCbCr", "Gray", "RGB"),
}
_WANTED = {"L": "GRAY", "RGB": "RGB", "RGBA": "RGBA"}

#: Below this, libjpeg-turbo's fractions round to one size, and it might choose another one than Pillow.
_SMALLEST_SIDE = 8


def divisor(height: int, width: int, min_side: int) -> int:
    """8, 4 or 2 where an image of 1/8, 1/4 or 1/2 of this size still has `min_side` pixels on its shorter side; else 1.

    `min_side` of 0 asks for the full size. The reduced image has ceil(size / divisor) pixels.
    """
    if not min_side:
        return 1
    shorter = min(height, width)
    return next((by for by in (8, 4, 2) if shorter // by >= max(min_side, _SMALLEST_SIDE)), 1)


def size_of(data: bytes, options: ImageOptions) -> tuple[int, int] | None:
    """(height, width) of what `decode_into` makes of a file, None of one that is Pillow's. 1.5 us.

    Raises ValueError where the header promises more than `max_pixels`.
    """
    if data[:3] != MAGIC:
        return None
    try:
        height, width, colors, _ = decode_jpeg_header(data)
    except ValueError:
        return None  # damaged, or a kind that libjpeg-turbo does not read: Pillow has the last word
    refuse_bomb(width, height, options.max_pixels)
    if colors not in SAME_AS_PILLOW[options.spec.mode]:
        return None
    by = divisor(height, width, options.min_side)
    return -(-height // by), -(-width // by)


def decode_into(pixels: NDArray[np.uint8], data: bytes, options: ImageOptions) -> bool:
    """Fill `pixels`, which is C-contiguous and of the size that `size_of` says. False where the file is damaged.

    Damage that a decoder can paint over is refused here and left to Pillow, so that what is accepted, and what it
    looks like, depends on one decoder only.
    """
    buffer: Any = pixels
    # Of all its fractions libjpeg-turbo takes the smallest that is as large as this: the one that `size_of` chose.
    height, width = pixels.shape[:2] if options.min_side else (0, 0)
    try:
        decode_jpeg(data, _WANTED[options.spec.mode], min_height=height, min_width=width, buffer=buffer)
    except ValueError:
        return False
    return True
