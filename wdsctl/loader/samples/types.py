"""The sample types. `wdsctl.core.sample_types` says what each field holds; what arrives depends on the decoder.

An `image` is a tensor, an array, a PIL image or bytes, as `SampleDecoder.image_decode` says: hence `Any`.
"""

from __future__ import annotations

from typing import Any

from wdsctl.loader.samples.base import Sample
from wdsctl.loader.samples.edataclass import edataclass


@edataclass
class CaptioningSample(Sample):
    image: Any
    caption: str


@edataclass
class ImageSample(Sample):
    image: Any


@edataclass
class ImageClassificationSample(Sample):
    image: Any
    label: int | None = None
    label_name: str | None = None


@edataclass
class TextSample(Sample):
    text: str


@edataclass
class VQASample(Sample):
    image: Any
    context: str
    answers: Any = None
    answer_weights: list[float] | None = None


@edataclass
class MultiChoiceVQASample(Sample):
    image: Any
    context: str
    choices: list[str] | None = None
    correct_choice_idx: int | None = None


@edataclass
class OCRSample(Sample):
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
    image: Any
    context: str
    text: str
    answers: Any = None
    answer_weights: list[float] | None = None
    words_boxes: Any = None
    words_text: list[str] | None = None


@edataclass
class InterleavedSample(Sample):
    sequence: list[Any]


@edataclass
class SimilarityInterleavedSample(Sample):
    images: list[Any]
    texts: list[str]
    audio: list[Any] | None = None
    video: list[Any] | None = None
    similarity_matrix: Any = None
    matched_text_indices: list[int] | None = None


@edataclass
class VidQASample(Sample):
    video: Any
    context: str
    answers: Any = None
    answer_weights: list[float] | None = None


@edataclass
class VideoSample(Sample):
    """`audio`: a sound that lies beside the video; the one in it comes with the video."""

    video: Any
    text: str | None = None
    audio: Any = None


@edataclass
class AudioSample(Sample):
    audio: Any
    text: str | None = None


#: By the names that dataset.yaml uses.
TYPES: dict[str, type[Sample]] = {
    kind.__name__: kind
    for kind in (
        CaptioningSample,
        ImageSample,
        ImageClassificationSample,
        TextSample,
        VQASample,
        MultiChoiceVQASample,
        OCRSample,
        VQAOCRSample,
        InterleavedSample,
        SimilarityInterleavedSample,
        VidQASample,
        VideoSample,
        AudioSample,
    )
}
