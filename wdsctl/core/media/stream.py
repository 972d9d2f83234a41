"""Facts of audio and video, from what FFmpeg finds when it opens a file (through PyAV).

A duration comes from what the file states about the stream itself, if that is credible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

import av
from av.audio.stream import AudioStream
from av.codec.context import CodecContext
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import AudioFacts, CountOrigin, Unreadable, VideoFacts
from wdsctl.core.media.kinds import MEDIA_FORMATS

#: Format as `sniff` calls it -> FFmpeg's demuxer. A name keeps FFmpeg from guessing another, such as HLS or concat,
#: which open further files and URLs. None: FFmpeg chooses among several demuxers of the format.
DEMUXERS = {
    each.name: each.readers[0] if len(each.readers) == 1 else None
    for each in MEDIA_FORMATS
    if each.readers and each.media_type != "image"
}
#: Options for all containers opened to be read. FFmpeg reads from our file object and needs no protocol.
CONTAINER_OPTIONS = {
    "format_whitelist": ",".join(
        sorted({reader for each in MEDIA_FORMATS if each.name in DEMUXERS for reader in each.readers})
    ),
    "protocol_whitelist": "none",
}

#: FFmpeg's names of the formats that state the duration of each stream. For others FFmpeg guesses, or gives a stream of
#: few packets the duration of the whole file.
_FORMATS_WITH_STREAM_DURATION = frozenset({"mov", "avi", "wav", "aiff", "flac"})
#: Formats whose header counts the samples. In others (MP4 among them), a stream begins and ends with samples that pad
#: its codec's blocks, or its duration is estimated from the bit rate.
_FORMATS_WITH_SAMPLE_COUNT = frozenset({"wav", "aiff", "flac", "ogg"})
#: Formats that can state a rotation.
_ROTATABLE_FORMATS = frozenset({"mov", "matroska"})

#: Codecs whose packets alone state where the first sample is. Opus states it in its header.
DELAYED_CODECS = frozenset({"vorbis", "mp3"})

#: A stream that ends more than this before the end stated in its header was cut off.
MAX_MISSING_SECONDS = 1

_AVERROR_INVALIDDATA = 0x41444E49  # FFmpeg's AVERROR_INVALIDDATA
_MAX_PACKETS_TO_FRAME = 32  # packets after which a decoder without a frame is given up
_STILL_DISPOSITIONS = Disposition.attached_pic | Disposition.timed_thumbnails  # an album cover is not a video
_MAX_START_PACKETS = 64  # packets among which are two of every stream
_DURATION_TAG = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def stream_facts(source: ByteRangeFile, format_name: str) -> AudioFacts | VideoFacts | Unreadable:
    if format_name not in DEMUXERS:
        return Unreadable(reason=f"wdsctl cannot read {format_name}")
    try:
        with open_container(source, format_name) as container:
            if source.is_over_limit:
                return Unreadable(reason="its header is incomplete")
            return _container_facts(container, format_name)
    except av.FFmpegError as error:
        reason = (error.strerror or "unknown error").lower()
        return Unreadable(reason=f"FFmpeg cannot read it as {format_name}: {reason}")


def open_container(source: ByteRangeFile, format_name: str) -> InputContainer:
    """Open a file with the demuxer of its format and no other. Raises av.FFmpegError."""
    return av.open(
        source,
        "r",
        format=DEMUXERS[format_name],
        container_options=CONTAINER_OPTIONS,
        metadata_errors="replace",
        buffer_size=1 << 16,
    )


def demux_packets(container: InputContainer, *streams: Stream) -> Iterator[Packet[Stream]]:
    """Yield `container.demux`, with an av.InvalidDataError in place of an IndexError.

    PyAV raises IndexError if a new stream begins in the middle of the file, as in damaged transport streams.
    """
    try:
        yield from container.demux(*streams)
    except IndexError as error:
        raise av.InvalidDataError(_AVERROR_INVALIDDATA, "a stream begins in the middle of it") from error


def first_video_stream(container: InputContainer) -> VideoStream | None:
    """Return the first video stream that can be decoded and is not a still picture such as a cover, or None."""
    known = (stream for stream in _moving_streams(container) if _has_codec(stream))
    return next((stream for stream in known if stream.width and stream.height), None)


def _moving_streams(container: InputContainer) -> list[VideoStream]:
    return [stream for stream in container.streams.video if not stream.disposition & _STILL_DISPOSITIONS]


def _container_facts(container: InputContainer, format_name: str) -> AudioFacts | VideoFacts | Unreadable:
    moving = _moving_streams(container)
    audio_streams = container.streams.audio
    video = first_video_stream(container)
    audio = next((stream for stream in audio_streams if _has_codec(stream) and stream.rate and stream.channels), None)
    audio_facts = _audio_facts(container, audio, format_name) if audio else None
    if video:
        return _video_facts(container, video, format_name, audio_facts, has_audio=bool(audio_streams))
    if moving:
        return Unreadable(reason="its video stream has an unknown codec, or is cut off")
    return audio_facts or Unreadable(reason="it has no video or audio that can be decoded")


def _has_codec(stream: Stream) -> bool:
    """Whether the stream has a decoder. PyAV has no codec context for an unknown codec or a header that is cut off."""
    context: CodecContext | None = stream.codec_context
    return context is not None


def _video_facts(
    container: InputContainer, stream: VideoStream, format_name: str, audio: AudioFacts | None, *, has_audio: bool
) -> VideoFacts:
    seconds = _stream_seconds(container, stream)
    rate = stream.average_rate or stream.guessed_rate
    frames, frames_are = _stated_or_estimated(_count_listed_frames(container, stream), seconds, rate)
    width, height = stream.width, stream.height
    codec = stream.codec_context.codec.canonical_name
    rotation = _find_rotation(container, stream)
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
        audio=audio,
    )


def _audio_facts(container: InputContainer, stream: AudioStream, format_name: str) -> AudioFacts:
    seconds = _stream_seconds(container, stream)
    codec = stream.codec_context.codec.canonical_name
    is_counted = container.format.name in _FORMATS_WITH_SAMPLE_COUNT and stream.time_base == Fraction(1, stream.rate)
    counted = round(seconds * stream.rate) if is_counted and seconds and stream.duration else 0
    samples, samples_are = _stated_or_estimated(counted, seconds, Fraction(stream.rate))
    return AudioFacts(
        format=format_name,
        codec=codec,
        channels=stream.channels,
        rate_hz=stream.rate,
        duration_s=float(seconds) if seconds else None,
        samples=samples,
        samples_are=samples_are,
    )


def _count_listed_frames(container: InputContainer, stream: VideoStream) -> int:
    """Count the frames in the table of contents, without those that an edit list of an MP4 discards; 0 if unknown.

    Discarded frames are at an end of the list, or make the length of the list differ from the count.
    """
    entries: Any = getattr(stream, "index_entries", ())  # older versions of PyAV lack it
    if _format_family(container) != "mov" or not stream.frames or not len(entries):
        return stream.frames
    is_complete = len(entries) == stream.frames and not (entries[0].is_discard or entries[-1].is_discard)
    return stream.frames if is_complete else sum(not each.is_discard for each in entries)


def _stated_or_estimated(
    stated: int, seconds: Fraction | None, rate: Fraction | None
) -> tuple[int | None, CountOrigin]:
    if stated > 0:
        return stated, "stated"
    if seconds and rate:
        return round(seconds * rate), "estimated"
    return None, "unknown"


def _find_rotation(container: InputContainer, stream: VideoStream) -> int | None:
    """Return the clockwise rotation in degrees; None if no frame can be decoded.

    PyAV reports rotation on frames, not on streams, so this decodes the first frame.
    """
    if _format_family(container) not in _ROTATABLE_FORMATS:
        return 0
    stream.codec_context.thread_count = 1  # each thread would hold a frame back
    try:
        for packet in islice(container.demux(stream), _MAX_PACKETS_TO_FRAME):
            for frame in packet.decode():
                return -int(frame.rotation) % 360
    except av.FFmpegError:
        return None
    return None


def _format_family(container: InputContainer) -> str:
    return container.format.name.partition(",")[0]


def _stream_seconds(container: InputContainer, stream: AudioStream | VideoStream) -> Fraction | None:
    """Return the duration from the stream's first frame to the end of its last.

    If the file states one duration for all streams, it is that of the longest one.
    """
    family, audio_start = _format_family(container), None
    is_late = family == "matroska" or (family == "ogg" and bool(stream.start_time))
    if is_late and isinstance(stream, AudioStream) and stream.codec_context.codec.canonical_name in DELAYED_CODECS:
        audio_start = find_audio_start(container, stream)
    if (stated := header_seconds(stream, family, audio_start)) is not None:
        return _positive_or_none(stated)
    if stream.duration is not None and stream.time_base:
        return _positive_or_none(stream.duration * stream.time_base)
    if container.duration is None:
        return None
    total = Fraction(container.duration, av.time_base)
    if family == "matroska" and stream.time_base:
        # Matroska states when the last frame ends, from 0 and not from the first frame.
        start = (stream.start_time or 0) * stream.time_base + codec_delay(stream)
        total -= start if 0 < start < total else 0
    return _positive_or_none(total)


def _positive_or_none(seconds: Fraction) -> Fraction | None:
    return seconds if seconds > 0 else None


class AudioStart(NamedTuple):
    """Where audio begins by its first packets, in seconds on the clock of the file."""

    first_sample_s: Fraction  # time of its first sample
    delay_s: Fraction  # audio before time 0, which is never played, but which the file counts


def header_seconds(
    stream: VideoStream | AudioStream, family: str, audio_start: AudioStart | None = None
) -> Fraction | None:
    """Return the duration that the header states, from the first frame to the end of the last; None if it states none.

    `family`: the first of FFmpeg's names of the format.
    """
    if family == "ogg" and isinstance(stream, AudioStream):
        samples = count_ogg_samples(stream, audio_start and audio_start.first_sample_s)
        return None if samples is None else samples * (stream.time_base or Fraction(0))
    # The header of AVI counts the video before the start of an audio stream as audio.
    is_doubtful = family not in _FORMATS_WITH_STREAM_DURATION or (family == "avi" and isinstance(stream, AudioStream))
    if stream.duration and not is_doubtful:
        return stream.duration * (stream.time_base or Fraction(0))
    return duration_tag_seconds(stream, audio_start)


def count_ogg_samples(stream: AudioStream, first_sample_s: Fraction | None = None) -> int | None:
    """Count the samples of audio in Ogg: the number on its last page, less those before the first one that is played.

    Returns None if the stream has no such number. Sources: Vorbis I specification, A.2; RFC 7845 (Ogg Opus), 4.
    """
    codec = stream.codec_context.codec.canonical_name
    if not stream.duration or stream.time_base is None or codec not in ("vorbis", "opus", "flac"):
        return None
    if codec == "opus":
        return max(0, stream.duration - _opus_delay(stream))
    if codec == "vorbis" and stream.start_time and first_sample_s is not None:
        return stream.start_time + stream.duration - round(first_sample_s / stream.time_base)
    return stream.duration


def find_audio_start(container: InputContainer, stream: AudioStream) -> AudioStart | None:
    """Return where audio of one of the `DELAYED_CODECS` begins, or None if its packets do not state it.

    Reads its first packets, and seeks back to the beginning.
    """
    of_stream = (each for each in islice(container.demux(), _MAX_START_PACKETS) if each.stream.index == stream.index)
    times = [packet.pts for packet in islice(of_stream, 2)]
    container.seek(0)
    tick = stream.time_base or Fraction(0)
    if len(times) < 2 or times[0] is None or times[1] is None:
        return None
    # The first packet of Vorbis has no samples.
    begins = times[1] if stream.codec_context.codec.canonical_name == "vorbis" else max(0, times[0])
    return AudioStart(begins * tick, max(0, -times[0]) * tick)


def duration_tag_seconds(stream: VideoStream | AudioStream, audio_start: AudioStart | None = None) -> Fraction | None:
    """Return the duration by the tag that writers add to a stream, or None.

    The header of Matroska states one duration for all streams; the tag is per stream.
    """
    tag = _DURATION_TAG.match(stream.metadata.get("DURATION", ""))
    if tag is None:
        return None
    hours, minutes, seconds = tag.groups()
    total = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    # The tag states when the stream ends, not its duration, and includes the codec's padding.
    if audio_start is not None:
        total -= audio_start.first_sample_s + audio_start.delay_s
    else:
        start = (stream.start_time or 0) * (stream.time_base or Fraction(0))
        total -= max(Fraction(0), start) + codec_delay(stream)
    return total if total > 0 else None


def codec_delay(stream: VideoStream | AudioStream) -> Fraction:
    """Return the seconds before the first sample of audio in Matroska that the file counts as part of it."""
    if isinstance(stream, AudioStream) and stream.codec_context.codec.canonical_name == "opus":
        return Fraction(_opus_delay(stream), 48_000)
    return Fraction(0)


def _opus_delay(stream: AudioStream) -> int:
    """Return the delay in samples at 48,000 a second. Source: RFC 7845, 5.1."""
    return int.from_bytes((stream.codec_context.extradata or b"")[10:12], "little")
