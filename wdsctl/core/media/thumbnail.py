"""A small picture of an image, or of the first frame of a video, for whoever shows it. Decodes one, within limits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Unreadable

if TYPE_CHECKING:
    from PIL import Image

#: Pixels of an image that is decoded: 300 MB of them. One that promises more may be a bomb.
MOST_PIXELS = 100_000_000
#: Bytes of an image, and of a video, that are read for it.
MOST_BYTES = 256 << 20
_PACKETS = 64  # a decoder that has given no frame by then gives none


@dataclass(frozen=True, slots=True)
class Picture:
    """`rgb`: height rows of width pixels of three bytes."""

    width: int
    height: int
    rgb: bytes


def thumbnail(source: ByteRange, kind: str, format_name: str, width: int, height: int) -> Picture | Unreadable:
    """What an image or a video looks like, as large as fits into width x height, as it is to be seen (turned by EXIF).

    `kind` and `format_name` are what `sniff` says. What cannot be decoded comes back as Unreadable; what cannot be read
    raises as reading does. Cost: of a JPEG some ms, as it is decoded at a smaller size; of others all of it.
    """
    if kind == "image" and source.size > MOST_BYTES:
        return Unreadable(reason=f"it has {source.size:,} bytes, too many to decode for a look")
    drawn = _of_image(source, format_name, width, height) if kind == "image" else _of_video(source, format_name)
    if source.failure:
        raise source.failure
    if isinstance(drawn, Unreadable):
        return drawn
    return _fitted(drawn, width, height)


def _of_image(source: ByteRange, format_name: str, width: int, height: int) -> Image.Image | Unreadable:
    from PIL import Image, ImageOps

    from wdsctl.core.media.image import BAD_HEADER, READERS

    module, name = ("WebPImagePlugin", "WEBP") if format_name == "webp" else READERS.get(format_name, ("", ""))
    if not name:
        return Unreadable(reason=f"there is nothing here that decodes {format_name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import_module(f"PIL.{module}")
            source.seek(0)
            image = Image.OPEN[name][0](cast("IO[bytes]", source), "")
            if image.width * image.height > MOST_PIXELS:
                return Unreadable(reason=f"{image.width}x{image.height} pixels are too many to decode for a look")
            image.draft("RGB", (2 * width, 2 * height))
            return ImageOps.exif_transpose(image)
        except ImportError:
            return Unreadable(reason=f"Pillow does not decode {format_name} here")
        except BAD_HEADER:
            return Unreadable(reason="it cannot be decoded")


def _of_video(source: ByteRange, format_name: str) -> Image.Image | Unreadable:
    """The first frame that comes out is that of the first keyframe."""
    import av

    from wdsctl.core.media.stream import DEMUXERS, first_video, opened

    if format_name not in DEMUXERS:
        return Unreadable(reason=f"there is nothing here that decodes {format_name}")
    try:
        with opened(source, format_name) as container:
            stream = first_video(container)
            if stream is None:
                return Unreadable(reason="there is no video in it that can be decoded")
            if stream.width * stream.height > MOST_PIXELS:
                return Unreadable(reason=f"{stream.width}x{stream.height} pixels are too many to decode for a look")
            stream.codec_context.thread_count = 1
            for packet in islice(container.demux(stream), _PACKETS):
                for frame in packet.decode():
                    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
                    return image.rotate(int(frame.rotation), expand=True) if frame.rotation else image
    except av.FFmpegError:
        return Unreadable(reason="it cannot be decoded")
    return Unreadable(reason="no frame of it can be decoded")


def _fitted(image: Image.Image, width: int, height: int) -> Picture | Unreadable:
    from PIL import Image

    from wdsctl.core.media.image import BAD_HEADER

    try:
        share = min(width / image.width, height / image.height, 1.0)
        size = (max(1, round(image.width * share)), max(1, round(image.height * share)))
        small = _seen(image).resize(size, Image.Resampling.BOX if share < 1 else Image.Resampling.NEAREST)
    except BAD_HEADER:
        return Unreadable(reason="it cannot be decoded")
    return Picture(small.width, small.height, small.tobytes())


def _seen(image: Image.Image) -> Image.Image:
    """As RGB: what is transparent over grey, numbers of 16 bits and more between their least and greatest."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return _between(np.asarray(image.convert("F"), np.float64))
    if "A" in image.getbands() or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, (128, 128, 128, 255)), clear).convert("RGB")
    return image.convert("RGB")


def _between(numbers: NDArray[np.float64]) -> Image.Image:
    from PIL import Image

    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    scaled = (np.nan_to_num(numbers, nan=low, posinf=high, neginf=low) - low) * (
        255 / (high - low) if high > low else 0
    )
    return Image.fromarray(scaled.astype(np.uint8)).convert("RGB")
