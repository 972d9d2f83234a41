"""Keyframe index of a video: its keyframes by time, number and byte offset, from its packets, without decoding.

With the index, a decoder needs no search. To reach frame n, it enters at the keyframe before n and decodes the frames
between. The index does not keep their times: a decoder that starts at a keyframe reads them.

As bytes (`to_bytes`): `WKI1`, then LEB128 numbers, zigzag-encoded if they may be negative. First come the numerator and
denominator of the time base, frames, start, end, and the number of keyframes; then, for every keyframe, the differences
from the previous one in time, number and byte. An index has about 9 bytes a keyframe: 6 KB an hour of video with a
keyframe every 5 s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, islice, pairwise

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from wdsctl.core.errors import InputError
from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.stream import first_video_stream, open_container

KEYFRAME_INDEX_MAGIC = b"WKI1"


@dataclass(frozen=True, slots=True)
class KeyframeIndex:
    """Keyframes of a video. Times are in ticks of `time_base` seconds, on the clock of the file.

    The three tuples have one entry a keyframe.
    """

    time_base: Fraction
    frames: int  # frames that are shown
    start: int  # when the first frame is shown
    end: int  # when the last frame ends
    pts: tuple[int, ...]  # when each keyframe is shown, ascending
    frame_numbers: tuple[int, ...]  # how many frames are shown before it
    byte_offsets: tuple[int, ...]  # offset of its first byte in the file, -1 if unknown

    def keyframe_at_tick(self, tick: float) -> int:
        """Return the number of the last keyframe shown at or before this time, or 0 for a time before the first one."""
        return max(0, bisect_right(self.pts, tick) - 1)

    def to_bytes(self) -> bytes:
        head = [*self.time_base.as_integer_ratio(), self.frames]
        head += [_zigzag(self.start), _zigzag(self.end), len(self.pts)]
        body = zip(_deltas(self.pts), _deltas(self.frame_numbers), _deltas(self.byte_offsets), strict=True)
        return (
            KEYFRAME_INDEX_MAGIC
            + b"".join(map(_encode_leb128, head))
            + b"".join(_encode_leb128(_zigzag(step)) for steps in body for step in steps)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyframeIndex:
        """Decode an index. Raises InputError if the bytes are not an index."""
        try:
            return cls._parse(data)
        except (ValueError, ZeroDivisionError):
            raise InputError(
                "the keyframe index is damaged, or the bytes are not a keyframe index",
                hint="omit the index: the decoder then finds keyframes in the video",
            ) from None

    @classmethod
    def _parse(cls, data: bytes) -> KeyframeIndex:
        if data[: len(KEYFRAME_INDEX_MAGIC)] != KEYFRAME_INDEX_MAGIC:
            raise ValueError(KEYFRAME_INDEX_MAGIC)
        numbers = _decode_leb128(data[len(KEYFRAME_INDEX_MAGIC) :])
        numerator, denominator, frames, start, end, count = islice(numbers, 6)
        steps = [_unzigzag(number) for number in numbers]
        if len(steps) != 3 * count:
            raise ValueError(count)
        columns = (tuple(accumulate(steps[i::3])) for i in range(3))
        return cls(Fraction(numerator, denominator), frames, _unzigzag(start), _unzigzag(end), *columns)


def _deltas(values: tuple[int, ...]) -> Iterator[int]:
    before = 0
    for value in values:
        yield value - before
        before = value


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _unzigzag(value: int) -> int:
    return -(value + 1) // 2 if value & 1 else value // 2


def _encode_leb128(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def _decode_leb128(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
    if shift:
        raise ValueError(shift)


@dataclass(frozen=True, slots=True)
class KeyframeScan:
    index: KeyframeIndex
    pts: list[int]  # times of all frames, ascending


def scan_keyframes(container: InputContainer, stream: VideoStream) -> KeyframeScan | None:
    """Return the index of a stream in a container that was just opened, and the times of all its frames.

    Returns None if the file does not state when its frames are shown (AVI with B-frames), or states one time twice. A
    decoder reads such a video from its beginning. Cost: reads all bytes of the file, at the speed of the disk.
    """
    if not has_timestamps(container, stream):
        return None
    frames: list[tuple[int, int]] = []  # (start, end) of each frame
    keys: list[tuple[int, int]] = []  # (time, byte offset)
    for packet in container.demux(stream):
        if packet.size == 0 or packet.is_discard:
            continue
        if packet.pts is None:
            return None
        frames.append((packet.pts, packet.pts + (packet.duration or 0)))
        if packet.is_keyframe:
            keys.append((packet.pts, -1 if packet.pos is None else packet.pos))
    pts = sorted(shown for shown, _ in frames)
    if not keys or any(a == b for a, b in pairwise(pts)):
        return None
    keys.sort()
    index = KeyframeIndex(
        time_base=stream.time_base or Fraction(1),
        frames=len(pts),
        start=pts[0],
        end=max(frames)[1],  # of the last frame: with a variable rate, others may claim to end later
        pts=tuple(shown for shown, _ in keys),
        frame_numbers=tuple(bisect_left(pts, shown) for shown, _ in keys),
        byte_offsets=tuple(position for _, position in keys),
    )
    return KeyframeScan(index, pts)


def has_timestamps(container: InputContainer, stream: VideoStream) -> bool:
    """Whether packets state when their frames are shown.

    AVI counts packets instead. If frames are reordered, this count is not a time, and FFmpeg makes up times that are
    not ascending.
    """
    return not (container.format.name == "avi" and stream.codec_context.has_b_frames)


def read_keyframe_index(source: ByteRangeFile, format_name: str) -> bytes | None:
    """Return `KeyframeIndex.to_bytes()`, or None if the video has no timestamps or cannot be read to its end.

    Reads the whole file once and decodes nothing. Raises what the source raises.
    """
    try:
        with open_container(source, format_name) as container:
            stream = first_video_stream(container)
            scan = scan_keyframes(container, stream) if stream is not None else None
    except av.FFmpegError:
        scan = None
    if source.failure is not None:
        raise source.failure
    return None if scan is None or source.is_over_limit else scan.index.to_bytes()
