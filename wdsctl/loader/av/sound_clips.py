"""Clips of a sound. Ranges that overlap, or nearly, are decoded in one go."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from wdsctl.loader.av.opening import OpenMedium
from wdsctl.loader.av.pictures import Budget
from wdsctl.loader.av.sound_facts import SoundFacts
from wdsctl.loader.av.sound_reader import RUN_UP_SECONDS, Piece, Samples, pieces


class Stretch(NamedTuple):
    """Samples without a hole between them."""

    at: int  # index of its first sample in what was read
    place: int  # of that one on the axis that ranges are on: its number, or the clock's
    clock: int


@dataclass(slots=True)
class Sound:
    """The samples of a range that are there. `reached`: the clock where decoding ended, behind the range or not."""

    parts: list[Samples] = field(default_factory=list)  # (channels, samples) each
    stretches: list[Stretch] = field(default_factory=list)
    size: int = 0  # samples
    reached: int = 0

    @property
    def end(self) -> int:
        """The place behind the last sample."""
        last = self.stretches[-1]
        return last.place + self.size - last.at

    @property
    def samples(self) -> Samples:
        return np.concatenate(self.parts, axis=1)

    def add(self, place: int, clock: int, samples: Samples) -> None:
        last = self.stretches[-1] if self.stretches else None
        if last is None or clock - last.clock != self.size - last.at or place - last.place != self.size - last.at:
            self.stretches.append(Stretch(self.size, place, clock))
        self.parts.append(samples)
        self.size += samples.shape[1]

    def index_of(self, place: Fraction) -> Fraction:
        """Where this place, or the first one behind it that is there, is in what was read."""
        places: list[Fraction | int] = [stretch.place for stretch in self.stretches]
        i = bisect_right(places, place) - 1
        if i < 0:
            return Fraction(0)
        end = self.stretches[i + 1].at if i + 1 < len(self.stretches) else self.size
        return min(place - self.stretches[i].place + self.stretches[i].at, Fraction(end))

    def clock_at(self, index: Fraction, *, is_end: bool = False) -> Fraction:
        """The clock at this sample; `is_end`: at the end of the one before it."""
        indexes: list[Fraction | int] = [stretch.at for stretch in self.stretches]
        i = (bisect_left if is_end else bisect_right)(indexes, index) - 1
        stretch = self.stretches[max(0, i)]
        return index - stretch.at + stretch.clock


def read_sounds(
    opened: OpenMedium,
    facts: SoundFacts,
    ranges: Sequence[tuple[int, float]],
    budget: Budget,
    *,
    by_clock: bool,
    gap: float = math.inf,
) -> list[Sound]:
    """For each range [start, end) of samples, in their order: those of them that are there.

    `by_clock`: ranges are places on the clock of the file. Else they are numbers of samples, and the clock counts these
    up to sample `gap`: what lies behind it is counted from the beginning.
    """
    sounds = [Sound() for _ in ranges]
    for run in _runs(ranges, round(2 * RUN_UP_SECONDS * facts.rate)):
        start, end = ranges[run[0]][0], max(ranges[i][1] for i in run)
        for piece in pieces(opened, facts, start if start <= gap else 0, end, by_clock=by_clock):
            for i in run:
                budget.take(_put(sounds[i], piece, *ranges[i], by_clock=by_clock))
    return sounds


def _runs(ranges: Sequence[tuple[int, float]], near: int) -> Iterator[list[int]]:
    """Which ranges to decode in one go, in the order of their starts."""
    run: list[int] = []
    end = 0.0
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        if run and ranges[i][0] > end + near:
            yield run
            run = []
        run.append(i)
        end = max(end if len(run) > 1 else 0.0, ranges[i][1])
    if run:
        yield run


def _put(sound: Sound, piece: Piece, start: int, end: float, *, by_clock: bool) -> int:
    """Adds what of the piece lies in the range; its bytes."""
    place, samples = piece.clock if by_clock else piece.number, piece.samples
    sound.reached = max(sound.reached, piece.clock + samples.shape[1])
    low, high = max(0, start - place), int(min(samples.shape[1], max(0, end - place)))
    if low >= high:
        return 0
    kept = samples[:, low:high]
    sound.add(place + low, piece.clock + low, kept)
    return kept.nbytes
