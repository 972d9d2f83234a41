"""Samples of a sound from any one on, each as a decode from the beginning gives it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from wdsctl.core.media.ogg_vorbis import Block, decoded_whole, without_filling
from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.sound_facts import SoundFacts

Samples = NDArray[np.generic]  # (channels, samples)

#: Decoded and thrown away before what is wanted, as codecs lean on what came before: MP3 on up to nine frames.
RUN_UP_SECONDS = 0.5


class Piece(NamedTuple):
    number: int  # of its first sample, counting those that are there
    clock: int  # the same by the time that the file gives it: another one behind a hole
    samples: Samples


def pieces(opened: OpenMedium, facts: SoundFacts, start: int, end: float, *, by_clock: bool = False) -> Iterator[Piece]:
    """What is decoded of the samples from `start` to before `end`, and a little of what lies around them, in order.

    `start` and `end` are numbers of samples, `by_clock` those that the clock gives them. Up to `start` the clock is
    taken at its word: numbers are right only if `first_gap` finds no hole before it.
    Raises BadMediumError, av.FFmpegError.
    """
    run_up = start - round(RUN_UP_SECONDS * facts.rate)
    entered = _entered(opened, facts, run_up, start) if run_up > 0 and facts.way in ("seek", "snap") else None
    frames = entered or _from_beginning(opened, facts, run_up)
    is_inside = entered is not None or (facts.way == "walk" and run_up > 0)
    # A first frame may be shorter than the clock is coarse: it is not to be taken for the second one.
    clock: int | None = None if is_inside or facts.way == "walk" else 0
    number: int | None = None if is_inside else 0
    for block in _decoded(frames, facts):
        if clock is None:
            clock = 0 if block.at is None else facts.snapped(block.at)
        elif block.at is not None and abs(block.at - clock) > facts.coarseness:
            if facts.is_numbered and clock < end and block.at > start:
                raise BadMediumError(f"its frames jump from sample {clock:,} to {block.at:,}: some are missing")
            clock = block.at  # there is a hole in the sound
        if number is None:
            number = clock
        yield Piece(number, clock, block.samples)
        if (clock if by_clock else number) >= end:
            return
        clock += block.samples.shape[1]
        number += block.samples.shape[1]


def samples_of(frame: AudioFrame) -> Samples:
    """(channels, samples), in the type that the decoder gives. Raises BadMediumError where numpy has none for it."""
    try:
        data = frame.to_ndarray()
    except ValueError as error:
        raise BadMediumError(f"its samples are of a type that is not handed out: {frame.format.name}") from error
    if frame.format.is_planar:
        return data
    return data.reshape(frame.samples, frame.layout.nb_channels).T


def _decoded(frames: Iterator[AudioFrame], facts: SoundFacts) -> Iterator[Block]:
    blocks = (Block(None if each.pts is None else facts.sample_at(each.pts), samples_of(each)) for each in frames)
    return blocks if facts.stop is None else without_filling(blocks, facts.stop)


def _stream(opened: OpenMedium) -> AudioStream:
    if opened.audio is None:
        raise BadMediumError("there is no sound in it")
    return opened.audio


def _entered(opened: OpenMedium, facts: SoundFacts, run_up: int, start: int) -> Iterator[AudioFrame] | None:
    """Frames from before `start` on, with a run-up; None where only the beginning is left to begin from."""
    stream = _stream(opened)
    step = facts.rate
    while run_up > 0:
        try:
            opened.is_fresh = False
            opened.container.seek(facts.tick_of(run_up), stream=stream)
        except av.FFmpegError:
            return None
        opened.read(stream)
        frames = opened.container.decode(stream)
        first = next(frames, None)
        begin = None if first is None or first.pts is None else facts.sample_at(first.pts)
        if first is not None and begin is not None and begin <= max(run_up, 0):
            if facts.way == "seek":
                return chain([first], frames)
            # Of the first frame a run-up may be cut off once more, after which it is off the grid of frames.
            if begin + first.samples + facts.coarseness <= start:
                return frames
        run_up, step = min(run_up, start) - step, step * 2
    return None


def _from_beginning(opened: OpenMedium, facts: SoundFacts, run_up: int) -> Iterator[AudioFrame]:
    opened.restart()
    stream = _stream(opened)
    opened.read(stream)
    if facts.stop is None and (facts.way != "walk" or run_up <= 0):
        yield from opened.container.decode(stream)
        return
    for packet in opened.container.demux(stream):
        if run_up <= 0 or not _ends_before(packet, facts, run_up):
            yield from packet.decode() if facts.stop is None else decoded_whole(packet, stream)


def _ends_before(packet: Packet[AudioStream], facts: SoundFacts, sample: int) -> bool:
    return packet.pts is not None and facts.sample_at(packet.pts + (packet.duration or 0)) < sample
