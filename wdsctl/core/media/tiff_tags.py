"""Tags of TIFF and EXIF that share their bytes: some releases of Pillow read these once for each tag.

Sources: TIFF 6.0, section 2; the BigTIFF design of libtiff.
"""

from __future__ import annotations

import io
import struct
from typing import IO

_MAX_SHARED_BYTES = 16 << 20  # of copies beyond the size of the file
_HEADER_BYTES = 16
#: Type -> bytes of one value.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}


def do_tags_overlap(file: IO[bytes]) -> bool:
    """Whether copies of the values of the first directory are far larger than the TIFF or EXIF. Reads the directory.

    Leaves the file at its start. False for what is neither, and for what is cut off.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    header = file.read(_HEADER_BYTES)
    order = {b"II": "<", b"MM": ">"}.get(header[:2])
    copied = _copied_bytes(file, header, order, size) if order and len(header) == _HEADER_BYTES else 0
    file.seek(0)
    return copied > size + _MAX_SHARED_BYTES


def _copied_bytes(file: IO[bytes], header: bytes, order: str, size: int) -> int:
    is_big = 43 in header[2:4]
    number, count_form, at = ("Q", "Q", 8) if is_big else ("I", "H", 4)
    entry = struct.Struct(f"{order}HH{number}{number}")
    (directory,) = struct.unpack_from(f"{order}{number}", header, at)
    count_bytes = struct.calcsize(count_form)
    if directory + count_bytes > size:
        return 0
    file.seek(directory)
    (count,) = struct.unpack(order + count_form, file.read(count_bytes))
    entries = file.read(min(count * entry.size, size))
    copied = 0
    for _, kind, values, offset in entry.iter_unpack(entries[: len(entries) // entry.size * entry.size]):
        length = values * _SIZES.get(kind, 0)
        if length > struct.calcsize(number):
            copied += max(0, min(length, size - offset))
    return copied
