"""The sound of a medium: what is known of it, and clips. Keeps what was found out, for the life of a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch

from wdsctl.core.media.stated_seconds import DELAYED, SHORT_SECONDS, Heard
from wdsctl.loader.av.data import Times
from wdsctl.loader.av.durations import found_seconds, stated_seconds
from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.pictures import Budget
from wdsctl.loader.av.sound_clips import Sound, read_sounds
from wdsctl.loader.av.sound_facts import SoundFacts, sound_facts
from wdsctl.loader.av.sound_gaps import first_gap
from wdsctl.loader.av.sound_reader import RUN_UP_SECONDS, pieces
from wdsctl.loader.av.sound_shape import SoundShape
from wdsctl.loader.av.timeline import Range


class SoundTrack:
    """Not for several threads at once: the decoder sees to that."""

    def __init__(self, shape: SoundShape) -> None:
        self._shape = shape
        self._facts: SoundFacts | None = None
        self._looked: tuple[int, float] = (0, math.inf)  # for holes: up to this sample, and where the first one is
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
        gap = (
            self._gap_before(opened, facts, max((start for start, _ in sources), default=0)) if by_number else math.inf
        )
        sounds = read_sounds(opened, facts, sources, budget, by_clock=not by_number, gap=gap)
        self._refuse_short(opened, facts, sources, sounds, by_clock=not by_number)
        clips: list[torch.Tensor] = []
        times: Times = []
        for (start, end), sound in zip(wanted, sounds, strict=True):
            if not sound.size:
                continue
            first, stop = (self._shape.index_in(facts, sound, place) for place in (start, end))
            samples = self._shape.shaped(sound.samples, facts, first, stop)
            if samples.shape[1]:
                clips.append(torch.from_numpy(np.ascontiguousarray(samples)))
                ends = self._shape.clocks(facts, sound, first, first + samples.shape[1])
                times.append((begins + ends[0], begins + ends[1]))
        return clips, times

    def _gap_before(self, opened: OpenMedium, facts: SoundFacts, sample: int) -> float:
        """Looked for once, as far as clips reach."""
        until, gap = self._looked
        if gap == math.inf and sample > max(until, RUN_UP_SECONDS * facts.rate):
            self._looked = sample, first_gap(opened, facts, sample)
        return self._looked[1]

    def _refuse_short(
        self,
        opened: OpenMedium,
        facts: SoundFacts,
        ranges: Sequence[tuple[int, float]],
        sounds: Sequence[Sound],
        *,
        by_clock: bool,
    ) -> None:
        """Raises BadMediumError where a range reaches into what the header announces and the file does not have."""
        stated = self._stated(opened)
        if stated is None:
            return
        announced, short = int(stated * facts.rate), SHORT_SECONDS * facts.rate
        for (start, end), sound in zip(ranges, sounds, strict=True):
            missing = end - (sound.end if sound.size else start)
            is_hole = by_clock and sound.reached >= end
            if not is_hole and missing > short and announced - max(start, sound.reached) > short:
                raise BadMediumError(
                    f"its sound ends after {sound.reached / facts.rate:.1f} s, and its header says "
                    f"{float(stated):.1f} s: the file is cut off or damaged"
                )

    def facts(self, opened: OpenMedium) -> SoundFacts:
        if self._facts is None:
            self._facts = sound_facts(opened)
        return self._facts

    def seconds(self, opened: OpenMedium) -> float | None:
        if opened.audio is None:
            raise BadMediumError("there is no sound in it")
        if self._seconds is None:
            lasting = self._stated(opened) or found_seconds(opened, is_sound=True)
            self._seconds = float(lasting) if lasting else None
        return self._seconds

    def _stated(self, opened: OpenMedium) -> Fraction | None:
        if opened.audio is None:
            return None
        if opened.audio.codec_context.codec.canonical_name not in DELAYED or opened.family not in ("matroska", "ogg"):
            return stated_seconds(opened, opened.audio)
        facts = self.facts(opened)
        return stated_seconds(opened, opened.audio, Heard(facts.first * facts.tick, facts.delay * facts.tick))

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
