"""Videos that stay open between reads, and single frames of them by time: for many frames of long videos."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import NamedTuple

import av
import torch

from wdsctl.core.errors import SampleFailed
from wdsctl.loader.decoding.av.container import BadMediumError, OpenMedium, open_medium
from wdsctl.loader.decoding.av.media_source import make_media_source
from wdsctl.loader.decoding.av.pixels import ByteBudget
from wdsctl.loader.decoding.av.values import AVOptions
from wdsctl.loader.decoding.av.video import VideoTrack
from wdsctl.loader.samples.lazy_part import LazyPart

MAX_OPEN_VIDEOS = 8  # per process; each keeps at most 16 MiB of the file
_OPTIONS = AVOptions(rotate=False)


class _OpenVideo(NamedTuple):
    track: VideoTrack
    medium: OpenMedium
    closing: ExitStack


class OpenVideos:
    """Frames of videos by name. The videos used last stay open, in each process its own. Safe in several threads.

    `open_part`: from a name to the file.
    """

    def __init__(self, open_part: Callable[[str], LazyPart]) -> None:
        self._open_part = open_part
        self._forget()

    def frames(self, name: str, times: Sequence[float], tolerance_s: float, half_frame_s: float) -> torch.Tensor:
        """uint8 (times, 3, height, width): for each time, in seconds on the clock of the file, the nearest frame.

        `half_frame_s`: half the time that a frame is shown. One pass over the times in ascending order, from the
        keyframe before the first; keyframes between two of them are used. Raises SampleFailed WDS503 if no frame is
        within the tolerance of a time, or the video cannot be decoded; what `open_part` and the storage raise.
        """
        if self._pid != os.getpid():
            self._forget()
        with self._lock:
            video = self._open(name)
            try:
                frames = self._read(name, video, times, tolerance_s, half_frame_s)
            except BaseException as error:
                self._videos.pop(name, None)
                video.closing.close()
                if isinstance(error, (BadMediumError, av.FFmpegError)):
                    raise _decode_error(name, error) from error
                raise
            return frames

    def close(self) -> None:
        """Close all videos. The next use opens them again."""
        if self._pid == os.getpid():
            with self._lock:
                while self._videos:
                    self._videos.popitem()[1].closing.close()

    def _forget(self) -> None:
        """Begin without open videos: those of a process that forked are not used in the other."""
        self._videos: OrderedDict[str, _OpenVideo] = OrderedDict()
        self._lock = Lock()
        self._pid = os.getpid()

    def _open(self, name: str) -> _OpenVideo:
        if name in self._videos:
            self._videos.move_to_end(name)
            return self._videos[name]
        while len(self._videos) >= MAX_OPEN_VIDEOS:
            self._videos.popitem(last=False)[1].closing.close()
        source = make_media_source(self._open_part(name))
        with ExitStack() as stack:
            try:
                medium = stack.enter_context(open_medium(source, 1))
            except (BadMediumError, av.FFmpegError) as error:
                raise _decode_error(name, error) from error
            video = _OpenVideo(VideoTrack(None, _OPTIONS, source.keyframes), medium, stack.pop_all())
        self._videos[name] = video
        return video

    def _read(
        self, name: str, video: _OpenVideo, times: Sequence[float], tolerance_s: float, half_frame_s: float
    ) -> torch.Tensor:
        start = float(video.medium.start_time)
        # The last frame that begins until then; computed times may be a little before the frame that they mean.
        latest = [time - start + min(tolerance_s, half_frame_s) for time in times]
        budget = ByteBudget(_OPTIONS.max_bytes)
        ranges = [(time, time) for time in latest]
        clips, shown = video.track.clips(video.medium, ranges, by_number=False, size=None, budget=budget)
        if len(clips) != len(times):
            raise _no_frame_error(name, max(times), "the video ends before")
        for time, (begin, _) in zip(times, shown, strict=True):
            if abs(begin + start - time) > tolerance_s:
                raise _no_frame_error(name, time, f"the nearest frame is at {begin + start:.6f} s")
        return torch.cat(clips) if len(clips) > 1 else clips[0]


def _decode_error(name: str, error: Exception) -> SampleFailed:
    return SampleFailed(
        f"cannot decode the video: {error}",
        where=f"video {name}",
        hint="check the file with a player, then copy it again from its origin",
    )


def _no_frame_error(name: str, time: float, problem: str) -> SampleFailed:
    return SampleFailed(
        f"no frame of the video is at {time:.6f} s: {problem}",
        where=f"video {name}",
        hint="pass a larger tolerance_s if the timestamps are only that exact, or exclude the sequence",
    )
