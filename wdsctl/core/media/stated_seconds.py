"""How long a stream lasts by what its file says of this very stream, where that can be believed."""

from __future__ import annotations

import re
from fractions import Fraction

from av.audio.stream import AudioStream
from av.video.stream import VideoStream

#: FFmpeg's names of the formats that state how long each stream is. In the others FFmpeg guesses, or gives a stream of
#: few packets the length of the whole file.
_STATED = frozenset({"mov", "avi", "wav", "aiff", "flac"})
#: Those that cannot be sought to their end; and those whose packets mostly have no time.
COUNTED = frozenset({"mp3", "aac", "ogg"})
UNCLOCKED = frozenset({"mpeg", "mpegvideo"})

#: By which a stream may end before its header says so. More than that, and it was cut off.
SHORT_SECONDS = 1

_TAG = re.compile(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def stated_seconds(stream: VideoStream | AudioStream, family: str) -> Fraction | None:
    """From its first frame to the end of its last; None where nothing is said. `family`: of formats, by FFmpeg."""
    # The header of AVI counts for a sound what of the film comes before it.
    is_doubtful = family not in _STATED or (family == "avi" and isinstance(stream, AudioStream))
    if stream.duration and not is_doubtful:
        return stream.duration * (stream.time_base or Fraction(0))
    return tagged_seconds(stream)


def tagged_seconds(stream: VideoStream | AudioStream) -> Fraction | None:
    """The same by the tag that writers of Matroska put there, whose header states one length for all streams."""
    tag = _TAG.match(stream.metadata.get("DURATION", ""))
    if tag is None:
        return None
    hours, minutes, seconds = tag.groups()
    # The tag says when the stream ends, not how long it is.
    start = (stream.start_time or 0) * (stream.time_base or Fraction(0))
    total = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds) - start
    return total if total > 0 else None
