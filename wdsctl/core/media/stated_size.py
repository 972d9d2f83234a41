"""How many bytes a sound or a video has by its own header, for files that were cut off and still decode."""

from __future__ import annotations

from typing import Literal

from wdsctl.core.media.byte_range import ByteRange

_UNKNOWN = 0x7FFF_0000  # bytes: who writes to a pipe says so many and more, or 0
SEGMENT = b"\x18\x53\x80\x67"
_MOST_CHUNKS = 1000


def missing_bytes(source: ByteRange, format_name: str) -> int:
    """Bytes that the file says it has and that are not there; 0 where it says nothing that can be known.

    Of WAV, AVI and AIFF the chunk of the samples or frames is asked, of Matroska and WebM the segment.
    """
    if format_name in ("wav", "avi"):
        return _of_chunks(source, "little")
    if format_name == "aiff":
        return _of_chunks(source, "big")
    return _of_segment(source) if format_name in ("matroska", "webm") else 0


def _of_chunks(source: ByteRange, order: Literal["little", "big"]) -> int:
    at = 12
    for _ in range(_MOST_CHUNKS):
        header = read_at(source, at, 12)
        size = int.from_bytes(header[4:8], order)
        if header[:4] in (b"data", b"SSND") or (header[:4] == b"LIST" and header[8:] == b"movi"):
            return max(0, at + 8 + size - source.size) if size < _UNKNOWN else 0
        if len(header) < 12:
            return 0
        at += 8 + size + size % 2
    return 0


def _of_segment(source: ByteRange) -> int:
    """Source: RFC 8794 (EBML), 4 and 5; RFC 9559 (Matroska), 5.1."""
    header = sized_at(source, 4)
    if header is None or read_at(source, sum(header), 4) != SEGMENT:
        return 0
    segment = sized_at(source, sum(header) + 4)
    return max(0, sum(segment) - source.size) if segment else 0


def sized_at(source: ByteRange, at: int) -> tuple[int, int] | None:
    """Where the content of an element begins, and how long it is, by the length that stands here; None: unknown."""
    data = read_at(source, at, 8)
    if not data or not data[0]:
        return None
    width = 9 - data[0].bit_length()
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return None if value == (1 << 7 * width) - 1 else (at + width, value)


def read_at(source: ByteRange, at: int, size: int) -> bytes:
    source.seek(at)
    return source.read(size) or b""
