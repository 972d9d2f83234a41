"""Small videos and audio files, encoded by PyAV, and the results of decoding them sequentially."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # (height, width, 3)

RATE = 24
#: 15 frames a second at first, and then one every half second.
UNEVEN = (*range(0, 30, 2), *range(36, 240, 12))


class Frame(NamedTuple):
    pixels: Pixels
    start: float  # seconds
    end: float


def add_pictures(
    out: OutputContainer,
    codec: str,
    *,
    gop: int = 12,
    b_frames: int = 0,
    size: tuple[int, int] = (64, 48),
    options: dict[str, str] | None = None,
) -> VideoStream:
    stream = out.add_stream(codec, rate=RATE, options=options)
    assert isinstance(stream, VideoStream)
    stream.width, stream.height = size
    stream.pix_fmt = "yuv420p"
    stream.codec_context.gop_size = gop
    stream.codec_context.max_b_frames = b_frames
    return stream


def picture(number: int, size: tuple[int, int] = (64, 48)) -> av.VideoFrame:
    """Moving noise: all frames differ, and neighbours help to predict one another."""
    width, height = size
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    pixels = np.roll(noise, number * 2, axis=1)
    pixels[:8, :8] = number * 7 % 256
    return av.VideoFrame.from_ndarray(pixels, format="rgb24")


def make_video(
    container: str,
    codec: str,
    *,
    audio: str = "",
    times: Sequence[int] = range(60),
    start: int = 0,
    rotation: int = 0,
    container_options: dict[str, str] | None = None,
    sound_seconds: float | None = None,
    **video: Any,
) -> bytes:
    """A video with frames at `times` (in 1/24 s, from `start` on); with `audio`, an audio stream of the same length."""
    target = io.BytesIO()
    with av.open(target, "w", format=container, options=container_options or {}) as out:
        stream = add_pictures(out, codec, **video)
        if rotation:
            stream.set_display_rotation(rotation)
        make_audio = add_sound(out, audio, 48_000) if audio else None
        for number, time in enumerate(times):
            frame = picture(number)
            frame.pts, frame.time_base = time + start, Fraction(1, RATE)
            out.mux(stream.encode(frame))
        if make_audio:
            seconds = (times[-1] + 1) / RATE if sound_seconds is None else sound_seconds
            put_noise(out, make_audio, int(seconds * 48_000), start * 48_000 // RATE)
        out.mux(stream.encode(None))
    return target.getvalue()


def make_audio(
    container: str, codec: str, *, rate: int = 44_100, seconds: float = 2.5, layout: str = "stereo"
) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format=container) as out:
        stream = add_sound(out, codec, rate, layout)
        put_noise(out, stream, int(rate * seconds), 0)
    return target.getvalue()


def add_sound(out: OutputContainer, codec: str, rate: int, layout: str = "stereo") -> AudioStream:
    # AAC allows noise that the decoder generates, which depends on everything decoded before: turn it off.
    options = {"aac": {"aac_pns": "0"}, "vorbis": {"strict": "experimental"}}.get(codec)
    stream = out.add_stream(codec, rate=rate, options=options)
    assert isinstance(stream, AudioStream)
    stream.layout = layout
    return stream


def put_noise(out: OutputContainer, stream: AudioStream, samples: int, start: int) -> None:
    channels = stream.layout.nb_channels
    noise = (np.random.default_rng(1).normal(size=(channels, samples)) * 0.1).astype(np.float32)
    frame = av.AudioFrame.from_ndarray(noise, format="fltp", layout=stream.layout.name)
    frame.sample_rate, frame.pts = stream.rate, start
    size = stream.frame_size or None
    resampler = av.AudioResampler(stream.format.name, stream.layout.name, stream.rate, frame_size=size)
    for piece in (*resampler.resample(frame), *resampler.resample(None)):
        out.mux(stream.encode(piece))
    out.mux(stream.encode(None))


@cache
def decode_frames(data: bytes) -> list[Frame]:
    """Decodes the whole video sequentially: upright frames, with times in seconds of the file."""
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        streams = [stream, *container.streams.audio[:1]]
        origin = max(Fraction(0), min((each.start_time or 0) * (each.time_base or Fraction(0)) for each in streams))
        frames = list(container.decode(stream))
        tick = stream.time_base or Fraction(1)
        ends = [(frame.pts or 0) + (frame.duration or 0) for frame in frames]
        return [
            Frame(_upright(frame), float((frame.pts or 0) * tick - origin), float(end * tick - origin))
            for frame, end in zip(frames, ends, strict=True)
        ]


def _upright(frame: av.VideoFrame) -> Pixels:
    pixels: Any = frame.to_ndarray(format="rgb24")
    return np.rot90(pixels, int(frame.rotation) // 90)


@cache
def samples(data: bytes) -> NDArray[Any]:
    """Decodes the whole audio stream sequentially: (channels, samples)."""
    with av.open(io.BytesIO(data), "r") as container:
        pieces = []
        for frame in container.decode(audio=0):
            piece: Any = frame.to_ndarray()
            is_flat = not frame.format.is_planar
            pieces.append(piece.reshape(-1, frame.layout.nb_channels).T if is_flat else piece)
        return np.concatenate(pieces, axis=1)


def pixels_of(clip: Any) -> Pixels:
    """(frames, height, width, 3)"""
    pixels: Pixels = clip.permute(0, 2, 3, 1).numpy()
    return pixels
