"""Sounds in another format or at another rate: by FFmpeg through PyAV, the same bytes for the same input."""

from __future__ import annotations

import io
from typing import Any

import av
from av.error import FFmpegError

from wdsctl.core.media.ogg_vorbis import whole_frames
from wdsctl.core.media.stream import OPTIONS
from wdsctl.core.transcode.options import AudioOptions, renamed

#: What PyAV raises about sounds that are damaged.
BAD_SOUND: tuple[type[Exception], ...] = (FFmpegError, ValueError, OSError, EOFError, RuntimeError, MemoryError)

_CONTAINER = {"flac": "flac", "wav": "wav", "opus": "ogg"}
_CODEC = {"flac": "flac", "wav": "pcm_s16le", "opus": "libopus"}
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_MOST_SECONDS = 24 * 3600  # a header may promise more than there is room for


def transcode_audio(name: str, data: bytes, options: AudioOptions) -> tuple[str, bytes]:
    """(the new name of the part, its bytes). Channels stay. Flac keeps up to 24 bits, wav has 16.

    Raises one of BAD_SOUND.
    """
    made = io.BytesIO()
    with av.open(io.BytesIO(data), "r", container_options=OPTIONS) as source:
        if not source.streams.audio:
            raise ValueError("there is no sound in it")
        if source.streams.video and any(stream.type == "video" and not _is_cover(stream) for stream in source.streams):
            raise ValueError("it has pictures that move: a video is not written as a sound")
        came = source.streams.audio[0]
        rate = _rate(came.rate, options)
        with av.open(made, "w", format=_CONTAINER[options.form], container_options={"fflags": "+bitexact"}) as dest:
            stream: Any = dest.add_stream(_CODEC[options.form], rate=rate)
            stream.codec_context.flags |= 1 << 23  # AV_CODEC_FLAG_BITEXACT: no version of FFmpeg in the file
            stream.layout = came.layout.name
            stream.format = _sample_format(options, came.format.name)
            if options.form == "opus":
                stream.bit_rate = (options.kbit or 64) * 1000
            if _copied(source, came, dest, stream, rate) == 0:
                raise ValueError("not a single sample of sound could be decoded")
    return renamed(name, options.form), made.getvalue()


def _copied(source: Any, came: Any, dest: Any, stream: Any, rate: int) -> int:
    """Decode, resample, encode; returns how many samples went through."""
    resampler = av.AudioResampler(format=stream.format.name, layout=stream.layout.name, rate=rate)
    heard = 0
    for frame in whole_frames(source, came):
        heard += frame.samples
        if heard > _MOST_SECONDS * came.rate:
            raise ValueError("it lasts for more than a day")
        frame.pts = None
        for piece in resampler.resample(frame):
            dest.mux(stream.encode(piece))
    for piece in resampler.resample(None):
        dest.mux(stream.encode(piece))
    dest.mux(stream.encode(None))
    return heard


def _rate(came: int, options: AudioOptions) -> int:
    if options.rate or options.form != "opus":
        return options.rate or came
    return next((rate for rate in _OPUS_RATES if rate >= came), _OPUS_RATES[-1])


def _sample_format(options: AudioOptions, came: str) -> str:
    if options.form == "flac":
        return "s16" if came.startswith(("s16", "u8")) else "s32"
    return "s16" if options.form == "wav" else "flt"


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)
