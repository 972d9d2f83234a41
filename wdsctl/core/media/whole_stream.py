"""Decodes a sound or a video from end to end, and throws it away: is it whole?"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import av
from av.codec.context import CodecContext
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.stream import DEMUXERS, opened
from wdsctl.core.media.verdict import SOUND, Verdict
from wdsctl.core.media.whole_image import MAX_PIXELS

#: FFmpeg conceals what it can, and only its log tells. Logging is of the whole process: one decoding at a time.
_LOG = threading.Lock()
_TEXT = 200  # letters of a message


def judge_stream(source: ByteRange, format_name: str, *, max_pixels: int = MAX_PIXELS) -> Verdict:
    """Every packet of every stream that can be decoded. Memory: a few frames. Raises the source's own error.

    Cost: what decoding takes on one core. What FFmpeg conceals makes the verdict doubtful, with its first words.
    """
    if format_name not in DEMUXERS:
        return Verdict("broken", f"there is nothing here that reads {format_name}")
    with _LOG:
        before = av.logging.get_level()
        av.logging.set_level(av.logging.ERROR)
        try:
            with av.logging.Capture() as said:
                verdict = _judged(source, format_name, max_pixels)
        finally:
            av.logging.set_level(before)
    if source.failure is not None:
        raise source.failure
    return _doubts(said) if verdict == SOUND and said else verdict


def _judged(source: ByteRange, format_name: str, max_pixels: int) -> Verdict:
    try:
        with opened(source, format_name) as container:
            return _decoded(container, max_pixels)
    except av.FFmpegError as error:
        words = (error.strerror or "unknown error").lower()
        return Verdict("broken", f"FFmpeg cannot decode it as {format_name}: {words}")


def _decoded(container: InputContainer, max_pixels: int) -> Verdict:
    streams = [stream for stream in (*container.streams.video, *container.streams.audio) if _codec(stream)]
    if not streams:
        return Verdict("broken", "there is no video and no sound in it that can be decoded")
    for stream in streams:
        if isinstance(stream, VideoStream) and stream.width * stream.height > max_pixels:
            pixels = f"{stream.width} x {stream.height} pixels"
            return Verdict("too large", f"its pictures have {pixels}, above {max_pixels:,}")
        stream.codec_context.thread_count = 1  # threads swallow errors of frames that are still under way
    frames = 0
    for packet in container.demux(*streams):
        frames += sum(1 for _ in packet.decode())
    return SOUND if frames else Verdict("broken", "not one frame of it can be decoded")


def _codec(stream: Stream) -> CodecContext | None:
    """PyAV gives no context to a stream whose codec nothing here decodes."""
    context: CodecContext | None = stream.codec_context
    return context


def _doubts(said: Sequence[tuple[int, str, str]]) -> Verdict:
    _, where, words = said[0]
    return Verdict("doubtful", f"it decodes, and FFmpeg says ({where}): {' '.join(words.split())[:_TEXT]}")
