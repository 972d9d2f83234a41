"""Clips: the value of a sample that says which part of an audio or video file belongs to it.

In JSON, a clip is `{"start": 2.5, "end": 5.5}` in seconds from the start of the file, or
`{"start_frame": 0, "end_frame": 30}` in frames of the video. The end is not in the clip; null is the end of the file.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

from wdsctl.core.errors import DatasetError
from wdsctl.core.media.byte_range import ByteRangeFile, ReadAt
from wdsctl.core.media.facts import AudioFacts, VideoFacts
from wdsctl.core.media.probe import HEADER_READ_BYTES, probe_media
from wdsctl.core.media.sniff import sniff
from wdsctl.core.text import short_repr

ClipUnit = Literal["seconds", "frames"]

#: The names of start and end by the unit.
CLIP_KEYS: dict[ClipUnit, tuple[str, str]] = {"seconds": ("start", "end"), "frames": ("start_frame", "end_frame")}

#: Seconds by which the end of a clip may be after that of its file: numbers are rounded; to whole ones by more.
_TOLERANCE_S = 0.1
_WHOLE_TOLERANCE_S = 0.5


class Clip(NamedTuple):
    """The range [start, end) of a file. `end`: infinite for the end of the file. Frames count from 0."""

    start: float
    end: float = math.inf
    unit: ClipUnit = "seconds"

    def as_json(self) -> dict[str, float | None]:
        start, end = CLIP_KEYS[self.unit]
        return {start: self.start, end: None if math.isinf(self.end) else self.end}


def read_clip(value: Any) -> Clip:
    """The clip that a value of JSON is. Raises DatasetError WDS175 for any other value."""
    for unit, (start, end) in CLIP_KEYS.items():
        if isinstance(value, dict) and value.keys() == {start, end}:
            last = math.inf if value[end] is None else value[end]
            for number in (value[start], last):
                if isinstance(number, bool) or not isinstance(number, int | float):
                    raise clip_error(f"a clip needs numbers, not {short_repr(number)}")
            return check_clip(Clip(value[start], last, unit))
    raise clip_error(
        f"a clip is an object with start and end in seconds, or start_frame and end_frame, not {short_repr(value)}"
    )


def check_clip(clip: Clip) -> Clip:
    """The clip, if it is a range. Raises DatasetError WDS175 for NaN, a start before the start of the file, and an end
    that is not after the start."""
    for number in clip[:2]:
        if math.isnan(number):
            raise clip_error("a clip needs numbers, not NaN")
        if clip.unit == "frames" and not math.isinf(number) and number != math.floor(number):
            raise clip_error(f"frame {number:g} is no whole number")
    if clip.start < 0 or math.isinf(clip.start):
        raise clip_error(f"the clip begins at {clip.start:g}, before the start of the file")
    if clip.end <= clip.start:
        size = "has no length" if clip.end == clip.start else "ends before it begins"
        raise clip_error(f"the clip {size}: {describe_clip(clip)}")
    return clip


def check_clip_within(clip: Clip, length: float | None) -> Clip:
    """The clip, if a medium of this length has it, in the unit of the clip; None: the length is unknown.

    Raises DatasetError WDS175 for a clip that begins after the medium's end, or ends more than a rounding after it.
    """
    if length is None:
        return clip
    shown = f"{length:.10g} s" if clip.unit == "seconds" else f"{length:.0f} frames"
    if clip.start >= length:
        raise clip_error(f"the clip begins after the end of its file: {describe_clip(clip)} of {shown}")
    if not math.isinf(clip.end) and clip.end > length + tolerance(clip):
        raise clip_error(f"the clip ends after the end of its file: {describe_clip(clip)} of {shown}")
    return clip


def tolerance(clip: Clip) -> float:
    """By how much the end of a clip may be after that of its file, in its unit."""
    if clip.unit == "frames":
        return 0
    is_rounded = clip.start == math.floor(clip.start) and not math.isinf(clip.end) and clip.end == math.floor(clip.end)
    return _WHOLE_TOLERANCE_S if is_rounded else _TOLERANCE_S


def medium_length(read: ReadAt, size: int, name: str, unit: ClipUnit) -> float | None:
    """The seconds or frames of an audio or video file by its header; None if it does not tell.

    Raises errors of `read`.
    """
    head = read(0, min(size, HEADER_READ_BYTES))
    facts = probe_media(ByteRangeFile(read, size, head=head), sniff(head, size, name=name))
    if unit == "frames":
        return facts.frames if isinstance(facts, VideoFacts) and facts.frames_are == "stated" else None
    if isinstance(facts, VideoFacts):
        lengths = [facts.duration_s, facts.audio.duration_s if facts.audio else None]
        return max((each for each in lengths if each), default=None)
    return facts.duration_s if isinstance(facts, AudioFacts) else None


def describe_clip(clip: Clip) -> str:
    """`2.5 to 5.5 s`, or `frames 0 to 30`."""
    end = "the end" if math.isinf(clip.end) else f"{clip.end:.10g}"
    return f"{clip.start:.10g} to {end} s" if clip.unit == "seconds" else f"frames {clip.start:.10g} to {end}"


def clip_error(message: str) -> DatasetError:
    return DatasetError(message, hint="correct the row, or leave the sample out", code="WDS175")
