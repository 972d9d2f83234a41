"""The first directory of a TIFF, or of EXIF, without an imaging library: tags that share their bytes, which some
releases of Pillow read once for each tag, and the kind of numbers of the pixels.

Sources: TIFF 6.0, section 2 and the fields BitsPerSample and SampleFormat; the BigTIFF design of libtiff.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import IO, NamedTuple

_MAX_SHARED_BYTES = 16 << 20  # of copies beyond the size of the file
_HEADER_BYTES = 16
#: Type -> bytes of one value.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
_BITS_PER_SAMPLE, _SAMPLE_FORMAT, _SHORT = 258, 339, 3
_SIGNED, _FLOAT = 2, 3  # of SampleFormat


class _Tag(NamedTuple):
    """`at`: where its values are; `first`: the first one if it is a short number that can be read."""

    number: int
    size: int  # bytes of its values
    at: int
    first: int | None


def do_tags_overlap(file: IO[bytes]) -> bool:
    """Whether copies of the values of the first directory are far larger than the TIFF or EXIF. Reads the directory.

    Leaves the file at its start. False for what is neither, and for what is cut off.
    """
    size = file.seek(0, io.SEEK_END)
    copied = sum(max(0, min(tag.size, size - tag.at)) for tag in _tags(file, size))
    file.seek(0)
    return copied > size + _MAX_SHARED_BYTES


def has_unlimited_range(data: bytes) -> bool:
    """Whether a TIFF says that its pixels are floats, signed, or of more than 16 bits: black and white are unknown.

    False if its directory is not in `data`, its first bytes.
    """
    file = io.BytesIO(data)
    tags = {tag.number: tag.first for tag in _tags(file, len(data))}
    return (tags.get(_BITS_PER_SAMPLE) or 1) > 16 or tags.get(_SAMPLE_FORMAT) in (_SIGNED, _FLOAT)


def _tags(file: IO[bytes], size: int) -> Iterator[_Tag]:
    file.seek(0)
    header = file.read(_HEADER_BYTES)
    order = {b"II": "<", b"MM": ">"}.get(header[:2])
    if not order or len(header) < _HEADER_BYTES:
        return
    is_big = 43 in header[2:4]
    number, count_form, at = ("Q", "Q", 8) if is_big else ("I", "H", 4)
    entry = struct.Struct(f"{order}HH{number}{number}")
    (directory,) = struct.unpack_from(f"{order}{number}", header, at)
    count_bytes, value_bytes = struct.calcsize(count_form), struct.calcsize(number)
    if directory + count_bytes > size:
        return
    file.seek(directory)
    (count,) = struct.unpack(order + count_form, file.read(count_bytes))
    entries = file.read(min(count * entry.size, size))
    for i in range(len(entries) // entry.size):
        name, kind, values, offset = entry.unpack_from(entries, i * entry.size)
        length = values * _SIZES.get(kind, 0)
        inline = directory + count_bytes + (i + 1) * entry.size - value_bytes
        place = offset if length > value_bytes else inline
        first = None
        if name in (_BITS_PER_SAMPLE, _SAMPLE_FORMAT) and kind == _SHORT and values and place + 2 <= size:
            file.seek(place)
            (first,) = struct.unpack(f"{order}H", file.read(2))
        yield _Tag(name, length if length > value_bytes else 0, place, first)
