"""Options and results of decoding video and audio, and the checks of ranges.

A *position* is what a frame reader counts in: ticks of the stream's clock, or frames if the stream has no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import torch

from wdsctl.core.errors import UsageError
from wdsctl.core.media.kinds import MAX_IMAGE_PIXELS
from wdsctl.core.samples.clips import Clip
from wdsctl.loader.decoding.av.audio_format import AudioOutputFormat
from wdsctl.loader.samples.base import edataclass

MAX_CALL_BYTES = 8 << 30  # of pixels and samples that one call returns


@dataclass(frozen=True, slots=True, kw_only=True)
class AVOptions:
    rotate: bool = True  # turn frames upright
    audio: AudioOutputFormat = field(default_factory=AudioOutputFormat)
    threads: int = 1  # of FFmpeg; 0: FFmpeg decides
    max_pixels: int = MAX_IMAGE_PIXELS  # of a frame
    max_bytes: int = MAX_CALL_BYTES
    clip: Clip | None = None  # the part of the medium that there is

    def __post_init__(self) -> None:
        if self.threads < 0 or self.max_pixels < 1 or self.max_bytes < 1:
            raise UsageError(
                f"threads={self.threads}, max_pixels={self.max_pixels}, max_bytes={self.max_bytes}: expected threads "
                "of 0 or more and limits of 1 or more",
                hint="omit these options for one thread and the default limits",
            )


ClipTimes = list[tuple[float, float]]


@edataclass
class AVData:
    """Clips in the order of the requested ranges. Lists are empty for streams that were not requested."""

    #: uint8 (frames, 3, height, width) per clip; channels last in memory, like images.
    video_clips: list[torch.Tensor]
    #: (start, end) per clip, in seconds: its first frame appears, its last frame disappears.
    video_timestamps: ClipTimes
    #: (channels, samples) per clip, in the decoder's dtype, or float32 with `audio_format="float"`.
    audio_clips: list[torch.Tensor]
    #: (start, end) per clip, in seconds: of its first sample, and of the sample after its last.
    audio_timestamps: ClipTimes


@edataclass
class AVMetadata:
    """Facts of a medium. None: no such stream, not requested, or not stated by the file."""

    video_duration: float | None = None  # seconds from the first frame to the end of the last
    video_num_frames: int | None = None
    video_fps: float | None = None  # the mean if the rate varies
    video_width: int | None = None  # pixels of returned frames: after the rotation
    video_height: int | None = None

    audio_duration: float | None = None  # seconds
    audio_channels: int | None = None
    audio_sample_rate: int | None = None
    audio_num_samples: int | None = None  # of one channel


ClipRange = tuple[float, float]

#: In positions. A time that this package returned as a rounded float must find the frame that it belongs to.
_POSITION_TOLERANCE = Fraction(1, 1000)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Converts seconds to positions. `start`: the time on the positions' clock that is second 0, in seconds."""

    seconds_per_position: Fraction
    start: Fraction

    def position_at(self, seconds: float) -> float:
        """The last position at or before this time."""
        if math.isinf(seconds):
            return seconds
        exact = (Fraction(seconds) + self.start) / self.seconds_per_position
        near = round(exact)
        return near if abs(exact - near) < _POSITION_TOLERANCE else math.floor(exact)

    def position_before(self, seconds: float) -> float:
        """The last position before this time."""
        if math.isinf(seconds):
            return seconds
        exact = (Fraction(seconds) + self.start) / self.seconds_per_position
        near = round(exact)
        return near - 1 if abs(exact - near) < _POSITION_TOLERANCE else math.floor(exact)

    def seconds_at(self, position: int) -> float:
        return float(position * self.seconds_per_position - self.start)


def check_ranges(ranges: object, argument: str) -> list[ClipRange]:
    """The ranges as floats. Raises UsageError unless each is (start, end) with 0 <= start <= end; end may be inf."""
    try:
        pairs = [(float(start), float(end)) for start, end in ranges]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise UsageError(
            f"{argument}={ranges!r} is not a list of ranges", hint="pass ranges such as [(0, 2), (4.5, 6)]"
        ) from None
    for start, end in pairs:
        if not (0 <= start <= end) or math.isinf(start):
            raise UsageError(
                f"{argument}: invalid range from {start:g} to {end:g}",
                hint="a range starts at 0 or later and does not end before its start",
            )
    return pairs


def check_unit(unit: str, known: tuple[str, ...], argument: str) -> None:
    """Raises UsageError for a unit that is not among the known ones."""
    if unit not in known:
        raise UsageError(f"{argument}={unit!r} is not a unit", hint=f"use {' or '.join(known)}")
