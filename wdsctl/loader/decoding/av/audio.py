"""The audio stream of a medium: its facts and its clips. Facts are kept for the lifetime of a decoder.

For clips by sample number, the clock of the file must count its samples. It does so up to the first gap, which is found
by a scan of the packets, without decoding: if all frames have one size, the time of a packet tells how many samples
precede it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import torch

from wdsctl.core.media.stream import DELAYED_CODECS, MAX_MISSING_SECONDS, AudioStart, header_seconds
from wdsctl.loader.decoding.av.audio_clips import AudioClip, read_audio_clips
from wdsctl.loader.decoding.av.audio_format import AudioOutputFormat
from wdsctl.loader.decoding.av.audio_samples import (
    PREROLL_SECONDS,
    VARIABLE_FRAME_CODECS,
    AudioStreamFacts,
    decode_chunks,
    read_audio_facts,
)
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium, scan_seconds
from wdsctl.loader.decoding.av.pixels import ByteBudget
from wdsctl.loader.decoding.av.values import ClipRange, ClipTimes


class AudioTrack:
    """One audio stream. Not thread-safe: `AVDecoder` holds a lock."""

    def __init__(self, output_format: AudioOutputFormat) -> None:
        self._output_format = output_format
        self._facts: AudioStreamFacts | None = None
        self._gap_scan: tuple[int, float] = (0, math.inf)  # (samples scanned for gaps, sample before the first gap)
        self._seconds: float | None = None

    def clips(
        self,
        medium: OpenMedium,
        ranges: Sequence[ClipRange],
        *,
        by_number: bool,
        budget: ByteBudget,
        window: ClipRange | None = None,
    ) -> tuple[list[torch.Tensor], ClipTimes]:
        """(channels, samples) and (start, end) seconds of each range that has samples. `by_number`: ranges in samples
        of the output rate, else in seconds. `window`: the seconds of the medium that there are; ranges and times begin
        at its start. Raises BadMediumError, av.FFmpegError."""
        facts = self.facts(medium)
        rate = self._output_format.rate_of(facts)
        start_seconds = float(facts.first_tick * facts.tick - medium.start_time)  # of sample 0
        if window is None:
            sample_ranges = [_range_in_samples(each, by_number, rate, start_seconds) for each in ranges]
        else:
            own = [_range_in_samples(each, by_number, rate, 0.0) for each in ranges]
            sample_ranges = _ranges_in_window(own, window, rate, start_seconds)
            start_seconds, by_number = start_seconds - window[0], False
        sources = [self._output_format.source_range(facts, *each) for each in sample_ranges]
        gap = self._find_gap(medium, facts, max((start for start, _ in sources), default=0)) if by_number else math.inf
        source_clips = read_audio_clips(medium, facts, sources, budget, by_clock=not by_number, gap=gap)
        self._check_not_truncated(medium, facts, sources, source_clips, by_clock=not by_number)
        clips: list[torch.Tensor] = []
        times: ClipTimes = []
        for (start, end), clip in zip(sample_ranges, source_clips, strict=True):
            if not clip.size:
                continue
            first, stop = (self._output_format.index_in_clip(facts, clip, position) for position in (start, end))
            samples = self._output_format.convert(clip.samples, facts, first, stop)
            if samples.shape[1]:
                clips.append(torch.from_numpy(np.ascontiguousarray(samples)))
                from_start, to_end = self._output_format.time_bounds(facts, clip, first, first + samples.shape[1])
                times.append((start_seconds + from_start, start_seconds + to_end))
        return clips, times

    def _find_gap(self, medium: OpenMedium, facts: AudioStreamFacts, sample: int) -> float:
        """The sample before the first gap, inf if there is none up to `sample`. The scan is kept."""
        until, gap = self._gap_scan
        if gap == math.inf and sample > max(until, PREROLL_SECONDS * facts.rate):
            self._gap_scan = sample, find_first_gap(medium, facts, sample)
        return self._gap_scan[1]

    def _check_not_truncated(
        self,
        medium: OpenMedium,
        facts: AudioStreamFacts,
        ranges: Sequence[tuple[int, float]],
        clips: Sequence[AudioClip],
        *,
        by_clock: bool,
    ) -> None:
        """Raise BadMediumError if a range includes samples that the header announces and the file lacks."""
        stated = self._header_seconds(medium)
        if stated is None:
            return
        announced, short = int(stated * facts.rate), MAX_MISSING_SECONDS * facts.rate
        for (start, end), clip in zip(ranges, clips, strict=True):
            missing = end - (clip.end if clip.size else start)
            is_gap = by_clock and clip.end_clock >= end
            if not is_gap and missing > short and announced - max(start, clip.end_clock) > short:
                raise BadMediumError(
                    f"its audio ends after {clip.end_clock / facts.rate:.1f} s, its header says "
                    f"{float(stated):.1f} s: the file is truncated or damaged"
                )

    def facts(self, medium: OpenMedium) -> AudioStreamFacts:
        if self._facts is None:
            self._facts = read_audio_facts(medium)
        return self._facts

    def seconds(self, medium: OpenMedium) -> float | None:
        if medium.audio is None:
            raise BadMediumError("it has no audio stream")
        if self._seconds is None:
            duration = self._header_seconds(medium) or scan_seconds(medium, is_audio=True)
            self._seconds = float(duration) if duration else None
        return self._seconds

    def _header_seconds(self, medium: OpenMedium) -> Fraction | None:
        if medium.audio is None:
            return None
        if medium.audio.codec_context.codec.canonical_name not in DELAYED_CODECS or medium.family not in (
            "matroska",
            "ogg",
        ):
            return header_seconds(medium.audio, medium.family)
        facts = self.facts(medium)
        start = AudioStart(facts.first_tick * facts.tick, facts.delay_ticks * facts.tick)
        return header_seconds(medium.audio, medium.family, start)

    def time_span(self, medium: OpenMedium) -> tuple[float, float] | None:
        """(start, end) in seconds; None if the file states no duration."""
        duration, facts = self.seconds(medium), self.facts(medium)
        start = float(facts.first_tick * facts.tick - medium.start_time)
        return None if duration is None else (start, start + duration)

    def count_samples(self, medium: OpenMedium) -> int:
        """Samples of one channel. Decodes the whole stream."""
        return sum(chunk.samples.shape[1] for chunk in decode_chunks(medium, self.facts(medium), 0, math.inf))


def _range_in_samples(clip_range: ClipRange, by_number: bool, rate: int, start_seconds: float) -> tuple[int, float]:
    """The range in samples of the output rate. Ranges of one length have equally many samples wherever they start."""
    start, end = clip_range
    if by_number:
        return math.floor(start), end if math.isinf(end) else math.floor(end)
    first = round((start - start_seconds) * rate)
    return max(0, first), end if math.isinf(end) else first + round((end - start) * rate)


def _ranges_in_window(
    ranges: Sequence[tuple[int, float]], window: ClipRange, rate: int, start_seconds: float
) -> list[tuple[int, float]]:
    """Ranges of samples of a window as ranges of samples of the file. Those after the window's end are empty."""
    first = round((window[0] - start_seconds) * rate)
    stop = math.inf if math.isinf(window[1]) else first + round((window[1] - window[0]) * rate)
    found = ((max(0, first + start), min(first + end, stop)) for start, end in ranges)
    return [(start, max(start, end)) for start, end in found]


#: Formats whose clock is a count of samples, or whose frames are numbered.
_COUNTED_CLOCK_FORMATS = frozenset({"wav", "aiff", "mp3", "aac", "flac"})
_PCM_BITS = re.compile(r"pcm_[sfu](\d+)")

#: (time in ticks, bytes, duration in ticks, whether an edit list drops it)
_PacketFacts = tuple[int | None, int, int, bool]


def find_first_gap(medium: OpenMedium, facts: AudioStreamFacts, until: int) -> float:
    """The sample before the first jump of the clock; inf if there is none up to sample `until`. 0 if the clock cannot
    be trusted at all.

    Cost: nothing for formats whose clock is a count; a look at the table of contents of MP4 and MOV, if there is one
    for the whole file; for all others every packet up to `until` is read. Raises BadMediumError, av.FFmpegError.
    """
    if medium.family in _COUNTED_CLOCK_FORMATS or facts.seek_method == "decode":
        return math.inf
    samples = _packet_sample_counter(medium.family, facts)
    if samples is None:
        return 0
    if medium.family == "mov":
        # Of a fragmented file the table has only the fragments that were read; some PyAV releases have no tables.
        entries = getattr(medium.audio, "index_entries", ())
        indexed = ((entry.timestamp, entry.size, 0, entry.is_discard) for entry in entries)
        gap = _scan_for_gap(indexed, facts, until, samples)
        if gap == math.inf:
            return gap
    found = _scan_for_gap(_demuxed_packets(medium), facts, until, samples)
    return math.inf if found is None else found


def _packet_sample_counter(family: str, facts: AudioStreamFacts) -> Callable[[int, int], int] | None:
    """(bytes, ticks) of a packet -> its samples; None if only decoding tells."""
    if family == "ogg":
        scale = facts.tick * facts.rate
        return (lambda _, ticks: ticks) if scale == 1 else (lambda _, ticks: round(ticks * scale))
    if facts.codec in VARIABLE_FRAME_CODECS:
        return None
    bits = _PCM_BITS.match(facts.codec)
    if bits is not None and facts.seek_method == "seek":
        of_one = int(bits[1]) * facts.channels // 8
        return lambda size, _: size // of_one
    return lambda _, __: facts.frame_samples


def _scan_for_gap(
    packets: Iterable[_PacketFacts], facts: AudioStreamFacts, until: int, samples: Callable[[int, int], int]
) -> float | None:
    """As `find_first_gap`; None if the packets end before `until`."""
    expected, tolerance, first = facts.first_frame_samples, facts.clock_tolerance, facts.first_tick
    early = expected - tolerance
    # `facts.sample_at` in integers: a file has hundreds of thousands of packets.
    scale = facts.tick * facts.rate
    times, half, over = 2 * scale.numerator, scale.denominator, 2 * scale.denominator
    for pts, size, ticks, is_dropped in packets:
        if pts is not None:
            sample = ((pts - first) * times + half) // over
            if sample < early and expected == facts.first_frame_samples:
                continue  # the first packet, and codec priming before it
            if abs(sample - expected) > tolerance:
                return expected
        if is_dropped:
            return expected
        expected += samples(size, ticks)
        if expected >= until:
            return math.inf
    return None


def _demuxed_packets(medium: OpenMedium) -> Iterator[_PacketFacts]:
    medium.restart()
    if medium.audio is None:
        raise BadMediumError("it has no audio stream")
    medium.select_stream(medium.audio)
    for packet in medium.container.demux(medium.audio):
        if packet.size:
            yield packet.pts, packet.size, packet.duration or 0, packet.is_discard
