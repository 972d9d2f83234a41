"""Arrays and raw images as files that others read: `.npy` and `.png`.

Sources: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html; https://www.w3.org/TR/png.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Mode of a raw image -> (PNG's colour type, bytes a pixel).
_COLOURS = {"L": (0, 1), "RGB": (2, 3), "LA": (4, 2), "RGBA": (6, 4)}


def npy(array: NDArray[Any]) -> bytes:
    """The array as a `.npy` file. Arrays of objects are none: they would be a pickle."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def png_of_raw(data: bytes) -> bytes:
    """A raw image as MDS and LitData store it, as PNG, which loses nothing: width, height, mode's length, mode, pixels.

    Raises ValueError where the sizes do not fit, or the mode is none of L, LA, RGB and RGBA.
    """
    if len(data) < 12:
        raise ValueError("a raw image is cut short")
    width, height, count = struct.unpack_from("<3I", data)
    mode = data[12 : 12 + count].decode("ascii", "replace")
    if mode not in _COLOURS:
        raise ValueError(f"a raw image of mode {mode[:8]!r}: only L, LA, RGB and RGBA can be written as PNG")
    colour, depth = _COLOURS[mode]
    pixels = data[12 + count :]
    stride = width * depth
    if not width or not height or len(pixels) != stride * height:
        raise ValueError(f"a raw image of {width} x {height} {mode} has {len(pixels):,} bytes of pixels")
    lines = b"".join(b"\0" + pixels[at : at + stride] for at in range(0, len(pixels), stride))
    head = struct.pack(">2I5B", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
