"""Decodes an image to the last pixel, and throws it away: is it whole?"""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import simplejpeg
from PIL import Image, UnidentifiedImageError

from wdsctl.core.media.image import BAD_HEADER
from wdsctl.core.media.verdict import SOUND, Verdict

#: As the loader: twice `PIL.Image.MAX_IMAGE_PIXELS`, where Pillow itself refuses an image.
MAX_PIXELS = 178_956_970

#: The formats that the loader opens; no others, which may run programs (EPS calls Ghostscript).
FORMATS = (
    *("JPEG", "PNG", "GIF", "BMP", "DIB", "PPM"),
    *("WEBP", "TIFF", "AVIF", "JPEG2000", "ICO", "TGA", "SGI", "PCX"),
)

_BAD: tuple[type[Exception], ...] = (*BAD_HEADER, IndexError)
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_COLORS = {"L": "GRAY", "RGB": "RGB"}


def judge_image(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Verdict:
    """Of an animation or a file of several images, the first one. Cost: what decoding takes.

    Pillow and libjpeg make up what is missing where they can, so PNG's own checksums are held against its bytes, and a
    JPEG is decoded by a reader that tells its doubts.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large images, damaged EXIF, palettes: none of it is what was asked
        try:
            return _judged(data, max_pixels)
        except UnidentifiedImageError:
            return Verdict("broken", "it is no image of a format that is read here" if data else "it is empty")
        except _BAD as error:
            words = (str(error) or type(error).__name__).splitlines()[0]
            return Verdict("broken", f"it does not decode: {words}")


def _judged(data: bytes, max_pixels: int) -> Verdict:
    Image.init()
    # `Image.open` refuses what is more than Pillow's own limit; that is said in the same words.
    try:
        image = Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in Image.OPEN])
    except Image.DecompressionBombError:
        return Verdict("too large", f"the image has more than {max_pixels:,} pixels")
    if image.width * image.height > max_pixels:
        return Verdict("too large", f"the image has {image.width} x {image.height} pixels, above {max_pixels:,}")
    doubt = _doubt(data, image)
    if doubt or image.format != "JPEG" or image.mode not in _JPEG_COLORS:
        image.load()  # what it raises is worse than a doubt
    return Verdict("doubtful", doubt) if doubt else SOUND


def _doubt(data: bytes, image: Image.Image) -> str:
    """What a reader less forgiving than Pillow says of it. A JPEG that it is content with needs no other."""
    if image.format == "PNG":
        return _png_trouble(data)
    if image.format == "JPEG" and image.mode in _JPEG_COLORS:
        try:
            simplejpeg.decode_jpeg(data, colorspace=_JPEG_COLORS[image.mode])
        except ValueError as error:
            return f"libjpeg says: {error}"
    return ""


def _png_trouble(data: bytes) -> str:
    """Whether the checksum of each chunk fits its bytes. Source: PNG (ISO/IEC 15948), 5.3 and 5.4."""
    at = len(_PNG)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            return f"its chunk {kind!r} needs {end - len(data):,} more bytes than there are"
        if zlib.crc32(data[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            return f"the checksum of its chunk {kind.decode('ascii', 'backslashreplace')} does not fit"
        at = end
        if kind == b"IEND":
            return ""
    return "it has no end"
