"""Frames of a film that has no usable clock: counted from the beginning, which is the only way into it."""

from __future__ import annotations

from collections.abc import Iterator

from av.video.frame import VideoFrame

from wdsctl.loader.av.frame_reader import Shown
from wdsctl.loader.av.opening import BadMediumError, OpenMedium


class CountingReader:
    """What `FrameReader` is; a place is the number of a frame. Every frame up to the place is decoded."""

    def __init__(self, opened: OpenMedium) -> None:
        self._opened = opened
        self._frames: Iterator[VideoFrame] = iter(())
        self._count = 0
        self.current: Shown | None = None
        self.upcoming: Shown | None = None

    def reach(self, number: float) -> None:
        if self.current is None or number < self.current.place:
            self._begin()
        while self.upcoming is not None and self.upcoming.place <= number:
            self.advance()

    def advance(self) -> None:
        self.current, self.upcoming = self.upcoming, self._next()

    def _begin(self) -> None:
        self._opened.restart()
        stream = self._opened.video
        if stream is None:
            raise BadMediumError("there is no video in it")
        self._opened.read(stream)
        self._frames = self._opened.container.decode(stream)
        self._count = 0
        self.current = self._next()
        self.upcoming = self._next()

    def _next(self) -> Shown | None:
        frame = next(self._frames, None)
        self._count += 1
        return None if frame is None else Shown(frame, self._count - 1, self._count)
