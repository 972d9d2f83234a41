"""When frame n is shown, for any rate, constant or not: frame n is the n-th in the order in which they are shown.

Where each frame is shown is known if the file was read through; else it is found out near the keyframe before frame n,
by reading the packets that follow it. Which keyframe that is, and how many frames come before it, is known from an
index, or from the table of contents of an MP4, which lists all frames in the order in which they are decoded. None of
this decodes anything.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Protocol

import av
from av.packet import Packet
from av.video.stream import VideoStream

from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.loader.av.frame_reader import NoClockError
from wdsctl.loader.av.opening import BadMediumError, OpenMedium


class FrameNumbers(Protocol):
    #: Frames in all.
    count: int

    def tick(self, number: int) -> int:
        """When this frame is shown; 0 <= number < count. Raises NoClockError, BadMediumError, av.FFmpegError."""


class KnownFrames:
    """Of a film that was read through: `pts` of all frames, ascending."""

    def __init__(self, pts: Sequence[int]) -> None:
        self.count = len(pts)
        self._pts = pts

    def tick(self, number: int) -> int:
        return self._pts[number]


class FoundFrames:
    """Of a film with an index, or with a table of contents (`has_table`)."""

    def __init__(self, opened: OpenMedium, stream: VideoStream, index: KeyframeIndex | None) -> None:
        self._opened = opened
        self._stream = stream
        self._by_index = index is not None
        if index is not None:
            self.count = index.frames
            self._entrances = list(zip(index.pts, index.numbers, strict=True))
        else:
            entries = list(stream.index_entries)
            self.count = len(entries)
            self._entrances = [(entry.timestamp, i) for i, entry in enumerate(entries) if entry.is_keyframe]

    def tick(self, number: int) -> int:
        at = bisect_right([before for _, before in self._entrances], number) - 1
        # A table counts in the order of decoding: where frame n is shown before the keyframe, the one before serves.
        for aim, before in reversed(self._entrances[1 : at + 1]):
            found = self._behind(self._from_keyframe(aim), number - before)
            if found is not None:
                return found
        self._opened.restart()
        self._stream = self._opened.video or self._stream
        found = self._behind(self._packets(), number, is_start=True)
        if found is None:
            raise BadMediumError(f"frame {number} is not there, though {self.count} frames are announced")
        return found

    def _behind(self, packets: Iterator[Packet[VideoStream]], number: int, *, is_start: bool = False) -> int | None:
        """When the frame so many behind the first packet's is shown; None where it is shown before that one."""
        shown: list[int] = []
        base = -math.inf
        for packet in packets:
            if packet.pts is None:
                raise NoClockError
            if not shown and not is_start:
                base = packet.pts
            shown.append(packet.pts)
            # All frames that are shown by the time at which a packet is decoded have been decoded before it.
            if packet.dts is not None and packet.dts > base and len(shown) > number:
                found = self._counted(shown, base, number)
                if found is None or packet.dts > found:
                    return found
        return self._counted(shown, base, number)

    def _counted(self, shown: list[int], base: float, number: int) -> int | None:
        later = sorted(pts for pts in shown if pts >= base)
        leading = 0 if self._by_index else len(shown) - len(later)
        return later[number - leading] if 0 <= number - leading < len(later) else None

    def _from_keyframe(self, aim: int) -> Iterator[Packet[VideoStream]]:
        """Packets from this keyframe on; none where the file has no such keyframe."""
        step, at = 1.0, float(aim)
        while True:
            self._opened.is_fresh = False
            try:
                self._opened.container.seek(int(at), stream=self._stream)
            except av.FFmpegError:
                return iter(())  # AVI cannot be sought to any time
            packets = self._packets()
            for packet in packets:
                if packet.is_keyframe and self._place(packet) == aim:
                    return chain([packet], packets)
                if packet.is_keyframe and (self._place(packet) or 0) > aim:
                    break
            if at < self._entrances[0][0]:
                return iter(())
            at, step = at - step / float(self._stream.time_base or 1), step * 2

    def _place(self, packet: Packet[VideoStream]) -> int | None:
        return packet.pts if self._by_index else packet.dts

    def _packets(self) -> Iterator[Packet[VideoStream]]:
        self._opened.read(self._stream)
        packets = self._opened.container.demux(self._stream)
        return (packet for packet in packets if packet.size and not packet.is_discard)


def has_table(stream: VideoStream, family: str) -> bool:
    """Whether the file begins with a list of all of its frames, none of which an edit list leaves out."""
    if family != "mov" or not hasattr(stream, "index_entries"):
        return False
    entries = stream.index_entries
    return 0 < len(entries) == stream.frames and not any(each.is_discard for each in entries)
