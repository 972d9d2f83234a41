"""The pictures of a medium: what is known of them, and clips. Keeps what was found out, for the life of a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from av.video.stream import VideoStream

from wdsctl.core.media.keyframe_scan import has_clock, scan_keyframes
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.stated_seconds import SHORT_SECONDS
from wdsctl.loader.av.counting_reader import CountingReader
from wdsctl.loader.av.data import Times
from wdsctl.loader.av.durations import found_seconds, stated_seconds
from wdsctl.loader.av.frame_numbers import FoundFrames, FrameNumbers, KnownFrames, has_table
from wdsctl.loader.av.frame_reader import FrameReader, NoClockError
from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.options import AVOptions
from wdsctl.loader.av.pictures import Budget, Painter, Reel, refuse, turns_of
from wdsctl.loader.av.timeline import Range, Timeline
from wdsctl.loader.av.video_clips import Reader, read_clips

_MOST_EXPECTED = 512  # frames that room is made for at once: headers promise anything


@dataclass(frozen=True, slots=True)
class FilmFacts:
    seconds: float | None
    fps: float | None
    frames: int | None
    width: int | None
    height: int | None


class Film:
    """Not for several threads at once: the decoder sees to that."""

    def __init__(self, index: KeyframeIndex | None, options: AVOptions, packed: bytes = b"") -> None:
        self._known = index
        self._packed = packed  # an index as bytes, in the place of one: read when it is first needed
        self._options = options
        self._numbers: KnownFrames | None = None  # once the file was read through
        self._is_counted = False  # whether there is no way but from the beginning
        self._seconds: Fraction | None = None

    def clips(
        self,
        opened: OpenMedium,
        ranges: Sequence[Range],
        *,
        by_number: bool,
        size: tuple[int, int] | None,
        budget: Budget,
    ) -> tuple[list[torch.Tensor], Times]:
        """Raises BadMediumError, av.FFmpegError."""
        stream = stream_of(opened)
        refuse(stream.width, stream.height, self._options.max_pixels)
        painter = Painter(size, rotates=self._options.rotate, max_pixels=self._options.max_pixels)
        self._is_counted |= not has_clock(opened.container, stream)
        if not self._is_counted:
            try:
                line = Timeline(stream.time_base or Fraction(1), opened.begins)
                places = self._numbered(opened, ranges) if by_number else _placed(line, ranges)
                reader = FrameReader(opened, stream_of(opened), self._index)
                return self._read(opened, reader, line, places, painter, budget)
            except NoClockError:
                self._is_counted = True
        line = Timeline(1 / self._rate(opened), Fraction(0))
        counted = [(math.floor(start), end) for start, end in ranges] if by_number else _placed(line, ranges)
        return self._read(opened, CountingReader(opened), line, counted, painter, budget)

    def facts(self, opened: OpenMedium, *, seconds: bool, frames: bool, size: bool) -> FilmFacts:
        """What is asked for; the rate always. Raises BadMediumError, av.FFmpegError."""
        stream = stream_of(opened)
        rate = stream.average_rate or stream.guessed_rate
        lasting = self._lasting(opened) if seconds or not rate else None
        count = self._count(opened) if frames else None
        width, height = self._size(opened) if size else (None, None)
        if not rate and count and lasting:
            rate = count / lasting
        return FilmFacts(
            seconds=float(lasting) if seconds and lasting else None,
            fps=float(rate) if rate else None,
            frames=count,
            width=width,
            height=height,
        )

    def span(self, opened: OpenMedium) -> tuple[float, float] | None:
        """Seconds at which it begins and ends; None where the file does not say."""
        stream, lasting = stream_of(opened), self._lasting(opened)
        start = 0.0
        if has_clock(opened.container, stream):
            start = float(opened.start_of(stream) - opened.begins)
        return None if lasting is None else (start, start + float(lasting))

    @property
    def _index(self) -> KeyframeIndex | None:
        if self._known is None and self._packed:
            self._known = KeyframeIndex.from_bytes(self._packed)
        return self._known

    def _read(
        self,
        opened: OpenMedium,
        reader: Reader,
        line: Timeline,
        places: Sequence[Range],
        painter: Painter,
        budget: Budget,
    ) -> tuple[list[torch.Tensor], Times]:
        rate = float(self._rate(opened) * line.unit)  # frames a place
        stated = self._stated(opened)
        total = math.inf if stated is None else float(stated / line.unit)

        def reel(wanted: Range) -> Reel:
            start, end = wanted
            lasting = min(end - start, total)  # infinite, where neither is known
            return Reel(int(min(lasting * rate + 2, _MOST_EXPECTED)), budget)

        reels = read_clips(reader, places, painter, reel)
        self._refuse_short(opened, reader, line, places)
        found = [each for each in reels if each is not None]
        return [each.tensor() for each in found], [
            (line.seconds(each.first), line.seconds(each.ends)) for each in found
        ]

    def _refuse_short(self, opened: OpenMedium, reader: Reader, line: Timeline, places: Sequence[Range]) -> None:
        """Raises BadMediumError where a range reaches into what the header announces and the file does not have."""
        if not places or reader.upcoming is not None:
            return
        if reader.current is None:
            raise BadMediumError("it has no frame that can be decoded")
        stated = self._stated(opened)
        if stated is None or self._is_counted:
            return
        stream = stream_of(opened)
        until = Fraction(stream.start_time or 0) * line.unit + stated
        ended = reader.current.ends * line.unit
        if until - ended > SHORT_SECONDS and max(end for _, end in places) > reader.current.ends:
            raise BadMediumError(
                f"it ends after {float(ended - line.begins):.1f} s, and its header says "
                f"{float(until - line.begins):.1f} s: the file is cut off or damaged"
            )

    def _numbered(self, opened: OpenMedium, ranges: Sequence[Range]) -> list[Range]:
        """Ranges of frames as ranges of ticks; what begins behind the last frame is left out."""
        numbers = self._frame_numbers(opened)
        known: list[Range] = []
        for start, end in ((math.floor(start), end) for start, end in ranges):
            if start < numbers.count:
                last = end >= numbers.count - 1
                known.append((numbers.tick(start), math.inf if last else numbers.tick(math.floor(end))))
        return known

    def _frame_numbers(self, opened: OpenMedium) -> FrameNumbers:
        stream = stream_of(opened)
        if self._numbers is not None:
            return self._numbers
        if (self._index is not None and opened.keeps_clock) or has_table(stream, opened.family):
            return FoundFrames(opened, stream, self._index)
        return self._scanned(opened)

    def _scanned(self, opened: OpenMedium) -> KnownFrames:
        opened.restart()
        stream = stream_of(opened)
        opened.read(stream)
        scan = scan_keyframes(opened.container, stream)
        if scan is None:
            raise NoClockError
        self._known, self._numbers = scan.index, KnownFrames(scan.pts)
        return self._numbers

    def _stated(self, opened: OpenMedium) -> Fraction | None:
        return stated_seconds(opened, stream_of(opened))

    def _lasting(self, opened: OpenMedium) -> Fraction | None:
        if self._seconds is None and self._index is not None:
            self._seconds = (self._index.end - self._index.start) * self._index.time_base
        if self._seconds is None:
            self._seconds = self._stated(opened) or found_seconds(opened, is_sound=False)
        return self._seconds

    def _count(self, opened: OpenMedium) -> int:
        try:
            return self._frame_numbers(opened).count
        except NoClockError:
            opened.restart()
            stream = stream_of(opened)
            opened.read(stream)
            return sum(1 for packet in opened.container.demux(stream) if packet.size and not packet.is_discard)

    def _rate(self, opened: OpenMedium) -> Fraction:
        stream = stream_of(opened)
        return stream.average_rate or stream.guessed_rate or Fraction(25)

    def _size(self, opened: OpenMedium) -> tuple[int, int]:
        """Of the first frame, as it is handed out."""
        opened.restart()
        stream = stream_of(opened)
        opened.read(stream)
        frame = next(opened.container.decode(stream), None)
        if frame is None:
            return stream.width, stream.height
        turned = self._options.rotate and turns_of(frame) % 2
        return (frame.height, frame.width) if turned else (frame.width, frame.height)


def stream_of(opened: OpenMedium) -> VideoStream:
    """Its pictures. Raises BadMediumError where it has none."""
    if opened.video is None:
        raise BadMediumError("there is no video in it")
    return opened.video


def _placed(line: Timeline, ranges: Sequence[Range]) -> list[Range]:
    return [(line.place(start), line.place(end)) for start, end in ranges]
