"""Decode an image to its last pixel, or audio and video to their end, to find damage. Keeps no decoded data."""

from __future__ import annotations

import struct
import threading
import warnings
import zlib
from fractions import Fraction
from typing import Literal, NamedTuple

import av
import simplejpeg
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import CodecContext
from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream
from PIL import Image, UnidentifiedImageError

from wdsctl.core.media.byte_range import ByteRangeFile, image_file
from wdsctl.core.media.corrections import correct_reading, load_completely
from wdsctl.core.media.image import BAD_HEADER_ERRORS, pillow_formats
from wdsctl.core.media.kinds import MAX_IMAGE_PIXELS
from wdsctl.core.media.png import retry_without_side_chunks
from wdsctl.core.media.refusals import explain_refusal
from wdsctl.core.media.sniff import PNG_SIGNATURE
from wdsctl.core.media.stream import (
    DEMUXERS,
    MAX_MISSING_SECONDS,
    demux_packets,
    header_seconds,
    open_container,
)
from wdsctl.core.media.stream_damage import count_missing_bytes, find_matroska_damage, make_flac_digest


class DecodeVerdict(NamedTuple):
    """The result of a check, with the reason in words.

    `doubtful`: the file decodes, but its decoder had to guess, or one of its own checksums is wrong.
    """

    outcome: Literal["sound", "doubtful", "broken", "too large"]
    reason: str = ""


INTACT = DecodeVerdict("sound")


_DECODE_ERRORS: tuple[type[Exception], ...] = (*BAD_HEADER_ERRORS, IndexError)
_JPEG_COLORS = {"L": "GRAY", "RGB": "RGB"}


def check_image_decodes(data: bytes, *, max_pixels: int = MAX_IMAGE_PIXELS) -> DecodeVerdict:
    """Check that an image decodes; of an animation or a file of several images, the first one. Cost: one decoding.

    Pillow and libjpeg fill in missing data where they can. The check therefore compares the checksums of PNG with its
    bytes, and decodes JPEG with a reader that reports its warnings.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about large images, damaged EXIF, palettes: not about the pixels
        try:
            return _check_image_decodes(data, max_pixels)
        except UnidentifiedImageError:
            return DecodeVerdict("broken", explain_refusal(data))
        except _DECODE_ERRORS as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            return DecodeVerdict("broken", f"it cannot be decoded: {reason}")


def check_decoded_image(data: bytes) -> DecodeVerdict:
    """`check_image_decodes` of an image that the loader has decoded without complaint. Cost: the checksums of a PNG."""
    doubt = _find_png_damage(data) if data.startswith(PNG_SIGNATURE) else ""
    return DecodeVerdict("doubtful", doubt) if doubt else INTACT


@retry_without_side_chunks
def _check_image_decodes(data: bytes, max_pixels: int) -> DecodeVerdict:
    # `Image.open` refuses images above Pillow's own limit; the verdict is worded alike.
    try:
        image = Image.open(image_file(data), formats=pillow_formats())
    except Image.DecompressionBombError:
        return DecodeVerdict("too large", f"the image has more than {max_pixels:,} pixels")
    correct_reading(image)
    if image.width * image.height > max_pixels:
        return DecodeVerdict("too large", f"the image has {image.width} x {image.height} pixels, above {max_pixels:,}")
    doubt = _strict_reader_doubt(data, image)
    if doubt or image.format != "JPEG" or image.mode not in _JPEG_COLORS:
        load_completely(image, data)  # raises if the image is broken, which counts more than a doubt
    return DecodeVerdict("doubtful", doubt) if doubt else INTACT


def _strict_reader_doubt(data: bytes, image: Image.Image) -> str:
    """Return the complaint of a reader stricter than Pillow, or an empty string.

    A JPEG that passes this reader needs no second decoding.
    """
    if image.format == "PNG":
        return _find_png_damage(data)
    if image.format == "JPEG" and image.mode in _JPEG_COLORS:
        try:
            simplejpeg.decode_jpeg(data, colorspace=_JPEG_COLORS[image.mode])
        except ValueError as error:
            return f"libjpeg says: {error}"
    return ""


def _find_png_damage(data: bytes) -> str:
    """Return the first chunk of a PNG that is cut off or has a wrong checksum, in words; empty if all are right.

    Source: PNG (ISO/IEC 15948), 5.3 and 5.4.
    """
    at = len(PNG_SIGNATURE)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            return f"its chunk {kind!r} lacks {end - len(data):,} bytes"
        if zlib.crc32(data[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            return f"the checksum of its chunk {kind.decode('ascii', 'backslashreplace')} is wrong"
        at = end
        if kind == b"IEND":
            return ""
    return "its end is missing"


#: FFmpeg conceals errors and reports them only in its log. The log belongs to the process: one decoding at a time.
_FFMPEG_LOG_LOCK = threading.Lock()
#: Decoders compare frames with their checksums (FLAC, MP3, AC-3, HEVC and others have them), and continue.
_CRC_CHECK_OPTIONS = {"err_detect": "crccheck"}
_MAX_MESSAGE_CHARS = 200  # characters of a log message


def check_stream_decodes(
    source: ByteRangeFile, format_name: str, *, max_pixels: int = MAX_IMAGE_PIXELS
) -> DecodeVerdict:
    """Decode every packet of every stream that has a decoder. Memory: a few frames. Raises the source's own error.

    Cost: one decoding on one core. If FFmpeg conceals errors, the verdict is `doubtful` with the first log message.
    """
    if format_name not in DEMUXERS:
        return DecodeVerdict("broken", f"wdsctl cannot decode {format_name}")
    with _FFMPEG_LOG_LOCK:
        before, skips = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_level(av.logging.ERROR)
        av.logging.set_skip_repeated(False)  # otherwise FFmpeg drops a message that the previous file had, too
        try:
            with av.logging.Capture() as captured:
                verdict = _check_stream_decodes(source, format_name, max_pixels)
        finally:
            av.logging.set_skip_repeated(skips)
            av.logging.set_level(before)
    if source.failure is not None:
        raise source.failure
    if verdict != INTACT:
        return verdict
    if missing := count_missing_bytes(source, format_name):
        return DecodeVerdict("doubtful", f"it decodes, but its header states {missing:,} more bytes: it is cut off")
    if captured:
        _, component, message = captured[0]
        words = " ".join(message.split())[:_MAX_MESSAGE_CHARS]
        return DecodeVerdict("doubtful", f"it decodes, but FFmpeg reports ({component}): {words}")
    trouble = find_matroska_damage(source) if format_name in ("matroska", "webm") else ""
    return DecodeVerdict("doubtful", f"it decodes, but {trouble}") if trouble else INTACT


def _check_stream_decodes(source: ByteRangeFile, format_name: str, max_pixels: int) -> DecodeVerdict:
    try:
        with open_container(source, format_name) as container:
            return _decode_all(container, max_pixels)
    except av.FFmpegError as error:
        reason = (error.strerror or "unknown error").lower()
        return DecodeVerdict("broken", f"FFmpeg cannot decode it as {format_name}: {reason}")


def _decode_all(container: InputContainer, max_pixels: int) -> DecodeVerdict:
    every: list[VideoStream | AudioStream] = [*container.streams.video, *container.streams.audio]
    streams = [stream for stream in every if _codec_context(stream)]
    if not streams:
        return DecodeVerdict("broken", "it has no video or audio that can be decoded")
    for stream in streams:
        if isinstance(stream, VideoStream) and stream.width * stream.height > max_pixels:
            pixels = f"{stream.width} x {stream.height} pixels"
            return DecodeVerdict("too large", f"its frames have {pixels}, above the limit of {max_pixels:,}")
        stream.codec_context.thread_count = 1  # threads lose the errors of frames in flight
        stream.codec_context.options = _CRC_CHECK_OPTIONS
    frames, family = 0, container.format.name.partition(",")[0]
    digest = make_flac_digest(streams[0]) if family == "flac" else None
    ends: dict[int, int] = {}
    for packet in demux_packets(container, *streams):
        for frame in packet.decode():
            frames += 1
            if digest is not None and isinstance(frame, AudioFrame):
                digest.add(frame)
        if packet.size and packet.pts is not None:
            ends[packet.stream.index] = max(packet.pts + (packet.duration or 0), ends.get(packet.stream.index, 0))
    if not frames:
        return DecodeVerdict("broken", "none of its frames can be decoded")
    if digest is not None and digest.damage:
        return DecodeVerdict("doubtful", f"it decodes, but {digest.damage}")
    cut = (_check_length(stream, ends[stream.index], family) for stream in streams if stream.index in ends)
    return next((verdict for verdict in cut if verdict != INTACT), INTACT)


def _check_length(stream: VideoStream | AudioStream, end: int, family: str) -> DecodeVerdict:
    """Compare where a stream ends with the length that its header states.

    A gap of more than `MAX_MISSING_SECONDS` is `broken`, because the loader refuses to read so far past the end.
    """
    stated, tick = header_seconds(stream, family), stream.time_base or Fraction(0)
    found = (end - (stream.start_time or 0)) * tick
    if stated is None or stated - found <= MAX_MISSING_SECONDS:
        return INTACT
    message = f"its {stream.type} ends after {float(found):.1f} s, but its header states {float(stated):.1f} s"
    return DecodeVerdict("broken", f"{message}: it is cut off or damaged")


def _codec_context(stream: Stream) -> CodecContext | None:
    """Return the codec context, or None: PyAV has none for a stream without a decoder."""
    context: CodecContext | None = stream.codec_context
    return context
