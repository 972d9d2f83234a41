"""Facts of images, from Pillow's header readers. No pixel is decoded, whatever size the header states.

This file reads headers of WebP (RFC 9649) itself: Pillow would read the whole file and allocate all of its pixels.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import IO, NamedTuple, cast

from PIL import ExifTags, Image
from PIL import __version__ as pillow_version
from PIL.ImageFile import ImageFile

from wdsctl.core.media.byte_range import ByteRangeFile, TooManyBlocks, check_tags, image_file
from wdsctl.core.media.facts import ImageFacts, Unreadable
from wdsctl.core.media.kinds import MEDIA_FORMATS, PILLOW_FORMATS
from wdsctl.core.media.png import is_side_chunk_error, without_side_chunks
from wdsctl.core.media.refusals import explain_refusal

_ALPHA_FLAG, _EXIF_FLAG, _ANIMATION_FLAG = 0x10, 0x08, 0x02  # flags of VP8X
_EXPLAINED_BYTES = 1 << 20  # of a file that Pillow refuses; the directory of a TIFF may be further behind
_MAX_WEBP_CHUNKS = 1000  # before EXIF: files have some ten, and 4 MB of empty ones would take two seconds
_MAX_EXIF_BYTES = 1 << 20  # bytes: the orientation is in the first hundred


class WebpHeader(NamedTuple):
    width: int  # pixels
    height: int
    has_alpha: bool
    exif: bytes
    is_animated: bool = False


def read_webp_header(source: ByteRangeFile) -> WebpHeader:
    """Read the header of a WebP file.

    Raises ValueError if the file is cut off in its header or does not begin with an image.
    """
    source.seek(12)
    name, size = _chunk(source)
    data = _read_exactly(source, 10)
    if name == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (4, 7))
        exif = _exif(source, 20 + size + size % 2) if data[0] & _EXIF_FLAG else b""
        return WebpHeader(width, height, bool(data[0] & _ALPHA_FLAG), exif, bool(data[0] & _ANIMATION_FLAG))
    if name == b"VP8L" and data[0] == 0x2F:
        bits = int.from_bytes(data[1:5], "little")
        return WebpHeader(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), bool(bits >> 28 & 1), b"")
    if name == b"VP8 " and data[3:6] == b"\x9d\x01\x2a":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (6, 8))
        return WebpHeader(width, height, False, b"")
    raise ValueError("the WebP file does not start with an image")


def _exif(source: ByteRangeFile, at: int) -> bytes:
    """Return the EXIF chunk, which follows the pixels; empty if the file has none or ends before it."""
    for _ in range(_MAX_WEBP_CHUNKS):
        if at + 8 > source.size or source.is_over_limit:
            break
        source.seek(at)
        name, size = _chunk(source)
        if name == b"EXIF":
            return source.read(min(size, _MAX_EXIF_BYTES)) or b""
        at += 8 + size + size % 2
    return b""


def _chunk(source: ByteRangeFile) -> tuple[bytes, int]:
    header = _read_exactly(source, 8)
    return header[:4], int.from_bytes(header[4:], "little")


def _read_exactly(source: ByteRangeFile, size: int) -> bytes:
    data = source.read(size)
    if data is None or len(data) < size:
        raise ValueError("the WebP file ends in its header")
    return data


#: Format as `sniff` calls it -> module and name of Pillow's reader.
PILLOW_READERS = {each.name: (each.pillow_module, each.readers[0]) for each in MEDIA_FORMATS if each.pillow_module}


def open_with_reader(format_name: str, file: IO[bytes]) -> ImageFile:
    """Read the header of an image with the reader of its format. Imports one module of Pillow instead of forty.

    `Image.open` refuses images that are too large to decode; the reader itself returns their size. Raises ImportError
    if the installed Pillow lacks the reader, and BAD_HEADER_ERRORS.
    """
    module, name = PILLOW_READERS[format_name]
    import_module(module)
    if isinstance(file, ByteRangeFile):
        file.limit_reads()
    return Image.OPEN[name][0](file, "")


@cache
def pillow_formats() -> tuple[str, ...]:
    """Pillow's names of the formats that wdsctl opens, as far as they are installed, for `Image.open(formats=...)`.

    The first call imports all readers (0.1 s).
    """
    Image.init()
    for module, _ in PILLOW_READERS.values():
        with suppress(ImportError):  # older versions of Pillow lack some formats
            import_module(module)
    return tuple(name for name in PILLOW_FORMATS if name in Image.OPEN)


#: Exceptions that Pillow raises for damaged headers.
BAD_HEADER_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, RuntimeError, OverflowError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)

#: Formats whose mode I has 16 bits in some releases of Pillow. Other images of 32 bits per pixel have no defined range.
SIXTEEN_BITS_IN_I = ("PNG", "PPM")

_SIDEWAYS_ORIENTATIONS = range(5, 9)  # orientations that swap width and height

#: EXIF orientation -> what turns the stored pixels upright; orientation 1 is upright.
TRANSPOSE_OF_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def image_facts(source: ByteRangeFile, format_name: str) -> ImageFacts | Unreadable:
    """Read the facts of an image; of an animation or a file of several images, those of the first one.

    Pillow reads all of an AVIF file.
    """
    # Pillow warns of damaged EXIF, large images and malformed MPO, which do not affect the facts.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if format_name == "webp":
                return _webp_facts(source)
            if format_name in PILLOW_READERS:
                return _pillow_facts(source, format_name)
        except TooManyBlocks as error:
            return Unreadable(reason=str(error))
        except BAD_HEADER_ERRORS:
            source.seek(0)
            return Unreadable(reason=explain_refusal(source.read(_EXPLAINED_BYTES) or b""))
        except ImportError:
            return Unreadable(reason=f"Pillow {pillow_version} does not read {format_name}")
    return Unreadable(reason=f"wdsctl cannot read {format_name}")


def _pillow_facts(source: ByteRangeFile, format_name: str) -> ImageFacts:
    try:
        image = open_with_reader(format_name, _rewind(source))
    except ValueError as error:
        if format_name != "png" or not is_side_chunk_error(error):
            raise
        head = without_side_chunks(_rewind(source), head_only=True)
        image = open_with_reader(format_name, io.BytesIO(head))
    name, orientation = PILLOW_READERS[format_name][1], exif_orientation(image)
    form = (name, image.mode, stored_size(image), orientation)
    return _make_facts(*form, has_more_frames=_has_more_frames(image))


def _has_more_frames(image: ImageFile) -> bool:
    """Whether a TIFF has further pages, or a GIF, PNG or AVIF is animated. Only of GIF, reads on: to the next frame.

    The further images of a JPEG (MPO) are depth maps, previews and the like.
    """
    if image.format == "TIFF":
        return bool(getattr(getattr(image, "tag_v2", None), "next", 0))
    try:
        return image.format in ("GIF", "PNG", "AVIF") and bool(getattr(image, "is_animated", False))
    except TooManyBlocks:
        raise
    except BAD_HEADER_ERRORS:
        return False  # it ends in the first frame


def _rewind(source: ByteRangeFile) -> IO[bytes]:
    """Return the source at its start. If its head is the whole image, a copy in memory.

    Pillow reads headers in dozens of small reads.
    """
    if len(source.head) >= source.size:
        return image_file(source.head)
    source.seek(0)
    return cast(IO[bytes], source)


def stored_size(image: Image.Image) -> tuple[int, int]:
    """Return the size as stored: Pillow swaps the sides of a TIFF with a sideways orientation, but of no other."""
    tags = getattr(image, "tag_v2", {})
    width, height = tags.get(ExifTags.Base.ImageWidth), tags.get(ExifTags.Base.ImageLength)
    return (int(width), int(height)) if width and height else image.size


def exif_orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 to 8; 1 if it is missing or damaged. Raises what `check_tags` does."""
    exif = image.info.get("exif")
    if isinstance(exif, bytes):
        check_tags(io.BytesIO(exif.removeprefix(b"Exif\0\0")))
    try:
        # Not `image.getexif()`, which decodes a whole PNG to look for EXIF after the pixels.
        return _valid(Image.Image.getexif(image).get(ExifTags.Base.Orientation))
    except BAD_HEADER_ERRORS:
        return 1


def _webp_facts(source: ByteRangeFile) -> ImageFacts:
    header = read_webp_header(source)
    check_tags(io.BytesIO(header.exif.removeprefix(b"Exif\0\0")))
    exif = Image.Exif()
    try:
        exif.load(header.exif)
        orientation = _valid(exif.get(ExifTags.Base.Orientation))
    except BAD_HEADER_ERRORS:
        orientation = 1
    size = (header.width, header.height)
    mode = "RGBA" if header.has_alpha else "RGB"
    return _make_facts("WEBP", mode, size, orientation, has_more_frames=header.is_animated)


def _valid(orientation: object) -> int:
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def _make_facts(name: str, mode: str, size: tuple[int, int], orientation: int, *, has_more_frames: bool) -> ImageFacts:
    width, height = size
    seen = (height, width) if orientation in _SIDEWAYS_ORIENTATIONS else (width, height)
    return ImageFacts(
        format=name,
        mode=mode,
        width=width,
        height=height,
        display_width=seen[0],
        display_height=seen[1],
        orientation=orientation,
        has_more_frames=has_more_frames,
    )
