"""Checksums that sounds and videos carry and FFmpeg does not compare: of FLAC and of Matroska."""

from __future__ import annotations

import hashlib
import zlib

from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.stated_size import SEGMENT, read_at, sized_at

_STREAMINFO_BYTES = 34
_CRC = b"\xbf\x84"  # the element CRC-32, of four bytes
#: Elements that may begin with one: seek head, info, tracks, chapters, cluster, cues, attachments, tags.
_CHECKED = frozenset(
    bytes.fromhex(name)
    for name in ("114d9b74", "1549a966", "1654ae6b", "1043a770", "1f43b675", "1c53bb6b", "1941a469", "1254c367")
)
_AT_ONCE = 1 << 20  # bytes


class FlacDigest:
    """The MD5 of all samples, held against the one that the header states. Source: RFC 9639, 8.2."""

    def __init__(self, bits: int, stated: bytes) -> None:
        self._bits = bits
        self._stated = stated
        self._md5 = hashlib.md5(usedforsecurity=False)

    def add(self, frame: AudioFrame) -> None:
        data = frame.to_ndarray()
        samples = data.T.reshape(-1) if frame.format.is_planar else data.reshape(-1)
        width = (self._bits + 7) // 8
        # FFmpeg fills its integers from the top.
        values = (samples.astype("<i4") >> (8 * samples.dtype.itemsize - self._bits)).astype("<i4")
        self._md5.update(values.view("u1").reshape(-1, 4)[:, :width].tobytes())

    @property
    def trouble(self) -> str:
        if self._md5.digest() == self._stated:
            return ""
        return "the MD5 of its samples is not the one that its header states"


def flac_digest(stream: AudioStream | VideoStream) -> FlacDigest | None:
    """None where the file states no MD5."""
    info = stream.codec_context.extradata or b""
    if len(info) != _STREAMINFO_BYTES or not any(info[18:]):
        return None
    return FlacDigest(((info[12] & 1) << 4 | info[13] >> 4) + 1, info[18:])


def matroska_trouble(source: ByteRange) -> str:
    """Whether the checksum of each element that begins with one fits; empty where it does. Reads all of the file.

    Source: RFC 8794 (EBML), 11.3.1.
    """
    header = sized_at(source, 4)
    segment = None if header is None else sized_at(source, sum(header) + 4)
    if header is None or segment is None or read_at(source, sum(header), 4) != SEGMENT:
        return ""
    at, end = segment[0], min(sum(segment), source.size)
    while at + 5 < end:
        name = read_at(source, at, 4)
        width = _width(name)
        found = sized_at(source, at + width) if width else None
        if found is None or sum(found) > source.size:
            return ""  # of no known length, or cut off, which is told by others
        if name in _CHECKED and read_at(source, found[0], 2) == _CRC:
            stated = int.from_bytes(read_at(source, found[0] + 2, 4), "little")
            if _crc(source, found[0] + 6, sum(found)) != stated and source.failure is None and not source.is_spent:
                return f"the checksum of the element at byte {at:,} does not fit"
        at = sum(found)
    return ""


def _width(name: bytes) -> int:
    """Bytes of the name of an element: as many as its first bit stands behind."""
    return 9 - name[0].bit_length() if name and name[0] >= 0x10 else 0


def _crc(source: ByteRange, at: int, end: int) -> int:
    value = 0
    while at < end and (data := read_at(source, at, min(_AT_ONCE, end - at))):
        value = zlib.crc32(data, value)
        at += len(data)
    return value
