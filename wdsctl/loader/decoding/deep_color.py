"""Color of 16 bits a channel, in PNG and TIFF: Pillow keeps the upper 8, so the values come from FFmpeg.

Pillow still decides what is accepted, and its 8 bits must be the upper half of what FFmpeg reads: no file is decoded
into something that only one of the two believes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import ExifTags

from wdsctl.loader.decoding.orientation import turned

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image
    from PIL.ImageFile import ImageFile

CODECS = {"PNG": "png", "TIFF": "tiff"}

#: FFmpeg's pixel formats that lie in one plane, and how many channels they have; `le` or `be` follows.
_CHANNELS = {"ya16": 2, "rgb48": 3, "rgba64": 4}


def is_deep(image: ImageFile) -> bool:
    """Whether a file that Pillow has opened, and not loaded, has more color than Pillow will give."""
    raw = [tile.args if isinstance(tile.args, str) else tile.args[0] for tile in image.tile if tile.args]
    return image.format in CODECS and image.mode in ("RGB", "RGBA") and any(";16" in str(each) for each in raw)


def colors_of(data: bytes, image: Image.Image) -> NDArray[np.uint16]:
    """(height, width, 3 or 4) of a file that Pillow has loaded as `image`. Raises ValueError where they disagree."""
    colors = _by_ffmpeg(data, CODECS[str(image.format)])
    if colors.shape[2] == 2:
        colors = colors[..., (0, 0, 0, 1)]
    colors = colors[..., : len(image.getbands())]
    # Pillow turns TIFF as its mark says, and forgets the mark in doing so.
    colors = turned(colors, int(getattr(image, "tag_v2", {}).get(ExifTags.Base.Orientation) or 1))
    if not np.array_equal(colors >> 8, np.asarray(image)):
        raise _unreadable("two decoders read it differently")
    return colors


def _by_ffmpeg(data: bytes, codec: str) -> NDArray[np.uint16]:
    # Few datasets have such images, and the import takes 0.1 s.
    import av
    from av.error import FFmpegError

    context: Any = av.CodecContext.create(codec, "r")
    context.thread_count = 1
    try:
        frames = [*context.decode(av.Packet(data)), *context.decode(None)]
    except FFmpegError as error:
        raise _unreadable(f"FFmpeg says: {error.strerror}") from error
    if not frames or frames[0].format.name[:-2] not in _CHANNELS:
        raise _unreadable(f"FFmpeg reads it as {frames[0].format.name if frames else 'nothing'}")
    return _pixels(frames[0])


def _pixels(frame: Any) -> NDArray[np.uint16]:
    name, order = frame.format.name[:-2], frame.format.name[-2:]
    channels, plane = _CHANNELS[name], frame.planes[0]
    rows = np.frombuffer(plane, dtype=">u2" if order == "be" else "<u2").reshape(-1, plane.line_size // 2)[
        : frame.height
    ]
    pixels = rows[:, : frame.width * channels].reshape(frame.height, frame.width, channels)
    return pixels.astype(np.uint16)


def _unreadable(reason: str) -> ValueError:
    return ValueError(f"its 16 bits a channel cannot be read ({reason}): take 8 bits, as image_decode='torchrgb8' does")
