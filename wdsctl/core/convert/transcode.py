"""Transcode images (Pillow) and audio (FFmpeg through PyAV).

The same input and library versions give the same bytes.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from contextlib import suppress
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray
from PIL import ExifTags, Image

from wdsctl.core.convert.parts import (
    AUDIO_TARGETS,
    IMAGE_TARGETS,
    OPUS_RATES,
    AudioTranscodeOptions,
    ImageTranscodeOptions,
    image_name,
    is_selected_part,
    replace_extension,
)
from wdsctl.core.errors import SampleFailed
from wdsctl.core.media.byte_range import image_file
from wdsctl.core.media.corrections import (
    check_range,
    correct_reading,
    full_range_gray,
    has_unnamed_channel,
    load_completely,
)
from wdsctl.core.media.image import TRANSPOSE_OF_ORIENTATION, exif_orientation, pillow_formats, stored_size
from wdsctl.core.media.jpeg import is_scalable_jpeg
from wdsctl.core.media.kinds import MAX_IMAGE_PIXELS
from wdsctl.core.media.png import retry_without_side_chunks
from wdsctl.core.media.refusals import explain_refusal
from wdsctl.core.media.stream import CONTAINER_OPTIONS
from wdsctl.core.media.vorbis import decode_exact_frames
from wdsctl.core.samples.picture_change import PictureChange, PictureForm, change_mask

_MAX_SECONDS = 24 * 3600  # limits the memory: a header may claim any length

_FORMAT_OF_PILLOW = {"MPO": "jpeg", **{target.encoder: name for name, target in IMAGE_TARGETS.items()}}
_EXIF_PREFIX = b"Exif\0\0"

#: Pillow's errors for images that are damaged or too large, or that a format cannot store.
IMAGE_ERRORS: tuple[type[Exception], ...] = (
    *(OSError, ValueError, SyntaxError, EOFError, RuntimeError, OverflowError, LookupError, TypeError, MemoryError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


#: PyAV's errors for damaged audio.
AUDIO_ERRORS: tuple[type[Exception], ...] = (FFmpegError, ValueError, OSError, EOFError, RuntimeError, MemoryError)


def transcode_part(
    name: str, data: bytes, image: ImageTranscodeOptions | None, audio: AudioTranscodeOptions | None
) -> tuple[str, bytes]:
    """Transcode a part; returns (new name, bytes), unchanged if no option selects the part.

    Raises SampleFailed WDS341.
    """
    if image is not None and is_selected_part(name, image):
        try:
            return retry_without_side_chunks(lambda data: transcode_image(name, data, image))(data)
        except IMAGE_ERRORS as error:
            raise _transcode_error(name, error, data) from error
    if audio is not None and is_selected_part(name, audio):
        try:
            return transcode_audio(name, data, audio)
        except AUDIO_ERRORS as error:
            raise _transcode_error(name, error, data) from error
    return name, data


def _transcode_error(name: str, error: Exception, data: bytes) -> SampleFailed:
    reason = " ".join(str(error).split()) or type(error).__name__
    if "cannot identify image file" in reason:  # Pillow prints the address of a buffer
        reason = explain_refusal(data)
    return SampleFailed(
        f"cannot transcode the part {name}: {reason}",
        hint="pass `--on-error keep` to copy such parts unchanged, or `--on-error skip` to skip their samples",
        code="WDS341",
    )


def transcode_image(name: str, data: bytes, options: ImageTranscodeOptions) -> tuple[str, bytes]:
    """Transcode an image; returns (new name of the part, encoded image).

    Without a target format, an image within `max_side` stays unchanged. Keeps color profiles. Orientation `apply`
    rotates the pixels and removes the EXIF tag, `keep` changes neither. JPEG replaces transparency by white. JPEG and
    WebP reduce 16-bit gray to 8 bits. Raises one of IMAGE_ERRORS for a damaged image, an animation, or more than
    MAX_IMAGE_PIXELS pixels.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged EXIF is dropped, large images fail below
        image: Image.Image = Image.open(image_file(data), formats=pillow_formats())
        if image.width * image.height > MAX_IMAGE_PIXELS:
            raise ValueError(f"the image has {image.width} x {image.height} pixels; {MAX_IMAGE_PIXELS:,} are allowed")
        correct_reading(image)
        side = options.max_side or max(image.size)
        if not options.format_name and max(image.size) <= side:
            return name, data
        format_name = options.format_name or _FORMAT_OF_PILLOW.get(image.format or "")
        if format_name is None:
            raise ValueError(f"cannot write the format {image.format}: choose another one, such as --image png")
        if image.format != "MPO" and getattr(image, "n_frames", 1) > 1:
            raise ValueError(f"it is an animation of {getattr(image, 'n_frames', 1)} frames")
        return image_name(name, options), _convert_image(image, data, format_name, side, options)


@retry_without_side_chunks
def picture_form(data: bytes) -> PictureForm:
    """Size and orientation of an image that `transcode_image` has read or written, from its header."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(image_file(data), formats=pillow_formats())
        return PictureForm(*stored_size(image), exif_orientation(image))


@retry_without_side_chunks
def image_mode(data: bytes) -> str:
    """Pillow's mode of an image, from its header: L, P, I;16 and F have one value per pixel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Image.open(image_file(data), formats=pillow_formats()).mode


def changed_picture_sizes(data: bytes, options: ImageTranscodeOptions) -> set[tuple[int, int]]:
    """(width, height) of an image as stored and as shown, if `transcode_image` would change more than the encoding;
    empty for one that it would not, or cannot read."""
    with warnings.catch_warnings(), suppress(*IMAGE_ERRORS):
        warnings.simplefilter("ignore")
        if _is_turned_or_resized(data, options):
            form = picture_form(data)
            return {form.size("stored"), form.size("shown")}
    return set()


@retry_without_side_chunks
def _is_turned_or_resized(data: bytes, options: ImageTranscodeOptions) -> bool:
    image = Image.open(image_file(data), formats=pillow_formats())
    is_resized = 0 < options.max_side < max(image.size)
    is_written = is_resized or bool(options.format_name)
    # Pillow always turns TIFF.
    is_turned = exif_orientation(image) != 1 and (options.orientation == "apply" or image.format == "TIFF")
    return is_resized or (is_written and is_turned)


@retry_without_side_chunks
def transcode_mask(data: bytes, change: PictureChange) -> bytes:
    """A PNG of ids after the change of its picture, with the ids and the palette of the file.

    Raises CannotFollow if it has another size than its picture, and IMAGE_ERRORS for a damaged file.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mask = Image.open(image_file(data), formats=pillow_formats())
        if mask.width * mask.height > MAX_IMAGE_PIXELS:
            raise ValueError(f"it has {mask.width} x {mask.height} pixels; {MAX_IMAGE_PIXELS:,} are allowed")
        load_completely(mask, data)
        pixels = change_mask(np.asarray(mask), change)
        changed = Image.fromarray(np.ascontiguousarray(pixels))
        if mask.mode == "P":
            changed.putpalette(mask.getpalette("RGB") or [], "RGB")
        metadata = {"transparency": mask.info["transparency"]} if "transparency" in mask.info else {}
        file = io.BytesIO()
        changed.save(file, "PNG", **metadata)
        return file.getvalue()


def _convert_image(
    image: Image.Image, data: bytes, image_format: str, side: int, options: ImageTranscodeOptions
) -> bytes:
    check_range(image)
    drops_channel = image_format == "jpeg" and has_unnamed_channel(image)
    profile, exif = image.info.get("icc_profile"), image.info.get("exif")
    if max(image.size) > side and options.format_name != "png" and is_scalable_jpeg(data):
        scale = side / max(image.size)
        image.draft(None, (max(1, round(image.width * scale)) * 2, max(1, round(image.height * scale)) * 2))
    load_completely(image, data)
    image = image.convert("RGB") if drops_channel else full_range_gray(image)
    if exif and not exif.startswith(_EXIF_PREFIX):  # WebP omits the prefix, JPEG needs it
        exif = _EXIF_PREFIX + exif
    if options.orientation == "apply":
        transpose = TRANSPOSE_OF_ORIENTATION.get(exif_orientation(image))  # `load` rotates TIFF, and removes its tag
        exif = _exif_without_orientation(image) if exif else None
        image = image.transpose(transpose) if transpose is not None else image
    image = _to_supported_mode(image, image_format)
    if max(image.size) > side:
        scale = side / max(image.size)
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        if image.mode in ("P", "1"):  # entries of a palette cannot be interpolated
            has_alpha = "transparency" in image.info
            image = image.convert("L" if image.mode == "1" else "RGBA" if has_alpha else "RGB")
        image = image.resize(size, Image.Resampling.LANCZOS)
    return _encode_image(image, image_format, options.quality, {"icc_profile": profile, "exif": exif})


def encode_picture(pixels: Image.Image | NDArray[Any], options: ImageTranscodeOptions) -> bytes:
    """Encode a picture, or an array of its pixels, in the format of `options`; keeps its color profile and EXIF.

    PNG keeps the pixels, up to 16 bits. Raises one of IMAGE_ERRORS.
    """
    image = pixels.copy() if isinstance(pixels, Image.Image) else Image.fromarray(np.ascontiguousarray(pixels))
    metadata = {"icc_profile": image.info.get("icc_profile"), "exif": image.info.get("exif")}
    return _encode_image(_to_supported_mode(image, options.format_name), options.format_name, options.quality, metadata)


def _encode_image(image: Image.Image, image_format: str, quality: int, metadata: dict[str, Any]) -> bytes:
    settings: dict[str, Any] = {name: value for name, value in metadata.items() if value}
    target = IMAGE_TARGETS[image_format]
    if target.quality:
        settings["quality"] = quality or target.quality
    if image_format == "png" and "transparency" in image.info:
        settings["transparency"] = image.info["transparency"]
    file = io.BytesIO()
    image.info = {}
    image.save(file, target.encoder, **settings)
    return file.getvalue()


def _to_supported_mode(image: Image.Image, image_format: str) -> Image.Image:
    """Convert the image to a mode that the format supports. The modes I;16 and I have 16 bits from black to white."""
    if image.mode in ("I;16B", "I;16L", "I"):  # of TIFF and PPM; Pillow converts them directly to 8 bits only
        image = image.convert("I").convert("I;16")
    if image_format == "png":
        png_modes = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
        is_other = image.mode not in png_modes
        return image.convert("RGBA" if image.mode in ("PA", "RGBa", "La") else "RGB") if is_other else image
    if image.mode == "I;16":
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    has_alpha = image.mode in ("LA", "PA", "RGBA", "RGBa", "La") or "transparency" in image.info
    if image_format == "webp":
        return image.convert("RGBA" if has_alpha else "RGB")
    if has_alpha:
        foreground = image.convert("RGBA")
        background = Image.new("RGBA", foreground.size, "white")
        return Image.alpha_composite(background, foreground).convert("RGB")
    return image if image.mode == "L" else image.convert("L" if image.mode == "1" else "RGB")


def _exif_without_orientation(image: Image.Image) -> bytes | None:
    """EXIF without the orientation; None if nothing remains, or it does not parse."""
    with suppress(*IMAGE_ERRORS):
        exif = image.getexif()
        exif.pop(ExifTags.Base.Orientation, None)
        return exif.tobytes() if len(exif) else None
    return None


def transcode_audio(name: str, data: bytes, options: AudioTranscodeOptions) -> tuple[str, bytes]:
    """Transcode audio; returns (new name of the part, encoded audio). Raises one of AUDIO_ERRORS.

    Keeps the channels. flac keeps up to 24 bits per audio sample, wav has 16.
    """
    encoded = io.BytesIO()
    with av.open(io.BytesIO(data), "r", container_options=CONTAINER_OPTIONS) as source:
        if not source.streams.audio:
            raise ValueError("it has no audio stream")
        cover = av.stream.Disposition.attached_pic
        if any(stream.type == "video" and not stream.disposition & cover for stream in source.streams):
            raise ValueError("it is a video, and --audio only transcodes audio files")
        source_stream = source.streams.audio[0]
        rate, target = _output_rate(source_stream.rate, options), AUDIO_TARGETS[options.format_name]
        with av.open(encoded, "w", format=target.readers[0], container_options={"fflags": "+bitexact"}) as dest:
            stream: Any = dest.add_stream(target.encoder, rate=rate)
            stream.codec_context.flags |= 1 << 23  # AV_CODEC_FLAG_BITEXACT: do not write FFmpeg's version
            stream.layout = source_stream.layout.name
            stream.format = _sample_format(options, source_stream.format.name)
            if options.format_name == "opus":
                stream.bit_rate = (options.kbit or 64) * 1000
            _copy_samples(source, source_stream, dest, stream, rate)
    return replace_extension(name, options.format_name), encoded.getvalue()


def _copy_samples(source: Any, source_stream: Any, dest: Any, stream: Any, rate: int) -> None:
    """Decode, resample and encode all audio. Raises ValueError for more than a day, or no audio at all."""
    resampler = av.AudioResampler(format=stream.format.name, layout=stream.layout.name, rate=rate)
    samples = 0
    for frame in decode_exact_frames(source, source_stream):
        samples += frame.samples
        if samples > _MAX_SECONDS * source_stream.rate:
            raise ValueError("it is longer than a day")
        frame.pts = None
        for resampled in resampler.resample(frame):
            dest.mux(stream.encode(resampled))
    for resampled in resampler.resample(None):
        dest.mux(stream.encode(resampled))
    dest.mux(stream.encode(None))
    if samples == 0:
        raise ValueError("not a single audio sample could be decoded")


def _output_rate(source_rate: int, options: AudioTranscodeOptions) -> int:
    if options.rate or options.format_name != "opus":
        return options.rate or source_rate
    return next((rate for rate in OPUS_RATES if rate >= source_rate), OPUS_RATES[-1])


def _sample_format(options: AudioTranscodeOptions, source_format: str) -> str:
    if options.format_name == "flac":
        return "s16" if source_format.startswith(("s16", "u8")) else "s32"
    return "s16" if options.format_name == "wav" else "flt"
