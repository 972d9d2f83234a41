"""Images that Pillow opens without a complaint and reads wrongly: corrected here, or refused with the cause.

What decodes with Pillow calls `correct_reading` before it loads an image, and `full_range_gray` after, unless it wants
the numbers as they are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

from wdsctl.core.media.image import SIXTEEN_BITS_IN_I
from wdsctl.core.media.png import has_all_rows, is_interlaced

#: Pillow's raw modes of PNG gray below 8 bits -> what its values are multiplied with to fill 8 bits.
_PNG_GRAY_FACTORS = {"L;2": 85, "L;4": 17}


def correct_reading(image: Image.Image) -> None:
    """Correct how an opened image will be read. Raises ValueError for images that Pillow would read wrongly."""
    if image.format == "TIFF":
        _correct_tiff(image)
    elif image.format == "PNG" and isinstance(image.info.get("transparency"), int):
        # Pillow scales the gray values, but not the one that is transparent.
        tiles: Any = getattr(image, "tile", ())
        rawmode = str(tiles[0][3]) if tiles else ""
        image.info["transparency"] *= _PNG_GRAY_FACTORS.get(rawmode, 1)


def _correct_tiff(image: Any) -> None:
    tags = image.tag_v2
    bits, forms = tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,)), tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))
    if image.mode == "L" and forms[0] == 2:  # Pillow takes signed 8 bits for unsigned, and has no mode for them
        image._mode = "I"  # noqa: SLF001 - as the image's own class sets it
        image.tile = [_with_rawmode(tile, "I;8S") for tile in image.tile]
    if not (bits[0] == 16 and len(image.tile) > 1 and tags.get(TiffImagePlugin.PLANAR_CONFIGURATION) == 2):
        return
    if image.mode not in ("RGB", "RGBA"):
        raise ValueError(f"it is a TIFF of {image.mode} with 16 bits in separate planes, which Pillow reads wrongly")
    # Pillow takes uncompressed planes for 8 bits, and names those behind the colors by the rest of `RGB;16L`.
    suffix = ";16B" if tags.prefix == b"MM" else ";16L"
    image.tile = [_with_rawmode(tile, tile[3][0] + suffix) for tile in image.tile if tile[3][0].isalpha()]


def _with_rawmode(tile: Any, rawmode: str) -> Any:
    """Pillow's tile (decoder, extents, offset, arguments) with another first argument. Older releases have tuples."""
    args = (rawmode, *tile[3][1:])
    return tile._replace(args=args) if hasattr(tile, "_replace") else (*tile[:3], args)


def full_range_gray(image: Image.Image) -> Image.Image:
    """A loaded TIFF in gray whose 16 bits go from black to white; other images as they are.

    Pillow leaves 12 bits at 0 to 4095, and 16 bits whose 0 is white as they are.
    """
    if image.format != "TIFF" or not image.mode.startswith("I;16"):
        return image
    tags: Any = image.tag_v2  # type: ignore[attr-defined]
    is_short = tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))[0] == 12
    is_inverted = tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION, 0) == 0
    if not (is_short or is_inverted):
        return image
    values: NDArray[Any] = np.asarray(image).astype(np.uint16)
    if is_short:
        values = values << 4 | values >> 8
    corrected = Image.fromarray(65_535 - values if is_inverted else values)
    corrected.info = image.info
    corrected.format = image.format
    return corrected


def check_range(image: Image.Image, advice: str = "") -> None:
    """Raise ValueError for an opened image in numbers whose black and white are unknown: of 32 bits, or signed."""
    if image.mode not in ("I", "F") or (image.mode == "I" and image.format in SIXTEEN_BITS_IN_I):
        return
    tags: Any = getattr(image, "tag_v2", {})
    bits = tags.get(TiffImagePlugin.BITSPERSAMPLE, (32,))[0]
    kind = f"signed {bits} bits per pixel" if bits < 32 else f"32 bits per pixel (mode {image.mode})"
    raise ValueError(f"an image of {kind} has no defined range of values{advice}")


def has_unnamed_channel(image: Image.Image) -> bool:
    """Whether the fourth channel of an opened RGB TIFF may be anything: Pillow takes it for alpha."""
    tags: Any = getattr(image, "tag_v2", {})
    return image.format == "TIFF" and image.mode == "RGBA" and TiffImagePlugin.EXTRASAMPLES not in tags


_UNSET = 165  # a value that few pixels have


def load_completely(image: Image.Image, data: bytes) -> None:
    """Load the pixels of an opened image. Raises OSError for a PNG without all of its rows, which Pillow leaves black.

    Cost: filling the memory; of interlaced images another unpacking, and of one in 256 others.
    """
    if image.format != "PNG" or image.width * image.height == 0:
        image.load()
        return
    bands = len(image.getbands())
    unset: Any = (_UNSET,) * bands if bands > 1 else 255 if image.mode == "1" else _UNSET
    is_doubtful = is_interlaced(data)
    if not is_doubtful:
        image.im = Image.new(image.mode, image.size, unset).im
    image.load()
    if not is_doubtful:
        is_doubtful = image.im.getpixel((0, image.height - 1)) == unset
    if is_doubtful and not has_all_rows(data):
        raise OSError("image file is truncated: its pixels end before its last row")
