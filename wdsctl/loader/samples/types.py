"""The built-in sample types, and the lookup of sample types by the names that dataset.yaml uses.

Media fields are `Any`, as their type depends on the decoder: see `SampleDecoder`. By default an image is a float32
tensor (3, height, width) between 0 and 1, and video and audio are an `AVDecoder`. `wdsctl.core.samples.types` describes
all fields.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from wdsctl.core.samples.types import SAMPLE_TYPES, SampleField
from wdsctl.loader.samples.base import BASE_FIELDS, Sample, edataclass, is_required
from wdsctl.loader.samples.energon_types import CaptioningSample as EnergonCaptioningSample
from wdsctl.loader.samples.energon_types import InterleavedSample as EnergonInterleavedSample


@edataclass
class CaptioningSample(EnergonCaptioningSample):
    """An image with a caption. `captions`: all captions of the image, if the field map names them."""

    captions: list[str] | None = None


@edataclass
class ImageSample(Sample):
    """An image."""

    image: Any


@edataclass
class ImageClassificationSample(Sample):
    """An image with the index of its class, its name, or both."""

    image: Any
    label: int | None = None
    label_name: str | None = None


@edataclass
class TextSample(Sample):
    """A text."""

    text: str


@edataclass
class VQASample(Sample):
    """An image with a question (`context`) and its answers."""

    image: Any
    context: str
    answers: Any = None
    answer_weights: list[float] | None = None


@edataclass
class MultiChoiceVQASample(Sample):
    """An image with a question (`context`), choices, and the index of the correct one."""

    image: Any
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int | None = None


@edataclass
class OCRSample(Sample):
    """An image with its text, and boxes and texts of blocks, lines, words and characters."""

    image: Any
    text: str
    block_boxes: Any = None
    block_classes: Any = None
    block_text: list[str] | None = None
    lines_boxes: Any = None
    lines_text: list[str] | None = None
    words_boxes: Any = None
    words_text: list[str] | None = None
    chars_boxes: Any = None
    chars_text: list[str] | None = None


@edataclass
class VQAOCRSample(Sample):
    """An image with a question (`context`), its answers, and the text and words in the image."""

    image: Any
    context: str
    text: str
    answers: Any = None
    answer_weights: list[float] | None = None
    words_boxes: Any = None
    words_text: list[str] | None = None


@edataclass
class InterleavedSample(EnergonInterleavedSample):
    """A sequence of texts and decoded images in order. `images`: the same images, if the field map names them."""

    images: list[Any] = dataclasses.field(default_factory=list)


@edataclass
class SimilarityInterleavedSample(Sample):
    """Images and texts of a document, with the text that matches each image."""

    images: list[Any]
    texts: list[str]
    audio: list[Any] | None = None
    video: list[Any] | None = None
    similarity_matrix: Any = None
    matched_text_indices: list[int] | None = None


@edataclass
class VidQASample(Sample):
    """A video with a question (`context`) and its answers. `clip`: as in a `VideoSample`."""

    video: Any
    context: str
    answers: Any = None
    answer_weights: list[float] | None = None
    clip: dict[str, float | None] | None = None


@edataclass
class VideoSample(Sample):
    """A video with a text. `audio`: a separate audio part; the audio stream of the video is read through `video`.

    `captions`: several texts of the whole video. `segments`: texts of parts of it, with their times, as the data has
    them. `clip`: the part of the file that the sample has, which `video` is limited to: start and end in seconds, or
    start_frame and end_frame.
    """

    video: Any
    text: str | None = None
    audio: Any = None
    captions: list[str] | None = None
    segments: list[Any] | None = None
    clip: dict[str, float | None] | None = None


@edataclass
class AudioSample(Sample):
    """Audio with a text, such as a transcript. `clip`: the part of the file that `audio` is limited to: start and end
    in seconds."""

    audio: Any
    text: str | None = None
    clip: dict[str, float | None] | None = None


@edataclass
class TranscriptionSample(Sample):
    """Speech with its transcript. `segments`: dicts with start and end in seconds, and text, as the data has them.
    `clip`: as in an `AudioSample`."""

    audio: Any
    text: str
    language: str | None = None
    speaker: str | None = None
    segments: list[Any] | None = None
    clip: dict[str, float | None] | None = None


@edataclass
class DetectionSample(Sample):
    """An image with boxes.

    `boxes`: a float32 array, (boxes, 4), even if empty; the default batch keeps one array per sample.
    `box_format`: what the four numbers are, as for `convert_boxes`; None if the data does not say. The other fields
    have one entry per box, and are as the data has them: `labels` (numbers or names), `label_names`, `masks` (polygons
    or run lengths), `is_crowd`, `areas`, `keypoints`.
    """

    image: Any
    boxes: Any
    box_format: str | None = None
    labels: list[Any] | None = None
    label_names: list[str] | None = None
    masks: list[Any] | None = None
    is_crowd: list[Any] | None = None
    areas: list[Any] | None = None
    keypoints: list[Any] | None = None


@edataclass
class SegmentationSample(Sample):
    """An image with a mask: an int32 tensor (height, width) of class or segment ids, as the file has them.

    `segments`: what the ids mean, as the data has it.
    """

    image: Any
    mask: Any
    segments: list[Any] | None = None


@edataclass
class ConversationSample(Sample):
    """A conversation, in the form that chat templates of Hugging Face take.

    `messages`: dicts with `role` (system, user, assistant or tool) and `content`, a list of
    `{"type": "text", "text": ...}` and `{"type": "image", "image": ...}` (video and audio alike) with the decoded media
    in their places. `images`, `videos` and `audios`: the same media in order. `tools`: the tools that the assistant may
    call, or None.
    """

    messages: list[dict[str, Any]]
    images: list[Any] = dataclasses.field(default_factory=list)
    videos: list[Any] = dataclasses.field(default_factory=list)
    audios: list[Any] = dataclasses.field(default_factory=list)
    tools: Any = None


@edataclass
class PreferenceSample(Sample):
    """A prompt with a chosen and a rejected answer, as for DPO.

    All three are messages as in a `ConversationSample`; the media are in the prompt.
    """

    prompt: list[dict[str, Any]]
    chosen: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    images: list[Any] = dataclasses.field(default_factory=list)
    videos: list[Any] = dataclasses.field(default_factory=list)
    audios: list[Any] = dataclasses.field(default_factory=list)
    tools: Any = None


#: The class of each built-in type, by the name that dataset.yaml uses.
SAMPLE_CLASSES: dict[str, type[Sample]] = {name: globals()[name] for name in SAMPLE_TYPES}


_custom_types: dict[str, type[Sample]] = {}
_factories: dict[str, Any] = {}


def admit_sample_type(name: str, kind: type[Sample], factory: Any = None) -> None:
    """Register a custom sample type that passed the trust check (`trust`). `factory`: the SampleFactory that has it."""
    _custom_types[name] = kind
    _factories[name] = factory


def find_sample_factory(name: str) -> Any:
    """The SampleFactory of an admitted sample type, or None."""
    return _factories.get(name)


def find_sample_type(name: str) -> type[Sample]:
    """The class of a built-in or admitted sample type. Imports nothing; raises KeyError for other names."""
    return SAMPLE_CLASSES.get(name) or _custom_types[name]


def sample_type_fields(name: str) -> tuple[SampleField, ...]:
    """The fields of a sample type without the base fields. Inherited fields keep the kind of the built-in type."""
    if name in SAMPLE_TYPES:
        return SAMPLE_TYPES[name]
    kind = find_sample_type(name)
    builtin = (each for each in kind.__mro__ if issubclass(SAMPLE_CLASSES.get(each.__name__, object), each))
    bases = (SAMPLE_TYPES.get(each.__name__, ()) for each in builtin)
    inherited = {field.name: field.kind for fields in bases for field in fields}
    return tuple(
        SampleField(field.name, inherited.get(field.name, "any"), required=is_required(field))
        for field in dataclasses.fields(kind)
        if field.name not in BASE_FIELDS and field.init
    )
