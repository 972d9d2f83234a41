"""Clips of a film: one pass over the ranges in the order of their starts, in which no frame is converted twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from wdsctl.loader.av.frame_reader import Shown
from wdsctl.loader.av.pictures import Painter, Reel
from wdsctl.loader.av.timeline import Range


class Reader(Protocol):
    """`FrameReader` or `CountingReader`."""

    current: Shown | None
    upcoming: Shown | None

    def reach(self, place: float, /) -> None: ...

    def advance(self) -> None: ...


def read_clips(
    reader: Reader, ranges: Sequence[Range], painter: Painter, reel: Callable[[Range], Reel]
) -> list[Reel | None]:
    """For each range of places, in their order: the frames that are shown from its start to its end, the end included.

    That is the frame which is shown at the start, at the least, and before the film begins its first frame. None where
    the range starts when the film has ended.
    """
    reels: list[Reel | None] = [None] * len(ranges)
    waiting = deque(sorted(range(len(ranges)), key=lambda i: ranges[i]))
    running: dict[int, Reel] = {}
    while waiting or running:
        if not running:
            reader.reach(ranges[waiting[0]][0])
        shown, upcoming = reader.current, reader.upcoming
        if shown is None:
            break
        until = shown.ends if upcoming is None else upcoming.place
        while waiting and ranges[waiting[0]][0] < until:
            i = waiting.popleft()
            reels[i] = running[i] = reel(ranges[i])
        if running:
            pixels = painter.paint(shown.frame)
            for each in running.values():
                each.add(pixels, shown.place, shown.ends)
        if upcoming is None:
            break
        running = {i: each for i, each in running.items() if ranges[i][1] >= upcoming.place}
        if running:
            reader.advance()
    return reels
