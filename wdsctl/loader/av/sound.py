"""The sound of a medium: what is known of it, and clips. Keeps what was found out, for the life of a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from wdsctl.core.media.stated_seconds import SHORT_SECONDS
from wdsctl.loader.av.data import Times
from wdsctl.loader.av.durations import found_seconds, stated_seconds
from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.pictures import Budget
from wdsctl.loader.av.sound_clips import Sound, read_sounds
from wdsctl.loader.av.sound_facts import SoundFacts, sound_facts
from wdsctl.loader.av.sound_reader import pieces
from wdsctl.loader.av.sound_shape import SoundShape
from wdsctl.loader.av.timeline import Range


class SoundTrack:
    """Not for several threads at once: the decoder sees to that."""

    def __init__(self, shape: SoundShape) -> None:
        self._shape = shape
        self._facts: SoundFacts | None = None
        self._seconds: float | None = None

    def clips(
        self, opened: OpenMedium, ranges: Sequence[Range], *, by_number: bool, budget: Budget
    ) -> tuple[list[torch.Tensor], Times]:
        """Raises BadMediumError, av.FFmpegError."""
        facts = self.facts(opened)
        rate = self._shape.rate_of(facts)
        begins = float(facts.first * facts.tick - opened.begins)  # seconds of sample 0
        wanted = [_samples(each, by_number, rate, begins) for each in ranges]
        sources = [self._shape.source_range(facts, *each) for each in wanted]
        clips: list[torch.Tensor] = []
        times: Times = []
        sounds = read_sounds(opened, facts, sources, budget)
        self._refuse_short(opened, facts, sources, sounds)
        for (start, end), sound in zip(wanted, sounds, strict=True):
            if sound is None:
                continue
            first = max(start, sound.begin) if rate == facts.rate else start
            samples = self._shape.shaped(sound.samples, facts, sound.begin, first, end)
            if samples.shape[1]:
                clips.append(torch.from_numpy(np.ascontiguousarray(samples)))
                times.append((begins + first / rate, begins + (first + samples.shape[1]) / rate))
        return clips, times

    def _refuse_short(
        self,
        opened: OpenMedium,
        facts: SoundFacts,
        ranges: Sequence[tuple[int, float]],
        sounds: Sequence[Sound | None],
    ) -> None:
        """Raises BadMediumError where a range reaches into what the header announces and the file does not have."""
        stated = None if opened.audio is None else stated_seconds(opened, opened.audio)
        if stated is None:
            return
        announced = int(stated * facts.rate)
        for (start, end), sound in zip(ranges, sounds, strict=True):
            found = start if sound is None else sound.end
            if min(end, announced) - found > SHORT_SECONDS * facts.rate:
                raise BadMediumError(
                    f"its sound ends after {found / facts.rate:.1f} s, and its header says {float(stated):.1f} s: "
                    "the file is cut off or damaged"
                )

    def facts(self, opened: OpenMedium) -> SoundFacts:
        if self._facts is None:
            self._facts = sound_facts(opened)
        return self._facts

    def seconds(self, opened: OpenMedium) -> float | None:
        if opened.audio is None:
            raise BadMediumError("there is no sound in it")
        if self._seconds is None:
            lasting = stated_seconds(opened, opened.audio) or found_seconds(opened, is_sound=True)
            self._seconds = float(lasting) if lasting else None
        return self._seconds

    def span(self, opened: OpenMedium) -> tuple[float, float] | None:
        """Seconds at which it begins and ends; None where the file does not say."""
        lasting, facts = self.seconds(opened), self.facts(opened)
        start = float(facts.first * facts.tick - opened.begins)
        return None if lasting is None else (start, start + lasting)

    def samples(self, opened: OpenMedium) -> int:
        """Of one channel, counted by decoding all of them."""
        return sum(piece.samples.shape[1] for piece in pieces(opened, self.facts(opened), 0, math.inf))


def _samples(each: Range, by_number: bool, rate: int, begins: float) -> tuple[int, float]:
    """The range in samples of the rate that is handed out. Ranges of one length get equally many, wherever they are."""
    start, end = each
    if by_number:
        return math.floor(start), end if math.isinf(end) else math.floor(end)
    first = round((start - begins) * rate)
    return max(0, first), end if math.isinf(end) else first + round((end - start) * rate)
