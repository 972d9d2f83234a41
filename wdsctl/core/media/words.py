"""Facts in one line, as a person wants to see them: `1280x720 h264 29.97 fps 12.3 s, sound: aac 2 ch 48 kHz`."""

from __future__ import annotations

from wdsctl.core.media.facts import AudioFacts, Facts, ImageFacts, VideoFacts


def in_words(facts: Facts) -> str:
    if isinstance(facts, ImageFacts):
        turned = f", EXIF orientation {facts.orientation}" if facts.orientation != 1 else ""
        return f"{facts.width}x{facts.height} {facts.format} {facts.mode}{turned}"
    if isinstance(facts, AudioFacts):
        return f"{_sound(facts)}{_seconds(facts.duration_s)}"
    return _video(facts)


def _video(facts: VideoFacts) -> str:
    fps = f" {round(facts.fps, 2):g} fps" if facts.fps else ""
    turned = f", rotated by {facts.rotation}" if facts.rotation else ""
    picture = f"{facts.width}x{facts.height} {facts.codec}{fps}{_seconds(facts.duration_s)}{turned}"
    if facts.audio:
        return f"{picture}, sound: {_sound(facts.audio)}"
    return f"{picture}, sound: unknown codec" if facts.has_audio else f"{picture}, no sound"


def _sound(facts: AudioFacts) -> str:
    return f"{facts.codec} {facts.channels} ch {facts.rate_hz / 1000:g} kHz"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f" {seconds:.2g} s" if seconds < 0.95 else f" {seconds:,.1f} s"
