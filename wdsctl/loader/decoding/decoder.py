"""The decoder: from a part's name to the function that decodes its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wdsctl.core.errors import SampleFailed, UsageError
from wdsctl.core.sample_types import Kind
from wdsctl.core.sniff import sniff
from wdsctl.loader.decoding import parts
from wdsctl.loader.decoding.images import image_dtype, image_function
from wdsctl.loader.decoding.limits import MAX_PIXELS
from wdsctl.loader.decoding.memory import BatchMemory
from wdsctl.loader.decoding.pillow import BAD_IMAGE
from wdsctl.loader.decoding.specs import IMAGE_SPECS, ImageSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    Decode = Callable[[bytes], Any]

#: How much of a part `guess_content` looks at.
HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SampleDecoder:
    """Which parts become what. `decoder = None` in a task encoder hands out all parts as bytes.

    `image_decode`, for jpg, png, webp, tiff and their fellows:

    - `rgb8`, `rgba8`: numpy uint8, (height, width, channels); `l8`: (height, width);
    - `torchrgb8`, `torchrgba8`: tensors, uint8, (channels, height, width); `torchl8`: (height, width);
    - the same without the 8: float32 between 0 and 1;
    - `pil`: Pillow's image as it is; `pill`, `pilrgb`, `pilrgba`: converted.

    A tensor of an image is channels first in its shape and channels last in memory, as libjpeg writes it and as
    convolutions on a GPU like it; so is a batch of them (`torch.channels_last`). All of torch works on it but `view`
    over several dimensions: use `reshape`, or ask for `.contiguous()`.

    Other parts: txt, caption, srt, html, csv ... str · json parsed, jsonl a list · cls, id, index int · npy, npz numpy
    arrays · pth, pt what `torch.load(weights_only=True)` allows. Audio and video are handed out as bytes, and so is
    everything else. Nothing is ever unpickled: pkl stays bytes.

    `guess_content` tells images, arrays and media by their first bytes and not by the part's name, for datasets whose
    names lie; text has no such mark and still goes by name. `max_pixels` is the largest image that is decoded, checked
    in the header; files that Pillow decodes are held to `PIL.Image.MAX_IMAGE_PIXELS` too.
    """

    image_decode: str = "torchrgb"
    guess_content: bool = False
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        if self.image_decode not in IMAGE_SPECS:
            raise UsageError(
                f"image_decode={self.image_decode!r} is not known", hint=f"one of {', '.join(sorted(IMAGE_SPECS))}"
            )
        if self.max_pixels < 1:
            raise UsageError(f"max_pixels={self.max_pixels} allows no image", hint="leave it out for Pillow's limit")

    def __call__(self, part: str, data: bytes) -> Any:
        """Decode one part. Raises SampleFailed with the part in `where`."""
        return self.function_for(part)(data)

    def function_for(self, part: str, memory: BatchMemory | None = None, kind: Kind = "any") -> Decode:
        """The function for all parts of this name: found once, called for every sample.

        `kind` is what the field that takes the part holds: it decides where the name says nothing. The function is
        `parts.as_bytes` itself where there is nothing to decode. With a memory of `memory_for`, images are decoded
        into it. The function raises SampleFailed with the part in `where`; the caller knows the sample.
        """
        if self.guess_content:
            return _guarded(part, self._by_content(part, memory), (*parts.BAD_ARRAY, *BAD_IMAGE))
        decode, errors = self._by_name(part, memory, kind)
        return _guarded(part, decode, errors) if errors else decode

    def memory_for(self, part: str, kind: Kind = "any") -> BatchMemory | None:
        """A place for the images of a batch, one a part and lane, or None where this part becomes no tensor."""
        may_be_image = self.guess_content or _is_image(parts.extension(part), kind)
        is_tensor = self._spec.container == "torch"
        return BatchMemory(image_dtype(self._spec)) if may_be_image and is_tensor else None

    def config(self) -> dict[str, Any]:
        """What is decided here, for the fingerprint of a plan."""
        return {
            "type": "SampleDecoder",
            "image_decode": self.image_decode,
            "guess_content": self.guess_content,
            "max_pixels": self.max_pixels,
        }

    @property
    def _spec(self) -> ImageSpec:
        return IMAGE_SPECS[self.image_decode]

    def _by_name(self, part: str, memory: BatchMemory | None, kind: Kind = "any") -> tuple[Decode, parts.Errors]:
        ending = parts.extension(part)
        if _is_image(ending, kind):
            return image_function(self._spec, self.max_pixels, memory), BAD_IMAGE
        if kind == "integer" and parts.DECODERS.get(ending, parts.TEXT) == parts.TEXT:
            return parts.DECODERS["cls"]
        return parts.DECODERS.get(ending, parts.TEXT if kind == "text" else (parts.as_bytes, ()))

    def _by_content(self, part: str, memory: BatchMemory | None) -> Decode:
        image = image_function(self._spec, self.max_pixels, memory)
        arrays: dict[str, Decode] = {"npy": parts.npy, "npz": parts.npz}
        by_name, _ = self._by_name(part, memory)

        def decode(data: bytes) -> Any:
            content = sniff(data[:HEAD_BYTES], len(data))
            if content.kind == "image":
                return image(data)
            if content.kind in ("video", "audio", "archive"):
                return data
            return arrays.get(content.format, by_name)(data)

        return decode


def _is_image(ending: str, kind: Kind) -> bool:
    return ending in parts.IMAGES or (kind == "image" and ending not in parts.DECODERS)


def _guarded(part: str, decode: Decode, errors: parts.Errors) -> Decode:
    def decode_part(data: bytes) -> Any:
        try:
            return decode(data)
        except errors as error:
            raise SampleFailed(
                f"part '{part}' cannot be decoded: {_in_words(error)}",
                where=f"part '{part}'",
                hint="repair or remove the file, or take the bytes as they are: decoder = None in the task encoder",
            ) from error

    return decode_part


def _in_words(error: Exception) -> str:
    """The first line: torch and numpy explain at length."""
    return (str(error) or type(error).__name__).splitlines()[0]
