"""Small media files, encoded with the codecs of real files."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
from av.container import OutputContainer


def a_media_file(
    container: str,
    *,
    video: str = "",
    audio: str = "",
    options: dict[str, str] | None = None,
    times: Sequence[int] = range(8),
    rotation: int = 0,
) -> bytes:
    """Grey frames at these times (in 1/24 s), a third of a second of silence from the first time on, or both.

    `rotation`: degrees counterclockwise by which players turn the frames.
    """
    target = io.BytesIO()
    with av.open(target, "w", format=container, options=options or {}) as out:
        pictures = add_pictures(out, video) if video else None
        if pictures and rotation:
            pictures.set_display_rotation(rotation)
        sound = add_sound(out, audio) if audio else None
        for time in times if pictures else ():
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 24)
            assert pictures
            out.mux(pictures.encode(frame))
        if sound:
            silence = av.AudioFrame.from_ndarray(np.zeros((2, 16_000), np.float32), format="fltp", layout="stereo")
            silence.sample_rate, silence.pts = 48_000, times[0] * 2_000
            resampler = av.AudioResampler(sound.format.name, "stereo", 48_000, frame_size=sound.frame_size or None)
            for piece in (*resampler.resample(silence), *resampler.resample(None)):
                out.mux(sound.encode(piece))
            out.mux(sound.encode(None))
        if pictures:
            out.mux(pictures.encode(None))
    return target.getvalue()


def add_pictures(out: OutputContainer, codec: str) -> av.VideoStream:
    stream = out.add_stream(codec, rate=24)
    assert isinstance(stream, av.VideoStream)
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    return stream


def add_sound(out: OutputContainer, codec: str) -> av.AudioStream:
    stream = out.add_stream(codec, rate=48_000)
    assert isinstance(stream, av.AudioStream)
    stream.layout = "stereo"
    return stream


def a_wav() -> bytes:
    target = io.BytesIO()
    with wave.open(target, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8_000)
        out.writeframes(b"\0\0" * 800)
    return target.getvalue()
