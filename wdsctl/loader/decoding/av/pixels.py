"""Conversion of decoded frames to clips of pixels: RGB, upright, scaled, in one array."""

from __future__ import annotations

from typing import Any, cast

import av
import numpy as np
import torch
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from wdsctl.loader.decoding.av.container import BadMediumError
from wdsctl.loader.decoding.limits import check_pixel_count

Pixels = NDArray[np.uint8]

#: Starting threads for every frame costs more than it saves. PyAV has the option from 17 on.
_REFORMAT_OPTIONS: dict[str, Any] = {"threads": 1} if int(av.__version__.partition(".")[0]) >= 17 else {}


class FrameConverter:
    """`size`: (width, height) to scale to, None to keep the frames' size. `rotates`: turn frames upright."""

    def __init__(self, size: tuple[int, int] | None, *, rotates: bool, max_pixels: int) -> None:
        self._size = size
        self._rotates = rotates
        self._max_pixels = max_pixels
        self._reformatter = VideoReformatter()

    def convert(self, frame: VideoFrame) -> Pixels:
        """uint8 (height, width, 3) in new memory. Raises BadMediumError for more than `max_pixels`."""
        check_frame_size(frame.width, frame.height, self._max_pixels)
        turns = quarter_turns(frame) if self._rotates else 0
        width, height = self._size or (None, None)
        if turns % 2:
            width, height = height, width
        shown = self._reformatter.reformat(frame, width, height, "rgb24", interpolation="BILINEAR", **_REFORMAT_OPTIONS)
        plane = shown.planes[0]
        rows = np.frombuffer(cast("bytes", plane), np.uint8).reshape(-1, plane.line_size)[
            : shown.height, : shown.width * 3
        ]
        pixels = rows.reshape(shown.height, shown.width, 3)
        return np.rot90(pixels, turns) if turns else pixels


def check_frame_size(width: int, height: int, max_pixels: int) -> None:
    """Raise BadMediumError for frames of more than `max_pixels`."""
    try:
        check_pixel_count(width, height, max_pixels)
    except ValueError as error:
        raise BadMediumError(str(error).replace("the image", "a frame")) from error


def quarter_turns(frame: VideoFrame) -> int:
    """Counterclockwise quarter turns that make a frame upright; 0 for other angles."""
    rotation = int(frame.rotation)
    return rotation // 90 % 4 if rotation % 90 == 0 else 0


class ByteBudget:
    """The bytes of pixels and samples that one call may still return."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes_left = max_bytes

    def take(self, byte_count: int) -> None:
        """Spend bytes. Raises BadMediumError if fewer are left."""
        self._bytes_left -= byte_count
        if self._bytes_left < 0:
            raise BadMediumError(
                f"the clips would take more than {self.max_bytes:,} bytes; request shorter clips, set "
                "video_out_frame_size, or raise max_bytes"
            )


class ClipFrames:
    """The frames of one clip. `expected`: an estimate of their number, for which memory is allocated."""

    def __init__(self, expected: int, budget: ByteBudget) -> None:
        self._expected = max(1, expected)
        self._budget = budget
        self._pixels: Pixels | None = None
        self.frame_count = 0
        self.start = self.end = 0  # positions: the first frame appears, the last frame disappears

    def add(self, pixels: Pixels, start: int, end: int) -> None:
        """Append a frame. Raises BadMediumError if its size differs from the others', or the budget is spent."""
        self._budget.take(pixels.nbytes)
        if self._pixels is None:
            self._pixels = np.empty((self._expected, *pixels.shape), np.uint8)
            self.start = start
        if pixels.shape != self._pixels.shape[1:]:
            (height, width), (first_height, first_width) = pixels.shape[:2], self._pixels.shape[1:3]
            raise BadMediumError(
                f"the frame size changes from {first_width} x {first_height} to {width} x {height} within a clip; "
                "set video_out_frame_size to scale all frames to one size"
            )
        if self.frame_count == len(self._pixels):
            longer = np.empty((self.frame_count + self.frame_count // 2 + 1, *pixels.shape), np.uint8)
            longer[: self.frame_count] = self._pixels
            self._pixels = longer
        self._pixels[self.frame_count] = pixels
        self.frame_count += 1
        self.end = end

    def tensor(self) -> torch.Tensor:
        """uint8 (frames, 3, height, width), channels last in memory. Raises BadMediumError without frames."""
        if self._pixels is None:
            raise BadMediumError("a clip has no frame")
        pixels = self._pixels[: self.frame_count]
        # A clip that a user keeps must not hold much unused memory.
        kept = pixels if self.frame_count * 5 >= len(self._pixels) * 4 else pixels.copy()
        return torch.from_numpy(kept).permute(0, 3, 1, 2)
