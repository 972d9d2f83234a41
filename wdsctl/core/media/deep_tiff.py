"""16-bit color of TIFF, of which Pillow keeps the upper 8 bits: it is read as 16-bit gray, of which Pillow keeps all.

A second directory is written behind the file, and describes the same pixels as gray: interleaved channels as one image
that is wider by their number, separate planes as one image each. Source: TIFF 6.0, sections 2, 8, 14 and 15.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import TiffImagePlugin as Tiff

_PREDICTOR, _DIFFERENCES = 317, 2
_LONG = 4  # a type of values
_TILED = (Tiff.TILEOFFSETS, Tiff.TILEBYTECOUNTS)
_STRIPS = (Tiff.STRIPOFFSETS, Tiff.STRIPBYTECOUNTS)


def read_deep_tiff(data: bytes, tags: Any) -> NDArray[np.uint16]:
    """uint16 (height, width, channels) as stored, not turned. `tags`: of the file (`tag_v2`), with 16 bits per channel.

    Raises what Pillow does for a damaged file. Memory: a copy of the file, and the pixels twice.
    """
    channels = tags[Tiff.SAMPLESPERPIXEL]
    if tags.get(Tiff.PLANAR_CONFIGURATION) == 2:
        return np.stack([_read_gray(data, tags, 1, (number, channels)) for number in range(channels)], axis=-1)
    wide = _read_gray(data, tags, channels, (0, 1))
    pixels = wide.reshape(wide.shape[0], -1, channels)
    if tags.get(_PREDICTOR) != _DIFFERENCES:
        return pixels
    width = pixels.shape[1]
    step = tags.get(Tiff.TILEWIDTH) if Tiff.TILEOFFSETS in tags else width
    for start in range(0, width, step):  # each tile has differences of its own
        pixels[:, start : start + step] = np.cumsum(pixels[:, start : start + step], axis=1, dtype=np.uint16)
    return pixels


def _read_gray(data: bytes, tags: Any, channels: int, plane: tuple[int, int]) -> NDArray[np.uint16]:
    """(height, width * channels) gray. `plane`: which of how many. Differences between pixels of several channels stay.

    Cost: that of decoding the file by Pillow.
    """
    view: dict[int, tuple[int, ...]] = {
        Tiff.IMAGEWIDTH: (tags[Tiff.IMAGEWIDTH] * channels,),
        Tiff.IMAGELENGTH: (tags[Tiff.IMAGELENGTH],),
        Tiff.BITSPERSAMPLE: (16,),
        Tiff.COMPRESSION: (tags.get(Tiff.COMPRESSION, 1),),
        Tiff.PHOTOMETRIC_INTERPRETATION: (1,),
        Tiff.SAMPLESPERPIXEL: (1,),
    }
    for tag in (Tiff.ROWSPERSTRIP, Tiff.TILELENGTH, *([_PREDICTOR] if channels == 1 else [])):
        if tag in tags:
            view[tag] = (tags[tag],)
    if Tiff.TILEWIDTH in tags:
        view[Tiff.TILEWIDTH] = (tags[Tiff.TILEWIDTH] * channels,)
    for tag in _TILED if Tiff.TILEOFFSETS in tags else _STRIPS:
        if tag in tags:
            number, planes = plane
            size = len(tags[tag]) // planes
            view[tag] = tuple(tags[tag][number * size : (number + 1) * size])
    file = _with_directory(data, view)
    return np.asarray(Tiff.TiffImageFile(io.BytesIO(file))).astype(np.uint16)


def _with_directory(data: bytes, view: dict[int, tuple[int, ...]]) -> bytes:
    """The file with another directory behind it, all of whose values are of the type LONG."""
    order, at = (">" if data[:2] == b"MM" else "<"), len(data) + len(data) % 2
    values_at = at + 2 + 12 * len(view) + 4
    entries, values = [], b""
    for tag, numbers in sorted(view.items()):
        packed = struct.pack(f"{order}{len(numbers)}I", *numbers)
        entries.append(struct.pack(f"{order}HHI", tag, _LONG, len(numbers)))
        if len(numbers) == 1:
            entries.append(packed)
        else:
            entries.append(struct.pack(f"{order}I", values_at + len(values)))
            values += packed
    header = data[:2] + struct.pack(f"{order}HI", 42, at)
    count = struct.pack(f"{order}H", len(view))
    return b"".join([header, data[len(header) :], bytes(at - len(data)), count, *entries, bytes(4), values])
