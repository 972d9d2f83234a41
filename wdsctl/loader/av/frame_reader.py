"""Frames of a film from any place on, each one as a decode from the beginning gives it.

Between two keyframes, a frame depends on others. So the reader enters at a keyframe that is shown no later than the
frame that is wanted, and makes sure of it:

- Packets before the first keyframe are thrown away, and so are frames that are shown before it: after an open group of
  pictures they lean on frames that were not read.
- If the keyframe is shown after what is wanted (files are entered by decode times, which run ahead), or if it is not
  the first frame to come out (streams that refresh little by little), the reader enters further ahead, and last of all
  at the beginning.

Frames that are only passed on the way are decoded as far as others lean on them, and not converted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import av
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.loader.av.opening import OpenMedium

_STEP_SECONDS = 0.5  # how much further ahead to enter after the first miss; twice as much after each further one
#: Decoders that may be told packet by packet to leave out what no other frame leans on. dav1d, for one, is told once.
_SKIPPING = frozenset({"h264", "hevc", "mpeg4", "mpeg2video", "mpeg1video"})
_FAR_SECONDS = 2  # ahead: worth a seek where nobody knows the keyframes


class NoClockError(Exception):
    """The frames of this file are not shown when the file says, or it does not say: its frames can only be counted."""


class Shown(NamedTuple):
    frame: VideoFrame
    place: int  # when it is shown, in ticks of the stream
    ends: int  # when it has been


class FrameReader:
    """`current`: the frame that is shown at the place reached; `upcoming`: the one after it, None after the last.

    Before the first frame of a stream, that one is current.
    """

    def __init__(self, opened: OpenMedium, stream: VideoStream, index: KeyframeIndex | None) -> None:
        self._opened = opened
        self._stream = stream
        self._index = index
        self._packets: Iterator[Packet[VideoStream]] = iter(())
        self._queue: deque[Packet[VideoStream]] = deque()
        self._frames: deque[VideoFrame] = deque()
        self._is_drained = False
        rate, tick = stream.average_rate or stream.guessed_rate, stream.time_base
        self._usual = max(1, round(1 / (rate * tick))) if rate and tick else 1  # ticks that a frame is shown for
        self._skips = stream.codec_context.codec.name in _SKIPPING
        self._base: int | None = None  # frames that are shown before it are thrown away
        self._needed = -math.inf  # frames that are shown before it are only passed
        self.current: Shown | None = None
        self.upcoming: Shown | None = None

    def reach(self, tick: float) -> None:
        """Make that frame current which is shown at this time. Raises NoClockError, BadMediumError, av.FFmpegError."""
        if self.current is None or tick < self.current.place or self._is_worth_a_seek(self.current.place, tick):
            self._enter(tick)
        if self.upcoming is not None and self.upcoming.place <= tick:
            self._look_ahead(tick)
        while self.upcoming is not None and self.upcoming.place <= tick:
            self.advance()

    def advance(self) -> None:
        """To the next frame."""
        self.current, self.upcoming = self.upcoming, self._next()
        if self.current and self.upcoming and self.upcoming.place <= self.current.place:
            raise NoClockError

    # Entering.

    def _enter(self, tick: float) -> None:
        step = _STEP_SECONDS
        aim = tick
        while True:
            start = self._position(aim)
            if start is None or start <= tick:
                self._look_ahead(tick)
                self.current = self._next()
                if start is None or (self.current is not None and self.current.place == start):
                    break
            aim = min(aim, start) - step / float(self._stream.time_base or 1)
            step *= 2
        self.upcoming = None if self.current is None else self._next()

    def _position(self, aim: float) -> float | None:
        """Enter at a keyframe about here. When it is shown; None where this is the beginning of the file."""
        first = self._index.pts[0] if self._index is not None else (self._stream.start_time or 0)
        is_first = aim <= first or not self._opened.keeps_clock
        if is_first or (self._opened.is_fresh and self._is_before_second(aim)) or not self._sought(int(aim)):
            self._opened.restart()
            self._stream = self._opened.video or self._stream
            self._begin()
            self._base = None
            return None
        self._begin()
        for packet in self._packets:
            if packet.size and packet.is_keyframe:
                if packet.pts is None:
                    raise NoClockError
                self._queue.append(packet)
                self._base = packet.pts
                return self._base
        return math.inf  # there is no keyframe from here on

    def _sought(self, tick: int) -> bool:
        try:
            self._opened.is_fresh = False
            self._opened.container.seek(tick, stream=self._stream)
        except av.FFmpegError:
            return False
        return True

    def _begin(self) -> None:
        self._opened.read(self._stream)
        self._packets = self._opened.container.demux(self._stream)
        self._queue.clear()
        self._frames.clear()
        self._is_drained = False
        self._needed = -math.inf

    def _is_before_second(self, tick: float) -> bool:
        return self._index is not None and self._index.at_tick(tick) == 0

    def _is_worth_a_seek(self, here: int, there: float) -> bool:
        """Whether a keyframe lies between, as far as is known."""
        if self.upcoming is None or not self._opened.keeps_clock:
            return False
        if self._index is not None:
            return self._index.pts[self._index.at_tick(there)] > here
        entries: Any = getattr(self._stream, "index_entries", ())
        if len(entries) and int(entries[-1].timestamp) > there:
            return int(entries[entries.search_timestamp(int(there))].timestamp) > here
        return (there - here) * float(self._stream.time_base or 0) > _FAR_SECONDS

    # Decoding.

    def _look_ahead(self, tick: float) -> None:
        """Read packets until all that are shown by then are here: frames on which none leans need no decoding before.

        Nothing that is decoded after a packet is shown before that packet is decoded.
        """
        if not self._queue or not _is_decoded_after(self._queue[-1], tick):
            for packet in self._packets:
                self._queue.append(packet)
                if _is_decoded_after(packet, tick):
                    break
        due = (each.pts for each in self._queue if each.size and not each.is_discard)
        self._needed = max((pts for pts in due if pts is not None and pts <= tick), default=-math.inf)

    def _next(self) -> Shown | None:
        """The next frame in the order in which they are shown; None at the end."""
        while True:
            frame = self._next_decoded()
            if frame is None:
                return None
            if frame.pts is None:
                raise NoClockError
            if self._base is None or frame.pts >= self._base:
                return Shown(frame, frame.pts, frame.pts + (frame.duration or self._usual))

    def _next_decoded(self) -> VideoFrame | None:
        while not self._frames and not self._is_drained:
            packet = self._queue.popleft() if self._queue else next(self._packets, None)
            if packet is None:
                self._is_drained = True
                break
            if self._skips:
                is_passed = packet.pts is not None and packet.pts < self._needed
                self._stream.codec_context.skip_frame = "NONREF" if is_passed else "DEFAULT"
            self._frames.extend(packet.decode())
        return self._frames.popleft() if self._frames else None


def _is_decoded_after(packet: Packet[VideoStream], tick: float) -> bool:
    return bool(packet.size) and packet.dts is not None and packet.dts > tick
