"""Values of sample types that are more than the parts: the media of a conversation go to their places in its messages,
boxes become an array, subtitles become text and segments, a medium is limited to its clip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wdsctl.core.errors import DatasetError, SampleFailed
from wdsctl.core.samples.boxes import read_boxes
from wdsctl.core.samples.clips import read_clip
from wdsctl.core.samples.conversations import normalize_conversation
from wdsctl.core.samples.documents import document_keys, normalize_document
from wdsctl.core.samples.preferences import normalize_preference
from wdsctl.core.samples.subtitles import is_subtitles, read_subtitles, spoken_text
from wdsctl.core.samples.types import BOX_FORMATS
from wdsctl.core.text import short_repr
from wdsctl.loader.runtime.failures import FatalSampleError
from wdsctl.loader.samples.base import Sample
from wdsctl.loader.samples.energon_types import InterleavedSample
from wdsctl.loader.samples.lazy_part import LazyPart
from wdsctl.loader.samples.types import (
    AudioSample,
    ConversationSample,
    DetectionSample,
    PreferenceSample,
    TranscriptionSample,
    VideoSample,
    VidQASample,
)

ComposeFields = Callable[[dict[str, Any]], dict[str, Any]]

_MEDIA_FIELDS = ("images", "videos", "audios")


def compose_function(kind: type[Sample]) -> ComposeFields | None:
    """The function from the values that a field map gives to the fields of a sample of this type; None if they are the
    same. It raises SampleFailed.
    """
    if issubclass(kind, ConversationSample):
        return _compose_conversation
    if issubclass(kind, PreferenceSample):
        return _compose_preference
    if issubclass(kind, InterleavedSample):
        return _compose_document
    if issubclass(kind, (AudioSample, TranscriptionSample, VideoSample)):
        return _compose_recording
    if issubclass(kind, VidQASample):
        return _limit_to_clip
    return _compose_detection if issubclass(kind, DetectionSample) else None


def compose_fields(kind: type[Sample], values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a sample of this type from values as a field map gives them. Raises SampleFailed."""
    compose = compose_function(kind)
    return values if compose is None else compose(values)


def _compose_conversation(values: dict[str, Any]) -> dict[str, Any]:
    images, videos, audios = (list(values.get(name) or ()) for name in _MEDIA_FIELDS)
    try:
        conversation = normalize_conversation(
            values["messages"], images=images, videos=videos, audios=audios, tools=values.get("tools")
        )
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error
    return {**values, "images": images, "videos": videos, "audios": audios, **conversation._asdict()}


def _compose_preference(values: dict[str, Any]) -> dict[str, Any]:
    images, videos, audios = (list(values.get(name) or ()) for name in _MEDIA_FIELDS)
    try:
        preference = normalize_preference(
            *(values[name] for name in ("prompt", "chosen", "rejected")),
            images=images,
            videos=videos,
            audios=audios,
            tools=values.get("tools"),
        )
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error
    return {**values, "images": images, "videos": videos, "audios": audios, **preference._asdict()}


def _compose_document(values: dict[str, Any]) -> dict[str, Any]:
    """A document gets its images. A list, and what else is no document, stays as it is if no images are mapped."""
    if "images" not in values and not document_keys(values["sequence"]):
        return values
    images = list(values.get("images") or ())
    try:
        return {**values, "sequence": normalize_document(values["sequence"], images), "images": images}
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error


def _compose_recording(values: dict[str, Any]) -> dict[str, Any]:
    return _limit_to_clip(_compose_subtitles(values))


def _limit_to_clip(values: dict[str, Any]) -> dict[str, Any]:
    """The decoders of video and audio become those of the clip. Bytes that are not decoded stay whole."""
    if values.get("clip") is None:
        return values
    composed = dict(values)
    try:
        clip = read_clip(values["clip"])
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error
    for name in ("video", "audio"):
        medium = values.get(name)
        limit = getattr(medium, "with_clip", None)
        if limit is not None:
            composed[name] = limit(clip)
        elif medium is not None and not isinstance(medium, (bytes, memoryview, LazyPart)):
            raise FatalSampleError(
                f"the samples have parts of files (clip), and {name} was decoded as a whole",
                where=f"field '{name}'",
                hint="use SampleDecoder(av_decode='AVDecoder') and get_video() or get_audio(), which return the part",
                code="WDS175",
            )
    return composed


def _compose_subtitles(values: dict[str, Any]) -> dict[str, Any]:
    """Text that is subtitles becomes what is spoken; segments that are subtitles become their cues."""
    composed = dict(values)
    try:
        for name, read in (("text", _spoken), ("segments", read_subtitles)):
            value = values.get(name)
            if isinstance(value, str) and is_subtitles(value):
                composed[name] = read(value)
            elif name == "segments" and isinstance(value, str) and not value.strip():
                composed[name] = []  # a file without cues
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error
    return composed


def _spoken(text: str) -> str:
    return spoken_text(read_subtitles(text))


def _compose_detection(values: dict[str, Any]) -> dict[str, Any]:
    box_format = values.get("box_format")
    if box_format is not None and box_format not in BOX_FORMATS:
        raise SampleFailed(
            f"unknown box_format {short_repr(box_format)}",
            hint=f"write one of {', '.join(BOX_FORMATS)}",
            code="WDS163",
        )
    try:
        return {**values, "boxes": read_boxes(values["boxes"])}
    except DatasetError as error:
        raise SampleFailed(error.message, hint=error.hint, code=error.code) from error
