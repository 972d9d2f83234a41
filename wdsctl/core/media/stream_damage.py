"""Damage of audio and video that FFmpeg does not report: files that end before their stated size, and wrong checksums
of FLAC and Matroska."""

from __future__ import annotations

import hashlib
import zlib
from typing import Literal

from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRangeFile

_UNKNOWN_SIZE_BYTES = 0x7FFF_0000  # bytes: programs that write to a pipe state this or more, or 0
_MAX_CHUNKS = 1000
_STREAMINFO_BYTES = 34
_MATROSKA_SEGMENT_ID = b"\x18\x53\x80\x67"
_CRC_ELEMENT_ID = b"\xbf\x84"  # the element CRC-32, of four bytes
#: Elements that may begin with a CRC-32: seek head, info, tracks, chapters, cluster, cues, attachments, tags.
_CHECKED_ELEMENT_IDS = frozenset(
    bytes.fromhex(name)
    for name in ("114d9b74", "1549a966", "1654ae6b", "1043a770", "1f43b675", "1c53bb6b", "1941a469", "1254c367")
)
_READ_BLOCK_BYTES = 1 << 20  # bytes


def count_missing_bytes(source: ByteRangeFile, format_name: str) -> int:
    """Return how many bytes the header states that the file does not have; 0 if the header states no usable size.

    The size is that of the chunk with samples or frames (WAV, AVI, AIFF), or of the segment (Matroska, WebM).
    """
    if format_name in ("wav", "avi"):
        return _missing_of_chunks(source, "little")
    if format_name == "aiff":
        return _missing_of_chunks(source, "big")
    return _missing_of_segment(source) if format_name in ("matroska", "webm") else 0


def _missing_of_chunks(source: ByteRangeFile, byte_order: Literal["little", "big"]) -> int:
    at = 12
    for _ in range(_MAX_CHUNKS):
        header = _read_at(source, at, 12)
        size = int.from_bytes(header[4:8], byte_order)
        if header[:4] in (b"data", b"SSND") or (header[:4] == b"LIST" and header[8:] == b"movi"):
            return max(0, at + 8 + size - source.size) if size < _UNKNOWN_SIZE_BYTES else 0
        if len(header) < 12:
            return 0
        at += 8 + size + size % 2
    return 0


def _missing_of_segment(source: ByteRangeFile) -> int:
    segment = _find_segment(source)
    return max(0, sum(segment) - source.size) if segment else 0


class FlacDigest:
    """Compares the MD5 of all samples with the one in the header. Source: RFC 9639, 8.2."""

    def __init__(self, bits: int, stated: bytes) -> None:
        self._bits = bits
        self._stated = stated
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, frame: AudioFrame) -> None:
        data = frame.to_ndarray()
        samples = data.T.reshape(-1) if frame.format.is_planar else data.reshape(-1)
        width = (self._bits + 7) // 8
        # FFmpeg keeps samples in the upper bits of its integers.
        values = (samples.astype("<i4") >> (8 * samples.dtype.itemsize - self._bits)).astype("<i4")
        self._md5.update(values.view("u1").reshape(-1, 4)[:, :width].tobytes())

    @property
    def damage(self) -> str:
        if self._md5.digest() == self._stated:
            return ""
        return "the MD5 of its samples differs from the MD5 in its header"


def make_flac_digest(stream: AudioStream | VideoStream) -> FlacDigest | None:
    """Return a digest for a FLAC stream, or None if its header states no MD5."""
    info = stream.codec_context.extradata or b""
    if len(info) != _STREAMINFO_BYTES or not any(info[18:]):
        return None
    return FlacDigest(((info[12] & 1) << 4 | info[13] >> 4) + 1, info[18:])


def find_matroska_damage(source: ByteRangeFile) -> str:
    """Return the first element with a wrong checksum, in words; empty if all fit. Reads the whole file.

    Source: RFC 8794 (EBML), 11.3.1.
    """
    segment = _find_segment(source)
    if segment is None:
        return ""
    at, end = segment[0], min(sum(segment), source.size)
    while at + 5 < end:
        name = _read_at(source, at, 4)
        # The number of leading zero bits in the first byte of an element's ID gives the ID's bytes.
        width = 9 - name[0].bit_length() if name and name[0] >= 0x10 else 0
        found = _read_element_size(source, at + width) if width else None
        if found is None or sum(found) > source.size:
            return ""  # of unknown length, or cut off, which `count_missing_bytes` finds
        if name in _CHECKED_ELEMENT_IDS and _read_at(source, found[0], 2) == _CRC_ELEMENT_ID:
            stated = int.from_bytes(_read_at(source, found[0] + 2, 4), "little")
            if (
                _crc32_of_range(source, found[0] + 6, sum(found)) != stated
                and source.failure is None
                and not source.is_over_limit
            ):
                return f"the checksum of the element at byte {at:,} is wrong"
        at = sum(found)
    return ""


def _crc32_of_range(source: ByteRangeFile, at: int, end: int) -> int:
    value = 0
    while at < end and (data := _read_at(source, at, min(_READ_BLOCK_BYTES, end - at))):
        value = zlib.crc32(data, value)
        at += len(data)
    return value


def _find_segment(source: ByteRangeFile) -> tuple[int, int] | None:
    """Return where the content of a Matroska file begins and its size, or None if the file does not state both.

    Sources: RFC 8794 (EBML), 4 and 5; RFC 9559 (Matroska), 5.1.
    """
    header = _read_element_size(source, 4)
    if header is None or _read_at(source, sum(header), 4) != _MATROSKA_SEGMENT_ID:
        return None
    return _read_element_size(source, sum(header) + 4)


def _read_element_size(source: ByteRangeFile, at: int) -> tuple[int, int] | None:
    """Read the size field at `at`: return where the element's content begins and its size, or None if unknown."""
    data = _read_at(source, at, 8)
    if not data or not data[0]:
        return None
    width = 9 - data[0].bit_length()
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return None if value == (1 << 7 * width) - 1 else (at + width, value)


def _read_at(source: ByteRangeFile, at: int, size: int) -> bytes:
    source.seek(at)
    return source.read(size) or b""
