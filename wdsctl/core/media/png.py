"""Write PNG files, and read those whose texts or color profile are larger than Pillow reads: without these chunks.

Nothing in wdsctl reads such texts, and no pixel depends on them. Source: PNG (ISO/IEC 15948), 5.3 and 11.3.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import IO, Concatenate, ParamSpec, TypeVar

from wdsctl.core.media.byte_range import image_file
from wdsctl.core.media.sniff import PNG_SIGNATURE

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")

_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt")
#: Keywords of the texts that state an orientation.
_KEPT_KEYWORDS = (b"Raw profile type exif", b"XML:com.adobe.xmp")
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by color type
#: Mode of pixels in Pillow, which has a letter for each channel -> color type.
PNG_COLOR_TYPES = {"L": 0, "RGB": 2, "LA": 4, "RGBA": 6}
#: The passes of an interlaced image: first column and row, and the steps between columns and rows.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_PIECE_BYTES = 1 << 20  # of the unpacked pixels at a time
_MAX_UNPACKED_BYTES = 1 << 20  # of a text or profile; Pillow's own limit


def encode_png(width: int, height: int, mode: str, pixels: bytes, *, level: int = 6) -> bytes:
    """Encode pixels of one byte a channel, row by row. `mode`: of `PNG_COLOR_TYPES`. `level`: of zlib, 0 to 9."""
    stride = width * len(mode)
    rows = b"".join(b"\0" + pixels[at : at + stride] for at in range(0, stride * height, stride))
    head = struct.pack(">2I5B", width, height, 8, PNG_COLOR_TYPES[mode], 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, level)), (b"IEND", b""))
    return PNG_SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def is_side_chunk_error(error: Exception) -> bool:
    """Whether Pillow refuses a file because of a text or color profile that is too large for it."""
    return isinstance(error, ValueError) and "MAX_TEXT" in str(error)


def retry_without_side_chunks(
    read: Callable[Concatenate[bytes, _Params], _Result],
) -> Callable[Concatenate[bytes, _Params], _Result]:
    """A function of the bytes of an image that reads PNG with large side chunks, too."""

    @wraps(read)
    def read_again(data: bytes, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        try:
            return read(data, *args, **kwargs)
        except ValueError as error:
            if not is_side_chunk_error(error) or not data.startswith(PNG_SIGNATURE):
                raise
        return read(without_side_chunks(image_file(data)), *args, **kwargs)

    return read_again


def without_side_chunks(file: IO[bytes], *, head_only: bool = False) -> bytes:
    """A PNG without its texts, and without a color profile that is too large. `head_only`: up to the first pixels."""
    file.seek(0)
    kept = [file.read(len(PNG_SIGNATURE))]
    while len(header := file.read(8)) == 8:
        size, kind = struct.unpack(">I4s", header)
        if head_only and kind == b"IDAT":
            return b"".join([*kept, header])
        is_side_chunk = kind in _TEXT_CHUNKS or kind == b"iCCP"
        if is_side_chunk and size > _MAX_UNPACKED_BYTES:
            file.seek(size + 4, io.SEEK_CUR)
            continue
        body = file.read(size + 4)
        if not is_side_chunk or _is_kept(kind, body[:size]):
            kept += [header, body]
    return b"".join(kept)


def _is_kept(kind: bytes, body: bytes) -> bool:
    keyword, _, rest = body.partition(b"\0")
    if kind != b"iCCP" and keyword not in _KEPT_KEYWORDS:
        return False
    packed = rest[1:]
    if kind == b"tEXt" or (kind == b"iTXt" and rest[:1] == b"\0"):
        return True  # not compressed
    if kind == b"iTXt":
        packed = rest[2:].partition(b"\0")[2].partition(b"\0")[2]
    try:
        unpacked = zlib.decompressobj().decompress(packed, _MAX_UNPACKED_BYTES + 1)
    except zlib.error:
        return True  # Pillow ignores it
    return len(unpacked) <= _MAX_UNPACKED_BYTES


def find_wrong_chunk(data: bytes) -> str:
    """The name of the first chunk before the pixels whose checksum is wrong; empty if there is none."""
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if kind == b"IDAT" or end > len(data):
            break
        if zlib.crc32(data[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            return str(kind.decode("ascii", "backslashreplace"))
        at = end
    return ""


def is_interlaced(data: bytes) -> bool:
    return data[28:29] == b"\1"


def has_all_rows(data: bytes) -> bool:
    """Whether the packed pixels of a PNG with a valid header are as many as it states. Cost: unpacking them."""
    width, height, depth, color, _, _, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    bits = depth * _CHANNELS[color]
    missing = 0
    for x, y, dx, dy in _PASSES if interlace else ((0, 0, 1, 1),):
        columns, rows = -(-(width - x) // dx), -(-(height - y) // dy)
        missing += rows * (1 + (columns * bits + 7) // 8) if columns > 0 and rows > 0 else 0
    unpacker = zlib.decompressobj()
    for packed in _packed_pixels(data):
        rest = packed
        while rest and missing > 0:
            missing -= len(unpacker.decompress(rest, _PIECE_BYTES))
            rest = unpacker.unconsumed_tail
    return missing - len(unpacker.flush()) <= 0


def _packed_pixels(data: bytes) -> Iterator[bytes]:
    at = len(PNG_SIGNATURE)
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IDAT":
            yield data[at + 8 : at + 8 + size]
        at += 12 + size
