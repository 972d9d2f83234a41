"""Convert media facts to rows of the catalog and back: a format, which many media share, and a few numbers."""

from __future__ import annotations

from typing import NamedTuple, cast

from wdsctl.core.media.facts import AudioFacts, CountOrigin, ImageFacts, MediumFacts, Unreadable, VideoFacts

#: `frames_are` of images with more frames than the one that is read; null for all others.
SEVERAL_FRAMES = "several"


class SharedFacts(NamedTuple):
    """Facts that many media share. The fields are the columns of the table `media_form`."""

    kind: str
    format: str | None = None
    mode: str | None = None
    codec: str | None = None
    orientation: int | None = None
    rotation: int | None = None
    frames_are: str | None = None
    has_audio: int | None = None
    audio_codec: str | None = None
    audio_channels: int | None = None
    audio_rate: int | None = None
    audio_samples_are: str | None = None
    reason: str | None = None


class MediaMeasures(NamedTuple):
    """Facts that differ between media. The fields are columns of the table `media`."""

    width: int | None = None
    height: int | None = None
    seconds: float | None = None
    frames: int | None = None
    fps_num: int | None = None
    fps_den: int | None = None
    audio_seconds: float | None = None
    audio_samples: int | None = None


def facts_to_columns(facts: MediumFacts | Unreadable) -> tuple[SharedFacts, MediaMeasures]:
    """Split facts into format and measures. Numbers of 2^63 and more become None: only damaged headers state them."""
    form, numbers = _to_columns(facts)
    fields = numbers._asdict().items()
    too_large = {name: None for name, number in fields if number is not None and not number < 1 << 63}  # or NaN
    return form, numbers._replace(**too_large)


def _to_columns(facts: MediumFacts | Unreadable) -> tuple[SharedFacts, MediaMeasures]:
    if isinstance(facts, Unreadable):
        return SharedFacts(facts.kind, reason=facts.reason), MediaMeasures()
    if isinstance(facts, ImageFacts):
        several = SEVERAL_FRAMES if facts.has_more_frames else None
        form = SharedFacts(facts.kind, facts.format, facts.mode, orientation=facts.orientation, frames_are=several)
        return form, MediaMeasures(facts.width, facts.height)
    if isinstance(facts, AudioFacts):
        return _audio_format(facts), MediaMeasures(seconds=facts.duration_s, audio_samples=facts.samples)
    return _video_columns(facts)


def facts_from_columns(media_format: SharedFacts, measures: MediaMeasures) -> MediumFacts | Unreadable:
    """Return the facts that `facts_to_columns` split."""
    if media_format.kind == "image":
        return _image_facts(media_format, measures)
    if media_format.kind == "audio":
        return _audio_facts(media_format, media_format.codec, measures.seconds, measures.audio_samples)
    if media_format.kind == "video":
        return _video_facts(media_format, measures)
    return Unreadable(reason=media_format.reason or "")


def _audio_format(facts: AudioFacts) -> SharedFacts:
    return SharedFacts(
        facts.kind,
        facts.format,
        codec=facts.codec,
        audio_channels=facts.channels,
        audio_rate=facts.rate_hz,
        audio_samples_are=facts.samples_are,
    )


def _video_columns(facts: VideoFacts) -> tuple[SharedFacts, MediaMeasures]:
    audio = facts.audio
    form = SharedFacts(
        facts.kind,
        facts.format,
        codec=facts.codec,
        rotation=facts.rotation,
        frames_are=facts.frames_are,
        has_audio=int(facts.has_audio),
        audio_codec=audio.codec if audio else None,
        audio_channels=audio.channels if audio else None,
        audio_rate=audio.rate_hz if audio else None,
        audio_samples_are=audio.samples_are if audio else None,
    )
    numerator, denominator = facts.fps_ratio or (None, None)
    return form, MediaMeasures(
        facts.width,
        facts.height,
        facts.duration_s,
        facts.frames,
        numerator,
        denominator,
        audio.duration_s if audio else None,
        audio.samples if audio else None,
    )


def _image_facts(media_format: SharedFacts, measures: MediaMeasures) -> ImageFacts:
    width, height = measures.width or 0, measures.height or 0
    is_sideways = (media_format.orientation or 1) >= 5
    return ImageFacts(
        format=media_format.format or "",
        mode=media_format.mode or "",
        width=width,
        height=height,
        display_width=height if is_sideways else width,
        display_height=width if is_sideways else height,
        orientation=media_format.orientation or 1,
        has_more_frames=media_format.frames_are == SEVERAL_FRAMES,
    )


def _audio_facts(
    media_format: SharedFacts, codec: str | None, seconds: float | None, samples: int | None
) -> AudioFacts:
    return AudioFacts(
        format=media_format.format or "",
        codec=codec or "",
        channels=media_format.audio_channels or 0,
        rate_hz=media_format.audio_rate or 0,
        duration_s=seconds,
        samples=samples,
        samples_are=cast(CountOrigin, media_format.audio_samples_are),
    )


def _video_facts(media_format: SharedFacts, measures: MediaMeasures) -> VideoFacts:
    width, height = measures.width or 0, measures.height or 0
    is_sideways = media_format.rotation in (90, 270)
    ratio = (measures.fps_num, measures.fps_den) if measures.fps_num and measures.fps_den else None
    has_audio = media_format.audio_codec is not None
    return VideoFacts(
        format=media_format.format or "",
        codec=media_format.codec or "",
        width=width,
        height=height,
        display_width=height if is_sideways else width,
        display_height=width if is_sideways else height,
        rotation=media_format.rotation,
        duration_s=measures.seconds,
        fps=ratio[0] / ratio[1] if ratio else None,
        fps_ratio=ratio,
        frames=measures.frames,
        frames_are=cast(CountOrigin, media_format.frames_are),
        has_audio=bool(media_format.has_audio),
        audio=_audio_facts(media_format, media_format.audio_codec, measures.audio_seconds, measures.audio_samples)
        if has_audio
        else None,
    )
