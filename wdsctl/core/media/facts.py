"""What is known of a medium without decoding it. Values for the catalog, `inspect` and length-aware packing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Where a count comes from: the file says it, or it is duration times rate, or neither is there.
Origin = Literal["stated", "estimated", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    kind: Literal["image"] = field(default="image", init=False)
    format: str  # Pillow's name: JPEG, PNG, WEBP
    mode: str  # Pillow's name: RGB, L, I;16
    width: int  # pixels, as stored
    height: int
    display_width: int  # pixels, as seen once the orientation is followed
    display_height: int
    orientation: int  # EXIF's, 1 to 8; 1 where there is none that can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioFacts:
    kind: Literal["audio"] = field(default="audio", init=False)
    format: str  # of the file that it is in, as `sniff` calls it: mp3, ogg, mp4
    codec: str  # FFmpeg's name: aac, opus, pcm_s16le
    channels: int
    rate_hz: int
    duration_s: float | None
    samples: int | None  # of one channel
    samples_are: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    kind: Literal["video"] = field(default="video", init=False)
    format: str  # as `sniff` calls it: mp4, webm, avi
    codec: str  # FFmpeg's name: h264, vp9, av1
    width: int  # pixels, as stored
    height: int
    display_width: int  # pixels, as seen once the rotation is followed; pixels that are not square stay as they are
    display_height: int
    rotation: int | None  # degrees to turn it clockwise; None: not known, as no frame can be decoded
    duration_s: float | None
    fps: float | None  # the average, as far as the header tells
    fps_ratio: tuple[int, int] | None  # the same without rounding: (30000, 1001)
    frames: int | None
    frames_are: Origin
    has_audio: bool
    audio: AudioFacts | None  # None too where nothing here decodes its codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """No facts, and why: damaged, cut off, a codec that is not there, a header that is too far into the file."""

    kind: Literal["unreadable"] = field(default="unreadable", init=False)
    reason: str


Facts = ImageFacts | AudioFacts | VideoFacts
