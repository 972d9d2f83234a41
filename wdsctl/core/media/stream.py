"""Facts of sounds and videos, through PyAV: what FFmpeg finds out when it opens a file."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

import av
from av.audio.stream import AudioStream
from av.codec.context import CodecContext
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import AudioFacts, Origin, Unreadable, VideoFacts
from wdsctl.core.media.stated_seconds import DELAYED, codec_delay, first_heard, stated_seconds

#: Format as `sniff` calls it -> FFmpeg's demuxer. Named, so that FFmpeg does not guess another, and never one such as
#: HLS or concat, which open further files and addresses.
DEMUXERS = {
    "mp4": "mov",
    "mov": "mov",
    "m4a": "mov",
    "matroska": "matroska",
    "webm": "matroska",
    "avi": "avi",
    "flv": "flv",
    "asf": "asf",
    "mpegts": "mpegts",
    "ogg": "ogg",
    "mp3": "mp3",
    "mp2": "mp3",
    "aac": "aac",
    "flac": "flac",
    "wav": "wav",
    "aiff": "aiff",
    "mpeg": None,  # programme streams and bare ones: FFmpeg tells them apart
}
#: Of everything that is opened to be read: media are bytes that we hand over, so that no protocol is needed.
OPTIONS = {
    "format_whitelist": ",".join(sorted({*filter(None, DEMUXERS.values()), "mpeg", "mpegvideo"})),
    "protocol_whitelist": "none",
}

#: Files whose header counts the samples. In the others (MP4 among them) a stream begins and ends with samples that only
#: fill its codec's blocks, or its duration is a guess from the bit rate.
_COUNTED = frozenset({"wav", "aiff", "flac", "ogg"})
#: Files that can say that a picture is to be turned.
_TURNABLE = frozenset({"mov", "matroska"})
_INVALID = 0x41444E49  # FFmpeg's AVERROR_INVALIDDATA
_FIRST_PACKETS = 32  # a decoder that has given no frame by then gives none
_STILLS = Disposition.attached_pic | Disposition.timed_thumbnails  # a record's cover is no video


def stream_facts(source: ByteRange, format_name: str) -> AudioFacts | VideoFacts | Unreadable:
    if format_name not in DEMUXERS:
        return Unreadable(reason=f"there is nothing here that reads {format_name}")
    try:
        with opened(source, format_name) as container:
            if source.is_spent:
                return Unreadable(reason="its header was not read to the end")
            return _facts(container, format_name)
    except av.FFmpegError as error:
        words = (error.strerror or "unknown error").lower()
        return Unreadable(reason=f"FFmpeg cannot read it as {format_name}: {words}")


def opened(source: ByteRange, format_name: str) -> InputContainer:
    """The file as FFmpeg sees it, by the demuxer of its format and no other. Raises av.FFmpegError."""
    return av.open(
        source,
        "r",
        format=DEMUXERS[format_name],
        container_options=OPTIONS,
        metadata_errors="replace",
        buffer_size=1 << 16,
    )


def packets_of(container: InputContainer, *streams: Stream) -> Iterator[Packet[Stream]]:
    """`container.demux`. PyAV has no place for a stream that begins in the middle, as in damaged transport streams."""
    try:
        yield from container.demux(*streams)
    except IndexError as error:
        raise av.InvalidDataError(_INVALID, "a stream begins in the middle of it") from error


def first_video(container: InputContainer) -> VideoStream | None:
    """The first stream of moving pictures that can be decoded."""
    known = (stream for stream in _moving(container) if _is_known(stream))
    return next((stream for stream in known if stream.width and stream.height), None)


def _moving(container: InputContainer) -> list[VideoStream]:
    return [stream for stream in container.streams.video if not stream.disposition & _STILLS]


def _facts(container: InputContainer, format_name: str) -> AudioFacts | VideoFacts | Unreadable:
    moving = _moving(container)
    sounds = container.streams.audio
    video = first_video(container)
    audio = next((stream for stream in sounds if _is_known(stream) and stream.rate and stream.channels), None)
    sound = _audio(container, audio, format_name) if audio else None
    if video:
        return _video(container, video, format_name, sound, has_audio=bool(sounds))
    if moving:
        return Unreadable(reason="its video stream is of an unknown codec, or cut off")
    return sound or Unreadable(reason="there is no video and no sound in it that can be decoded")


def _is_known(stream: Stream) -> bool:
    """PyAV gives no context to a stream whose codec nothing here decodes, or whose header is cut off."""
    context: CodecContext | None = stream.codec_context
    return context is not None


def _video(
    container: InputContainer, stream: VideoStream, format_name: str, sound: AudioFacts | None, *, has_audio: bool
) -> VideoFacts:
    seconds = _seconds(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    frames, frames_are = _count(_listed(container, stream), seconds, rate)
    width, height = stream.width, stream.height
    codec = stream.codec_context.codec.canonical_name
    rotation = _rotation(container, stream)
    seen = (height, width) if rotation in (90, 270) else (width, height)
    return VideoFacts(
        format=format_name,
        codec=codec,
        width=width,
        height=height,
        display_width=seen[0],
        display_height=seen[1],
        rotation=rotation,
        duration_s=float(seconds) if seconds else None,
        fps=float(rate) if rate else None,
        fps_ratio=(rate.numerator, rate.denominator) if rate else None,
        frames=frames,
        frames_are=frames_are,
        has_audio=has_audio,
        audio=sound,
    )


def _audio(container: InputContainer, stream: AudioStream, format_name: str) -> AudioFacts:
    seconds = _seconds(container, stream)
    codec = stream.codec_context.codec.canonical_name
    is_counted = container.format.name in _COUNTED and stream.time_base == Fraction(1, stream.rate)
    counted = round(seconds * stream.rate) if is_counted and seconds and stream.duration else 0
    samples, samples_are = _count(counted, seconds, Fraction(stream.rate))
    return AudioFacts(
        format=format_name,
        codec=codec,
        channels=stream.channels,
        rate_hz=stream.rate,
        duration_s=float(seconds) if seconds else None,
        samples=samples,
        samples_are=samples_are,
    )


def _seconds(container: InputContainer, stream: AudioStream | VideoStream) -> Fraction | None:
    """From the stream's first frame to the end of its last; of the longest stream, where the file has one for all."""
    family, heard = _family(container), None
    is_late = family == "matroska" or (family == "ogg" and bool(stream.start_time))
    if is_late and isinstance(stream, AudioStream) and stream.codec_context.codec.canonical_name in DELAYED:
        heard = first_heard(container, stream)
    if (stated := stated_seconds(stream, family, heard)) is not None:
        return _positive(stated)
    if stream.duration is not None and stream.time_base:
        return _positive(stream.duration * stream.time_base)
    if container.duration is None:
        return None
    total = Fraction(container.duration, av.time_base)
    if family == "matroska" and stream.time_base:
        # Matroska writes when the last frame ends, counted from 0 and not from the first frame.
        start = (stream.start_time or 0) * stream.time_base + codec_delay(stream)
        total -= start if 0 < start < total else 0
    return _positive(total)


def _listed(container: InputContainer, stream: VideoStream) -> int:
    """Frames by the table of contents, without those that an edit list of an MP4 leaves out; 0 where there is none.

    What is left out stands at an end of the list, or makes another length of it.
    """
    entries: Any = getattr(stream, "index_entries", ())  # PyAV has them from some version on
    if _family(container) != "mov" or not stream.frames or not len(entries):
        return stream.frames
    is_whole = len(entries) == stream.frames and not (entries[0].is_discard or entries[-1].is_discard)
    return stream.frames if is_whole else sum(not each.is_discard for each in entries)


def _positive(seconds: Fraction) -> Fraction | None:
    return seconds if seconds > 0 else None


def _count(stated: int, seconds: Fraction | None, rate: Fraction | None) -> tuple[int | None, Origin]:
    if stated > 0:
        return stated, "stated"
    if seconds and rate:
        return round(seconds * rate), "estimated"
    return None, "unknown"


def _rotation(container: InputContainer, stream: VideoStream) -> int | None:
    """Degrees clockwise. PyAV tells it of frames and not of streams, so the first frame is decoded."""
    if _family(container) not in _TURNABLE:
        return 0
    stream.codec_context.thread_count = 1  # threads hold frames back until each has one
    try:
        for packet in islice(container.demux(stream), _FIRST_PACKETS):
            for frame in packet.decode():
                return -int(frame.rotation) % 360
    except av.FFmpegError:
        return None
    return None


def _family(container: InputContainer) -> str:
    return container.format.name.partition(",")[0]
