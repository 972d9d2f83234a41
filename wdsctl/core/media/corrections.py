"""Images that Pillow opens without a complaint and reads wrongly: corrected here, or refused with the cause.

What decodes with Pillow calls `correct_reading` before it loads an image, and `full_range_gray` after, unless it wants
the numbers as they are stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, TiffImagePlugin

#: Pillow's raw modes of PNG gray below 8 bits -> what its values are multiplied with to fill 8 bits.
_PNG_GRAY_FACTORS = {"L;2": 85, "L;4": 17}


def correct_reading(image: Image.Image) -> None:
    """Correct how an opened image will be read. Raises ValueError for images that Pillow would read wrongly."""
    if image.format == "TIFF":
        _correct_tiff(image)
    elif image.format == "PNG" and isinstance(image.info.get("transparency"), int):
        # Pillow scales the gray values, but not the one that is transparent.
        rawmode = str(image.tile[0].args) if getattr(image, "tile", ()) else ""
        image.info["transparency"] *= _PNG_GRAY_FACTORS.get(rawmode, 1)


def _correct_tiff(image: Any) -> None:
    tags = image.tag_v2
    bits, forms = tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,)), tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))
    if image.mode == "L" and forms[0] == 2:
        raise ValueError("it is a TIFF of signed 8 bits per pixel, which Pillow reads as unsigned")
    if not (bits[0] == 16 and len(image.tile) > 1 and tags.get(TiffImagePlugin.PLANAR_CONFIGURATION) == 2):
        return
    if image.mode not in ("RGB", "RGBA"):
        raise ValueError(f"it is a TIFF of {image.mode} with 16 bits in separate planes, which Pillow reads wrongly")
    # Pillow takes uncompressed planes for 8 bits, and names those behind the colors by the rest of `RGB;16L`.
    suffix = ";16B" if tags.prefix == b"MM" else ";16L"
    image.tile = [
        tile._replace(args=(tile.args[0] + suffix, *tile.args[1:])) for tile in image.tile if tile.args[0].isalpha()
    ]


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
    values = np.asarray(image).astype(np.uint16)
    if is_short:
        values = values << 4 | values >> 8
    corrected = Image.fromarray(65_535 - values if is_inverted else values)
    corrected.info = image.info
    corrected.format = image.format
    return corrected
