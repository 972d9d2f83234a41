"""What may be asked of images and sounds, as text and as values. No library of media is imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.errors import UsageError

ImageFormat = Literal["", "jpeg", "webp", "png"]
AudioFormat = Literal["flac", "wav", "opus"]
Orientation = Literal["apply", "keep"]

IMAGE_SUFFIX = {"jpeg": "jpg", "webp": "webp", "png": "png"}
#: What images and sounds are told by: the last word of a part's name.
IMAGES = frozenset(["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "gif", "ppm", "jp2", "avif"])
SOUNDS = frozenset(["wav", "flac", "mp3", "ogg", "opus", "m4a", "aac"])

_KBIT = re.compile(r"([1-9][0-9]{0,2})k")


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """`form`: empty for the format that the image has. `quality`: 0 for the format's usual. `max_side`: 0 for any.

    `parts`: which parts, by name or pattern; empty for those that are named by their format alone (`png`, not
    `seg.png`, which may be a mask).
    """

    form: ImageFormat = ""
    quality: int = 0
    max_side: int = 0
    orientation: Orientation = "apply"
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AudioOptions:
    """`kbit`: of opus, thousands of bits a second; 0 for 64. `rate`: samples a second; 0 for what it has."""

    form: AudioFormat
    kbit: int = 0
    rate: int = 0
    parts: tuple[str, ...] = ()


def parse_image(
    text: str, max_side: int = 0, orientation: Orientation = "apply", parts: tuple[str, ...] = ()
) -> ImageOptions | None:
    """`jpeg:90`, `webp`, `png`, or nothing with a `max_side`. Raises UsageError. None where nothing is asked for."""
    if not text:
        if (parts or orientation != "apply") and not max_side:
            name = "--image-parts" if parts else "--orientation"
            raise UsageError(f"{name} needs --image or --max-side", hint="such as `--image jpeg:90`")
        return ImageOptions("", 0, max_side, orientation, parts) if max_side else None
    name, colon, number = text.lower().partition(":")
    form = {"jpg": "jpeg"}.get(name, name)
    hint = "write jpeg:90, webp:80 or png"
    if form not in IMAGE_SUFFIX:
        raise UsageError(f"--image: there is no format {name!r} to write", hint=hint)
    if (colon and not number.isdecimal()) or (number and not 1 <= int(number) <= 100):
        raise UsageError(f"--image: expected a quality from 1 to 100, found {number!r}", hint=hint)
    if number and form == "png":
        raise UsageError("--image: png has no quality: it loses nothing", hint="write png")
    known: ImageFormat = "jpeg" if form == "jpeg" else "webp" if form == "webp" else "png"
    return ImageOptions(known, int(number or 0), max_side, orientation, parts)


def parse_audio(text: str, rate: int = 0, parts: tuple[str, ...] = ()) -> AudioOptions | None:
    """`flac`, `wav`, `opus:64k`. Raises UsageError. None where nothing is asked for."""
    if not text:
        if rate or parts:
            raise UsageError("--rate and --audio-parts need --audio", hint="such as `--audio flac --rate 16000`")
        return None
    name, colon, number = text.lower().partition(":")
    hint = "write flac, wav or opus:64k"
    if name not in ("flac", "wav", "opus"):
        raise UsageError(f"--audio: there is no format {name!r} to write", hint=hint)
    match = _KBIT.fullmatch(number)
    if colon and (name != "opus" or not match or not 6 <= int(match[1]) <= 510):
        raise UsageError(f"--audio: {text!r} cannot be written", hint=f"{hint}; of opus 6k to 510k")
    if name == "opus" and rate not in (0, 8000, 12000, 16000, 24000, 48000):
        raise UsageError(f"--rate: opus has no rate of {rate:,}", hint="8000, 12000, 16000, 24000 or 48000")
    form: AudioFormat = "flac" if name == "flac" else "wav" if name == "wav" else "opus"
    return AudioOptions(form, int(match[1]) if match else 0, rate, parts)


def renamed(name: str, suffix: str) -> str:
    """`png` as `jpg`, `left.png` as `left.jpg`."""
    stem, dot, _ = name.rpartition(".")
    return f"{stem}{dot}{suffix}"


def image_name(name: str, options: ImageOptions) -> str:
    """What an image is called once it is written anew. `jpeg` stays `jpeg`."""
    if not options.form or (options.form == "jpeg" and name.rpartition(".")[2].lower() in ("jpg", "jpeg")):
        return name
    return renamed(name, IMAGE_SUFFIX[options.form])


def is_one(name: str, suffixes: frozenset[str]) -> bool:
    """Whether a part is named by its format alone."""
    return name.lower() in suffixes
