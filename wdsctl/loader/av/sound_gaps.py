"""Whether the clock of a sound counts its samples: it does up to the first hole, and nobody can tell without looking.

Nothing is decoded: frames are of one size, so that each packet says by its time how many samples lie before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.sound_facts import UNEVEN, SoundFacts

#: Formats whose clock is made of counts, or has a number of its own in each frame.
_COUNTED = frozenset({"wav", "aiff", "mp3", "aac", "flac"})
_PCM_BITS = re.compile(r"pcm_[sfu](\d+)")


class _Stretch(NamedTuple):
    """What one packet holds."""

    pts: int | None
    size: int  # bytes
    duration: int  # ticks
    is_dropped: bool  # by an edit list


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


def _samples_of(family: str, facts: SoundFacts) -> Callable[[_Stretch], int] | None:
    """How many samples a packet has; None where that takes decoding it."""
    if family == "ogg":
        return lambda stretch: round(stretch.duration * facts.tick * facts.rate)
    if facts.codec in UNEVEN:
        return None
    bits = _PCM_BITS.match(facts.codec)
    if bits is not None and facts.way == "seek":
        of_one = int(bits[1]) * facts.channels // 8
        return lambda stretch: stretch.size // of_one
    return lambda _: facts.frame_samples


def _gap(
    stretches: Iterable[_Stretch], facts: SoundFacts, until: int, samples: Callable[[_Stretch], int]
) -> float | None:
    """None where the packets end before `until`."""
    expected = facts.first_samples
    for stretch in stretches:
        sample = None if stretch.pts is None else facts.sample_at(stretch.pts)
        if sample is not None and sample < facts.first_samples - facts.coarseness and expected == facts.first_samples:
            continue  # the first one, and what only fills its codec
        if stretch.is_dropped or (sample is not None and abs(sample - expected) > facts.coarseness):
            return expected
        expected += samples(stretch)
        if expected >= until:
            return math.inf
    return None


def _table(opened: OpenMedium) -> Iterator[_Stretch]:
    """By the table of contents. Of a file in fragments it has those that were read; where PyAV has no tables, none."""
    entries = getattr(opened.audio, "index_entries", ())
    return (_Stretch(entry.timestamp, entry.size, 0, entry.is_discard) for entry in entries)


def _packets(opened: OpenMedium) -> Iterator[_Stretch]:
    opened.restart()
    if opened.audio is None:
        raise BadMediumError("there is no sound in it")
    opened.read(opened.audio)
    for packet in opened.container.demux(opened.audio):
        if packet.size:
            yield _Stretch(packet.pts, packet.size, packet.duration or 0, packet.is_discard)
