"""Conversion of audio samples to the requested rate, channels and type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from av.audio.layout import AudioLayout
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from wdsctl.core.errors import UsageError
from wdsctl.core.media.vorbis import make_frame, read_samples
from wdsctl.loader.decoding.av.audio_clips import AudioClip
from wdsctl.loader.decoding.av.audio_samples import AudioArray, AudioStreamFacts
from wdsctl.loader.decoding.av.container import BadMediumError

SampleFormat = Literal["native", "float"]
#: A number of channels, FFmpeg's name of a layout ("5.1"), or the channels to keep, counted from 0. None: all.
AudioChannels = int | str | tuple[int, ...] | None

#: Mixed channels are no louder than the loudest of them. Older PyAV lacks the option.
_RESAMPLER_OPTIONS: dict[str, Any] = (
    {"options": {"rematrix_maxval": "1.0"}} if hasattr(AudioResampler, "options") else {}
)

_MARGIN_SECONDS = 0.1  # resampled on both sides of a range: longer than the filter


@dataclass(frozen=True, slots=True)
class AudioOutputFormat:
    """`rate` in samples per second. `rate` and `channels` of None and format "native" keep what the decoder returns."""

    rate: int | None = None
    channels: AudioChannels = None
    format: SampleFormat = "native"

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate < 1:
            raise UsageError(
                f"audio_rate={self.rate}: expected a sample rate above 0", hint="pass samples per second, such as 16000"
            )
        if self.format not in ("native", "float"):
            raise UsageError(f"audio_format={self.format!r} is not supported", hint="use native or float")
        _channel_layout(self.channels)

    def rate_of(self, facts: AudioStreamFacts) -> int:
        return self.rate or facts.rate

    def source_range(self, facts: AudioStreamFacts, start: int, end: float) -> tuple[int, float]:
        """The samples of the file that samples [start, end) of the output are computed from.

        They start where a sample of the file and a sample of the output have the same time.
        """
        rate = self.rate_of(facts)
        if rate == facts.rate:
            return start, end
        output, source = self._rate_ratio(facts)
        margin = math.ceil(_MARGIN_SECONDS * rate / output)
        first = max(0, start // output - margin)
        return first * source, end if math.isinf(end) else (math.ceil(end / output) + margin) * source

    def index_in_clip(self, facts: AudioStreamFacts, clip: AudioClip, position: float) -> float:
        """The index in the converted clip of the output sample at this position."""
        if math.isinf(position):
            return position
        output, source = self._rate_ratio(facts)
        return math.ceil(clip.index_at(Fraction(int(position) * source, output)) * Fraction(output, source))

    def time_bounds(self, facts: AudioStreamFacts, clip: AudioClip, first: float, stop: float) -> tuple[float, float]:
        """(start, end) of samples [first, stop) of the converted clip, in seconds from sample 0."""
        rate = self.rate_of(facts)
        begin = clip.clock_at(Fraction(int(first) * facts.rate, rate)) / facts.rate
        end = clip.clock_at(Fraction(int(stop) * facts.rate, rate), is_end=True) / facts.rate
        return float(begin), float(end)

    def convert(self, samples: AudioArray, facts: AudioStreamFacts, first: float, stop: float) -> AudioArray:
        """Samples [first, stop) of the converted clip: (channels, samples).

        Native samples keep their dtype; float samples are float32 between -1 and 1.
        """
        if self.rate_of(facts) != facts.rate or isinstance(self.channels, int | str):
            samples = self._resample(samples, facts)
        samples = samples[:, int(first) : None if math.isinf(stop) else int(stop)]
        if isinstance(self.channels, tuple):
            if not set(self.channels) <= set(range(len(samples))):
                raise BadMediumError(
                    f"it has {len(samples)} channels, but audio_channels={self.channels} selects others"
                )
            samples = samples[list(self.channels)]
        return _as_float(samples) if self.format == "float" else samples

    def _rate_ratio(self, facts: AudioStreamFacts) -> tuple[int, int]:
        """(output, source): the smallest numbers of samples that last equally long."""
        common = math.gcd(self.rate_of(facts), facts.rate)
        return self.rate_of(facts) // common, facts.rate // common

    def _resample(self, samples: AudioArray, facts: AudioStreamFacts) -> AudioArray:
        # Integers are resampled as floats and rounded once at the end, which is more exact.
        sample_type = facts.format.rstrip("p")
        is_exact = sample_type in ("flt", "dbl")
        working = f"{sample_type}p" if is_exact else "fltp"
        layout = _channel_layout(self.channels) or facts.layout
        resampler = AudioResampler(format=working, layout=layout, rate=self.rate_of(facts), **_RESAMPLER_OPTIONS)
        frame = make_frame(samples, sample_type, facts.layout, facts.rate)
        arrays = [read_samples(each) for each in (*resampler.resample(frame), *resampler.resample(None))]
        channels = AudioLayout(layout).nb_channels
        joined: AudioArray = np.concatenate(arrays, axis=1) if arrays else np.zeros((channels, 0), np.float32)
        return joined if is_exact else _as_integers(joined, samples.dtype)


def _channel_layout(channels: AudioChannels) -> str | None:
    """FFmpeg's name of the layout; None to keep the file's. Raises UsageError for unknown ones."""
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
            f"audio_channels={channels!r} is not a channel layout",
            hint='pass 1, 2, a layout such as "5.1", or the channels to keep, such as (0,)',
        ) from None


def _as_float(samples: AudioArray) -> NDArray[np.float32]:
    if samples.dtype.kind == "f":
        return samples.astype(np.float32, copy=False)
    if samples.dtype.kind == "u":
        return (samples.astype(np.float32) - np.float32(128)) / np.float32(128)
    return samples.astype(np.float32) / np.float32(1 << 8 * samples.dtype.itemsize - 1)


def _as_integers(samples: AudioArray, dtype: np.dtype[Any]) -> AudioArray:
    """Floats between -1 and 1 as integers of `dtype`, clipped."""
    full = float(1 << 8 * dtype.itemsize - 1)
    scaled = np.rint(samples.astype(np.float64) * full)
    if dtype.kind == "u":
        return np.clip(scaled + full, 0, 2 * full - 1).astype(dtype)
    return np.clip(scaled, -full, full - 1).astype(dtype)
