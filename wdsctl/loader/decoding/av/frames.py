"""Decoding video from any position on, with the frames that a decode from the start of the file gives.

`FrameReader` seeks to a keyframe that is shown no later than the requested frame, and verifies that the seek succeeded:

- It drops packets before the first keyframe, and frames that are shown before the keyframe: after an open group of
  pictures these depend on frames that were not read.
- If the keyframe is shown after the requested frame (seeks go by decode times, which run ahead), or if another frame
  comes out first (streams with gradual refresh), it seeks further back, and finally reads from the start.

Frames between the keyframe and the requested frame are decoded only if others depend on them, and not converted.
`SequentialFrameReader` serves videos without a usable clock: it counts frames from the start of the file.

`FrameTimes` tells when frame n is shown, where n counts frames in display order, at any rate. After a scan of all
packets the times of all frames are known. Otherwise the time is found by reading packets from the keyframe before frame
n; an index, or the table of contents of MP4, says which keyframe that is and how many frames precede it. Nothing is
decoded for it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import av
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium

_STEP_SECONDS = 0.5  # further back after the first seek that missed; doubled after each other one
#: Decoders that can skip non-reference frames packet by packet. dav1d, for one, cannot.
_SKIP_FRAME_CODECS = frozenset({"h264", "hevc", "mpeg4", "mpeg2video", "mpeg1video"})
_SEEK_AHEAD_SECONDS = 2  # from this distance on, a seek pays if keyframes are unknown


class NoClockError(Exception):
    """The file states no times for its frames, or wrong ones: its frames can only be counted."""


class ShownFrame(NamedTuple):
    frame: VideoFrame
    start: int  # in ticks of the stream, or a frame number
    end: int


class FrameReader:
    """Reads frames from any tick on. `current`: the frame at the position; `upcoming`: the next one, None at the end.

    Before the first frame of the stream, that frame is `current`.
    """

    def __init__(self, medium: OpenMedium, stream: VideoStream, index: KeyframeIndex | None) -> None:
        self._opened = medium
        self._stream = stream
        self._index = index
        self._packets: Iterator[Packet[VideoStream]] = iter(())
        self._queue: deque[Packet[VideoStream]] = deque()
        self._frames: deque[VideoFrame] = deque()
        self._is_drained = False
        rate, tick = stream.average_rate or stream.guessed_rate, stream.time_base
        self._frame_ticks = max(1, round(1 / (rate * tick))) if rate and tick else 1  # duration of a frame
        self._skips = stream.codec_context.codec.name in _SKIP_FRAME_CODECS
        self._first_shown_tick: int | None = None  # earlier frames are dropped
        self._needed_from_tick = -math.inf  # earlier frames are decoded only if others depend on them
        self.current: ShownFrame | None = None
        self.upcoming: ShownFrame | None = None

    def seek_to(self, tick: float) -> None:
        """Make the frame current that is shown at this tick. Raises NoClockError, BadMediumError, av.FFmpegError."""
        if self.current is None or tick < self.current.start or self._should_seek(self.current.start, tick):
            self._seek_before(tick)
        if self.upcoming is not None and self.upcoming.start <= tick:
            self._look_ahead(tick)
        while self.upcoming is not None and self.upcoming.start <= tick:
            self.advance()

    def advance(self) -> None:
        """Move to the next frame."""
        self.current, self.upcoming = self.upcoming, self._next_frame()
        if self.current and self.upcoming and self.upcoming.start <= self.current.start:
            raise NoClockError

    # Seeking.

    def _seek_before(self, tick: float) -> None:
        step = _STEP_SECONDS
        target = tick
        while True:
            start = self._seek_keyframe(target)
            if start is None or start <= tick:
                self._look_ahead(tick)
                self.current = self._next_frame()
                if start is None or (self.current is not None and self.current.start == start):
                    break
            target = min(target, start) - step / float(self._stream.time_base or 1)
            step *= 2
        self.upcoming = None if self.current is None else self._next_frame()

    def _seek_keyframe(self, target: float) -> float | None:
        """Seek to a keyframe near `target`. The tick at which it is shown; None at the start of the file."""
        first = self._index.pts[0] if self._index is not None else (self._stream.start_time or 0)
        is_first = target <= first or not self._opened.keeps_clock
        is_in_first_group = self._index is not None and self._index.keyframe_at_tick(target) == 0
        if is_first or (self._opened.is_at_start and is_in_first_group) or not self._try_seek(int(target)):
            self._opened.restart()
            self._stream = self._opened.video or self._stream
            self._begin_demuxing()
            self._first_shown_tick = None
            return None
        self._begin_demuxing()
        for packet in self._packets:
            if packet.size and packet.is_keyframe:
                if packet.pts is None:
                    raise NoClockError
                self._queue.append(packet)
                self._first_shown_tick = packet.pts
                return self._first_shown_tick
        return math.inf  # no keyframe follows

    def _try_seek(self, tick: int) -> bool:
        try:
            self._opened.is_at_start = False
            self._opened.container.seek(tick, stream=self._stream)
        except av.FFmpegError:
            return False
        return True

    def _begin_demuxing(self) -> None:
        self._opened.select_stream(self._stream)
        self._packets = self._opened.container.demux(self._stream)
        self._queue.clear()
        self._frames.clear()
        self._is_drained = False
        self._needed_from_tick = -math.inf

    def _should_seek(self, position: int, target: float) -> bool:
        """Whether a keyframe lies between the two ticks, as far as is known."""
        if self.upcoming is None or not self._opened.keeps_clock:
            return False
        if self._index is not None:
            return self._index.pts[self._index.keyframe_at_tick(target)] > position
        entries: Any = getattr(self._stream, "index_entries", ())
        if len(entries) and int(entries[-1].timestamp) > target:
            return int(entries[entries.search_timestamp(int(target))].timestamp) > position
        return (target - position) * float(self._stream.time_base or 0) > _SEEK_AHEAD_SECONDS

    # Decoding.

    def _look_ahead(self, tick: float) -> None:
        """Read packets until all frames shown by `tick` are queued, so that earlier non-reference frames can be
        skipped.

        A frame that is decoded after a packet is never shown before that packet is decoded.
        """
        if not self._queue or not _is_decoded_after(self._queue[-1], tick):
            for packet in self._packets:
                self._queue.append(packet)
                if _is_decoded_after(packet, tick):
                    break
        due = (each.pts for each in self._queue if each.size and not each.is_discard)
        self._needed_from_tick = max((pts for pts in due if pts is not None and pts <= tick), default=-math.inf)

    def _next_frame(self) -> ShownFrame | None:
        """The next frame in display order; None at the end."""
        while True:
            frame = self._decode_next()
            if frame is None:
                return None
            if frame.pts is None:
                raise NoClockError
            if self._first_shown_tick is None or frame.pts >= self._first_shown_tick:
                return ShownFrame(frame, frame.pts, frame.pts + (frame.duration or self._frame_ticks))

    def _decode_next(self) -> VideoFrame | None:
        while not self._frames and not self._is_drained:
            packet = self._queue.popleft() if self._queue else next(self._packets, None)
            if packet is None:
                self._is_drained = True
                break
            if self._skips:
                is_skippable = packet.pts is not None and packet.pts < self._needed_from_tick
                self._stream.codec_context.skip_frame = "NONREF" if is_skippable else "DEFAULT"
            self._frames.extend(packet.decode())
        return self._frames.popleft() if self._frames else None


def _is_decoded_after(packet: Packet[VideoStream], tick: float) -> bool:
    return bool(packet.size) and packet.dts is not None and packet.dts > tick


class SequentialFrameReader:
    """As `FrameReader`, with frame numbers as positions. Decodes every frame up to the position."""

    def __init__(self, medium: OpenMedium) -> None:
        self._opened = medium
        self._frames: Iterator[VideoFrame] = iter(())
        self._count = 0
        self.current: ShownFrame | None = None
        self.upcoming: ShownFrame | None = None

    def seek_to(self, number: float) -> None:
        if self.current is None or number < self.current.start:
            self._begin_decoding()
        while self.upcoming is not None and self.upcoming.start <= number:
            self.advance()

    def advance(self) -> None:
        self.current, self.upcoming = self.upcoming, self._next_frame()

    def _begin_decoding(self) -> None:
        self._opened.restart()
        stream = self._opened.video
        if stream is None:
            raise BadMediumError("it has no video stream")
        self._opened.select_stream(stream)
        self._frames = self._opened.container.decode(stream)
        self._count = 0
        self.current = self._next_frame()
        self.upcoming = self._next_frame()

    def _next_frame(self) -> ShownFrame | None:
        frame = next(self._frames, None)
        self._count += 1
        return None if frame is None else ShownFrame(frame, self._count - 1, self._count)


class FrameTimes(Protocol):
    #: Frames of the stream.
    count: int

    def tick_of(self, number: int) -> int:
        """The tick at which frame `number` is shown; 0 <= number < count. Raises NoClockError, BadMediumError,
        av.FFmpegError."""


class ScannedFrameTimes:
    """Frame times after a scan: `pts` of all frames, ascending."""

    def __init__(self, pts: Sequence[int]) -> None:
        self.count = len(pts)
        self._pts = pts

    def tick_of(self, number: int) -> int:
        return self._pts[number]


class IndexedFrameTimes:
    """Frame times by a keyframe index or the file's table of contents (`has_frame_table`)."""

    def __init__(self, medium: OpenMedium, stream: VideoStream, index: KeyframeIndex | None) -> None:
        self._opened = medium
        self._stream = stream
        self._has_keyframe_index = index is not None
        if index is not None:
            self.count = index.frames
            self._keyframes = list(zip(index.pts, index.frame_numbers, strict=True))
        else:
            entries = list(stream.index_entries)
            self.count = len(entries)
            self._keyframes = [(entry.timestamp, i) for i, entry in enumerate(entries) if entry.is_keyframe]

    def tick_of(self, number: int) -> int:
        keyframe = bisect_right([before for _, before in self._keyframes], number) - 1
        # A table counts in decode order: if frame n is shown before this keyframe, the previous one is tried.
        for keyframe_tick, frames_before in reversed(self._keyframes[1 : keyframe + 1]):
            tick = self._tick_after(self._packets_from_keyframe(keyframe_tick), number - frames_before)
            if tick is not None:
                return tick
        self._opened.restart()
        self._stream = self._opened.video or self._stream
        tick = self._tick_after(self._packets(), number, is_start=True)
        if tick is None:
            raise BadMediumError(f"frame {number} is missing: the header announces {self.count} frames")
        return tick

    def _tick_after(self, packets: Iterator[Packet[VideoStream]], number: int, *, is_start: bool = False) -> int | None:
        """The tick of the frame `number` frames after the first packet's; None if it is shown before that one."""
        shown: list[int] = []
        base = -math.inf
        for packet in packets:
            if packet.pts is None:
                raise NoClockError
            if not shown and not is_start:
                base = packet.pts
            shown.append(packet.pts)
            # All frames shown by the decode time of a packet have been decoded before it.
            if packet.dts is not None and packet.dts > base and len(shown) > number:
                tick = self._nth_shown(shown, base, number)
                if tick is None or packet.dts > tick:
                    return tick
        return self._nth_shown(shown, base, number)

    def _nth_shown(self, shown: list[int], base: float, number: int) -> int | None:
        later = sorted(pts for pts in shown if pts >= base)
        leading = 0 if self._has_keyframe_index else len(shown) - len(later)
        return later[number - leading] if 0 <= number - leading < len(later) else None

    def _packets_from_keyframe(self, keyframe_tick: int) -> Iterator[Packet[VideoStream]]:
        """Packets from this keyframe on; none if the file has no such keyframe."""
        step, target = 1.0, float(keyframe_tick)
        while True:
            self._opened.is_at_start = False
            try:
                self._opened.container.seek(int(target), stream=self._stream)
            except av.FFmpegError:
                return iter(())  # AVI has no seek to some times
            packets = self._packets()
            for packet in packets:
                if packet.is_keyframe and self._packet_time(packet) == keyframe_tick:
                    return chain([packet], packets)
                if packet.is_keyframe and (self._packet_time(packet) or 0) > keyframe_tick:
                    break
            if target < self._keyframes[0][0]:
                return iter(())
            target, step = target - step / float(self._stream.time_base or 1), step * 2

    def _packet_time(self, packet: Packet[VideoStream]) -> int | None:
        return packet.pts if self._has_keyframe_index else packet.dts

    def _packets(self) -> Iterator[Packet[VideoStream]]:
        self._opened.select_stream(self._stream)
        packets = self._opened.container.demux(self._stream)
        return (packet for packet in packets if packet.size and not packet.is_discard)


def has_frame_table(stream: VideoStream, family: str) -> bool:
    """Whether the file begins with a table of all frames, none of which an edit list drops."""
    if family != "mov" or not hasattr(stream, "index_entries"):
        return False
    entries = stream.index_entries
    return 0 < len(entries) == stream.frames and not any(each.is_discard for each in entries)
