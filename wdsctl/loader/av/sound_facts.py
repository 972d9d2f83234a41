"""What is known of a sound once two frames are decoded: where sample 0 is, and how far the clock can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Literal

from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream

from wdsctl.core.media.ogg_vorbis import decoded_whole
from wdsctl.core.media.stated_seconds import ogg_samples
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
UNEVEN = frozenset({"vorbis", "wmav1", "wmav2", "wmapro"})


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
    codec: str  # FFmpeg's name: aac, vorbis
    delay: int  # ticks before 0 that the file has and nobody hears
    is_numbered: bool = False  # each frame states the number of its first sample: where they jump, frames are lost
    stop: int | None = None  # of Ogg Vorbis: samples by the last page; what comes behind them only fills a block

    def sample_at(self, pts: int) -> int:
        """Which sample the clock says that a frame of this time begins with."""
        return round((pts - self.first) * self.tick * self.rate)

    def tick_of(self, sample: int) -> int:
        return self.first + int(Fraction(sample, self.rate) / self.tick)

    @property
    def coarseness(self) -> int:
        """By how many samples the clock may be wrong. Never so many that a frame more or less is not told."""
        coarse = int(self.tick * self.rate * 2) + 1
        return min(coarse, self.frame_samples // 2) if self.way == "snap" and self.frame_samples > 1 else coarse

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
    packets: list[int | None] = []
    frames = list(islice(_frames(opened, stream, packets), 2))
    if not frames or not frames[0].sample_rate:
        raise BadMediumError("its sound has no samples")
    first, tick = frames[0], frames[0].time_base or Fraction(1, frames[0].sample_rate)
    codec = stream.codec_context.codec.canonical_name
    begin, stop = (first.pts or 0), None
    if opened.family == "ogg" and codec == "vorbis":
        begin, stop = _ogg_vorbis(stream, begin)
    return SoundFacts(
        rate=first.sample_rate,
        layout=_layout(first),
        channels=first.layout.nb_channels,
        format=first.format.name,
        tick=tick,
        first=begin,
        first_samples=first.samples,
        frame_samples=frames[-1].samples,
        way=_way(opened, codec, tick, first.sample_rate),
        codec=codec,
        delay=max(0, -(packets[0] or 0)),
        is_numbered=opened.family == "flac",
        stop=stop,
    )


def _frames(opened: OpenMedium, stream: AudioStream, times: list[int | None]) -> Iterator[AudioFrame]:
    """Those that have samples. The times of the packets that were read are added to `times`."""
    is_ogg_vorbis = opened.family == "ogg" and stream.codec_context.codec.canonical_name == "vorbis"
    for packet in opened.container.demux(stream):
        times.append(packet.pts)
        # Of a sound that lies in one page, FFmpeg may cut off all that there is.
        frames = decoded_whole(packet, stream) if is_ogg_vorbis else packet.decode()
        yield from (frame for frame in frames if frame.samples)


def _layout(frame: AudioFrame) -> str:
    """Files that only count their channels mean the usual ones."""
    name, count = frame.layout.name, frame.layout.nb_channels
    return {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}.get(count, name) if name.endswith("channels") else name


def _ogg_vorbis(stream: AudioStream, begin: int) -> tuple[int, int | None]:
    """(tick of sample 0, samples in all). Source: Vorbis I specification, A.2.

    The last page says with which sample the sound ends. A first page that states fewer samples than it has leaves out
    some at the beginning: there is no time before 0. FFmpeg takes the first packet for samples, though it gives none;
    where all lies in one page it counts them from 0, and cuts off as many too many at the end.
    """
    begin = max(0, begin)
    return begin, ogg_samples(stream, begin * (stream.time_base or Fraction(0)))


def _way(opened: OpenMedium, codec: str, tick: Fraction, rate: int) -> Way:
    is_fine = tick * rate <= 1  # a tick for every sample: MP4 may count in fewer
    if (opened.family in _EXACT and is_fine) or (opened.family == "avi" and tick == Fraction(1, rate)):
        return "seek"
    if opened.family in _BY_BYTES:
        return "seek" if codec.startswith("pcm_") else "decode"
    if opened.family in _WALKED:
        return "walk"
    if not opened.keeps_clock:
        return "decode"
    is_uneven = codec in UNEVEN
    return "decode" if is_uneven and opened.video is None else "snap"
