"""Images in another format, or smaller: by Pillow, the same bytes for the same input and the same Pillow."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from contextlib import suppress
from typing import Any

from PIL import ExifTags, Image

from wdsctl.core.media.image import orientation_of
from wdsctl.core.transcode.options import ImageFormat, ImageOptions, image_name

#: Twice `PIL.Image.MAX_IMAGE_PIXELS`: where Pillow itself refuses an image.
MAX_PIXELS = 178_956_970

#: What is opened. Formats that run other programs (EPS calls Ghostscript) are not.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "PPM", "TIFF", "AVIF", "JPEG2000")
_OURS: dict[str, ImageFormat] = {"JPEG": "jpeg", "MPO": "jpeg", "WEBP": "webp", "PNG": "png"}
_EXIF = b"Exif\0\0"
_QUALITY = {"jpeg": 90, "webp": 80, "png": 0}
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

#: What Pillow raises about images that are damaged, too large, or not to be written so.
BAD_IMAGE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, SyntaxError, EOFError, RuntimeError, OverflowError, LookupError, TypeError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


def transcode_image(name: str, data: bytes, options: ImageOptions) -> tuple[str, bytes]:
    """(the new name of the part, its bytes). Where nothing would change, the bytes as they are.

    Colour profiles go along. With orientation `apply`, pixels lie upright and no mark says otherwise; with `keep`, they
    lie as they did and EXIF goes along. Transparency becomes white in JPEG. Grey of 16 bits becomes 8 in JPEG and WebP.
    Raises one of BAD_IMAGE: damage, an animation, more than MAX_PIXELS.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged EXIF and large images: the first is left out, the second is refused
        image: Image.Image = Image.open(io.BytesIO(data), formats=_FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(f"the image has {image.width} x {image.height} pixels; {MAX_PIXELS:,} are allowed")
        was = _OURS.get(image.format or "")
        form = options.form or was
        if form is None:
            raise ValueError(
                f"images of format {image.format} cannot be written: say which format, such as --image png"
            )
        side = options.max_side or max(image.size)
        if not options.form and max(image.size) <= side:
            return name, data
        if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
            raise ValueError(f"it is an animation of {getattr(image, 'n_frames', 1)} pictures")
        return image_name(name, options), _written(image, form, side, options)


def _written(image: Image.Image, form: ImageFormat, side: int, options: ImageOptions) -> bytes:
    profile, exif = image.info.get("icc_profile"), image.info.get("exif")
    if max(image.size) > side and options.form != "png":
        scale = side / max(image.size)
        image.draft(None, (max(1, round(image.width * scale)) * 2, max(1, round(image.height * scale)) * 2))
    image.load()
    if exif and not exif.startswith(_EXIF):  # WebP has no need of it, and JPEG reads nothing without it
        exif = _EXIF + exif
    if options.orientation == "apply":
        turn = _TURNS.get(orientation_of(image))  # `load` turns TIFF, and takes its mark out
        exif = _without_mark(image) if exif else None
        image = image.transpose(turn) if turn is not None else image
    image = _in_mode(image, form)
    if max(image.size) > side:
        scale = side / max(image.size)
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        if image.mode in ("P", "1"):  # between two entries of a palette there is nothing
            has_alpha = "transparency" in image.info
            image = image.convert("L" if image.mode == "1" else "RGBA" if has_alpha else "RGB")
        image = image.resize(size, Image.Resampling.LANCZOS)
    return _encoded(image, form, options.quality, {"icc_profile": profile, "exif": exif})


def _encoded(image: Image.Image, form: ImageFormat, quality: int, marks: dict[str, Any]) -> bytes:
    more: dict[str, Any] = {name: value for name, value in marks.items() if value}
    if form in ("jpeg", "webp"):
        more["quality"] = quality or _QUALITY[form]
    if form == "png" and "transparency" in image.info:
        more["transparency"] = image.info["transparency"]
    file = io.BytesIO()
    image.info = {}
    image.save(file, form.upper(), **more)
    return file.getvalue()


def _in_mode(image: Image.Image, form: ImageFormat) -> Image.Image:
    """In a mode that the format has."""
    if form == "png":
        return image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else _colors(image)
    if image.mode in ("I", "I;16", "I;16B", "I;16L"):
        if image.getextrema()[1] > 65_535:  # type: ignore[operator]
            raise ValueError(f"an image of mode {image.mode} has more than 16 bits a pixel: it has no natural range")
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if image.mode in ("F", "I"):
        raise ValueError(f"an image of mode {image.mode} has 32 bits a pixel, which have no natural range")
    has_alpha = image.mode in ("LA", "PA", "RGBA", "RGBa", "La") or "transparency" in image.info
    if form == "webp":
        return image.convert("RGBA" if has_alpha else "RGB")
    if has_alpha:
        upper = image.convert("RGBA")
        white = Image.new("RGBA", upper.size, "white")
        return Image.alpha_composite(white, upper).convert("RGB")
    return image if image.mode == "L" else image.convert("L" if image.mode == "1" else "RGB")


def _colors(image: Image.Image) -> Image.Image:
    if image.mode == "I" and image.format == "PPM":  # Pillow has 16 bits of this format in 32
        return image.convert("I;16")
    if image.mode in ("I", "F"):
        raise ValueError(f"an image of mode {image.mode} has 32 bits a pixel, which PNG has not")
    return image.convert("RGBA" if image.mode in ("PA", "RGBa", "La") else "RGB")


def _without_mark(image: Image.Image) -> bytes | None:
    """EXIF that says nothing of orientation; None where it does not parse."""
    with suppress(*BAD_IMAGE):
        exif = image.getexif()
        exif.pop(ExifTags.Base.Orientation, None)
        return exif.tobytes() if len(exif) else None
    return None
