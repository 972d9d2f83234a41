"""The keyframe index of a video, by reading its packets from the first to the last. Nothing is decoded."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from av.container import InputContainer
from av.video.stream import VideoStream

from wdsctl.core.media.keyframes import KeyframeIndex


@dataclass(frozen=True, slots=True)
class Scan:
    index: KeyframeIndex
    pts: list[int]  # of all frames, ascending


def scan_keyframes(container: InputContainer, stream: VideoStream) -> Scan | None:
    """The index of a stream of a container that was just opened, and when each of its frames is shown.

    None where the file does not say when its frames are shown (AVI with B-frames), or says it twice of one time: such a
    video is read from its beginning. Cost: all bytes of the file are read, at the speed of the disk.
    """
    if not has_clock(container, stream):
        return None
    frames: list[tuple[int, int]] = []  # from when, until when
    keys: list[tuple[int, int]] = []  # when, which byte
    for packet in container.demux(stream):
        if packet.size == 0 or packet.is_discard:
            continue
        if packet.pts is None:
            return None
        frames.append((packet.pts, packet.pts + (packet.duration or 0)))
        if packet.is_keyframe:
            keys.append((packet.pts, -1 if packet.pos is None else packet.pos))
    pts = sorted(shown for shown, _ in frames)
    if not keys or any(a == b for a, b in pairwise(pts)):
        return None
    keys.sort()
    index = KeyframeIndex(
        time_base=stream.time_base or Fraction(1),
        frames=len(pts),
        start=pts[0],
        end=max(frames)[1],  # of the last one: where the rate varies, others may claim to last beyond it
        pts=tuple(shown for shown, _ in keys),
        numbers=tuple(bisect_left(pts, shown) for shown, _ in keys),
        positions=tuple(position for _, position in keys),
    )
    return Scan(index, pts)


def has_clock(container: InputContainer, stream: VideoStream) -> bool:
    """Whether packets say when their frames are shown. AVI counts packets; where frames are reordered, that is no time.

    FFmpeg then makes times up, which go back and forth.
    """
    return not (container.format.name == "avi" and stream.codec_context.has_b_frames)
