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

from wdsctl.loader.av.opening import BadMediumError, OpenMedium
from wdsctl.loader.av.sound_facts import SoundFacts

Samples = NDArray[np.generic]  # (channels, samples)

#: Decoded and thrown away before what is wanted, as codecs lean on what came before: MP3 on up to nine frames.
RUN_UP_SECONDS = 0.5


class Piece(NamedTuple):
    begin: int  # number of its first sample
    samples: Samples


def pieces(opened: OpenMedium, facts: SoundFacts, start: int, end: float) -> Iterator[Piece]:
    """What is decoded of the samples from `start` to before `end`, and a little of what lies around them, in order.

    Raises BadMediumError, av.FFmpegError.
    """
    run_up = start - round(RUN_UP_SECONDS * facts.rate)
    entered = _entered(opened, facts, run_up, start) if run_up > 0 and facts.way in ("seek", "snap") else None
    frames = entered or _from_beginning(opened, facts, run_up)
    # A first frame may be shorter than the clock is coarse: it is not to be taken for the second one.
    begin: int | None = None if entered or facts.way == "walk" else 0
    for frame in frames:
        clocked = begin if frame.pts is None else facts.sample_at(frame.pts)
        if begin is None:
            begin = 0 if clocked is None else facts.snapped(clocked)
        elif clocked is not None and abs(clocked - begin) > facts.coarseness:
            begin = clocked  # the clock jumps: there is a hole in the sound
        if begin >= end:
            return
        yield Piece(begin, samples_of(frame))
        begin += frame.samples


def samples_of(frame: AudioFrame) -> Samples:
    """(channels, samples), in the type that the decoder gives. Raises BadMediumError where numpy has none for it."""
    try:
        data = frame.to_ndarray()
    except ValueError as error:
        raise BadMediumError(f"its samples are of a type that is not handed out: {frame.format.name}") from error
    if frame.format.is_planar:
        return data
    return data.reshape(frame.samples, frame.layout.nb_channels).T


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
    if facts.way != "walk" or run_up <= 0:
        yield from opened.container.decode(stream)
        return
    for packet in opened.container.demux(stream):
        if not _ends_before(packet, facts, run_up):
            yield from packet.decode()


def _ends_before(packet: Packet[AudioStream], facts: SoundFacts, sample: int) -> bool:
    return packet.pts is not None and facts.sample_at(packet.pts + (packet.duration or 0)) < sample
