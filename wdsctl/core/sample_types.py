"""The sample types as facts: which fields each has and what they hold. No torch: detection needs them too.

The dataclasses themselves are in `wdsctl.loader.samples`; a test keeps the two in step.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["image", "video", "audio", "text", "integer", "number", "list", "object", "any"]


class Field(NamedTuple):
    """One field. `names` are the keys under which JSON usually holds it, the likeliest first."""

    name: str
    kind: Kind
    required: bool = True
    names: tuple[str, ...] = ()


CAPTION_NAMES = ("caption", "captions", "text", "description", "alt_text", "title", "prompt")
QUESTION_NAMES = ("question", "context", "query", "instruction", "prompt")
ANSWERS_NAMES = ("answers", "answer", "response", "label")

SAMPLE_TYPES: dict[str, tuple[Field, ...]] = {
    "CaptioningSample": (Field("image", "image"), Field("caption", "text", names=CAPTION_NAMES)),
    "ImageSample": (Field("image", "image"),),
    "ImageClassificationSample": (
        Field("image", "image"),
        Field("label", "integer", required=False, names=("label", "cls", "class_id", "category_id", "target")),
        Field("label_name", "text", required=False, names=("label_name", "class", "class_name", "category")),
    ),
    "TextSample": (Field("text", "text", names=("text", "content", "body", "document")),),
    "VQASample": (
        Field("image", "image"),
        Field("context", "text", names=QUESTION_NAMES),
        Field("answers", "any", required=False, names=ANSWERS_NAMES),
        Field("answer_weights", "list", required=False, names=("answer_weights",)),
    ),
    "MultiChoiceVQASample": (
        Field("image", "image"),
        Field("context", "text", names=QUESTION_NAMES),
        Field("choices", "list", required=False, names=("choices", "options")),
        Field("correct_choice_idx", "integer", required=False, names=("correct_choice_idx", "answer_idx", "correct")),
    ),
    "OCRSample": (
        Field("image", "image"),
        Field("text", "text", names=("text", "transcription", "ocr")),
        Field("block_boxes", "list", required=False, names=("block_boxes",)),
        Field("block_classes", "list", required=False, names=("block_classes",)),
        Field("block_text", "list", required=False, names=("block_text",)),
        Field("lines_boxes", "list", required=False, names=("lines_boxes",)),
        Field("lines_text", "list", required=False, names=("lines_text",)),
        Field("words_boxes", "list", required=False, names=("words_boxes",)),
        Field("words_text", "list", required=False, names=("words_text",)),
        Field("chars_boxes", "list", required=False, names=("chars_boxes",)),
        Field("chars_text", "list", required=False, names=("chars_text",)),
    ),
    "VQAOCRSample": (
        Field("image", "image"),
        Field("context", "text", names=QUESTION_NAMES),
        Field("text", "text", names=("text", "ocr", "transcription")),
        Field("answers", "any", required=False, names=ANSWERS_NAMES),
        Field("answer_weights", "list", required=False, names=("answer_weights",)),
        Field("words_boxes", "list", required=False, names=("words_boxes",)),
        Field("words_text", "list", required=False, names=("words_text",)),
    ),
    "InterleavedSample": (Field("sequence", "list", names=("sequence", "interleaved", "conversation")),),
    "SimilarityInterleavedSample": (
        Field("images", "list", names=("images",)),
        Field("texts", "list", names=("texts",)),
        Field("audio", "list", required=False, names=("audio",)),
        Field("video", "list", required=False, names=("video",)),
        Field("similarity_matrix", "list", required=False, names=("similarity_matrix",)),
        Field("matched_text_indices", "list", required=False, names=("matched_text_indices",)),
    ),
    "VidQASample": (
        Field("video", "video"),
        Field("context", "text", names=QUESTION_NAMES),
        Field("answers", "any", required=False, names=ANSWERS_NAMES),
        Field("answer_weights", "list", required=False, names=("answer_weights",)),
    ),
    "VideoSample": (
        Field("video", "video"),
        Field("text", "text", required=False, names=("text", "caption", "description", "transcript", "title")),
        Field("audio", "audio", required=False),
    ),
    "AudioSample": (
        Field("audio", "audio"),
        Field("text", "text", required=False, names=("text", "transcript", "transcription", "caption")),
    ),
}

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_OWN = re.compile(f"{_DOTTED}:{_DOTTED}")


#: The packages whose sample types are ours, wherever in them they stand.
_OURS = ("megatron.energon", "wdsctl")


def is_ours(module: str) -> bool:
    """Whether a module is Energon's or our own: what is named of it is looked up in a table, and not imported."""
    return any(module == each or module.startswith(f"{each}.") for each in _OURS)


def known_type(module: str, name: str) -> str:
    """Our name of a sample type that a module of Energon's or of ours has; empty for anything else of theirs."""
    return name if is_ours(module) and name in SAMPLE_TYPES else ""


def is_own(sample_type: str) -> bool:
    """Whether the name is that of somebody's own class, `module:Class`. What fields it has, only the class knows."""
    return bool(_OWN.fullmatch(sample_type))


#: What a dataset without a sample type hands out: a dict of its parts.
CRUDE = "CrudeSample"
