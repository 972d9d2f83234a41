"""Make a thumbnail of an image, or of the first frame of a video. Decodes one frame, within limits."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from wdsctl.core.media.byte_range import ByteRangeFile
from wdsctl.core.media.facts import Unreadable

if TYPE_CHECKING:
    from PIL import Image


#: Pixels of the largest image to decode: 300 MB. A larger one may be a decompression bomb.
MAX_SOURCE_PIXELS = 100_000_000
#: Bytes of the largest image to read, and bytes to read of a video.
MAX_SOURCE_BYTES = 256 << 20
_HEAD_BYTES = 1 << 20  # of a JPEG: its frame follows EXIF and color profile
_MAX_PACKETS = 64  # packets after which a decoder without a frame is given up


@dataclass(frozen=True, slots=True)
class RgbImage:
    """An image in memory. `rgb`: `height` rows of `width` pixels of three bytes."""

    width: int
    height: int
    rgb: bytes


def make_thumbnail(
    source: ByteRangeFile, kind: str, format_name: str, width: int, height: int
) -> RgbImage | Unreadable:
    """Return an image, or the first frame of a video, scaled down to fit width x height, with its orientation applied.

    `kind` and `format_name` are those of `sniff`. Returns Unreadable if decoding fails; raises the source's own error
    if reading fails. Cost: some ms for a JPEG, which is decoded at a smaller size; a full decoding for other formats.
    """
    if kind == "image" and source.size > MAX_SOURCE_BYTES:
        return Unreadable(reason=f"it has {source.size:,} bytes, too many for a thumbnail")
    drawn = (
        _decode_image(source, format_name, width, height)
        if kind == "image"
        else _decode_first_frame(source, format_name)
    )
    if source.failure:
        raise source.failure
    if isinstance(drawn, Unreadable):
        return drawn
    return _fit_to_size(drawn, width, height)


def shrink_pixels(pixels: NDArray[np.uint8], width: int, height: int) -> RgbImage:
    """Scale pixels in memory down to fit width x height: (rows, columns) of gray or (rows, columns, 3 or 4).

    Cost: that of an image of about twice the thumbnail's size, however large the pixels are.
    """
    from PIL import Image

    rows, columns = pixels.shape[:2]
    share = min(width / columns, height / rows, 1.0)
    size = (max(1, round(columns * share)), max(1, round(rows * share)))
    few = np.ascontiguousarray(pixels[:: max(1, rows // (2 * size[1])), :: max(1, columns // (2 * size[0]))])
    small = _to_rgb(Image.fromarray(few)).resize(size, Image.Resampling.BOX)
    return RgbImage(small.width, small.height, small.tobytes())


def encode_jpeg(image: RgbImage) -> bytes:
    """Encode the image as a JPEG file of some kilobytes."""
    from PIL import Image

    file = io.BytesIO()
    Image.frombytes("RGB", (image.width, image.height), image.rgb).save(file, "JPEG", quality=85)
    return file.getvalue()


def _decode_image(source: ByteRangeFile, format_name: str, width: int, height: int) -> Image.Image | Unreadable:
    from PIL import ImageOps

    from wdsctl.core.media.corrections import correct_reading, full_range_gray
    from wdsctl.core.media.image import BAD_HEADER_ERRORS, PILLOW_READERS, open_with_reader
    from wdsctl.core.media.jpeg import is_scalable_jpeg
    from wdsctl.core.media.png import is_side_chunk_error, without_side_chunks

    if format_name not in PILLOW_READERS:
        return Unreadable(reason=f"wdsctl cannot decode {format_name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            source.seek(0)
            try:
                image = open_with_reader(format_name, cast("IO[bytes]", source))
            except ValueError as error:
                if not is_side_chunk_error(error):
                    raise
                image = open_with_reader(format_name, io.BytesIO(without_side_chunks(cast("IO[bytes]", source))))
            if image.width * image.height > MAX_SOURCE_PIXELS:
                return Unreadable(reason=f"{image.width}x{image.height} pixels are too many for a thumbnail")
            if image.format == "JPEG" and is_scalable_jpeg(_read_head(source)):
                image.draft("RGB", (2 * width, 2 * height))
            correct_reading(image)
            image.load()
            return ImageOps.exif_transpose(full_range_gray(image))
        except ImportError:
            return Unreadable(reason=f"the installed Pillow cannot decode {format_name}")
        except BAD_HEADER_ERRORS:
            return Unreadable(reason="it cannot be decoded")


def _read_head(source: ByteRangeFile) -> bytes:
    position = source.tell()
    source.seek(0)
    head = source.read(_HEAD_BYTES) or b""
    source.seek(position)
    return head


def _decode_first_frame(source: ByteRangeFile, format_name: str) -> Image.Image | Unreadable:
    """Decode the first frame that the decoder returns, which is that of the first keyframe."""
    import av

    from wdsctl.core.media.stream import DEMUXERS, first_video_stream, open_container

    if format_name not in DEMUXERS:
        return Unreadable(reason=f"wdsctl cannot decode {format_name}")
    try:
        with open_container(source, format_name) as container:
            stream = first_video_stream(container)
            if stream is None:
                return Unreadable(reason="it has no video that can be decoded")
            if stream.width * stream.height > MAX_SOURCE_PIXELS:
                return Unreadable(reason=f"{stream.width}x{stream.height} pixels are too many for a thumbnail")
            stream.codec_context.thread_count = 1
            for packet in islice(container.demux(stream), _MAX_PACKETS):
                for frame in packet.decode():
                    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
                    return image.rotate(int(frame.rotation), expand=True) if frame.rotation else image
    except av.FFmpegError:
        return Unreadable(reason="it cannot be decoded")
    return Unreadable(reason="none of its frames can be decoded")


def _fit_to_size(image: Image.Image, width: int, height: int) -> RgbImage | Unreadable:
    from PIL import Image

    from wdsctl.core.media.image import BAD_HEADER_ERRORS

    try:
        share = min(width / image.width, height / image.height, 1.0)
        size = (max(1, round(image.width * share)), max(1, round(image.height * share)))
        small = _to_rgb(image).resize(size, Image.Resampling.BOX if share < 1 else Image.Resampling.NEAREST)
    except BAD_HEADER_ERRORS:
        return Unreadable(reason="it cannot be decoded")
    return RgbImage(small.width, small.height, small.tobytes())


def _to_rgb(image: Image.Image) -> Image.Image:
    """Convert to RGB: transparent pixels over gray, numbers of 16 bits and more scaled to their range."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return _scale_to_rgb(np.asarray(image.convert("F"), np.float64))
    if "A" in image.getbands() or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, (128, 128, 128, 255)), clear).convert("RGB")
    return image.convert("RGB")


def _scale_to_rgb(numbers: NDArray[np.float64]) -> Image.Image:
    from PIL import Image

    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    scaled = (np.nan_to_num(numbers, nan=low, posinf=high, neginf=low) - low) * (
        255 / (high - low) if high > low else 0
    )
    return Image.fromarray(scaled.astype(np.uint8)).convert("RGB")
