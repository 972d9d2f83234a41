"""Decoding with Pillow: every image that is not a plain JPEG; 16-bit color; EXIF orientation.

Of PNG and TIFF with 16 bits per channel Pillow keeps the upper 8, so FFmpeg reads PNG, and `deep_tiff` TIFF. Pillow
still decides which files are accepted, and its 8 bits must equal the upper half of the others.

Broken EXIF says nothing about the pixels: an image whose orientation cannot be read stays as it is stored.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.byte_range import image_file
from wdsctl.core.media.corrections import check_range, correct_reading, full_range_gray, load_completely
from wdsctl.core.media.deep_tiff import read_deep_tiff
from wdsctl.core.media.image import SIXTEEN_BITS_IN_I, TRANSPOSE_OF_ORIENTATION, exif_orientation, pillow_formats
from wdsctl.core.media.kinds import decoder_package, has_reader
from wdsctl.core.media.png import retry_without_side_chunks
from wdsctl.core.media.refusals import explain_refusal
from wdsctl.core.media.sniff import PNG_SIGNATURE, sniff
from wdsctl.core.samples.picture_change import orient_pixels
from wdsctl.loader.decoding.jpeg import jpeg_header_size, jpeg_reduction
from wdsctl.loader.decoding.limits import check_decoded_size, check_pixel_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from PIL.ImageFile import ImageFile

    from wdsctl.loader.decoding.images import ImageDecodeOptions


#: Bytes of a JPEG file that may state an orientation: in EXIF, or else XMP. Most files have neither.
_ORIENTATION_MARKERS = (b"Exif\0\0", b"rientation")


def jpeg_orientation(data: bytes) -> int:
    """EXIF orientation, 1 to 8. Cost: 2 us, or 60 us with EXIF. Raises what Pillow does for a bad header."""
    if not any(mark in data for mark in _ORIENTATION_MARKERS):
        return 1
    return exif_orientation(Image.open(image_file(data), formats=("JPEG",)))


def orient_image(image: Image.Image) -> Image.Image:
    """An upright image without EXIF and XMP, so that it is not turned again. Pillow's own function raises for broken
    EXIF."""
    upright = transpose_image(image, exif_orientation(image))
    if upright is image:
        return image
    for name in ("exif", "xmp", "Raw profile type exif", "XML:com.adobe.xmp"):
        upright.info.pop(name, None)
    return upright


def transpose_image(image: Image.Image, orientation: int) -> Image.Image:
    turn = TRANSPOSE_OF_ORIENTATION.get(orientation)
    return image if turn is None else image.transpose(turn)


#: FFmpeg's packed pixel formats, without the suffix `le` or `be` -> channels
_PIXEL_FORMAT_CHANNELS = {"ya16": 2, "rgb48": 3, "rgba64": 4}


def has_deep_color(image: ImageFile) -> bool:
    """Whether an image that is opened and not loaded has more than the 8 bits per channel that Pillow returns."""
    if image.mode not in ("RGB", "RGBA"):
        return False
    if image.format == "TIFF":
        return bool(getattr(image, "tag_v2", {}).get(TiffImagePlugin.BITSPERSAMPLE, (8,))[0] == 16)
    raw = [tile.args if isinstance(tile.args, str) else tile.args[0] for tile in image.tile if tile.args]
    return image.format == "PNG" and any(";16" in str(each) for each in raw)


def read_deep_color(data: bytes, image: Image.Image, orientation: int = 1) -> NDArray[np.uint16]:
    """uint16 (height, width, 3 or 4) of a file that Pillow loaded as `image`, and turned by this `orientation`.

    Raises ValueError if they disagree.
    """
    if image.format == "TIFF":
        tags = image.tag_v2  # type: ignore[attr-defined]
        if tags.get(TiffImagePlugin.EXTRASAMPLES, (0,))[0] == _MULTIPLIED_ALPHA:
            raise _unreadable_error("its colors are multiplied with its alpha")
        colors = read_deep_tiff(data, tags)
    else:
        colors = _decode_with_ffmpeg(data, "png")
    if colors.shape[2] == 2:
        colors = colors[..., (0, 0, 0, 1)]
    colors = orient_pixels(colors[..., : len(image.getbands())], orientation)
    if not all(np.array_equal(colors[rows, columns] >> 8, piece) for rows, columns, piece in _pieces(image)):
        raise _unreadable_error("two readers return different pixels")
    return colors


def _decode_with_ffmpeg(data: bytes, codec: str) -> NDArray[np.uint16]:
    # Imported here: few datasets have such images, and the import takes 0.1 s.
    import av
    from av.error import FFmpegError

    context: Any = av.CodecContext.create(codec, "r")
    context.thread_count = 1
    try:
        frames = [*context.decode(av.Packet(data)), *context.decode(None)]
    except FFmpegError as error:
        raise _unreadable_error(f"FFmpeg: {error.strerror}") from error
    if not frames or frames[0].format.name[:-2] not in _PIXEL_FORMAT_CHANNELS:
        raise _unreadable_error(f"FFmpeg reads it as {frames[0].format.name if frames else 'nothing'}")
    return _frame_pixels(frames[0])


def _frame_pixels(frame: Any) -> NDArray[np.uint16]:
    name, order = frame.format.name[:-2], frame.format.name[-2:]
    channels, plane = _PIXEL_FORMAT_CHANNELS[name], frame.planes[0]
    rows = np.frombuffer(plane, dtype=">u2" if order == "be" else "<u2").reshape(-1, plane.line_size // 2)[
        : frame.height
    ]
    pixels = rows[:, : frame.width * channels].reshape(frame.height, frame.width, channels)
    return pixels.astype(np.uint16)


def _unreadable_error(reason: str) -> ValueError:
    return ValueError(f"cannot read its 16 bits per channel ({reason}); use 8 bits, such as image_decode='torchrgb8'")


#: Value of the tag ExtraSamples.
_MULTIPLIED_ALPHA = 1

#: Bytes of memory for each pixel of more than 8 bits per channel: its colors by FFmpeg, a copy of them, and Pillow's.
_DEEP_PIXEL_BYTES = 28

_PIECE_PIXELS = 1 << 20  # that are converted at a time

CHANNEL_SHAPES = {"L": (), "RGB": (3,), "RGBA": (4,)}

#: The formats whose plugins Pillow imports with the first image.
COMMON_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "DIB", "PPM")

#: What Pillow and libjpeg-turbo raise for files that are damaged or too large.
IMAGE_DECODE_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, ValueError, SyntaxError, EOFError, RuntimeError, OverflowError, IndexError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


@retry_without_side_chunks
def read_image(data: bytes, options: ImageDecodeOptions) -> Image.Image:
    """Pillow's image in its own mode; of an animation the first frame. Raises IMAGE_DECODE_ERRORS."""
    image = _open_image(data, options)
    turned = _load(image, data, options)
    full = full_range_gray(image)
    return orient_image(full) if options.exif_orientation else transpose_image(full, turned)


@retry_without_side_chunks
def read_pixels(data: bytes, options: ImageDecodeOptions) -> NDArray[Any]:
    """Pixels in the mode of `options`: (height, width) or (height, width, channels); uint8, or uint16 for 16-bit files.

    Modes without alpha drop transparency; palettes become colors. 16-bit color stays uint16 unless `options` ask for 8.
    Raises ValueError for 32 bits per channel, and IMAGE_DECODE_ERRORS for damaged files.
    """
    image = _open_image(data, options)
    stored_as = exif_orientation(image) if image.format == "TIFF" else 1  # Pillow turns it, and forgets how
    # The transparent color of a 16-bit image has 16 bits: it equals nothing in the 8 bits that Pillow reads.
    needs_depth = options.spec.depth != "uint8" or (options.spec.mode == "RGBA" and "transparency" in image.info)
    keeps_depth = needs_depth and has_deep_color(image)
    if keeps_depth:
        check_decoded_size(image.width, image.height, _DEEP_PIXEL_BYTES, options.max_bytes)
    turned = _load(image, data, options)
    if keeps_depth:
        pixels = _convert_mode(
            read_deep_color(data, image, stored_as), options.spec.mode, image.info.get("transparency")
        )
    else:
        pixels = image_pixels(image, options.spec.mode)
    return orient_pixels(pixels, exif_orientation(image) if options.exif_orientation else turned)


def _load(image: ImageFile, data: bytes, options: ImageDecodeOptions) -> int:
    """Load the pixels. Returns the orientation that turns a TIFF back, which Pillow turns meanwhile; otherwise 1."""
    is_turned = options.exif_orientation is False and image.format == "TIFF"
    orientation = exif_orientation(image) if is_turned else 1
    load_completely(image, data)
    return {6: 8, 8: 6}.get(orientation, orientation)  # the others are their own inverse


@retry_without_side_chunks
def read_ids(data: bytes, options: ImageDecodeOptions) -> NDArray[np.int32]:
    """(height, width) ids of a mask, unscaled: gray values, indices of a palette, and of colors their 24 bits, red
    lowest.

    Raises ValueError for images with alpha or fractions, and IMAGE_DECODE_ERRORS for damaged files.
    """
    opened = _open_image(data, options._replace(min_side=0))
    if has_deep_color(opened):
        raise ValueError("a mask in color has 8 bits per channel, and this one has 16")
    turned = _load(opened, data, options)
    image = orient_image(opened) if options.exif_orientation else transpose_image(opened, turned)
    if image.mode not in ("1", "L", "P", "I", "RGB") and not image.mode.startswith("I;16"):
        raise ValueError(f"a mask has ids in gray, a palette or RGB, and this image has the mode {image.mode}")
    ids = np.empty((image.height, image.width), np.int32)
    for rows, columns, piece in _pieces(image):
        values = piece.astype(np.int32)
        if values.ndim == 3:
            values = values[..., 0] | values[..., 1] << 8 | values[..., 2] << 16
        ids[rows, columns] = values
    return ids


@retry_without_side_chunks
def reduced_size(data: bytes, options: ImageDecodeOptions) -> tuple[int, int, int]:
    """(width, height, the factor by which it is decoded smaller) of an image in its file. Cost: 2 us for JPEG."""
    size = jpeg_header_size(data, options.max_pixels)
    if size is None:
        image = _identify_format(data)
        if image.format not in ("JPEG", "MPO"):
            return image.width, image.height, 1
        size = image.height, image.width, image.mode
    return size[1], size[0], jpeg_reduction(data, *size[:2], options.min_side)


def _open_image(data: bytes, options: ImageDecodeOptions) -> ImageFile:
    """Read the header, check the size, and set the reduction of JPEG."""
    image = _identify_format(data)
    check_pixel_count(image.width, image.height, options.max_pixels)
    factor = jpeg_reduction(data, image.height, image.width, options.min_side)
    if factor > 1:
        image.draft(None, (image.width // factor, image.height // factor))
    check_decoded_size(image.width, image.height, options.spec.pixel_bytes, options.max_bytes)
    return image


def _identify_format(data: bytes) -> ImageFile:
    image = _open_format(data)
    correct_reading(image)
    return image


def _open_format(data: bytes) -> ImageFile:
    try:
        return Image.open(image_file(data), formats=COMMON_FORMATS)
    except UnidentifiedImageError:
        rare = [name for name in pillow_formats() if name not in COMMON_FORMATS]
    try:
        return Image.open(image_file(data), formats=rare)
    except UnidentifiedImageError:
        form = sniff(data[:64], len(data), name="jxl").format  # bare JPEG XL, too: the part should be an image
        if not has_reader(form):
            raise SampleFailed(
                f"the loader does not decode {form.upper()}",
                hint=f"convert the images to another format; or install {decoder_package(form)}, and pass a decoder of "
                f"your own: SampleDecoder(decoders={{{form!r}: decode}}), or one for the name of the part",
            ) from None
        # Pillow's own message is the address of the buffer.
        raise ValueError(explain_refusal(data) if data else "the part is empty") from None


def image_pixels(image: Image.Image, mode: str) -> NDArray[Any]:
    """The pixels of a loaded image in this mode: see `read_pixels`."""
    if is_deep_gray(image):
        image = full_range_gray(image)
        gray = _as_array(image, (), np.uint16)[..., None]
        return _convert_mode(gray, mode, image.info.get("transparency"))
    check_range(image, "; use image_decode='pil' to get it unconverted")
    if mode != "RGBA":
        # convert() drops it with a warning.
        image.info.pop("transparency", None)
    return _as_array(image, CHANNEL_SHAPES[mode], np.uint8, mode)


def _as_array(image: Image.Image, channels: tuple[int, ...], dtype: type[np.generic], mode: str = "") -> NDArray[Any]:
    """The values of a loaded image, converted to `mode`. Pillow's own way to an array takes three times its memory."""
    array = np.empty((image.height, image.width, *channels), dtype)
    for rows, columns, piece in _pieces(image, mode):
        array[rows, columns] = piece
    return array


def _pieces(image: Image.Image, mode: str = "") -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """(rows, columns, values) of the parts of a loaded image, converted to `mode`."""
    if image.width * image.height <= _PIECE_PIXELS:
        yield slice(None), slice(None), np.asarray(image.convert(mode) if mode not in ("", image.mode) else image)
        return
    width = min(image.width, _PIECE_PIXELS)
    for rows in row_blocks((image.height, width)):
        for left in range(0, image.width, width):
            piece = image.crop((left, rows.start, min(left + width, image.width), min(rows.stop, image.height)))
            columns = slice(left, left + width)
            yield rows, columns, np.asarray(piece.convert(mode) if mode not in ("", image.mode) else piece)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """The rows of an array of pixels in blocks, so that what is computed from them takes little memory."""
    rows = max(1, _PIECE_PIXELS // max(1, shape[1]))
    return (slice(start, start + rows) for start in range(0, shape[0], rows))


def is_deep_gray(image: Image.Image) -> bool:
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in SIXTEEN_BITS_IN_I)


#: Bit depth and color type in the header of a PNG with 16-bit RGB.
_DEEP_RGB_PNG = b"\x10\x02"


def has_deep_transparency(data: bytes, image: Image.Image) -> bool:
    """Whether a color of 16-bit RGB is transparent: Pillow would compare it with the 8 bits that it has read."""
    return "transparency" in image.info and data.startswith(PNG_SIGNATURE) and data[24:26] == _DEEP_RGB_PNG


def _convert_mode(pixels: NDArray[np.uint16], mode: str, transparent_color: Any) -> NDArray[np.uint16]:
    """Convert 1, 3 or 4 channels to those of `mode`. `transparent_color`: the color that is transparent, or None."""
    channels = pixels.shape[2]
    if mode == "L":
        return pixels[..., 0] if channels == 1 else _luma(pixels)
    colors = pixels[..., :3] if channels > 1 else np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    if mode == "RGB":
        return colors
    alpha = pixels[..., 3:] if channels == 4 else _alpha_from_color(pixels, transparent_color)
    return np.concatenate([colors, alpha], axis=2)


def _luma(pixels: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Luma by ITU-R 601, with Pillow's integer weights."""
    luma = np.empty(pixels.shape[:2], np.uint16)
    for rows in row_blocks(pixels.shape):
        red, green, blue = (pixels[rows, :, i].astype(np.uint64) for i in range(3))
        luma[rows] = (red * 19_595 + green * 38_470 + blue * 7_471 + 32_768) >> 16
    return luma


def _alpha_from_color(pixels: NDArray[np.uint16], transparent_color: Any) -> NDArray[np.uint16]:
    if transparent_color is None:
        return np.full_like(pixels[..., :1], 65_535)
    is_transparent = (pixels == np.asarray(transparent_color)).all(axis=2, keepdims=True)
    return np.where(is_transparent, 0, 65_535).astype(np.uint16)
