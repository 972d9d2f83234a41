"""Media facts: what headers state, without decoding. For the catalog, `inspect` and length-aware packing.

`describe_facts` writes them as one line: `1280x720 h264 29.97 fps 12.3 s, sound: aac 2 ch 48 kHz`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Where a count comes from: the file states it, or it is duration times rate, or neither is known.
CountOrigin = Literal["stated", "estimated", "unknown"]

#: What is said of an image that `has_more_frames`.
FIRST_FRAME = "only the first of several frames is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    kind: Literal["image"] = field(default="image", init=False)
    format: str  # Pillow's name: JPEG, PNG, WEBP
    mode: str  # Pillow's name: RGB, L, I;16
    width: int  # pixels, as stored
    height: int
    display_width: int  # pixels, after applying the orientation
    display_height: int
    orientation: int  # of EXIF, 1 to 8; 1 if none can be read
    has_more_frames: bool = False  # an animation, or a TIFF of several pages: all readers deliver the first one


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFacts:
    kind: Literal["audio"] = field(default="audio", init=False)
    format: str  # of the container, as `sniff` calls it: mp3, ogg, mp4
    codec: str  # FFmpeg's name: aac, opus, pcm_s16le
    channels: int
    rate_hz: int
    duration_s: float | None
    samples: int | None  # number of samples of one channel
    samples_are: CountOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    kind: Literal["video"] = field(default="video", init=False)
    format: str  # as `sniff` calls it: mp4, webm, avi
    codec: str  # FFmpeg's name: h264, vp9, av1
    width: int  # pixels, as stored
    height: int
    display_width: int  # pixels, after applying the rotation, but not the aspect ratio of pixels
    display_height: int
    rotation: int | None  # degrees to turn it clockwise; None if no frame can be decoded
    duration_s: float | None
    fps: float | None  # the average rate, if the header states it
    fps_ratio: tuple[int, int] | None  # the same without rounding: (30000, 1001)
    frames: int | None
    frames_are: CountOrigin
    has_audio: bool
    audio: AudioFacts | None  # also None if FFmpeg has no decoder for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A medium without facts. `reason`: damaged, cut off, an unknown codec, a header too far into the file."""

    kind: Literal["unreadable"] = field(default="unreadable", init=False)
    reason: str


MediumFacts = ImageFacts | AudioFacts | VideoFacts


def describe_facts(facts: MediumFacts) -> str:
    if isinstance(facts, ImageFacts):
        turned = f", EXIF orientation {facts.orientation}" if facts.orientation != 1 else ""
        first = f", {FIRST_FRAME}" if facts.has_more_frames else ""
        return f"{facts.width}x{facts.height} {facts.format} {facts.mode}{turned}{first}"
    if isinstance(facts, AudioFacts):
        return f"{_describe_audio(facts)}{_format_seconds(facts.duration_s)}"
    fps = f" {round(facts.fps, 2):g} fps" if facts.fps else ""
    turned = f", rotated by {facts.rotation}" if facts.rotation else ""
    picture = f"{facts.width}x{facts.height} {facts.codec}{fps}{_format_seconds(facts.duration_s)}{turned}"
    if facts.audio:
        return f"{picture}, sound: {_describe_audio(facts.audio)}"
    return f"{picture}, audio: unknown codec" if facts.has_audio else f"{picture}, no sound"


def _describe_audio(facts: AudioFacts) -> str:
    return f"{facts.codec} {facts.channels} ch {facts.rate_hz / 1000:g} kHz"


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f" {seconds:.2g} s" if seconds < 0.95 else f" {seconds:,.1f} s"
