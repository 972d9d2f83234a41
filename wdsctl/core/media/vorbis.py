"""Decode Vorbis in Ogg to exactly the sample that its last page states; and samples of any audio frame as an array.

Source: Vorbis I specification, A.2.

FFmpeg counts samples for the first packet, which has none, and therefore cuts that many too many off the end. If it has
to cut more than the last packet has, it cuts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from numpy.typing import NDArray

from wdsctl.core.media.stream import count_ogg_samples

#: Samples that an encoder may add to fill its last blocks. If more follow, the file has another recording appended.
_MAX_PADDING_SAMPLES = 1 << 15

#: Of frames with more planes, PyAV reads and writes beyond the pointers to the planes, which ends the process.
MAX_PLANES = 7


def read_samples(frame: AudioFrame) -> NDArray[np.generic]:
    """Return the (channels, samples) of a frame in its own type.

    Raises ValueError if numpy has no such type, or if there are more than MAX_PLANES channels in an unknown layout.
    """
    channels = frame.layout.nb_channels
    if frame.format.is_planar and channels > MAX_PLANES:
        resampler = AudioResampler(format=frame.format.packed.name, layout=frame.layout, rate=frame.sample_rate)
        packed = (*resampler.resample(frame), *resampler.resample(None))
        return np.concatenate([read_samples(each) for each in packed], axis=1)
    data = frame.to_ndarray()
    return data if frame.format.is_planar else data.reshape(frame.samples, channels).T


def make_frame(samples: NDArray[np.generic], sample_type: str, layout: str, rate: int) -> AudioFrame:
    """Return a frame of (channels, samples), planar if possible. `sample_type`: FFmpeg's name without `p`, as `flt`."""
    is_planar = len(samples) <= MAX_PLANES
    data: Any = np.ascontiguousarray(samples if is_planar else samples.T.reshape(1, -1))
    frame = AudioFrame.from_ndarray(data, format=sample_type + "p" * is_planar, layout=layout)
    frame.sample_rate = rate
    return frame


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
        AudioBlock(None if each.pts is None else each.pts - begin, read_samples(each))
        for each in chain([first], frames)
    )
    for block in trim_padding(blocks, stop):
        yield make_frame(block.samples, first.format.name.rstrip("p"), first.layout.name, first.sample_rate)
