"""The decoder: from a part's name to the function that decodes its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from wdsctl.core.errors import UsageError
from wdsctl.core.sample_types import Kind
from wdsctl.core.sniff import sniff
from wdsctl.loader.decoding import custom, parts
from wdsctl.loader.decoding.custom import Decode, Decoders
from wdsctl.loader.decoding.guard import guarded, guarded_custom
from wdsctl.loader.decoding.images import image_dtype, image_function
from wdsctl.loader.decoding.limits import MAX_BYTES, MAX_PIXELS, refuse_packed_bomb
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.decoding.pillow import BAD_IMAGE
from wdsctl.loader.decoding.specs import IMAGE_SPECS, ImageOptions
from wdsctl.loader.decoding.threads import DecodeThreads, default_threads

#: How much of a part `guess_content` looks at.
HEAD_BYTES = 4096
AV_DECODE = ("AVDecoder", "torch", "pyav", None)


@dataclass(frozen=True, slots=True)
class SampleDecoder:
    """Which parts become what. `decoder = None` in a task encoder hands out all parts as bytes.

    `image_decode`, for jpg, png, webp, tiff and their fellows:

    - `rgb8`, `rgba8`: numpy uint8, (height, width, channels); `l8`: (height, width);
    - `torchrgb8`, `torchrgba8`: tensors, uint8, (channels, height, width); `torchl8`: (height, width);
    - the same with 16: uint16, 0 to 65535; with neither: float32 between 0 and 1;
    - `pil`: Pillow's image as it is; `pill`, `pilrgb`, `pilrgba`: converted to 8 bits, `pill16` to 16.

    PNG and TIFF of 16 bits a channel keep them, but for what is asked for in 8, which is scaled. `exif_orientation`
    turns images as the camera's mark says; without it they come as they are stored (TIFF is turned in any case, by
    Pillow). `min_side` allows JPEG to be decoded at 1/2, 1/4 or 1/8 of its size, the smallest of which the shorter side
    is still at least so many pixels; other formats, and smaller images, come whole.

    A tensor of an image is channels first in its shape and channels last in memory, as libjpeg writes it and as
    convolutions on a GPU like it; so is a batch of them (`torch.channels_last`). All of torch works on it but `view`
    over several dimensions: use `reshape`, or ask for `.contiguous()`.

    Other parts: txt, caption, srt, html, csv ... str · json parsed, jsonl a list · cls, id, index int · npy, npz numpy
    arrays · pth, pt what `torch.load(weights_only=True)` allows · msgpack, if that is installed. Everything
    else is handed out as bytes. Nothing is ever unpickled: pkl stays bytes.

    `av_decode`, for mp4, mkv, webm, wav, mp3 and their fellows: `AVDecoder`, a lazy decoder, for which nothing of the
    part is read before it is asked for something; `torch`, all frames or samples at once, as AVData, and of films the
    sound too if `video_decode_audio`; `pyav`, an open container, which is the user's to close and cannot leave the
    process; None, bytes.

    `guess_content` tells images, arrays and media by their first bytes and not by the part's name, for datasets whose
    names lie; text has no such mark and still goes by name.

    `decoders`: functions of your own, from bytes to a value, by name of a part (`seg.png`), its last extension (`png`)
    or content type (`image`, `video`, `audio`, `text`, `json`, `array`), in this order; or one function that is given
    the name of a part and returns what decodes it, or None. They are pure: no random numbers are seeded for them.
    `skip`: parts, by name or by the field that they are, that stay bytes.

    `max_pixels` is the largest image that is decoded, checked in the header; files that Pillow decodes are held to
    `PIL.Image.MAX_IMAGE_PIXELS` too. `max_bytes` is the largest part that is decoded, and the most that npz and pt may
    unpack to.

    `decode_threads`: how many threads decode the JPEG images of a batch, where this process does it (0 workers) and no
    hook or cooker runs on the samples; None: as many as there are processors, up to 4. Nothing but the time depends on
    it.
    """

    image_decode: str = "torchrgb"
    av_decode: str | None = "AVDecoder"
    video_decode_audio: bool = False
    guess_content: bool = False
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_BYTES
    exif_orientation: bool = False
    min_side: int | None = None
    decoders: Decoders | None = field(default=None, hash=False)
    skip: tuple[str, ...] = ()
    decode_threads: int | None = None

    def __post_init__(self) -> None:
        if self.image_decode not in IMAGE_SPECS:
            raise UsageError(
                f"image_decode={self.image_decode!r} is not known", hint=f"one of {', '.join(sorted(IMAGE_SPECS))}"
            )
        if self.max_pixels < 1:
            raise UsageError(f"max_pixels={self.max_pixels} allows no image", hint="leave it out for Pillow's limit")
        if self.max_bytes < 1:
            raise UsageError(f"max_bytes={self.max_bytes} allows no part", hint="leave it out for 1 GiB")
        if self.min_side is not None and self.min_side < 1:
            raise UsageError(f"min_side={self.min_side} is no size", hint="leave it out for whole images")
        if self.decode_threads is not None and self.decode_threads < 1:
            raise UsageError(f"decode_threads={self.decode_threads} decodes nothing", hint="1 is one thread")
        skip: Any = self.skip
        if isinstance(skip, str):
            raise UsageError(f"skip={skip!r} is one word", hint=f"give a tuple: skip=({skip!r},)")
        custom.check(self.decoders)
        if self.av_decode not in AV_DECODE:
            raise UsageError(
                f"av_decode={self.av_decode!r} is not known", hint=f"one of {', '.join(map(str, AV_DECODE))}"
            )

    def __call__(self, part: str, data: bytes) -> Any:
        """Decode one part. Raises SampleFailed with the part in `where`."""
        return self.function_for(part)(data)

    def function_for(
        self,
        part: str,
        memory: BatchMemory | None = None,
        kind: Kind = "any",
        field: str = "",
        threads: DecodeThreads | None = None,
    ) -> Decode:
        """The function for all parts of this name: found once, called for every sample.

        `kind` is what the field that takes the part holds: it decides where the name says nothing. `field` is that
        field. The function is `parts.as_bytes` itself where there is nothing to decode. With a memory of `memory_for`,
        images are decoded into it; with `threads`, when those run. The function raises SampleFailed with the part in
        `where`, FatalSampleError for what no other sample will cure; the caller knows the sample.
        """
        if self._is_skipped(part, field):
            return parts.as_bytes
        own = custom.by_name(self.decoders, part)
        if own is None and self.guess_content:
            return self._by_content(part, memory, threads)
        own = own or custom.by_content(self.decoders, parts.content_of(part, kind))
        return self._guarded_own(part, own) if own else self._by_name(part, memory, kind, threads)

    def memory_for(self, part: str, kind: Kind = "any", field: str = "") -> BatchMemory | None:
        """A place for the images of a batch, one a part and lane, or None where this part becomes no tensor."""
        is_own = custom.by_name(self.decoders, part) or custom.by_content(self.decoders, "image")
        if is_own or self._is_skipped(part, field) or self._images.spec.container != "torch":
            return None
        may_be_image = self.guess_content or parts.content_of(part, kind) == "image"
        return BatchMemory(image_dtype(self._images.spec)) if may_be_image else None

    def config(self) -> dict[str, Any]:
        """What is decided here, for the fingerprint of a plan: functions by their names."""
        config = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "decode_threads"}
        return {
            "type": "SampleDecoder",
            **config,
            "decoders": custom.config(self.decoders),
            "skip": list(self.skip),
        }

    def threads(self) -> DecodeThreads:
        """For the functions of one loader."""
        return DecodeThreads(self.decode_threads or default_threads())

    @property
    def _images(self) -> ImageOptions:
        spec = IMAGE_SPECS[self.image_decode]
        return ImageOptions(spec, self.max_pixels, self.exif_orientation, self.min_side or 0)

    def _is_skipped(self, part: str, field: str) -> bool:
        return part in self.skip or bool(field and field in self.skip)

    def _media(self, part: str) -> Decode:
        from wdsctl.loader.av.media_part import MediaPart

        return MediaPart(part, self.av_decode or "", self.video_decode_audio, self.max_pixels)

    def _guarded_own(self, part: str, function: Decode) -> Decode:
        return guarded_custom(part, function, self.max_bytes)

    def _by_name(
        self, part: str, memory: BatchMemory | None, kind: Kind = "any", threads: DecodeThreads | None = None
    ) -> Decode:
        ending, content = parts.extension(part), parts.content_of(part, kind)
        if content == "image":
            return guarded(part, image_function(self._images, memory, threads), BAD_IMAGE, self.max_bytes)
        if content in ("video", "audio") and self.av_decode is not None:
            return self._media(part)
        decode, errors = parts.DECODERS.get(ending, parts.TEXT if kind == "text" else (parts.as_bytes, ()))
        if kind == "integer" and decode in (parts.text, parts.as_bytes):
            decode, errors = parts.DECODERS["cls"]
        if decode in parts.PACKED:
            decode = partial(_unpacked, decode, self.max_bytes)
        return guarded(part, decode, errors, self.max_bytes) if errors else decode

    def _by_content(self, part: str, memory: BatchMemory | None, threads: DecodeThreads | None) -> Decode:
        image = guarded(part, image_function(self._images, memory, threads), BAD_IMAGE, self.max_bytes)
        arrays = {name: self._by_name(name, None) for name in ("npy", "npz")}
        own = {
            content: self._guarded_own(part, function)
            for content in ("image", "video", "audio", "text", "json", "array")
            if (function := custom.by_content(self.decoders, content))
        }
        media = self._media(part) if self.av_decode is not None else parts.as_bytes
        by_name = own.get(parts.content_of(part, "any")) or self._by_name(part, memory, threads=threads)

        def decode(data: bytes) -> Any:
            content = sniff(data[:HEAD_BYTES], len(data))
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


def _unpacked(decode: Decode, max_bytes: int, data: bytes) -> Any:
    refuse_packed_bomb(data, max_bytes)
    value = decode(data)
    parts.refuse_unwritten(value, max_bytes)
    return value
