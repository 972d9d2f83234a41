"""Decoded frames become pixels: RGB, turned upright, of the size asked for, and laid one behind the other."""

from __future__ import annotations

from typing import Any, cast

import av
import numpy as np
import torch
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from wdsctl.loader.av.opening import BadMediumError
from wdsctl.loader.decoding.limits import refuse_bomb

Pixels = NDArray[np.uint8]

#: Starting threads for every frame costs more than they give, and there is a worker on every core. PyAV 17 has the say.
_ALONE: dict[str, Any] = {"threads": 1} if int(av.__version__.partition(".")[0]) >= 17 else {}


class Painter:
    """`size`: (width, height) to scale to, None for that of the frames. `rotates`: whether to turn frames upright."""

    def __init__(self, size: tuple[int, int] | None, *, rotates: bool, max_pixels: int) -> None:
        self._size = size
        self._rotates = rotates
        self._max_pixels = max_pixels
        self._reformatter = VideoReformatter()

    def paint(self, frame: VideoFrame) -> Pixels:
        """(height, width, 3), a view of memory of its own. Raises BadMediumError where there are too many pixels."""
        refuse(frame.width, frame.height, self._max_pixels)
        turns = turns_of(frame) if self._rotates else 0
        width, height = self._size or (None, None)
        if turns % 2:
            width, height = height, width
        shown = self._reformatter.reformat(frame, width, height, "rgb24", interpolation="BILINEAR", **_ALONE)
        plane = shown.planes[0]
        rows = np.frombuffer(cast("bytes", plane), np.uint8).reshape(-1, plane.line_size)[
            : shown.height, : shown.width * 3
        ]
        pixels = rows.reshape(shown.height, shown.width, 3)
        return np.rot90(pixels, turns) if turns else pixels


def refuse(width: int, height: int, max_pixels: int) -> None:
    """Raises BadMediumError where frames of this size are larger than they may be."""
    try:
        refuse_bomb(width, height, max_pixels)
    except ValueError as error:
        raise BadMediumError(str(error).replace("the image", "a frame")) from error


def turns_of(frame: VideoFrame) -> int:
    """Quarter turns counterclockwise that make a frame upright. What is between two of them is left as it lies."""
    rotation = int(frame.rotation)
    return rotation // 90 % 4 if rotation % 90 == 0 else 0


class Budget:
    """How many bytes of pixels and samples one call may still hand out."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def take(self, count: int) -> None:
        """Raises BadMediumError where there are not as many left."""
        self._left -= count
        if self._left < 0:
            raise BadMediumError(
                f"the clips would take more than {self.most:,} bytes; ask for shorter ones, for "
                "video_out_frame_size, or raise max_bytes"
            )


class Reel:
    """The frames of one clip, as they come. `expected`: about how many there will be."""

    def __init__(self, expected: int, budget: Budget) -> None:
        self._expected = max(1, expected)
        self._budget = budget
        self._pixels: Pixels | None = None
        self.frames = 0
        self.first = self.ends = 0  # places: where the first frame is shown, and where the last one has been

    def add(self, pixels: Pixels, place: int, ends: int) -> None:
        """Raises BadMediumError for a frame of another size than the ones before it, and where the budget is spent."""
        self._budget.take(pixels.nbytes)
        if self._pixels is None:
            self._pixels = np.empty((self._expected, *pixels.shape), np.uint8)
            self.first = place
        if pixels.shape != self._pixels.shape[1:]:
            (height, width), (others, wide) = pixels.shape[:2], self._pixels.shape[1:3]
            raise BadMediumError(
                f"the size of its frames changes from {wide} x {others} to {width} x {height} within a clip; "
                "give video_out_frame_size to have them all alike"
            )
        if self.frames == len(self._pixels):
            longer = np.empty((self.frames + self.frames // 2 + 1, *pixels.shape), np.uint8)
            longer[: self.frames] = self._pixels
            self._pixels = longer
        self._pixels[self.frames] = pixels
        self.frames += 1
        self.ends = ends

    def tensor(self) -> torch.Tensor:
        """uint8 (frames, 3, height, width), channels last in memory. There must be a frame."""
        if self._pixels is None:
            raise BadMediumError("a clip has no frame")
        pixels = self._pixels[: self.frames]
        # A clip that a user keeps is not to hold on to much memory that nobody sees.
        kept = pixels if self.frames * 5 >= len(self._pixels) * 4 else pixels.copy()
        return torch.from_numpy(kept).permute(0, 3, 1, 2)
