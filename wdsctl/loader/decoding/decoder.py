"""`SampleDecoder`: the options of decoding, and the choice of the function that decodes a part."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.core.media.kinds import MAX_DECODABLE_BYTES, MAX_IMAGE_PIXELS
from wdsctl.core.media.sniff import sniff
from wdsctl.core.samples.stored_values import RAW_IMAGE_EXTENSION
from wdsctl.core.samples.types import FieldKind
from wdsctl.loader.decoding import guard, parts, pillow
from wdsctl.loader.decoding.guard import CustomDecoders, DecodeFunction, guard_custom_decode, guard_decode
from wdsctl.loader.decoding.images import (
    IMAGE_SPECS,
    ImageDecodeOptions,
    decode_mask,
    image_decode_function,
    image_dtype,
)
from wdsctl.loader.decoding.jpeg import DecodeThreads, default_threads
from wdsctl.loader.decoding.limits import check_unpacked_size
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.decoding.pillow import IMAGE_DECODE_ERRORS

SNIFF_BYTES = 4096  # of a part that `guess_content` reads
AV_DECODE_MODES = ("AVDecoder", "torch", "pyav", None)


@dataclass(frozen=True, slots=True)
class SampleDecoder:
    """Options of decoding parts. With `decoder = None` in a task encoder, all parts stay bytes.

    `image_decode`, for all image formats that the loader reads:

    - `rgb8`, `rgba8`: numpy uint8, (height, width, channels); `l8`: (height, width);
    - `torchrgb8`, `torchrgba8`: tensors, uint8, (channels, height, width); `torchl8`: (height, width);
    - with 16 instead of 8: uint16, 0 to 65535; without a number: float32, 0 to 1;
    - `pil`: Pillow's image unconverted; `pill`, `pilrgb`, `pilrgba`: converted to 8 bits, `pill16` to 16.

    A mask (of a SegmentationSample) is an int32 tensor (height, width) of the ids in the file, whatever `image_decode`
    says: gray values, indices of a palette, or of color images red + 256 green + 65,536 blue (COCO panoptic).

    16-bit PNG and TIFF keep 16 bits unless `image_decode` asks for 8; then they are scaled. `exif_orientation` turns
    images upright by EXIF; otherwise they stay as stored, except TIFF, which Pillow turns. None decides by
    dataset.yaml: images are turned if their labels are drawn on them so (`drawn_on: shown`); with `stored`, none is,
    TIFF neither. `min_side` decodes JPEG at the smallest of 1/2, 1/4 and 1/8 of its size whose shorter side has at
    least `min_side` pixels; other formats and smaller images keep their size. If dataset.yaml has `drawn_on`, boxes,
    masks and the like shrink with their image.

    Image tensors are channels first in shape and channels last in memory (`torch.channels_last` for batches), as
    libjpeg writes them and as GPU convolutions prefer. `view` over several dimensions fails on them: use `reshape` or
    `.contiguous()`.

    Other parts by extension: txt, caption, srt, html, csv and similar: str · json: parsed; jsonl: a list · cls, id,
    index: int · npy, npz: numpy arrays · pth, pt: what `torch.load(weights_only=True)` allows · msgpack, if installed.
    All others stay bytes, pkl too: nothing is unpickled. Values of shards in other formats (docs/in-place.md): int64,
    float32 and other types: a number; float32x3x4: an array of this shape; mdsarray, litarray, littensor: arrays.

    `av_decode`, for all video and audio formats that the loader reads: `AVDecoder`, a lazy decoder that reads nothing
    until a method is called; `torch`, all frames or samples as `AVData`, with `video_decode_audio` the audio of videos
    too; `pyav`, an open container, which the user closes and which cannot be sent to another process; None, bytes.

    `guess_content` recognises images, arrays and media by their first bytes instead of the part's name; text has no
    signature and still goes by name.

    `decoders`: own functions from bytes to a value, by part (`seg.png`), its last extension (`png`) or content type
    (`image`, `video`, `audio`, `text`, `json`, `array`), in this order; or one function from a part's name to such a
    function or None. They must be pure: no random numbers are seeded for them. `skip`: parts that stay bytes, by name
    or by the field that they fill.

    `max_pixels`: of an image, checked in its header; Pillow also applies `PIL.Image.MAX_IMAGE_PIXELS`. `max_bytes`: of
    a part, of what npz and pt unpack to, and of memory while an image is decoded: for `torchrgb` 15 bytes a pixel, for
    `torchrgb8` 10.

    `decode_threads`: threads that decode the JPEG images of a batch if this process decodes (0 workers) and no hook or
    cooker runs on samples; None: the number of processors, up to 4. Results do not depend on it.

    Raises UsageError for invalid options. Decoding raises SampleFailed (WDS503).
    """

    image_decode: str = "torchrgb"
    av_decode: str | None = "AVDecoder"
    video_decode_audio: bool = False
    guess_content: bool = False
    max_pixels: int = MAX_IMAGE_PIXELS
    max_bytes: int = MAX_DECODABLE_BYTES
    exif_orientation: bool | None = None
    min_side: int | None = None
    decoders: CustomDecoders | None = field(default=None, hash=False)
    skip: tuple[str, ...] = ()
    decode_threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("decode", "__call__"):  # `decode` is Energon's
            if getattr(type(self), name, None) is not getattr(SampleDecoder, name, None):
                raise UsageError(
                    f"{type(self).__name__} defines {name}, which loaders do not call",
                    hint="pass functions in SampleDecoder(decoders=...): for a part, an extension, or any part by name",
                )
        if self.image_decode not in IMAGE_SPECS:
            raise UsageError(
                f"image_decode={self.image_decode!r} is not supported",
                hint=f"use one of {', '.join(sorted(IMAGE_SPECS))}",
            )
        if self.max_pixels < 1:
            raise UsageError(
                f"max_pixels={self.max_pixels}: expected 1 or more", hint="omit max_pixels for Pillow's limit"
            )
        if self.max_bytes < 1:
            raise UsageError(
                f"max_bytes={self.max_bytes}: expected 1 or more", hint="omit max_bytes for the limit of 1 GiB"
            )
        if self.min_side is not None and self.min_side < 1:
            raise UsageError(f"min_side={self.min_side}: expected 1 or more", hint="omit min_side for full-size images")
        if self.decode_threads is not None and self.decode_threads < 1:
            raise UsageError(f"decode_threads={self.decode_threads}: expected 1 or more", hint="pass 1 for one thread")
        skip: Any = self.skip
        if isinstance(skip, str):
            raise UsageError(f"skip={skip!r} is not a tuple", hint=f"pass skip=({skip!r},)")
        guard.check_decoders(self.decoders)
        if self.av_decode not in AV_DECODE_MODES:
            raise UsageError(
                f"av_decode={self.av_decode!r} is not supported",
                hint=f"use one of {', '.join(map(str, AV_DECODE_MODES))}",
            )

    def __call__(self, part: str, data: bytes) -> Any:
        """Decode one part. Raises SampleFailed with the part in `where`."""
        return self.function_for(part)(data)

    def function_for(
        self,
        part: str,
        memory: BatchMemory | None = None,
        kind: FieldKind = "any",
        field: str = "",
        threads: DecodeThreads | None = None,
        *,
        upright: bool | None = None,
    ) -> DecodeFunction:
        """The function that decodes all parts of this name: chosen once, called per sample.

        `kind` is the kind of the field that takes the part, and decides if the extension is unknown; `field` is its
        name; `upright` replaces `exif_orientation`. Returns `parts.decode_raw` itself if there is nothing to decode.
        Images are decoded into `memory` (from `memory_for`), and with `threads` when these run. The function raises
        SampleFailed with the part in `where`, and FatalSampleError for what would fail for every sample; the caller
        adds the sample.
        """
        options = self._image_options if upright is None else self._image_options._replace(exif_orientation=upright)
        if self.is_skipped(part, field):
            return parts.decode_raw
        own = guard.find_by_name(self.decoders, part)
        if own is None and self.guess_content and kind != "mask":
            return self._function_by_content(part, memory, kind, threads, options)
        own = own or guard.find_by_content(self.decoders, parts.part_content_type(part, kind))
        return self._guard_custom(part, own) if own else self._function_by_name(part, memory, kind, threads, options)

    def memory_for(self, part: str, kind: FieldKind = "any", field: str = "") -> BatchMemory | None:
        """Memory for the images of a batch, one per part and lane; None if this part does not become a tensor."""
        is_own = guard.find_by_name(self.decoders, part) or guard.find_by_content(self.decoders, "image")
        if is_own or kind == "mask" or self.is_skipped(part, field) or self._image_options.spec.container != "torch":
            return None
        may_be_image = self.guess_content or parts.part_content_type(part, kind) == "image"
        return BatchMemory(image_dtype(self._image_options.spec)) if may_be_image else None

    def config(self) -> dict[str, Any]:
        """The options that decide results, for the plan's fingerprint. Functions are given by name."""
        config = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "decode_threads"}
        return {
            "type": "SampleDecoder",
            **config,
            "exif_orientation": bool(self.exif_orientation),  # dataset.yaml is in the fingerprint, too
            "decoders": guard.custom_decoders_config(self.decoders),
            "skip": list(self.skip),
        }

    def may_reduce(self, part: str, kind: FieldKind, field: str) -> bool:
        """Whether `min_side` applies to a part: not if it is skipped, has a decoder of the user's, or is no file."""
        is_file = parts.last_extension(part) != RAW_IMAGE_EXTENSION
        return is_file and not (self.is_skipped(part, field) or self.has_custom_decoder(part, kind))

    def has_custom_decoder(self, part: str, kind: FieldKind) -> bool:
        content = parts.part_content_type(part, kind)
        return bool(guard.find_by_name(self.decoders, part) or guard.find_by_content(self.decoders, content))

    def is_skipped(self, part: str, field: str) -> bool:
        return part in self.skip or bool(field and field in self.skip)

    def image_sizes(self, data: bytes, *, upright: bool) -> tuple[tuple[int, int], tuple[int, int]]:
        """(width, height) of an image in its file, and decoded. Raises what Pillow does for a bad header."""
        width, height, factor = pillow.reduced_size(data, self._image_options)
        full, size = (width, height), (-(-width // factor), -(-height // factor))
        if factor > 1 and upright and pillow.jpeg_orientation(data) >= 5:
            return full[::-1], size[::-1]
        return full, size

    def make_threads(self) -> DecodeThreads:
        """The threads that the functions of one loader share."""
        return DecodeThreads(self.decode_threads or default_threads())

    @property
    def _image_options(self) -> ImageDecodeOptions:
        spec = IMAGE_SPECS[self.image_decode]
        return ImageDecodeOptions(
            spec, self.max_pixels, self.exif_orientation or None, self.min_side or 0, max_bytes=self.max_bytes
        )

    def _media_function(self, part: str) -> DecodeFunction:
        from wdsctl.loader.decoding.av.decoder import MediaPartDecoder

        return MediaPartDecoder(part, self.av_decode or "", self.video_decode_audio, self.max_pixels)

    def _guard_custom(self, part: str, function: DecodeFunction) -> DecodeFunction:
        return guard_custom_decode(part, function, self.max_bytes)

    def _function_by_name(
        self,
        part: str,
        memory: BatchMemory | None,
        kind: FieldKind,
        threads: DecodeThreads | None,
        options: ImageDecodeOptions,
    ) -> DecodeFunction:
        ending, content = parts.last_extension(part), parts.part_content_type(part, kind)
        if content == "image":
            decode_image = parts.with_raw_images(part, image_decode_function(options, memory, threads))
            return guard_decode(part, decode_image, IMAGE_DECODE_ERRORS, self.max_bytes)
        if content == "mask":
            decode_ids = parts.with_raw_images(part, partial(decode_mask, options=options))
            return guard_decode(part, decode_ids, IMAGE_DECODE_ERRORS, self.max_bytes)
        if content in ("video", "audio") and self.av_decode is not None:
            return self._media_function(part)
        unknown: parts.Decoder = parts.TEXT_DECODER if kind == "text" else (parts.decode_raw, ())
        decode, errors = parts.find_decoder(ending) or unknown
        if kind == "integer" and decode in (parts.decode_text, parts.decode_raw):
            decode, errors = parts.DECODER_BY_EXTENSION["cls"]
        if decode in parts.ARCHIVE_DECODERS:
            decode = partial(_decode_archive, decode, self.max_bytes)
        return guard_decode(part, decode, errors, self.max_bytes) if errors else decode

    def _function_by_content(
        self,
        part: str,
        memory: BatchMemory | None,
        kind: FieldKind,
        threads: DecodeThreads | None,
        options: ImageDecodeOptions,
    ) -> DecodeFunction:
        image = guard_decode(part, image_decode_function(options, memory, threads), IMAGE_DECODE_ERRORS, self.max_bytes)
        arrays = {name: self._function_by_name(name, None, "any", None, options) for name in ("npy", "npz")}
        own = {
            content: self._guard_custom(part, function)
            for content in ("image", "video", "audio", "text", "json", "array")
            if (function := guard.find_by_content(self.decoders, content))
        }
        media = self._media_function(part) if self.av_decode is not None else parts.decode_raw
        by_name = own.get(parts.part_content_type(part, kind)) or self._function_by_name(
            part, memory, kind, threads, options
        )

        def decode(data: bytes) -> Any:
            content = sniff(data[:SNIFF_BYTES], len(data))
            if content.kind in own and content.kind not in ("text", "json"):
                return own[content.kind](data)
            if content.kind == "image":
                return image(data)
            if content.kind in ("video", "audio"):
                return media(data)
            if content.kind == "archive":
                return data
            return arrays.get(content.format, by_name)(data)

        return decode


def _decode_archive(decode: DecodeFunction, max_bytes: int, data: bytes) -> Any:
    check_unpacked_size(data, max_bytes)
    value = decode(data)
    parts.check_tensor_sizes(value, max_bytes)
    return value
