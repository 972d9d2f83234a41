"""Vorbis in Ogg, decoded to the sample that its last page states. Source: Vorbis I specification, A.2.

FFmpeg takes the first packet for samples, though it gives none, and cuts off as many too many at the end; or nothing,
where more is to be cut off than the last packet has.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from numpy.typing import NDArray

from wdsctl.core.media.stated_seconds import ogg_samples

#: Samples that an encoder may add to fill its last blocks. Where more follow, another sound was joined on.
_MOST_FILLING = 1 << 15


class Block(NamedTuple):
    at: int | None  # number of its first sample, by the clock
    samples: NDArray[np.generic]  # (channels, samples)


def without_filling(blocks: Iterator[Block], stop: int) -> Iterator[Block]:
    """Without what lies before sample 0, and behind sample `stop` at the end."""
    filling: list[Block] = []
    for block in blocks:
        at, count = block.at or 0, block.samples.shape[1]
        if filling and (at < (filling[0].at or 0) or at - stop > _MOST_FILLING):
            yield from filling
            filling = []
        if 0 < at + count - stop <= _MOST_FILLING:
            filling.append(block)
        elif at + count > 0:
            yield Block(max(0, at), block.samples[:, max(0, -at) :])
    for block in filling:
        if (kept := stop - (block.at or 0)) > 0:
            yield Block(block.at, block.samples[:, :kept])


def decoded_whole(packet: Packet[AudioStream], stream: AudioStream) -> list[AudioFrame]:
    """The frames of a packet, without regard to what the demuxer says is to be cut off."""
    if not packet.size:
        return stream.codec_context.decode(None)
    bare = Packet(bytes(packet))
    bare.pts, bare.dts, bare.time_base = packet.pts, packet.dts, packet.time_base
    return stream.codec_context.decode(bare)


def whole_frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """`container.decode(stream)` from the beginning, and of Vorbis in Ogg just the samples that it has."""
    is_vorbis = stream.codec_context.codec.canonical_name == "vorbis"
    if container.format.name != "ogg" or not is_vorbis or ogg_samples(stream) is None or stream.time_base is None:
        yield from container.decode(stream)
        return
    frames = (frame for packet in container.demux(stream) for frame in decoded_whole(packet, stream))
    first = next(frames, None)
    if first is None:
        return
    begin = max(0, first.pts or 0)
    stop = ogg_samples(stream, begin * stream.time_base) or 0
    blocks = (
        Block(None if each.pts is None else each.pts - begin, each.to_ndarray()) for each in chain([first], frames)
    )
    for block in without_filling(blocks, stop):
        samples = np.ascontiguousarray(block.samples)
        frame = AudioFrame.from_ndarray(samples, format=first.format.name, layout=first.layout.name)
        frame.sample_rate = first.sample_rate
        yield frame
