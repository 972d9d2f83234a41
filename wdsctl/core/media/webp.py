"""The header of a WebP file (RFC 9649). Pillow would read the whole file and make room for all of its pixels."""

from __future__ import annotations

from typing import NamedTuple

from wdsctl.core.media.byte_range import ByteRange

_ALPHA, _EXIF = 0x10, 0x08  # flags of VP8X
_MOST_EXIF = 1 << 20  # bytes: an orientation stands in the first hundred


class WebpHeader(NamedTuple):
    width: int  # pixels
    height: int
    has_alpha: bool
    exif: bytes


def webp_header(source: ByteRange) -> WebpHeader:
    """Raises ValueError where the file is cut off in its header or begins with no image."""
    source.seek(12)
    name, size = _chunk(source)
    data = _exactly(source, 10)
    if name == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (4, 7))
        exif = _exif(source, 20 + size + size % 2) if data[0] & _EXIF else b""
        return WebpHeader(width, height, bool(data[0] & _ALPHA), exif)
    if name == b"VP8L" and data[0] == 0x2F:
        bits = int.from_bytes(data[1:5], "little")
        return WebpHeader(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), bool(bits >> 28 & 1), b"")
    if name == b"VP8 " and data[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (6, 8))
        return WebpHeader(width, height, False, b"")
    raise ValueError("no image stands at the beginning of this WebP file")


def _exif(source: ByteRange, at: int) -> bytes:
    """The EXIF chunk, which stands behind the pixels; nothing where the file ends before it."""
    while at + 8 <= source.size and not source.is_spent:
        source.seek(at)
        name, size = _chunk(source)
        if name == b"EXIF":
            return source.read(min(size, _MOST_EXIF)) or b""
        at += 8 + size + size % 2
    return b""


def _chunk(source: ByteRange) -> tuple[bytes, int]:
    header = _exactly(source, 8)
    return header[:4], int.from_bytes(header[4:], "little")


def _exactly(source: ByteRange, size: int) -> bytes:
    data = source.read(size)
    if data is None or len(data) < size:
        raise ValueError("the WebP file ends in its header")
    return data
