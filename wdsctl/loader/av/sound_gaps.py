"""Whether the clock of a sound counts its samples: it does up to the first hole, and nobody can tell without looking.

Nothing is decoded: frames are of one size, so that each packet says by its time how many samples lie before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.sound_facts import UNEVEN, SoundFacts

#: Formats whose clock is made of counts, or has a number of its own in each frame.
_COUNTED = frozenset({"wav", "aiff", "mp3", "aac", "flac"})
_PCM_BITS = re.compile(r"pcm_[sfu](\d+)")


#: What one packet holds: its time in ticks, its bytes, its duration in ticks, and whether an edit list leaves it out.
_Stretch = tuple[int | None, int, int, bool]


def first_gap(opened: OpenMedium, facts: SoundFacts, until: int) -> float:
    """The sample before which the clock jumps for the first time, looked for up to sample `until`; inf where it does
    not. 0 where the clock cannot be trusted at all.

    Cost: of MP4 and MOV a look at the table of contents, where there is one for the whole file; of the formats whose
    clock is a count, nothing; of all others every packet up to there is read. Raises BadMediumError, av.FFmpegError.
    """
    if opened.family in _COUNTED or facts.way == "decode":
        return math.inf
    samples = _samples_of(opened.family, facts)
    if samples is None:
        return 0
    if opened.family == "mov":
        gap = _gap(_table(opened), facts, until, samples)
        if gap == math.inf:
            return gap
    found = _gap(_packets(opened), facts, until, samples)
    return math.inf if found is None else found


def _samples_of(family: str, facts: SoundFacts) -> Callable[[int, int], int] | None:
    """How many samples a packet of so many bytes and ticks has; None where that takes decoding it."""
    if family == "ogg":
        scale = facts.tick * facts.rate
        return (lambda _, ticks: ticks) if scale == 1 else (lambda _, ticks: round(ticks * scale))
    if facts.codec in UNEVEN:
        return None
    bits = _PCM_BITS.match(facts.codec)
    if bits is not None and facts.way == "seek":
        of_one = int(bits[1]) * facts.channels // 8
        return lambda size, _: size // of_one
    return lambda _, __: facts.frame_samples


def _gap(
    stretches: Iterable[_Stretch], facts: SoundFacts, until: int, samples: Callable[[int, int], int]
) -> float | None:
    """None where the packets end before `until`."""
    expected, slack, first = facts.first_samples, facts.coarseness, facts.first
    early = expected - slack
    # `facts.sample_at` in whole numbers: there are packets by the hundred thousand.
    scale = facts.tick * facts.rate
    times, half, over = 2 * scale.numerator, scale.denominator, 2 * scale.denominator
    for pts, size, ticks, is_dropped in stretches:
        if pts is not None:
            sample = ((pts - first) * times + half) // over
            if sample < early and expected == facts.first_samples:
                continue  # the first one, and what only fills its codec
            if abs(sample - expected) > slack:
                return expected
        if is_dropped:
            return expected
        expected += samples(size, ticks)
        if expected >= until:
            return math.inf
    return None


def _table(opened: OpenMedium) -> Iterator[_Stretch]:
    """By the table of contents. Of a file in fragments it has those that were read; where PyAV has no tables, none."""
    entries = getattr(opened.audio, "index_entries", ())
    return ((entry.timestamp, entry.size, 0, entry.is_discard) for entry in entries)


def _packets(opened: OpenMedium) -> Iterator[_Stretch]:
    opened.restart()
    if opened.audio is None:
        raise BadMediumError("there is no sound in it")
    opened.read(opened.audio)
    for packet in opened.container.demux(opened.audio):
        if packet.size:
            yield packet.pts, packet.size, packet.duration or 0, packet.is_discard
