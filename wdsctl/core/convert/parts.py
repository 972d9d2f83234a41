"""Decide which parts of a sample `convert` writes, under which names, and which of them it transcodes.

Pure functions of part names, without media libraries.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import InputError, OptionConflict, UsageError
from wdsctl.core.invocation import parse_part_names
from wdsctl.core.media.kinds import decodable_extensions, part_kind, transcode_targets
from wdsctl.core.options import as_tuple, option
from wdsctl.core.samples.naming import MASK_WORDS
from wdsctl.core.samples.types import BoxFormat

Pairs = tuple[tuple[str, str], ...]
Orientation = Literal["apply", "keep"]
Labels = Literal["scale", "keep"]

#: The target formats of transcoding, by their names in `--image` and `--audio`.
IMAGE_TARGETS = transcode_targets("image")
AUDIO_TARGETS = transcode_targets("audio")

_IMAGE_EXTENSIONS = decodable_extensions("image")
_AUDIO_EXTENSIONS = decodable_extensions("audio")
OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_KBIT = re.compile(r"([1-9][0-9]{0,2})k")


def parse_rename_parts(rename_part: Mapping[str, str] | Sequence[str]) -> Pairs:
    """Parse renames such as `png=image.png`, separated by commas, or a mapping. Raises UsageError."""
    return parse_renames(
        map("=".join, rename_part.items()) if isinstance(rename_part, Mapping) else as_tuple(rename_part)
    )


@dataclass(frozen=True, slots=True)
class PartRules:
    """The parts to keep (empty: all), to drop, and to rename. Names or patterns such as `*.png`."""

    keep: tuple[str, ...] = option(
        (),
        "Keep only these parts; patterns such as '*.png' are allowed.",
        name="parts",
        metavar="jpg,txt",
        parse=parse_part_names,
    )
    drop: tuple[str, ...] = option((), "Drop these parts.", name="drop_parts", metavar="json", parse=parse_part_names)
    rename: Pairs = option(
        (),
        "Rename a part (repeatable).",
        name="rename_part",
        metavar="OLD=NEW",
        is_repeatable=True,
        parse=parse_rename_parts,
        python_help="Old name -> new name of parts.",
    )


@dataclass(frozen=True, slots=True)
class ImageTranscodeOptions:
    """How to transcode images.

    `format_name`: a name in IMAGE_TARGETS; empty keeps the format. `quality`: 1 to 100; 0 for the format's default.
    `max_side`: pixels; 0 for no limit. `parts`: names or patterns; empty for parts whose name is only a format (`png`,
    but not `seg.png`, which may be a mask). `labels`: `scale` changes what is drawn on a picture with it. `box_format`:
    of boxes whose sample does not say; None if it is not known.
    """

    format_name: str = ""
    quality: int = 0
    max_side: int = 0
    orientation: Orientation = "apply"
    parts: tuple[str, ...] = ()
    labels: Labels = "scale"
    box_format: BoxFormat | None = None


@dataclass(frozen=True, slots=True)
class AudioTranscodeOptions:
    """How to transcode audio. `parts` as for images.

    `format_name`: a name in AUDIO_TARGETS. `kbit`: kbit/s of opus; 0 for 64. `rate`: Hz; 0 keeps the rate, except that
    opus takes the next rate that it supports.
    """

    format_name: str
    kbit: int = 0
    rate: int = 0
    parts: tuple[str, ...] = ()


def image_format_examples() -> str:
    """Return the formats that `--image` takes, with their default qualities: `jpeg:90, webp:80 or png`."""
    names = [f"{name}:{each.quality}" if each.quality else name for name, each in IMAGE_TARGETS.items()]
    *first, last = sorted(names, key=lambda name: ":" not in name)
    return f"{', '.join(first)} or {last}"


def parse_image(
    text: str,
    max_side: int = 0,
    orientation: Orientation = "apply",
    parts: tuple[str, ...] = (),
    labels: Labels = "scale",
    box_format: BoxFormat | None = None,
) -> ImageTranscodeOptions | None:
    """Parse `jpeg:90`, `webp` or `png`; None if neither a format nor `max_side` is given. Raises UsageError."""
    if max_side < 0:
        raise UsageError(f"--max-side {max_side}: expected 1 or more", hint="omit it for no limit")
    if box_format is not None and labels == "keep":
        raise OptionConflict(
            "--box-format changes nothing with --labels keep",
            options=("--box-format", "--labels"),
            are_exclusive=True,
            hint="omit one of the two options",
        )
    given = {
        "--image-parts": bool(parts),
        "--orientation": orientation != "apply",
        "--labels": labels != "scale",
        "--box-format": box_format is not None,
    }
    if not text:
        if not max_side and any(given.values()):
            name = next(each for each, is_given in given.items() if is_given)
            raise OptionConflict(
                f"{name} needs --image or --max-side",
                options=(name,),
                hint="add an image format, for example `--image jpeg:90`",
            )
        return ImageTranscodeOptions("", 0, max_side, orientation, parts, labels, box_format) if max_side else None
    name, colon, number = text.lower().partition(":")
    format_name = {"jpg": "jpeg"}.get(name, name)
    hint = f"write {image_format_examples()}"
    if format_name not in IMAGE_TARGETS:
        raise UsageError(f"--image: cannot write the format {name!r}", hint=hint)
    if (colon and not number.isdecimal()) or (number and not 1 <= int(number) <= 100):
        raise UsageError(f"--image: expected a quality from 1 to 100, found {number!r}", hint=hint)
    if number and not IMAGE_TARGETS[format_name].quality:
        raise UsageError(f"--image: {format_name} is lossless and has no quality", hint=f"write {format_name}")
    return ImageTranscodeOptions(format_name, int(number or 0), max_side, orientation, parts, labels, box_format)


def parse_audio(text: str, rate: int = 0, parts: tuple[str, ...] = ()) -> AudioTranscodeOptions | None:
    """Parse `flac`, `wav` or `opus:64k`; None for empty text. Raises UsageError."""
    if rate < 0:
        raise UsageError(f"--rate {rate}: expected 1 or more", hint="omit it to keep the rate")
    if not text:
        if rate or parts:
            raise OptionConflict(
                "--rate and --audio-parts need --audio",
                options=("--rate", "--audio-parts"),
                hint="add an audio format, for example `--audio flac --rate 16000`",
            )
        return None
    name, colon, number = text.lower().partition(":")
    hint = "write flac, wav or opus:64k"
    if name not in AUDIO_TARGETS:
        raise UsageError(f"--audio: cannot write the format {name!r}", hint=hint)
    match = _KBIT.fullmatch(number)
    if colon and (name != "opus" or not match or not 6 <= int(match[1]) <= 510):
        raise UsageError(f"--audio: cannot write {text!r}", hint=f"{hint}; opus bitrates are 6k to 510k")
    if name == "opus" and rate not in (0, *OPUS_RATES):
        raise UsageError(f"--rate: opus does not support {rate:,} Hz", hint="8000, 12000, 16000, 24000 or 48000")
    return AudioTranscodeOptions(name, int(match[1]) if match else 0, rate, parts)


def parse_renames(texts: Iterable[str]) -> Pairs:
    """Parse renames such as `png=image.png`, separated by commas. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in texts:
        for item in filter(None, text.split(",")):
            old, _, new = (word.strip().lstrip(".") for word in item.partition("="))
            if not old or not new or "/" in new or old in pairs:
                raise UsageError(
                    f"--rename-part: expected OLD=NEW, found {item!r}",
                    hint="write the old and the new name, for example --rename-part png=image.png",
                )
            pairs[old] = new
    return tuple(pairs.items())


def check_part_rules(rules: PartRules) -> None:
    """Raises UsageError for names that no part can have, and for two parts with the same new name."""
    for name in (*rules.keep, *rules.drop):
        if not name or "/" in name:
            raise UsageError(
                f"{name!r} is not the name of a part",
                hint="write what follows the first dot of a file name, for example jpg,txt",
            )
    new = [name for _, name in rules.rename]
    if len(set(new)) != len(new):
        raise UsageError(
            "two parts would get the same name", where="--rename-part", hint="use a different new name for each part"
        )


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a part is in the list, or matches a pattern such as `*.png`."""
    return any(name == pattern or ("*" in pattern and fnmatchcase(name, pattern)) for pattern in patterns)


@lru_cache(maxsize=10_000)
def renamed_part_name(rules: PartRules, name: str) -> str | None:
    """The name of a part in the destination, before transcoding; None if `rules` leave the part out."""
    if (rules.keep and not matches_any(name, rules.keep)) or matches_any(name, rules.drop):
        return None
    return dict(rules.rename).get(name, name)


@lru_cache(maxsize=10_000)
def find_renamed_parts(rules: PartRules, names: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """The renamed parts of a sample: (old name, whether another part of the sample gets the same new name)."""
    new_names = [(name, renamed_part_name(rules, name)) for name in names]
    return tuple(
        (name, any(other != name and other_new == new for other, other_new in new_names))
        for name, new in new_names
        if new not in (None, name)
    )


@lru_cache(maxsize=10_000)
def is_separated_part(name: str, media: tuple[str, ...]) -> bool:
    """Whether a part goes to the media dataset: `mp4` selects `mp4` and `left.mp4`; patterns select what they match."""
    return matches_any(name, media) or any("*" not in each and name.endswith(f".{each}") for each in media)


def is_selected_part(name: str, options: ImageTranscodeOptions | AudioTranscodeOptions) -> bool:
    """Whether to transcode a part: `options.parts` matches it or, if empty, its name is only a format."""
    if options.parts:
        return matches_any(name, options.parts)
    is_image = isinstance(options, ImageTranscodeOptions)
    return name.lower() in (_IMAGE_EXTENSIONS if is_image else _AUDIO_EXTENSIONS)


def transcoded_name(name: str, image: ImageTranscodeOptions | None, audio: AudioTranscodeOptions | None) -> str:
    """The name of a part after transcoding."""
    if image is not None and is_selected_part(name, image):
        return image_name(name, image)
    if audio is not None and is_selected_part(name, audio):
        return replace_extension(name, audio.format_name)
    return name


def image_name(name: str, options: ImageTranscodeOptions) -> str:
    """The name of an image after transcoding. An extension that fits the format stays: `jpeg` does not become `jpg`."""
    if not options.format_name or name.rpartition(".")[2].lower() in IMAGE_TARGETS[options.format_name].extensions:
        return name
    return replace_extension(name, IMAGE_TARGETS[options.format_name].extensions[0])


def replace_extension(name: str, extension: str) -> str:
    """`png` becomes `jpg`, `left.png` becomes `left.jpg`."""
    stem, dot, _ = name.rpartition(".")
    return f"{stem}{dot}{extension}"


def list_unmatched_options(
    names: Iterable[str],
    *,
    rules: PartRules = PartRules(),
    media: tuple[str, ...] = (),
    image: ImageTranscodeOptions | None = None,
    audio: AudioTranscodeOptions | None = None,
) -> list[str]:
    """The options that match no part, for example because a name is mistyped. `names`: all parts of the sources.

    Raises InputError WDS003 if none of the given `--image-parts` or `--audio-parts` matches, or if none is given and
    images or audio have other names, such as `left.png`.
    """
    names = list(names)
    new_names = {new for name in names if (new := renamed_part_name(rules, name)) is not None}
    patterns = (
        *(("--parts", pattern) for pattern in rules.keep),
        *(("--drop-parts", pattern) for pattern in rules.drop),
        *(("--rename-part", old) for old, _ in rules.rename),
    )
    unmatched = [f"{flag} {text}" for flag, text in patterns if not any(matches_any(name, (text,)) for name in names)]
    unmatched += [f"--media {each}" for each in media if not any(is_separated_part(n, (each,)) for n in new_names)]
    for flag, options in (("--image", image), ("--audio", audio)):
        if options is not None:
            unmatched += _unmatched_transcode_options(new_names, flag, options)
    return unmatched


def _unmatched_transcode_options(
    names: Collection[str], flag: str, options: ImageTranscodeOptions | AudioTranscodeOptions
) -> list[str]:
    if not options.parts:
        if any(is_selected_part(name, options) for name in names):
            return []
        kind = "image" if isinstance(options, ImageTranscodeOptions) else "audio"
        media = sorted(name for name in names if part_kind(name) == kind)
        others = [name for name in media if MASK_WORDS.isdisjoint(re.split(r"[^a-z]+", name.lower()))]
        if others:
            raise InputError(
                f"the names of the {kind} parts are more than a format, so which to re-encode must be said",
                where=flag if options.format_name else "--max-side",
                hint=f"add `--{kind}-parts {quote_shell_word(','.join(others[:5]))}`, without masks and other maps",
                code="WDS003",
            )
        examples = "jpg, png" if kind == "image" else "wav, mp3"
        return [f"{flag if options.format_name else '--max-side'} ({examples}, ...)"]
    missing = [part for part in options.parts if not any(matches_any(name, (part,)) for name in names)]
    if len(missing) == len(options.parts):
        raise InputError(
            "no sample has a part to transcode",
            where=f"{flag}-parts {','.join(missing)}",
            hint=f"the parts are {', '.join(sorted(names))}"
            if names
            else "run `wdsctl inspect SOURCE` to list the parts",
            code="WDS003",
        )
    return [f"{flag}-parts {part}" for part in missing]
