"""How long a film or a sound lasts, by its header where that can be believed, else by its last packets."""

from __future__ import annotations

from fractions import Fraction

import av
from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from wdsctl.core.media.stated_seconds import COUNTED, Heard
from wdsctl.core.media.stated_seconds import stated_seconds as stated_seconds_of
from wdsctl.loader.av.opening import OpenMedium

#: Read at the end of a file: the frame that is shown last need not be the last one to come.
_LAST_SECONDS = 2


def stated_seconds(
    opened: OpenMedium, stream: VideoStream | AudioStream, heard: Heard | None = None
) -> Fraction | None:
    """What the header says of this very stream, from its first frame to the end of its last."""
    return stated_seconds_of(stream, opened.family, heard)


def found_seconds(opened: OpenMedium, *, is_sound: bool) -> Fraction | None:
    """The same by the last packets of the file. Reads from the last keyframe on, or all of it where no seek works."""
    opened.restart()
    stream = opened.audio if is_sound else opened.video
    if stream is None:
        return None
    tick = stream.time_base or Fraction(0)
    start = stream.start_time or 0
    length = opened.container.duration if opened.family not in COUNTED and opened.keeps_clock else None
    if length and tick:
        try:
            opened.is_fresh = False
            aim = Fraction(length, av.time_base) - _LAST_SECONDS
            opened.container.seek(start + max(0, int(aim / tick)), stream=stream)
        except av.FFmpegError:
            opened.restart()
            stream = (opened.audio if is_sound else opened.video) or stream
    shown = _shown(opened, stream)
    if length and not shown:  # the stream ends long before the file, or its format is sought no better
        opened.restart()
        shown = _shown(opened, (opened.audio if is_sound else opened.video) or stream)
    end = max(shown)[1] if shown else start
    if is_sound and opened.family == "mp3" and start and stream.duration and end - start > stream.duration:
        end = start + stream.duration  # a header says what was added at both ends
    return (end - start) * tick if end > start else None


def _shown(opened: OpenMedium, stream: VideoStream | AudioStream) -> list[tuple[int, int]]:
    """From when until when each packet is shown or heard that follows."""
    opened.read(stream)
    packets = opened.container.demux(stream)
    return [
        (packet.pts, packet.pts + (packet.duration or 0))
        for packet in packets
        if packet.size and packet.pts is not None
    ]
