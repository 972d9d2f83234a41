"""What is known of a sound once two frames are decoded: where sample 0 is, and how far the clock can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Literal

from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

from wdsctl.loader.av.opening import BadMediumError, OpenMedium

#: How to get to a sample in the middle, exactly:
#: - "seek": the clock counts samples, and seeking in this format keeps it;
#: - "snap": the clock is coarser than samples (Matroska counts milliseconds), but frames are all of one size;
#: - "walk": read all packets from the beginning, which counts them, and decode those that are needed;
#: - "decode": decode everything from the beginning.
Way = Literal["seek", "snap", "walk", "decode"]

_EXACT = frozenset({"mov", "flac"})
#: Formats that are sought by bytes, which is exact where all samples are of one size: not of ADPCM.
_BY_BYTES = frozenset({"wav", "aiff"})
#: Formats without a table of contents, of sounds alone: they are small, and their packets count samples.
_WALKED = frozenset({"mp3", "aac", "ogg"})
#: Codecs whose frames are of several sizes.
_UNEVEN = frozenset({"vorbis", "wmav1", "wmav2", "wmapro"})


@dataclass(frozen=True, slots=True)
class SoundFacts:
    rate: int  # samples a second
    layout: str  # FFmpeg's name: mono, stereo, 5.1
    channels: int
    format: str  # FFmpeg's name: s16, fltp
    tick: Fraction  # seconds
    first: int  # tick of sample 0, the first that a decode from the beginning gives
    first_samples: int  # of the first frame, of which a run-up may be cut off
    frame_samples: int  # of the second frame
    way: Way

    def sample_at(self, pts: int) -> int:
        """Which sample the clock says that a frame of this time begins with."""
        return round((pts - self.first) * self.tick * self.rate)

    def tick_of(self, sample: int) -> int:
        return self.first + int(Fraction(sample, self.rate) / self.tick)

    @property
    def coarseness(self) -> int:
        """By how many samples the clock may be wrong."""
        return int(self.tick * self.rate * 2) + 1

    def snapped(self, sample: int) -> int:
        """The beginning of a frame that is meant by what the clock says; as it is where none is near."""
        if self.way != "snap" or not self.frame_samples:
            return sample
        steps = round((sample - self.first_samples) / self.frame_samples)
        begin = self.first_samples + steps * self.frame_samples
        return begin if abs(begin - sample) <= self.coarseness else sample


def sound_facts(opened: OpenMedium) -> SoundFacts:
    """Decodes two frames. Raises BadMediumError where there is no sound, or none that can be decoded."""
    opened.restart()
    stream = opened.audio
    if stream is None:
        raise BadMediumError("there is no sound in it")
    opened.read(stream)
    frames: list[AudioFrame] = [frame for frame in islice(opened.container.decode(stream), 2) if frame.samples]
    if not frames or not frames[0].sample_rate:
        raise BadMediumError("its sound has no samples")
    first, tick = frames[0], frames[0].time_base or Fraction(1, frames[0].sample_rate)
    return SoundFacts(
        rate=first.sample_rate,
        layout=_layout(first),
        channels=first.layout.nb_channels,
        format=first.format.name,
        tick=tick,
        first=first.pts or 0,
        first_samples=first.samples,
        frame_samples=frames[-1].samples,
        way=_way(opened, stream, tick, first.sample_rate),
    )


def _layout(frame: AudioFrame) -> str:
    """Files that only count their channels mean the usual ones."""
    name, count = frame.layout.name, frame.layout.nb_channels
    return {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}.get(count, name) if name.endswith("channels") else name


def _way(opened: OpenMedium, stream: AudioStream, tick: Fraction, rate: int) -> Way:
    codec = stream.codec_context.codec.canonical_name
    if opened.family in _EXACT or (opened.family == "avi" and tick == Fraction(1, rate)):
        return "seek"
    if opened.family in _BY_BYTES:
        return "seek" if codec.startswith("pcm_") else "decode"
    if opened.family in _WALKED:
        return "walk"
    if not opened.keeps_clock:
        return "decode"
    is_uneven = codec in _UNEVEN
    return "decode" if is_uneven and opened.video is None else "snap"
