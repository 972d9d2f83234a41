"""The video stream of a medium: its facts and its clips. Facts are kept for the lifetime of a decoder.

Clips are read in one pass over the ranges in the order of their starts. No frame is converted twice.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import torch
from av.video.stream import VideoStream

from wdsctl.core.media.keyframes import KeyframeIndex, has_timestamps, scan_keyframes
from wdsctl.core.media.stream import MAX_MISSING_SECONDS, header_seconds
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium, scan_seconds
from wdsctl.loader.decoding.av.frames import (
    FrameReader,
    FrameTimes,
    IndexedFrameTimes,
    NoClockError,
    ScannedFrameTimes,
    SequentialFrameReader,
    ShownFrame,
    has_frame_table,
)
from wdsctl.loader.decoding.av.pixels import ByteBudget, ClipFrames, FrameConverter, check_frame_size, quarter_turns
from wdsctl.loader.decoding.av.values import AVOptions, ClipRange, ClipTimes, Timeline


class VideoReader(Protocol):
    """`FrameReader` or `SequentialFrameReader`."""

    current: ShownFrame | None
    upcoming: ShownFrame | None

    def seek_to(self, position: float, /) -> None: ...

    def advance(self) -> None: ...


def read_video_clips(
    reader: VideoReader,
    ranges: Sequence[ClipRange],
    converter: FrameConverter,
    make_clip: Callable[[ClipRange], ClipFrames],
) -> list[ClipFrames | None]:
    """The frames shown within each range of positions, its end included, in the order of `ranges`.

    A clip has at least the frame that is shown at its start; before the video starts, that is the first frame. None for
    ranges that start after the end of the video.
    """
    clips: list[ClipFrames | None] = [None] * len(ranges)
    waiting = deque(sorted(range(len(ranges)), key=lambda i: ranges[i]))
    running: dict[int, ClipFrames] = {}
    while waiting or running:
        if not running:
            reader.seek_to(ranges[waiting[0]][0])
        shown, upcoming = reader.current, reader.upcoming
        if shown is None:
            break
        until = shown.end if upcoming is None else upcoming.start
        while waiting and ranges[waiting[0]][0] < until:
            i = waiting.popleft()
            clips[i] = running[i] = make_clip(ranges[i])
        if running:
            pixels = converter.convert(shown.frame)
            for each in running.values():
                each.add(pixels, shown.start, shown.end)
        if upcoming is None:
            break
        running = {i: each for i, each in running.items() if ranges[i][1] >= upcoming.start}
        if running:
            reader.advance()
    return clips


_MAX_EXPECTED_FRAMES = 512  # for which memory is allocated at once: headers may promise any number


@dataclass(frozen=True, slots=True)
class VideoStreamFacts:
    seconds: float | None
    fps: float | None
    frames: int | None
    width: int | None
    height: int | None


class VideoTrack:
    """One video stream. Not thread-safe: `AVDecoder` holds a lock."""

    def __init__(self, index: KeyframeIndex | None, options: AVOptions, index_bytes: bytes = b"") -> None:
        self._loaded_index = index
        self._index_bytes = index_bytes  # a serialized index, parsed when it is first needed
        self._options = options
        self._scanned_times: ScannedFrameTimes | None = None  # after a scan of all packets
        self._is_sequential = False  # whether frames can only be reached from the start of the file
        self._seconds: Fraction | None = None

    def clips(
        self,
        medium: OpenMedium,
        ranges: Sequence[ClipRange],
        *,
        by_number: bool,
        size: tuple[int, int] | None,
        budget: ByteBudget,
        window: ClipRange | None = None,
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        """uint8 (frames, 3, height, width) and (start, end) seconds of each range that has frames. `by_number`: ranges
        of frame numbers, else of seconds. `window`: the seconds of the medium that there are; ranges and times begin at
        its start. Raises BadMediumError, av.FFmpegError."""
        stream = video_stream(medium)
        check_frame_size(stream.width, stream.height, self._options.max_pixels)
        converter = FrameConverter(size, rotates=self._options.rotate, max_pixels=self._options.max_pixels)
        self._is_sequential |= not has_timestamps(medium.container, stream)
        if not self._is_sequential:
            try:
                timeline = Timeline(stream.time_base or Fraction(1), medium.start_time)
                if by_number:
                    positions = self._frames_to_ticks(medium, self._numbers_in_file(medium, ranges, window))
                else:
                    positions = _to_positions(timeline, ranges, window)
                reader = FrameReader(medium, video_stream(medium), self._index)
                found = self._read_clips(medium, reader, timeline, positions, converter, budget)
                return found[0], _times_in_window(found[1], window)
            except NoClockError:
                self._is_sequential = True
        timeline = Timeline(1 / self._frame_rate(medium), Fraction(0))
        if by_number:
            positions = [(math.floor(start), end) for start, end in self._numbers_in_file(medium, ranges, window)]
        else:
            positions = _to_positions(timeline, ranges, window)
        found = self._read_clips(medium, SequentialFrameReader(medium), timeline, positions, converter, budget)
        return found[0], _times_in_window(found[1], window)

    def seconds_of_frames(self, medium: OpenMedium, start: float, end: float) -> ClipRange:
        """When frame `start` appears, and frame `end` does; infinite if there is no such frame."""
        stream = video_stream(medium)
        if not self._is_sequential and has_timestamps(medium.container, stream):
            timeline = Timeline(stream.time_base or Fraction(1), medium.start_time)
            try:
                times = self._frame_times(medium)
                first, last = (
                    math.inf
                    if math.isinf(each) or each >= times.count
                    else timeline.seconds_at(times.tick_of(int(each)))
                    for each in (start, end)
                )
                return first, last
            except NoClockError:
                self._is_sequential = True
        rate = self._frame_rate(medium)
        return float(start / rate), end if math.isinf(end) else float(end / rate)

    def numbers_in(self, medium: OpenMedium, window: ClipRange) -> tuple[int, int]:
        """The numbers of the first and the last frame that are shown in these seconds of the medium."""
        stream = video_stream(medium)
        if not self._is_sequential and has_timestamps(medium.container, stream):
            timeline = Timeline(stream.time_base or Fraction(1), medium.start_time)
            try:
                times = self._frame_times(medium)
                ((first, last),) = _to_positions(timeline, [_WHOLE], window)
                numbers = range(times.count)
                shown = [bisect_right(numbers, each, key=times.tick_of) - 1 for each in (first, last)]
                return max(0, shown[0]), shown[1]
            except NoClockError:
                self._is_sequential = True
        timeline = Timeline(1 / self._frame_rate(medium), Fraction(0))
        ((first, last),), count = _to_positions(timeline, [_WHOLE], window), self._count_frames(medium)
        return int(min(first, count - 1)), int(min(last, count - 1))

    def _numbers_in_file(
        self, medium: OpenMedium, ranges: Sequence[ClipRange], window: ClipRange | None
    ) -> Sequence[ClipRange]:
        """Ranges of numbers of the window's frames as those of the file's, without those after its last one."""
        if window is None:
            return ranges
        first, last = self.numbers_in(medium, window)
        found = ((first + math.floor(start), min(first + end, last)) for start, end in ranges)
        return [(start, end) for start, end in found if start <= last]

    def facts(self, medium: OpenMedium, *, seconds: bool, frames: bool, size: bool) -> VideoStreamFacts:
        """The requested facts, and always the rate. Raises BadMediumError, av.FFmpegError."""
        stream = video_stream(medium)
        rate = stream.average_rate or stream.guessed_rate
        duration = self._duration(medium) if seconds or not rate else None
        count = self._count_frames(medium) if frames else None
        width, height = self._frame_size(medium) if size else (None, None)
        if not rate and count and duration:
            rate = count / duration
        return VideoStreamFacts(
            seconds=float(duration) if seconds and duration else None,
            fps=float(rate) if rate else None,
            frames=count,
            width=width,
            height=height,
        )

    def time_span(self, medium: OpenMedium) -> tuple[float, float] | None:
        """(start, end) in seconds; None if the file states no duration."""
        stream, duration = video_stream(medium), self._duration(medium)
        start = 0.0
        if has_timestamps(medium.container, stream):
            start = float(medium.stream_start(stream) - medium.start_time)
        return None if duration is None else (start, start + float(duration))

    @property
    def _index(self) -> KeyframeIndex | None:
        if self._loaded_index is None and self._index_bytes:
            self._loaded_index = KeyframeIndex.from_bytes(self._index_bytes)
        return self._loaded_index

    def _read_clips(
        self,
        medium: OpenMedium,
        reader: VideoReader,
        timeline: Timeline,
        positions: Sequence[ClipRange],
        converter: FrameConverter,
        budget: ByteBudget,
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        rate = float(self._frame_rate(medium) * timeline.seconds_per_position)  # frames per position
        stated = self._header_duration(medium)
        total = math.inf if stated is None else float(stated / timeline.seconds_per_position)

        def make_clip(clip_range: ClipRange) -> ClipFrames:
            start, end = clip_range
            length = min(end - start, total)  # inf if neither is known
            return ClipFrames(int(min(length * rate + 2, _MAX_EXPECTED_FRAMES)), budget)

        clips = [each for each in read_video_clips(reader, positions, converter, make_clip) if each is not None]
        self._check_not_truncated(medium, reader, timeline, positions)
        return [each.tensor() for each in clips], [
            (timeline.seconds_at(each.start), timeline.seconds_at(each.end)) for each in clips
        ]

    def _check_not_truncated(
        self, medium: OpenMedium, reader: VideoReader, timeline: Timeline, positions: Sequence[ClipRange]
    ) -> None:
        """Raise BadMediumError if a range includes frames that the header announces and the file lacks."""
        if not positions or reader.upcoming is not None:
            return
        if reader.current is None:
            raise BadMediumError("its video stream has no frame that can be decoded")
        stated = self._header_duration(medium)
        if stated is None or self._is_sequential:
            return
        stream = video_stream(medium)
        until = Fraction(stream.start_time or 0) * timeline.seconds_per_position + stated
        ended = reader.current.end * timeline.seconds_per_position
        if until - ended > MAX_MISSING_SECONDS and max(end for _, end in positions) > reader.current.end:
            raise BadMediumError(
                f"its video ends after {float(ended - timeline.start):.1f} s, its header says "
                f"{float(until - timeline.start):.1f} s: the file is truncated or damaged"
            )

    def _frames_to_ticks(self, medium: OpenMedium, ranges: Sequence[ClipRange]) -> list[ClipRange]:
        """Ranges of frame numbers as ranges of ticks, without those that start after the last frame."""
        times = self._frame_times(medium)
        tick_ranges: list[ClipRange] = []
        for start, end in ((math.floor(start), end) for start, end in ranges):
            if start < times.count:
                is_to_end = end >= times.count - 1
                tick_ranges.append((times.tick_of(start), math.inf if is_to_end else times.tick_of(math.floor(end))))
        return tick_ranges

    def _frame_times(self, medium: OpenMedium) -> FrameTimes:
        stream = video_stream(medium)
        if self._scanned_times is not None:
            return self._scanned_times
        if (self._index is not None and medium.keeps_clock) or has_frame_table(stream, medium.family):
            return IndexedFrameTimes(medium, stream, self._index)
        medium.restart()
        stream = video_stream(medium)
        medium.select_stream(stream)
        scan = scan_keyframes(medium.container, stream)
        if scan is None:
            raise NoClockError
        self._loaded_index, self._scanned_times = scan.index, ScannedFrameTimes(scan.pts)
        return self._scanned_times

    def _header_duration(self, medium: OpenMedium) -> Fraction | None:
        return header_seconds(video_stream(medium), medium.family)

    def _duration(self, medium: OpenMedium) -> Fraction | None:
        if self._seconds is None and self._index is not None:
            self._seconds = (self._index.end - self._index.start) * self._index.time_base
        if self._seconds is None:
            self._seconds = self._header_duration(medium) or scan_seconds(medium, is_audio=False)
        return self._seconds

    def _count_frames(self, medium: OpenMedium) -> int:
        try:
            return self._frame_times(medium).count
        except NoClockError:
            medium.restart()
            stream = video_stream(medium)
            medium.select_stream(stream)
            return sum(1 for packet in medium.container.demux(stream) if packet.size and not packet.is_discard)

    def _frame_rate(self, medium: OpenMedium) -> Fraction:
        stream = video_stream(medium)
        return stream.average_rate or stream.guessed_rate or Fraction(25)

    def _frame_size(self, medium: OpenMedium) -> tuple[int, int]:
        """(width, height) of the first frame as it is returned. Decodes it."""
        medium.restart()
        stream = video_stream(medium)
        medium.select_stream(stream)
        frame = next(medium.container.decode(stream), None)
        if frame is None:
            return stream.width, stream.height
        turned = self._options.rotate and quarter_turns(frame) % 2
        return (frame.height, frame.width) if turned else (frame.width, frame.height)


def video_stream(medium: OpenMedium) -> VideoStream:
    """The video stream. Raises BadMediumError if there is none."""
    if medium.video is None:
        raise BadMediumError("it has no video stream")
    return medium.video


_WHOLE = (0.0, math.inf)


def _to_positions(timeline: Timeline, ranges: Sequence[ClipRange], window: ClipRange | None = None) -> list[ClipRange]:
    if window is None:
        return [(timeline.position_at(start), timeline.position_at(end)) for start, end in ranges]
    # A window has the frame that is shown at its start, and none that appears at its end.
    begin, last = timeline.position_at(window[0]), timeline.position_before(window[1])
    last = max(begin, last)
    moved = ((timeline.position_at(window[0] + max(0.0, start)), window[0] + end) for start, end in ranges)
    return [(start, max(start, min(timeline.position_at(end), last))) for start, end in moved if start <= last]


def _times_in_window(times: ClipTimes, window: ClipRange | None) -> ClipTimes:
    if window is None:
        return times
    return [(max(0.0, start - window[0]), min(end, window[1]) - window[0]) for start, end in times]
