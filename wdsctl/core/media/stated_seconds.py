"""How long a stream lasts by what its file says of this very stream, where that can be believed."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.video.stream import VideoStream

#: FFmpeg's names of the formats that state how long each stream is. In the others FFmpeg guesses, or gives a stream of
#: few packets the length of the whole file.
_STATED = frozenset({"mov", "avi", "wav", "aiff", "flac"})
#: Those that cannot be sought to their end; and those whose packets mostly have no time.
COUNTED = frozenset({"mp3", "aac", "ogg"})
UNCLOCKED = frozenset({"mpeg", "mpegvideo"})

#: Codecs of which only packets tell where the first sample is; and Opus has it in its header.
DELAYED = frozenset({"vorbis", "mp3"})

#: By which a stream may end before its header says so. More than that, and it was cut off.
SHORT_SECONDS = 1

_FIRST_PACKETS = 64  # among which are two of every stream
_TAG = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


class Heard(NamedTuple):
    """What the first packets of a sound say, in seconds on the clock of the file."""

    begins: Fraction  # where its first sample is
    delay: Fraction  # what lies before 0, and is never heard: the file counts it as if it were


def stated_seconds(stream: VideoStream | AudioStream, family: str, heard: Heard | None = None) -> Fraction | None:
    """From its first frame to the end of its last; None where nothing is said. `family`: of formats, by FFmpeg."""
    if family == "ogg" and isinstance(stream, AudioStream):
        samples = ogg_samples(stream, heard and heard.begins)
        return None if samples is None else samples * (stream.time_base or Fraction(0))
    # The header of AVI counts for a sound what of the film comes before it.
    is_doubtful = family not in _STATED or (family == "avi" and isinstance(stream, AudioStream))
    if stream.duration and not is_doubtful:
        return stream.duration * (stream.time_base or Fraction(0))
    return tagged_seconds(stream, heard)


def ogg_samples(stream: AudioStream, begins: Fraction | None = None) -> int | None:
    """Samples of a sound in Ogg: the number that its last page states, less those before the first one that is heard.

    Sources: Vorbis I specification, A.2; RFC 7845 (Ogg Opus), 4. None where there is no such number.
    """
    codec = stream.codec_context.codec.canonical_name
    if not stream.duration or stream.time_base is None or codec not in ("vorbis", "opus", "flac"):
        return None
    if codec == "opus":
        return max(0, stream.duration - _opus_delay(stream))
    if codec == "vorbis" and stream.start_time and begins is not None:
        return stream.start_time + stream.duration - round(begins / stream.time_base)
    return stream.duration


def first_heard(container: InputContainer, stream: AudioStream) -> Heard | None:
    """Where a sound of one of the `DELAYED` codecs begins. Reads its first packets, and goes back to the beginning."""
    of_stream = (each for each in islice(container.demux(), _FIRST_PACKETS) if each.stream.index == stream.index)
    times = [packet.pts for packet in islice(of_stream, 2)]
    container.seek(0)
    tick = stream.time_base or Fraction(0)
    if len(times) < 2 or times[0] is None or times[1] is None:
        return None
    # The first packet of Vorbis gives no samples.
    begins = times[1] if stream.codec_context.codec.canonical_name == "vorbis" else max(0, times[0])
    return Heard(begins * tick, max(0, -times[0]) * tick)


def tagged_seconds(stream: VideoStream | AudioStream, heard: Heard | None = None) -> Fraction | None:
    """The same by the tag that writers of Matroska put there, whose header states one length for all streams."""
    tag = _TAG.match(stream.metadata.get("DURATION", ""))
    if tag is None:
        return None
    hours, minutes, seconds = tag.groups()
    total = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    # The tag says when the stream ends, not how long it is; and it counts what only fills the codec.
    total -= _begins(stream) + codec_delay(stream) if heard is None else heard.begins + heard.delay
    return total if total > 0 else None


def codec_delay(stream: VideoStream | AudioStream) -> Fraction:
    """Seconds that a sound in Matroska has before its first sample, and counts."""
    if isinstance(stream, AudioStream) and stream.codec_context.codec.canonical_name == "opus":
        return Fraction(_opus_delay(stream), 48_000)
    return Fraction(0)


def _begins(stream: VideoStream | AudioStream) -> Fraction:
    return max(Fraction(0), (stream.start_time or 0) * (stream.time_base or Fraction(0)))


def _opus_delay(stream: AudioStream) -> int:
    """Samples of 48,000 a second. Source: RFC 7845, 5.1."""
    return int.from_bytes((stream.codec_context.extradata or b"")[10:12], "little")
