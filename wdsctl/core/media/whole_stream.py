"""Decodes a sound or a video from end to end, and throws it away: is it whole?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import CodecContext
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.stated_seconds import SHORT_SECONDS, stated_seconds
from wdsctl.core.media.stated_size import missing_bytes
from wdsctl.core.media.stream import DEMUXERS, opened, packets_of
from wdsctl.core.media.stream_checksums import flac_digest, matroska_trouble
from wdsctl.core.media.verdict import SOUND, Verdict
from wdsctl.core.media.whole_image import MAX_PIXELS

#: FFmpeg conceals what it can, and only its log tells. Logging is of the whole process: one decoding at a time.
_LOG = threading.Lock()
#: Decoders hold frames against their checksums (FLAC, MP3, AC-3, HEVC and others have some), and go on.
_CHECKED = {"err_detect": "crccheck"}
_TEXT = 200  # letters of a message


def judge_stream(source: ByteRange, format_name: str, *, max_pixels: int = MAX_PIXELS) -> Verdict:
    """Every packet of every stream that can be decoded. Memory: a few frames. Raises the source's own error.

    Cost: what decoding takes on one core. What FFmpeg conceals makes the verdict doubtful, with its first words.
    """
    if format_name not in DEMUXERS:
        return Verdict("broken", f"there is nothing here that reads {format_name}")
    with _LOG:
        before, skips = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_level(av.logging.ERROR)
        av.logging.set_skip_repeated(False)  # the words of the file before would not be said again of this one
        try:
            with av.logging.Capture() as said:
                verdict = _judged(source, format_name, max_pixels)
        finally:
            av.logging.set_skip_repeated(skips)
            av.logging.set_level(before)
    if source.failure is not None:
        raise source.failure
    if verdict != SOUND:
        return verdict
    if missing := missing_bytes(source, format_name):
        return Verdict("doubtful", f"it decodes, and by its header {missing:,} more bytes belong to it: it is cut off")
    if said:
        return _doubts(said)
    trouble = matroska_trouble(source) if format_name in ("matroska", "webm") else ""
    return Verdict("doubtful", f"it decodes, and {trouble}") if trouble else SOUND


def _judged(source: ByteRange, format_name: str, max_pixels: int) -> Verdict:
    try:
        with opened(source, format_name) as container:
            return _decoded(container, max_pixels)
    except av.FFmpegError as error:
        words = (error.strerror or "unknown error").lower()
        return Verdict("broken", f"FFmpeg cannot decode it as {format_name}: {words}")


def _decoded(container: InputContainer, max_pixels: int) -> Verdict:
    every: list[VideoStream | AudioStream] = [*container.streams.video, *container.streams.audio]
    streams = [stream for stream in every if _codec(stream)]
    if not streams:
        return Verdict("broken", "there is no video and no sound in it that can be decoded")
    for stream in streams:
        if isinstance(stream, VideoStream) and stream.width * stream.height > max_pixels:
            pixels = f"{stream.width} x {stream.height} pixels"
            return Verdict("too large", f"its pictures have {pixels}, above {max_pixels:,}")
        stream.codec_context.thread_count = 1  # threads swallow errors of frames that are still under way
        stream.codec_context.options = _CHECKED
    frames, family = 0, container.format.name.partition(",")[0]
    digest = flac_digest(streams[0]) if family == "flac" else None
    ends: dict[int, int] = {}
    for packet in packets_of(container, *streams):
        for frame in packet.decode():
            frames += 1
            if digest is not None and isinstance(frame, AudioFrame):
                digest.add(frame)
        if packet.size and packet.pts is not None:
            ends[packet.stream.index] = max(packet.pts + (packet.duration or 0), ends.get(packet.stream.index, 0))
    if not frames:
        return Verdict("broken", "not one frame of it can be decoded")
    if digest is not None and digest.trouble:
        return Verdict("doubtful", f"it decodes, and {digest.trouble}")
    cut = (_cut_off(stream, ends[stream.index], family) for stream in streams if stream.index in ends)
    return next((verdict for verdict in cut if verdict != SOUND), SOUND)


def _cut_off(stream: VideoStream | AudioStream, end: int, family: str) -> Verdict:
    """The loader refuses what reaches further than `SHORT_SECONDS` into what a header announces and is not there."""
    stated, tick = stated_seconds(stream, family), stream.time_base or Fraction(0)
    found = (end - (stream.start_time or 0)) * tick
    if stated is None or stated - found <= SHORT_SECONDS:
        return SOUND
    words = f"its {stream.type} ends after {float(found):.1f} s, and its header says {float(stated):.1f} s"
    return Verdict("broken", f"{words}: it is cut off or damaged")


def _codec(stream: Stream) -> CodecContext | None:
    """PyAV gives no context to a stream whose codec nothing here decodes."""
    context: CodecContext | None = stream.codec_context
    return context


def _doubts(said: Sequence[tuple[int, str, str]]) -> Verdict:
    _, where, words = said[0]
    return Verdict("doubtful", f"it decodes, and FFmpeg says ({where}): {' '.join(words.split())[:_TEXT]}")
