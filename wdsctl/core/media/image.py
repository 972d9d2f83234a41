"""Facts of images, through Pillow's readers of headers. No pixel is decoded, however many the header promises."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from importlib import import_module
from typing import IO, cast

from PIL import ExifTags, Image
from PIL import __version__ as pillow_version

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import ImageFacts, Unreadable
from wdsctl.core.media.webp import webp_header

#: Format as `sniff` calls it -> Pillow's module and name. One module is imported, not all forty.
READERS = {
    "jpeg": ("JpegImagePlugin", "JPEG"),
    "png": ("PngImagePlugin", "PNG"),
    "gif": ("GifImagePlugin", "GIF"),
    "bmp": ("BmpImagePlugin", "BMP"),
    "tiff": ("TiffImagePlugin", "TIFF"),
    "jpeg2000": ("Jpeg2KImagePlugin", "JPEG2000"),
    "ico": ("IcoImagePlugin", "ICO"),
    "pnm": ("PpmImagePlugin", "PPM"),
    "avif": ("AvifImagePlugin", "AVIF"),
    "tga": ("TgaImagePlugin", "TGA"),
    "sgi": ("SgiImagePlugin", "SGI"),
    "pcx": ("PcxImagePlugin", "PCX"),
}

#: What Pillow raises about headers that are damaged.
BAD_HEADER: tuple[type[Exception], ...] = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, RuntimeError, OverflowError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)

_SIDEWAYS = range(5, 9)  # orientations that swap width and height


def image_facts(source: ByteRange, format_name: str) -> ImageFacts | Unreadable:
    """Of an animation or a file of several images, the first one's. AVIF is read whole, as Pillow does it."""
    # Pillow warns of damaged EXIF, of large images, of malformed MPO: none of it is news to who only asks for facts.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if format_name == "webp":
                return _webp(source)
            if format_name in READERS:
                return _by_pillow(source, *READERS[format_name])
        except BAD_HEADER:
            return Unreadable(reason="its header is damaged or cut off")
        except ImportError:
            return Unreadable(reason=f"Pillow {pillow_version} does not read {format_name}")
    return Unreadable(reason=f"there is nothing here that reads {format_name}")


def _by_pillow(source: ByteRange, module: str, name: str) -> ImageFacts:
    import_module(f"PIL.{module}")
    # `Image.open` would refuse an image that is too large to decode. What it calls says how large that is.
    factory, _ = Image.OPEN[name]
    image = factory(_from_the_start(source), "")
    return _facts(name, image.mode, _stored_size(image), orientation_of(image))


def _from_the_start(source: ByteRange) -> IO[bytes]:
    """Where all of the image is known already, a copy in memory: Pillow reads headers in dozens of small pieces."""
    if len(source.head) >= source.size:
        return io.BytesIO(source.head)
    source.seek(0)
    return cast(IO[bytes], source)


def _stored_size(image: Image.Image) -> tuple[int, int]:
    """Pillow swaps the sides of a TIFF that lies sideways, and of no other image."""
    tags = getattr(image, "tag_v2", {})
    width, height = tags.get(ExifTags.Base.ImageWidth), tags.get(ExifTags.Base.ImageLength)
    return (int(width), int(height)) if width and height else image.size


def orientation_of(image: Image.Image) -> int:
    """1 to 8; 1 where the mark is missing or broken."""
    try:
        # Not `image.getexif()`: that of PNG decodes the whole image if it has met no EXIF before the pixels.
        return _valid(Image.Image.getexif(image).get(ExifTags.Base.Orientation))
    except BAD_HEADER:
        return 1


def _webp(source: ByteRange) -> ImageFacts:
    header = webp_header(source)
    exif = Image.Exif()
    try:
        exif.load(header.exif)
        orientation = _valid(exif.get(ExifTags.Base.Orientation))
    except BAD_HEADER:
        orientation = 1
    return _facts("WEBP", "RGBA" if header.has_alpha else "RGB", (header.width, header.height), orientation)


def _valid(orientation: object) -> int:
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def _facts(name: str, mode: str, size: tuple[int, int], orientation: int) -> ImageFacts:
    width, height = size
    seen = (height, width) if orientation in _SIDEWAYS else (width, height)
    return ImageFacts(
        format=name,
        mode=mode,
        width=width,
        height=height,
        display_width=seen[0],
        display_height=seen[1],
        orientation=orientation,
    )
