"""Samples in the shape that is asked for: another rate, other channels, float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.layout import AudioLayout
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from wdsctl.core.errors import UsageError
from wdsctl.loader.av.opening import BadMediumError
from wdsctl.loader.av.sound_clips import Sound
from wdsctl.loader.av.sound_facts import SoundFacts
from wdsctl.loader.av.sound_reader import Samples

SampleFormat = Literal["native", "float"]
#: How many channels, FFmpeg's name for a layout of them, or which of those that are there, counted from 0.
Channels = int | str | tuple[int, ...] | None

#: Channels that are mixed are no louder than the loudest of them. PyAV has the option from some version on.
_NO_LOUDER: dict[str, Any] = {"options": {"rematrix_maxval": "1.0"}} if hasattr(AudioResampler, "options") else {}

_MARGIN_SECONDS = 0.1  # on both sides of what is resampled: longer than the filter


@dataclass(frozen=True, slots=True)
class SoundShape:
    """`rate`: samples a second; None, as `channels` None and format "native": as the decoder gives them."""

    rate: int | None = None
    channels: Channels = None
    format: SampleFormat = "native"

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate < 1:
            raise UsageError(f"audio_rate={self.rate} is no rate", hint="samples a second, such as 16000")
        if self.format not in ("native", "float"):
            raise UsageError(f"audio_format={self.format!r} is not known", hint="one of native, float")
        _layout(self.channels)

    def rate_of(self, facts: SoundFacts) -> int:
        return self.rate or facts.rate

    def source_range(self, facts: SoundFacts, start: int, end: float) -> tuple[int, float]:
        """The samples of the file from which samples [start, end) of this shape are made.

        They begin where a sample of one rate and a sample of the other fall on the same moment.
        """
        rate = self.rate_of(facts)
        if rate == facts.rate:
            return start, end
        ours, theirs = self._block(facts)
        margin = math.ceil(_MARGIN_SECONDS * rate / ours)
        first = max(0, start // ours - margin)
        return first * theirs, end if math.isinf(end) else (math.ceil(end / ours) + margin) * theirs

    def index_in(self, facts: SoundFacts, sound: Sound, place: float) -> float:
        """Where the sample of this shape that belongs to this place is in what was read, once that has this shape."""
        if math.isinf(place):
            return place
        ours, theirs = self._block(facts)
        return math.ceil(sound.index_of(Fraction(int(place) * theirs, ours)) * Fraction(ours, theirs))

    def clocks(self, facts: SoundFacts, sound: Sound, first: float, stop: float) -> tuple[float, float]:
        """Seconds from sample 0 at which samples [first, stop) of what was read, in this shape, begin and end."""
        rate = self.rate_of(facts)
        begin = sound.clock_at(Fraction(int(first) * facts.rate, rate)) / facts.rate
        end = sound.clock_at(Fraction(int(stop) * facts.rate, rate), is_end=True) / facts.rate
        return float(begin), float(end)

    def shaped(self, samples: Samples, facts: SoundFacts, first: float, stop: float) -> Samples:
        """What was read, in this shape, and of that samples [first, stop).

        (channels, samples). Native samples keep their type; float ones are float32 between -1 and 1.
        """
        if self.rate_of(facts) != facts.rate or isinstance(self.channels, int | str):
            samples = self._resampled(samples, facts)
        samples = samples[:, int(first) : None if math.isinf(stop) else int(stop)]
        if isinstance(self.channels, tuple):
            if not set(self.channels) <= set(range(len(samples))):
                raise BadMediumError(f"it has {len(samples)} channels, and audio_channels={self.channels} is asked for")
            samples = samples[list(self.channels)]
        return _as_float(samples) if self.format == "float" else samples

    def _block(self, facts: SoundFacts) -> tuple[int, int]:
        """So many samples of ours last as long as so many of the file's, exactly."""
        common = math.gcd(self.rate_of(facts), facts.rate)
        return self.rate_of(facts) // common, facts.rate // common

    def _resampled(self, samples: Samples, facts: SoundFacts) -> Samples:
        planar = facts.format if facts.format.endswith("p") else f"{facts.format}p"
        # Integers are resampled as floats: rounding them once, at the end, is closer.
        is_exact = facts.format.rstrip("p") in ("flt", "dbl")
        working = planar if is_exact else "fltp"
        layout = _layout(self.channels) or facts.layout
        resampler = AudioResampler(format=working, layout=layout, rate=self.rate_of(facts), **_NO_LOUDER)
        data: Any = np.ascontiguousarray(samples)
        frame = AudioFrame.from_ndarray(data, format=planar, layout=facts.layout)
        frame.sample_rate = facts.rate
        made = [each.to_ndarray() for each in (*resampler.resample(frame), *resampler.resample(None))]
        channels = AudioLayout(layout).nb_channels
        joined: Samples = np.concatenate(made, axis=1) if made else np.zeros((channels, 0), np.float32)
        return joined if is_exact else _as_integers(joined, samples.dtype)


def _layout(channels: Channels) -> str | None:
    """FFmpeg's name of a layout. Raises UsageError for what is none."""
    if channels is None or isinstance(channels, tuple):
        return None
    try:
        return (
            {1: "mono", 2: "stereo"}.get(channels) or AudioLayout(f"{channels}c").name
            if isinstance(channels, int)
            else AudioLayout(channels).name
        )
    except (ValueError, TypeError):
        raise UsageError(
            f"audio_channels={channels!r} is not known",
            hint='1, 2, a layout such as "5.1", or the channels to keep, such as (0,)',
        ) from None


def _as_float(samples: Samples) -> NDArray[np.float32]:
    if samples.dtype.kind == "f":
        return samples.astype(np.float32, copy=False)
    if samples.dtype.kind == "u":
        return (samples.astype(np.float32) - np.float32(128)) / np.float32(128)
    return samples.astype(np.float32) / np.float32(1 << 8 * samples.dtype.itemsize - 1)


def _as_integers(samples: Samples, dtype: np.dtype[Any]) -> Samples:
    """The other way round, with what is too loud cut off."""
    full = float(1 << 8 * dtype.itemsize - 1)
    scaled = np.rint(samples.astype(np.float64) * full)
    if dtype.kind == "u":
        return np.clip(scaled + full, 0, 2 * full - 1).astype(dtype)
    return np.clip(scaled, -full, full - 1).astype(dtype)
