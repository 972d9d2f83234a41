"""Clips of audio. Ranges that overlap or nearly touch are decoded in one pass."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from wdsctl.loader.decoding.av.audio_samples import (
    PREROLL_SECONDS,
    AudioArray,
    AudioChunk,
    AudioStreamFacts,
    decode_chunks,
)
from wdsctl.loader.decoding.av.container import OpenMedium
from wdsctl.loader.decoding.av.pixels import ByteBudget


class AudioSpan(NamedTuple):
    """Samples without a gap between them."""

    offset: int  # index of its first sample in the clip
    position: int  # of its first sample, in the unit of the ranges: sample number or clock
    clock: int  # of its first sample


@dataclass(slots=True)
class AudioClip:
    """The samples of a range that the file has. `end_clock`: where decoding ended, past the range or before."""

    chunks: list[AudioArray] = field(default_factory=list)  # (channels, samples) each
    spans: list[AudioSpan] = field(default_factory=list)
    size: int = 0  # samples
    end_clock: int = 0

    @property
    def end(self) -> int:
        """The position after the last sample."""
        last = self.spans[-1]
        return last.position + self.size - last.offset

    @property
    def samples(self) -> AudioArray:
        return np.concatenate(self.chunks, axis=1)

    def add(self, position: int, clock: int, samples: AudioArray) -> None:
        last = self.spans[-1] if self.spans else None
        if (
            last is None
            or clock - last.clock != self.size - last.offset
            or position - last.position != self.size - last.offset
        ):
            self.spans.append(AudioSpan(self.size, position, clock))
        self.chunks.append(samples)
        self.size += samples.shape[1]

    def index_at(self, position: Fraction) -> Fraction:
        """The index in the clip of this position, or of the first later one that the file has."""
        positions: list[Fraction | int] = [span.position for span in self.spans]
        i = bisect_right(positions, position) - 1
        if i < 0:
            return Fraction(0)
        end = self.spans[i + 1].offset if i + 1 < len(self.spans) else self.size
        return min(position - self.spans[i].position + self.spans[i].offset, Fraction(end))

    def clock_at(self, index: Fraction, *, is_end: bool = False) -> Fraction:
        """The clock at the sample with this index; with `is_end`, at the end of the sample before it."""
        offsets: list[Fraction | int] = [span.offset for span in self.spans]
        i = (bisect_left if is_end else bisect_right)(offsets, index) - 1
        span = self.spans[max(0, i)]
        return index - span.offset + span.clock


def read_audio_clips(
    medium: OpenMedium,
    facts: AudioStreamFacts,
    ranges: Sequence[tuple[int, float]],
    budget: ByteBudget,
    *,
    by_clock: bool,
    gap: float = math.inf,
) -> list[AudioClip]:
    """A clip for each range [start, end) of samples, in the order of `ranges`.

    `by_clock`: ranges are in samples of the file's clock. Otherwise they are sample numbers, which the clock gives up
    to sample `gap`; for later ones, samples are counted from the start of the file.
    """
    clips = [AudioClip() for _ in ranges]
    for group in _group_ranges(ranges, round(2 * PREROLL_SECONDS * facts.rate)):
        start, end = ranges[group[0]][0], max(ranges[i][1] for i in group)
        for chunk in decode_chunks(medium, facts, start if start <= gap else 0, end, by_clock=by_clock):
            for i in group:
                budget.take(_add_chunk(clips[i], chunk, *ranges[i], by_clock=by_clock))
    return clips


def _group_ranges(ranges: Sequence[tuple[int, float]], max_gap: int) -> Iterator[list[int]]:
    """The indexes of ranges to decode in one pass, in the order of their starts."""
    group: list[int] = []
    end = 0.0
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        if group and ranges[i][0] > end + max_gap:
            yield group
            group = []
        group.append(i)
        end = max(end if len(group) > 1 else 0.0, ranges[i][1])
    if group:
        yield group


def _add_chunk(clip: AudioClip, chunk: AudioChunk, start: int, end: float, *, by_clock: bool) -> int:
    """Add the samples of the chunk that are in [start, end); returns their bytes."""
    position, samples = chunk.clock if by_clock else chunk.number, chunk.samples
    clip.end_clock = max(clip.end_clock, chunk.clock + samples.shape[1])
    low, high = max(0, start - position), int(min(samples.shape[1], max(0, end - position)))
    if low >= high:
        return 0
    kept = samples[:, low:high]
    clip.add(position + low, chunk.clock + low, kept)
    return kept.nbytes
