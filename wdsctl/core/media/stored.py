"""Facts as the catalog keeps them: a form, which many media share, and a few numbers of each; and facts from them."""

from __future__ import annotations

from typing import NamedTuple, cast

from wdsctl.core.media.facts import AudioFacts, Facts, ImageFacts, Origin, Unreadable, VideoFacts


class Form(NamedTuple):
    """What media have in common; the fields are the columns of `media_form`."""

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


class Numbers(NamedTuple):
    """What is different in each; the fields are columns of `media`."""

    width: int | None = None
    height: int | None = None
    seconds: float | None = None
    frames: int | None = None
    fps_num: int | None = None
    fps_den: int | None = None
    audio_seconds: float | None = None
    audio_samples: int | None = None


def stored(facts: Facts | Unreadable) -> tuple[Form, Numbers]:
    """Facts as form and numbers. Nothing is lost but counts that no database holds, which only damaged headers say."""
    form, numbers = _stored(facts)
    return form, numbers._replace(**{name: None for name, number in numbers._asdict().items() if _is_absurd(number)})


def _is_absurd(number: float | None) -> bool:
    return number is not None and not number < 1 << 63


def _stored(facts: Facts | Unreadable) -> tuple[Form, Numbers]:
    if isinstance(facts, Unreadable):
        return Form(facts.kind, reason=facts.reason), Numbers()
    if isinstance(facts, ImageFacts):
        form = Form(facts.kind, facts.format, facts.mode, orientation=facts.orientation)
        return form, Numbers(facts.width, facts.height)
    if isinstance(facts, AudioFacts):
        return _sound_form(facts), Numbers(seconds=facts.duration_s, audio_samples=facts.samples)
    return _video(facts)


def facts_of(form: Form, numbers: Numbers) -> Facts | Unreadable:
    """The facts that `stored` was given."""
    if form.kind == "image":
        return _image_facts(form, numbers)
    if form.kind == "audio":
        return _audio_facts(form, form.codec, numbers.seconds, numbers.audio_samples)
    if form.kind == "video":
        return _video_facts(form, numbers)
    return Unreadable(reason=form.reason or "")


def _sound_form(facts: AudioFacts) -> Form:
    return Form(
        facts.kind,
        facts.format,
        codec=facts.codec,
        audio_channels=facts.channels,
        audio_rate=facts.rate_hz,
        audio_samples_are=facts.samples_are,
    )


def _video(facts: VideoFacts) -> tuple[Form, Numbers]:
    sound = facts.audio
    form = Form(
        facts.kind,
        facts.format,
        codec=facts.codec,
        rotation=facts.rotation,
        frames_are=facts.frames_are,
        has_audio=int(facts.has_audio),
        audio_codec=sound.codec if sound else None,
        audio_channels=sound.channels if sound else None,
        audio_rate=sound.rate_hz if sound else None,
        audio_samples_are=sound.samples_are if sound else None,
    )
    numerator, denominator = facts.fps_ratio or (None, None)
    return form, Numbers(
        facts.width,
        facts.height,
        facts.duration_s,
        facts.frames,
        numerator,
        denominator,
        sound.duration_s if sound else None,
        sound.samples if sound else None,
    )


def _image_facts(form: Form, numbers: Numbers) -> ImageFacts:
    width, height = numbers.width or 0, numbers.height or 0
    is_sideways = (form.orientation or 1) >= 5
    return ImageFacts(
        format=form.format or "",
        mode=form.mode or "",
        width=width,
        height=height,
        display_width=height if is_sideways else width,
        display_height=width if is_sideways else height,
        orientation=form.orientation or 1,
    )


def _audio_facts(form: Form, codec: str | None, seconds: float | None, samples: int | None) -> AudioFacts:
    return AudioFacts(
        format=form.format or "",
        codec=codec or "",
        channels=form.audio_channels or 0,
        rate_hz=form.audio_rate or 0,
        duration_s=seconds,
        samples=samples,
        samples_are=cast(Origin, form.audio_samples_are),
    )


def _video_facts(form: Form, numbers: Numbers) -> VideoFacts:
    width, height = numbers.width or 0, numbers.height or 0
    is_sideways = form.rotation in (90, 270)
    ratio = (numbers.fps_num, numbers.fps_den) if numbers.fps_num and numbers.fps_den else None
    has_sound = form.audio_codec is not None
    return VideoFacts(
        format=form.format or "",
        codec=form.codec or "",
        width=width,
        height=height,
        display_width=height if is_sideways else width,
        display_height=width if is_sideways else height,
        rotation=form.rotation,
        duration_s=numbers.seconds,
        fps=ratio[0] / ratio[1] if ratio else None,
        fps_ratio=ratio,
        frames=numbers.frames,
        frames_are=cast(Origin, form.frames_are),
        has_audio=bool(form.has_audio),
        audio=_audio_facts(form, form.audio_codec, numbers.audio_seconds, numbers.audio_samples) if has_sound else None,
    )
