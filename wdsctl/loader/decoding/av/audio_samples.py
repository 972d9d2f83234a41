"""Decoding audio from any sample on, with the samples that a decode from the start of the file gives.

`AudioStreamFacts` says where sample 0 is and how exact the file's clock is; two frames are decoded to find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import Literal, NamedTuple

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from wdsctl.core.media.stream import count_ogg_samples
from wdsctl.core.media.vorbis import AudioBlock, decode_untrimmed, read_samples, trim_padding
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium

#: How to reach a sample exactly:
#: - "seek": the clock counts samples, and seeks in this format keep it;
#: - "snap": the clock is coarser than samples (Matroska counts milliseconds), but all frames have one size;
#: - "walk": read all packets from the start, which counts samples, and decode those that are needed;
#: - "decode": decode everything from the start.
SeekMethod = Literal["seek", "snap", "walk", "decode"]

_EXACT_SEEK_FORMATS = frozenset({"mov", "flac"})
#: Formats with seeks by byte, which are exact if all samples have one size (not ADPCM).
_BYTE_SEEK_FORMATS = frozenset({"wav", "aiff"})
#: Audio-only formats without a table of contents. Files are small, and packets count samples.
_COUNTED_PACKET_FORMATS = frozenset({"mp3", "aac", "ogg"})
#: Codecs whose frames vary in size.
VARIABLE_FRAME_CODECS = frozenset({"vorbis", "wmav1", "wmav2", "wmapro"})


@dataclass(frozen=True, slots=True)
class AudioStreamFacts:
    rate: int  # samples per second
    layout: str  # FFmpeg's name: mono, stereo, 5.1
    channels: int
    format: str  # FFmpeg's name: s16, fltp
    tick: Fraction  # seconds
    first_tick: int  # tick of sample 0, the first that a decode from the beginning gives
    first_frame_samples: int  # of the first frame, whose priming samples may be cut off
    frame_samples: int  # of the second frame
    seek_method: SeekMethod
    codec: str  # FFmpeg's name: aac, vorbis
    delay_ticks: int  # of priming before 0, which is not played
    is_numbered: bool = False  # each frame states the number of its first sample: a jump means lost frames
    total_samples: int | None = None  # of Ogg Vorbis, by the last page; later samples are padding

    def sample_at(self, pts: int) -> int:
        """The first sample of a frame with this time, by the clock."""
        return round((pts - self.first_tick) * self.tick * self.rate)

    def tick_of(self, sample: int) -> int:
        return self.first_tick + int(Fraction(sample, self.rate) / self.tick)

    @property
    def clock_tolerance(self) -> int:
        """Samples by which the clock may be wrong: always less than a frame, so that a missing frame is noticed."""
        coarse = int(self.tick * self.rate * 2) + 1
        return min(coarse, self.frame_samples // 2) if self.seek_method == "snap" and self.frame_samples > 1 else coarse

    def snap_to_frame(self, sample: int) -> int:
        """The frame boundary nearest to `sample`, or `sample` if none is within `clock_tolerance`."""
        if self.seek_method != "snap" or not self.frame_samples:
            return sample
        steps = round((sample - self.first_frame_samples) / self.frame_samples)
        begin = self.first_frame_samples + steps * self.frame_samples
        return begin if abs(begin - sample) <= self.clock_tolerance else sample


def read_audio_facts(medium: OpenMedium) -> AudioStreamFacts:
    """The facts of the first audio stream. Decodes two frames. Raises BadMediumError if no audio can be decoded."""
    medium.restart()
    stream = medium.audio
    if stream is None:
        raise BadMediumError("it has no audio stream")
    medium.select_stream(stream)
    packets: list[int | None] = []
    frames = list(islice(_decoded_frames(medium, stream, packets), 2))
    if not frames or not frames[0].sample_rate:
        raise BadMediumError("its audio stream has no samples")
    first, tick = frames[0], frames[0].time_base or Fraction(1, frames[0].sample_rate)
    codec = stream.codec_context.codec.canonical_name
    begin, stop = (first.pts or 0), None
    if medium.family == "ogg" and codec == "vorbis":
        begin, stop = _ogg_vorbis_bounds(stream, begin)
    return AudioStreamFacts(
        rate=first.sample_rate,
        layout=_frame_layout(first),
        channels=first.layout.nb_channels,
        format=first.format.name,
        tick=tick,
        first_tick=begin,
        first_frame_samples=first.samples,
        frame_samples=frames[-1].samples,
        seek_method=_choose_seek_method(medium, codec, tick, first.sample_rate),
        codec=codec,
        delay_ticks=max(0, -(packets[0] or 0)),
        is_numbered=medium.family == "flac",
        total_samples=stop,
    )


def _decoded_frames(medium: OpenMedium, stream: AudioStream, times: list[int | None]) -> Iterator[AudioFrame]:
    """Decoded frames that have samples. Appends the times of the packets that were read to `times`."""
    is_ogg_vorbis = medium.family == "ogg" and stream.codec_context.codec.canonical_name == "vorbis"
    for packet in medium.container.demux(stream):
        times.append(packet.pts)
        # FFmpeg may cut off all samples of a file with a single page.
        frames = decode_untrimmed(packet, stream) if is_ogg_vorbis else packet.decode()
        yield from (frame for frame in frames if frame.samples)


def _frame_layout(frame: AudioFrame) -> str:
    """FFmpeg's name of the layout. Files that only state a number of channels have the usual layout."""
    name, count = frame.layout.name, frame.layout.nb_channels
    return {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}.get(count, name) if name.endswith("channels") else name


def _ogg_vorbis_bounds(stream: AudioStream, begin: int) -> tuple[int, int | None]:
    """(tick of sample 0, total samples). Source: Vorbis I specification, A.2.

    The last page states the last sample. If the first page states fewer samples than it has, the surplus at the start
    is dropped: there is no time before 0. FFmpeg counts samples for the first packet, which has none; in a file with a
    single page it counts them from 0 and cuts off as many at the end.
    """
    begin = max(0, begin)
    return begin, count_ogg_samples(stream, begin * (stream.time_base or Fraction(0)))


def _choose_seek_method(medium: OpenMedium, codec: str, tick: Fraction, rate: int) -> SeekMethod:
    is_fine = tick * rate <= 1  # at least a tick per sample: MP4 may have fewer
    if (medium.family in _EXACT_SEEK_FORMATS and is_fine) or (medium.family == "avi" and tick == Fraction(1, rate)):
        return "seek"
    if medium.family in _BYTE_SEEK_FORMATS:
        return "seek" if codec.startswith("pcm_") else "decode"
    if medium.family in _COUNTED_PACKET_FORMATS:
        return "walk"
    if not medium.keeps_clock:
        return "decode"
    is_uneven = codec in VARIABLE_FRAME_CODECS
    return "decode" if is_uneven and medium.video is None else "snap"


AudioArray = NDArray[np.generic]  # (channels, samples)

#: Decoded and dropped before a range, as samples depend on earlier frames (MP3: up to nine).
PREROLL_SECONDS = 0.5


class AudioChunk(NamedTuple):
    number: int  # of its first sample, counting the samples that the file has
    clock: int  # of its first sample, by the file's clock: they differ after a gap
    samples: AudioArray


def decode_chunks(
    medium: OpenMedium, facts: AudioStreamFacts, start: int, end: float, *, by_clock: bool = False
) -> Iterator[AudioChunk]:
    """The decoded samples [start, end) in order, with some samples before and after them.

    `start` and `end` are sample numbers, or with `by_clock` samples of the file's clock. Numbers start from the clock
    at `start`, so they are right only if `find_first_gap` finds no gap before it. Raises BadMediumError,
    av.FFmpegError.
    """
    preroll_start = start - round(PREROLL_SECONDS * facts.rate)
    seeked = (
        _frames_from_seek(medium, facts, preroll_start, start)
        if preroll_start > 0 and facts.seek_method in ("seek", "snap")
        else None
    )
    frames = seeked or _frames_from_start(medium, facts, preroll_start)
    is_mid_stream = seeked is not None or (facts.seek_method == "walk" and preroll_start > 0)
    # A first frame shorter than a tick must not be taken for the second one.
    clock: int | None = None if is_mid_stream or facts.seek_method == "walk" else 0
    number: int | None = None if is_mid_stream else 0
    blocks: Iterator[AudioBlock] = (
        AudioBlock(None if each.pts is None else facts.sample_at(each.pts), frame_to_array(each)) for each in frames
    )
    if facts.total_samples is not None:
        blocks = trim_padding(blocks, facts.total_samples)
    for block in blocks:
        if clock is None:
            clock = 0 if block.first_sample is None else facts.snap_to_frame(block.first_sample)
        elif block.first_sample is not None and abs(block.first_sample - clock) > facts.clock_tolerance:
            if facts.is_numbered and clock < end and block.first_sample > start:
                raise BadMediumError(
                    f"its frames jump from sample {clock:,} to {block.first_sample:,}: some are missing"
                )
            clock = block.first_sample  # a gap
        if number is None:
            number = clock
        yield AudioChunk(number, clock, block.samples)
        if (clock if by_clock else number) >= end:
            return
        clock += block.samples.shape[1]
        number += block.samples.shape[1]


def frame_to_array(frame: AudioFrame) -> AudioArray:
    """(channels, samples) in the decoder's type. Raises BadMediumError if numpy has no such type."""
    try:
        return read_samples(frame)
    except ValueError as error:
        raise BadMediumError(f"its sample format {frame.format.name} is not supported") from error


def _audio_stream(medium: OpenMedium) -> AudioStream:
    if medium.audio is None:
        raise BadMediumError("it has no audio stream")
    return medium.audio


def _frames_from_seek(
    medium: OpenMedium, facts: AudioStreamFacts, preroll_start: int, start: int
) -> Iterator[AudioFrame] | None:
    """Frames from `preroll_start` or earlier on; None if only a read from the start of the file gets there."""
    stream = _audio_stream(medium)
    step = facts.rate
    while preroll_start > 0:
        try:
            medium.is_at_start = False
            medium.container.seek(facts.tick_of(preroll_start), stream=stream)
        except av.FFmpegError:
            return None
        medium.select_stream(stream)
        frames = medium.container.decode(stream)
        first = next(frames, None)
        begin = None if first is None or first.pts is None else facts.sample_at(first.pts)
        if first is not None and begin is not None and begin <= max(preroll_start, 0):
            if facts.seek_method == "seek":
                return chain([first], frames)
            # After a seek, priming may be cut off the first frame again, which moves it off the frame grid.
            if begin + first.samples + facts.clock_tolerance <= start:
                return frames
        preroll_start, step = min(preroll_start, start) - step, step * 2
    return None


def _frames_from_start(medium: OpenMedium, facts: AudioStreamFacts, preroll_start: int) -> Iterator[AudioFrame]:
    medium.restart()
    stream = _audio_stream(medium)
    medium.select_stream(stream)
    if facts.total_samples is None and (facts.seek_method != "walk" or preroll_start <= 0):
        yield from medium.container.decode(stream)
        return
    for packet in medium.container.demux(stream):
        is_before = (
            preroll_start > 0
            and packet.pts is not None
            and facts.sample_at(packet.pts + (packet.duration or 0)) < preroll_start
        )
        if not is_before:
            yield from packet.decode() if facts.total_samples is None else decode_untrimmed(packet, stream)
