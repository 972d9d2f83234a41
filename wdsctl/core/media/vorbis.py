"""Decode Vorbis in Ogg to exactly the sample that its last page states. Source: Vorbis I specification, A.2.

FFmpeg counts samples for the first packet, which has none, and therefore cuts that many too many off the end. If it has
to cut more than the last packet has, it cuts nothing.
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

from wdsctl.core.media.stream import count_ogg_samples

#: Samples that an encoder may add to fill its last blocks. If more follow, the file has another recording appended.
_MAX_PADDING_SAMPLES = 1 << 15


class AudioBlock(NamedTuple):
    first_sample: int | None  # number of its first sample, from its timestamp
    samples: NDArray[np.generic]  # (channels, samples)


def trim_padding(blocks: Iterator[AudioBlock], stop: int) -> Iterator[AudioBlock]:
    """Yield the blocks without samples before sample 0, and without padding after sample `stop`."""
    filling: list[AudioBlock] = []
    for block in blocks:
        at, count = block.first_sample or 0, block.samples.shape[1]
        if filling and (at < (filling[0].first_sample or 0) or at - stop > _MAX_PADDING_SAMPLES):
            yield from filling
            filling = []
        if 0 < at + count - stop <= _MAX_PADDING_SAMPLES:
            filling.append(block)
        elif at + count > 0:
            yield AudioBlock(max(0, at), block.samples[:, max(0, -at) :])
    for block in filling:
        if (kept := stop - (block.first_sample or 0)) > 0:
            yield AudioBlock(block.first_sample, block.samples[:, :kept])


def decode_untrimmed(packet: Packet[AudioStream], stream: AudioStream) -> list[AudioFrame]:
    """Return the frames of a packet, without cutting what the demuxer marks to be cut."""
    if not packet.size:
        return stream.codec_context.decode(None)
    bare = Packet(bytes(packet))
    bare.pts, bare.dts, bare.time_base = packet.pts, packet.dts, packet.time_base
    return stream.codec_context.decode(bare)


def decode_exact_frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """Yield `container.decode(stream)` from the beginning; for Vorbis in Ogg, exactly the samples that it states."""
    is_vorbis = stream.codec_context.codec.canonical_name == "vorbis"
    if container.format.name != "ogg" or not is_vorbis or count_ogg_samples(stream) is None or stream.time_base is None:
        yield from container.decode(stream)
        return
    frames = (frame for packet in container.demux(stream) for frame in decode_untrimmed(packet, stream))
    first = next(frames, None)
    if first is None:
        return
    begin = max(0, first.pts or 0)
    stop = count_ogg_samples(stream, begin * stream.time_base) or 0
    blocks = (
        AudioBlock(None if each.pts is None else each.pts - begin, each.to_ndarray()) for each in chain([first], frames)
    )
    for block in trim_padding(blocks, stop):
        samples = np.ascontiguousarray(block.samples)
        frame = AudioFrame.from_ndarray(samples, format=first.format.name, layout=first.layout.name)
        frame.sample_rate = first.sample_rate
        yield frame
