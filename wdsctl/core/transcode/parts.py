"""The media of a sample as they are asked for: which parts are meant, and what they become."""

from __future__ import annotations

from collections.abc import Collection

from wdsctl.core.convert.part_rules import matches
from wdsctl.core.errors import InputError, SampleFailed
from wdsctl.core.transcode.options import IMAGES, SOUNDS, AudioOptions, ImageOptions, image_name, is_one, renamed


def means(name: str, options: ImageOptions | AudioOptions) -> bool:
    """Whether these options are of the part: it is named, or, where none is, named by its format alone."""
    if options.parts:
        return matches(name, options.parts)
    return is_one(name, IMAGES if isinstance(options, ImageOptions) else SOUNDS)


def unmet(names: Collection[str], image: ImageOptions | None, audio: AudioOptions | None) -> list[str]:
    """What is asked of images and sounds that are not among `names`, such as a name that was mistyped.

    `names`: of the parts that go along, as they are called then. Raises InputError WDS003 where parts are named, and
    none of them is there.
    """
    asked = [(f"--{flag}", options) for flag, options in (("image", image), ("audio", audio)) if options is not None]
    return [text for flag, options in asked for text in _unmet(names, flag, options)]


def _unmet(names: Collection[str], flag: str, options: ImageOptions | AudioOptions) -> list[str]:
    if not options.parts:
        is_image = isinstance(options, ImageOptions)
        said = f"{flag if options.form else '--max-side'} ({'jpg, png' if is_image else 'wav, mp3'}, ...)"
        return [] if any(means(name, options) for name in names) else [said]
    gone = [part for part in options.parts if not any(matches(name, (part,)) for name in names)]
    if len(gone) == len(options.parts):
        raise InputError(
            "no sample has a part that is to be written anew",
            where=f"{flag}-parts {','.join(gone)}",
            hint=f"the parts are {', '.join(sorted(names))}" if names else "`wdsctl inspect SOURCE` lists the parts",
            code="WDS003",
        )
    return [f"{flag}-parts {part}" for part in gone]


def written_name(name: str, image: ImageOptions | None, audio: AudioOptions | None) -> str:
    """What the part is called once it has been written anew: what `transcoded` will say, without reading it."""
    if image is not None and means(name, image):
        return image_name(name, image)
    if audio is not None and means(name, audio):
        return renamed(name, audio.form)
    return name


def transcoded(name: str, data: bytes, image: ImageOptions | None, audio: AudioOptions | None) -> tuple[str, bytes]:
    """The part written anew, or as it is where nothing is asked of it. Raises SampleFailed WDS341."""
    if image is not None and means(name, image):
        from wdsctl.core.transcode.image import BAD_IMAGE, transcode_image

        try:
            return transcode_image(name, data, image)
        except BAD_IMAGE as error:
            raise failed(name, "image", error) from error
    if audio is not None and means(name, audio):
        from wdsctl.core.transcode.audio import BAD_SOUND, transcode_audio

        try:
            return transcode_audio(name, data, audio)
        except BAD_SOUND as error:
            raise failed(name, "sound", error) from error
    return name, data


def failed(name: str, kind: str, error: Exception) -> SampleFailed:
    """What could not be written anew, and why."""
    words = " ".join(str(error).split()) or type(error).__name__
    if "cannot identify image file" in words:  # Pillow's own words are the address of a buffer
        words = "it is no image of a format that is read here"
    return SampleFailed(
        f"the {kind} {name} cannot be written anew: {words}",
        hint="`--on-error keep` leaves such parts as they are, `skip` leaves out their samples",
        code="WDS341",
    )
