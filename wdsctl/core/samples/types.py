"""The sample types as data: their fields and the kinds of values. Without torch, since detection needs them, too.

The dataclasses themselves are in `wdsctl.loader.samples`; a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

#: `mask`: an image of ids. `images`, `videos` and `audios` are lists of media, each a part of the sample.
FieldKind = Literal[
    "image", "video", "audio", "mask", "images", "videos", "audios",
    "text", "integer", "number", "list", "object", "any",
]  # fmt: skip

#: What the four numbers of a box are, in pixels: `xywh` is left, top, width, height (COCO); `xyxy` left, top, right,
#: bottom (Pascal VOC, torchvision); `cxcywh` the center, width, height. The numbers of `normalized_` formats are shares
#: of the image's width and height (YOLO: normalized_cxcywh).
BoxFormat = Literal["xywh", "xyxy", "cxcywh", "normalized_xywh", "normalized_xyxy", "normalized_cxcywh"]
BOX_FORMATS: tuple[BoxFormat, ...] = get_args(BoxFormat)

#: Kinds of lists of media -> the kind of their items.
MEDIA_LIST_KINDS: dict[str, Literal["image", "video", "audio"]] = {
    "images": "image",
    "videos": "video",
    "audios": "audio",
}


#: What labels are drawn on: the picture as viewers show it, turned by EXIF, or the pixels as the file stores them.
DrawnOn = Literal["shown", "stored"]
DRAWN_ON: tuple[DrawnOn, ...] = get_args(DrawnOn)

GeometryKind = Literal["boxes", "polygons", "keypoints", "areas"]

#: Fields of sample types with geometry in JSON -> its kind. A field of the kind `mask` has geometry, too.
GEOMETRY_FIELDS: dict[str, GeometryKind] = {
    "boxes": "boxes",
    "masks": "polygons",
    "keypoints": "keypoints",
    "areas": "areas",
    **dict.fromkeys(("block_boxes", "lines_boxes", "words_boxes", "chars_boxes"), "boxes"),
}


class SampleField(NamedTuple):
    """One field. `json_names`: the keys under which JSON usually holds it, the likeliest first."""

    name: str
    kind: FieldKind
    required: bool = True
    json_names: tuple[str, ...] = ()


CAPTION_NAMES = ("caption", "captions", "text", "description", "alt_text", "title", "prompt")
QUESTION_NAMES = ("question", "context", "query", "instruction", "prompt")
TRANSCRIPT_NAMES = ("transcript", "transcription", "text", "sentence", "lab", "normalized_text")
#: The part of the file that a sample has. `clip_range`: where a column of a table has the other name.
CLIP_FIELD = SampleField("clip", "object", required=False, json_names=("clip", "clip_range"))

ANSWERS_NAMES = ("answers", "answer", "response", "label")

SAMPLE_TYPES: dict[str, tuple[SampleField, ...]] = {
    "CaptioningSample": (
        SampleField("image", "image"),
        SampleField("caption", "text", json_names=CAPTION_NAMES),
        SampleField("captions", "list", required=False, json_names=("captions", "caption")),
    ),
    "ImageSample": (SampleField("image", "image"),),
    "ImageClassificationSample": (
        SampleField("image", "image"),
        SampleField(
            "label", "integer", required=False, json_names=("label", "cls", "class_id", "category_id", "target")
        ),
        SampleField("label_name", "text", required=False, json_names=("label_name", "class", "class_name", "category")),
    ),
    "TextSample": (SampleField("text", "text", json_names=("text", "content", "body", "document")),),
    "VQASample": (
        SampleField("image", "image"),
        SampleField("context", "text", json_names=QUESTION_NAMES),
        SampleField("answers", "any", required=False, json_names=ANSWERS_NAMES),
        SampleField("answer_weights", "list", required=False, json_names=("answer_weights",)),
    ),
    "MultiChoiceVQASample": (
        SampleField("image", "image"),
        SampleField("context", "text", json_names=QUESTION_NAMES),
        SampleField("choices", "list", required=False, json_names=("choices", "options")),
        SampleField(
            "correct_choice_idx", "integer", required=False, json_names=("correct_choice_idx", "answer_idx", "correct")
        ),
    ),
    "OCRSample": (
        SampleField("image", "image"),
        SampleField("text", "text", json_names=("text", "transcription", "ocr")),
        SampleField("block_boxes", "list", required=False, json_names=("block_boxes",)),
        SampleField("block_classes", "list", required=False, json_names=("block_classes",)),
        SampleField("block_text", "list", required=False, json_names=("block_text",)),
        SampleField("lines_boxes", "list", required=False, json_names=("lines_boxes",)),
        SampleField("lines_text", "list", required=False, json_names=("lines_text",)),
        SampleField("words_boxes", "list", required=False, json_names=("words_boxes",)),
        SampleField("words_text", "list", required=False, json_names=("words_text",)),
        SampleField("chars_boxes", "list", required=False, json_names=("chars_boxes",)),
        SampleField("chars_text", "list", required=False, json_names=("chars_text",)),
    ),
    "VQAOCRSample": (
        SampleField("image", "image"),
        SampleField("context", "text", json_names=QUESTION_NAMES),
        SampleField("text", "text", json_names=("text", "ocr", "transcription")),
        SampleField("answers", "any", required=False, json_names=ANSWERS_NAMES),
        SampleField("answer_weights", "list", required=False, json_names=("answer_weights",)),
        SampleField("words_boxes", "list", required=False, json_names=("words_boxes",)),
        SampleField("words_text", "list", required=False, json_names=("words_text",)),
    ),
    "InterleavedSample": (
        SampleField("sequence", "list", json_names=("sequence", "interleaved", "conversation")),
        SampleField("images", "images", required=False),
    ),
    "SimilarityInterleavedSample": (
        SampleField("images", "list", json_names=("images",)),
        SampleField("texts", "list", json_names=("texts",)),
        SampleField("audio", "list", required=False, json_names=("audio",)),
        SampleField("video", "list", required=False, json_names=("video",)),
        SampleField("similarity_matrix", "list", required=False, json_names=("similarity_matrix",)),
        SampleField("matched_text_indices", "list", required=False, json_names=("matched_text_indices",)),
    ),
    "VidQASample": (
        SampleField("video", "video"),
        SampleField("context", "text", json_names=QUESTION_NAMES),
        SampleField("answers", "any", required=False, json_names=ANSWERS_NAMES),
        SampleField("answer_weights", "list", required=False, json_names=("answer_weights",)),
        CLIP_FIELD,
    ),
    "VideoSample": (
        SampleField("video", "video"),
        SampleField(
            "text", "text", required=False, json_names=("text", "caption", "description", "transcript", "title")
        ),
        SampleField("audio", "audio", required=False),
        SampleField("captions", "list", required=False, json_names=("captions", "caption")),
        SampleField("segments", "list", required=False, json_names=("segments",)),
        CLIP_FIELD,
    ),
    "AudioSample": (
        SampleField("audio", "audio"),
        SampleField(
            "text",
            "text",
            required=False,
            json_names=("text", "transcript", "transcription", "sentence", "lab", "caption"),
        ),
        CLIP_FIELD,
    ),
    "TranscriptionSample": (
        SampleField("audio", "audio"),
        SampleField("text", "text", json_names=TRANSCRIPT_NAMES),
        SampleField("language", "text", required=False, json_names=("language", "lang", "locale")),
        SampleField("speaker", "text", required=False, json_names=("speaker", "speaker_id", "spk_id", "client_id")),
        SampleField("segments", "list", required=False, json_names=("segments",)),
        CLIP_FIELD,
    ),
    "DetectionSample": (
        SampleField("image", "image"),
        SampleField("boxes", "list", json_names=("boxes", "bboxes", "bbox")),
        SampleField("box_format", "text", required=False, json_names=("box_format", "bbox_format")),
        SampleField("labels", "list", required=False, json_names=("labels", "category_ids", "category_id", "classes")),
        SampleField("label_names", "list", required=False, json_names=("label_names", "category_names", "category")),
        SampleField("masks", "list", required=False, json_names=("masks", "segmentations", "segmentation")),
        SampleField("is_crowd", "list", required=False, json_names=("is_crowd", "iscrowd")),
        SampleField("areas", "list", required=False, json_names=("areas", "area")),
        SampleField("keypoints", "list", required=False, json_names=("keypoints",)),
    ),
    "SegmentationSample": (
        SampleField("image", "image"),
        SampleField("mask", "mask"),
        SampleField("segments", "list", required=False, json_names=("segments", "segments_info")),
    ),
    "ConversationSample": (
        SampleField("messages", "any", json_names=("messages", "conversations", "conversation", "texts")),
        SampleField("images", "images", required=False),
        SampleField("videos", "videos", required=False),
        SampleField("audios", "audios", required=False),
        SampleField("tools", "any", required=False),
    ),
    "PreferenceSample": (
        SampleField("prompt", "any"),
        SampleField("chosen", "any", json_names=("chosen",)),
        SampleField("rejected", "any", json_names=("rejected",)),
        SampleField("images", "images", required=False),
        SampleField("videos", "videos", required=False),
        SampleField("audios", "audios", required=False),
        SampleField("tools", "any", required=False),
    ),
}

_DOTTED_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_CUSTOM_TYPE = re.compile(f"{_DOTTED_NAME}:{_DOTTED_NAME}")


#: Packages whose sample types are built in, in any of their modules.
_BUILTIN_PACKAGES = ("megatron.energon", "wdsctl")


def is_builtin_module(module: str) -> bool:
    """Whether a module belongs to Energon or wdsctl. Their sample types come from a table, without an import."""
    return any(module == each or module.startswith(f"{each}.") for each in _BUILTIN_PACKAGES)


def builtin_sample_type(module: str, name: str) -> str:
    """Return the built-in sample type that `module` and `name` refer to; empty if they refer to another object."""
    return name if is_builtin_module(module) and name in SAMPLE_TYPES else ""


def is_custom_type(sample_type: str) -> bool:
    """Whether the name has the form `module:Class`, that of a user's class. Only the class knows its fields."""
    return bool(_CUSTOM_TYPE.fullmatch(sample_type))


#: The type of samples in a dataset without a sample type: a dict of the parts.
CRUDE = "CrudeSample"

#: The types of which some fields are composed of several values of the field map: see `wdsctl.loader.compose_fields`.
COMPOSED_TYPES = (
    *("ConversationSample", "PreferenceSample", "DetectionSample"),
    *("AudioSample", "TranscriptionSample", "VideoSample", "VidQASample", "InterleavedSample"),
)


def has_geometry(fields: Iterable[str]) -> bool:
    """Whether mapped fields include what is drawn on a picture: boxes, polygons, keypoints or a mask."""
    return any(name in GEOMETRY_FIELDS or name == "mask" for name in fields)
