"""Every sample type, read from a prepared dataset as samples and as batches."""

from __future__ import annotations

import io
import json
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from tests.build import an_image
from tests.loader.datasets import a_dataset
from tests.loader.decoding.av.media import make_audio, make_video
from tests.loader.running import raising_worker_config
from wdsctl.core.samples.types import SAMPLE_TYPES
from wdsctl.loader import (
    AVDecoder,
    Cooker,
    DefaultTaskEncoder,
    InterleavedSample,
    SampleDecoder,
    basic_sample_keys,
    cooker,
    get_loader,
    get_train_dataset,
)

PICTURE = an_image("PNG")
BOXES = [[0, 0, 4, 2], [4, 0, 8, 2]]


class Example(NamedTuple):
    """`parts` and `fields` of a dataset, and the `values` of its samples: IMAGE for an image, AVDecoder for media."""

    parts: dict[str, bytes]
    fields: dict[str, str]
    values: dict[str, Any]


def make_labelled_parts(**facts: Any) -> dict[str, bytes]:
    return {"png": PICTURE, "json": json.dumps(facts).encode()}


def json_fields(*names: str, **others: str) -> dict[str, str]:
    return {**others, **{name: f"json[{name}]" for name in names}}


IMAGE = "an image"
QUESTION: dict[str, Any] = {"context": "how many?", "answers": ["two", "2"], "answer_weights": [1.0, 0.5]}
CHOICE: dict[str, Any] = {"context": "which?", "choices": ["a", "b"], "correct_choice_idx": 1}
WORDS: dict[str, Any] = {"text": "no entry", "words_boxes": BOXES, "words_text": ["no", "entry"]}
LINES: dict[str, Any] = {"lines_boxes": BOXES[:1], "lines_text": ["no entry"]}
BLOCKS: dict[str, Any] = {"block_boxes": BOXES[:1], "block_classes": ["sign"], "block_text": ["no entry"]}
LETTERS: dict[str, Any] = {"chars_boxes": BOXES, "chars_text": ["n", "o"]}
PAGE: dict[str, Any] = {**WORDS, **LINES, **BLOCKS, **LETTERS}
STORY: list[Any] = ["once", {"image": 3}, "upon a time"]
PAIRED: dict[str, Any] = {
    "images": ["a.jpg", "b.jpg"],
    "texts": ["one", "two", "three"],
    "similarity_matrix": [[0.1, 0.9, 0.2], [0.8, 0.1, 0.1]],
    "matched_text_indices": [1, 0],
}


SPOKEN: dict[str, Any] = {
    "text": "no entry",
    "language": "en",
    "speaker": "s7",
    "segments": [{"start": 0.0, "end": 0.1, "text": "no entry"}],
}
OBJECTS: list[Any] = [{"bbox": BOXES[0], "category": "cat"}, {"bbox": BOXES[1], "category": "dog"}]
CHAT: list[Any] = [{"from": "human", "value": "how many?"}, {"from": "gpt", "value": "two"}]
MESSAGES: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "how many?"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
]


def ids_image(ids: list[list[int]]) -> bytes:
    target = io.BytesIO()
    Image.fromarray(np.asarray(ids, np.uint8)).save(target, "PNG")
    return target.getvalue()


@cache
def examples() -> dict[str, Example]:
    clip, tone = make_video("mp4", "libx264", times=range(6)), make_audio("wav", "pcm_s16le", seconds=0.1)
    return {
        "CaptioningSample": Example(
            {"png": PICTURE, "txt": b"a cat"}, {"image": "png", "caption": "txt"}, {"image": IMAGE, "caption": "a cat"}
        ),
        "ImageSample": Example({"png": PICTURE}, {"image": "png"}, {"image": IMAGE}),
        "ImageClassificationSample": Example(
            {"png": PICTURE, "cls": b"7", "txt": b"cat"},
            {"image": "png", "label": "cls", "label_name": "txt"},
            {"image": IMAGE, "label": 7, "label_name": "cat"},
        ),
        "TextSample": Example({"txt": "größer".encode()}, {"text": "txt"}, {"text": "größer"}),
        "VQASample": Example(
            make_labelled_parts(**QUESTION), json_fields(*QUESTION, image="png"), {"image": IMAGE, **QUESTION}
        ),
        "MultiChoiceVQASample": Example(
            make_labelled_parts(**CHOICE), json_fields(*CHOICE, image="png"), {"image": IMAGE, **CHOICE}
        ),
        "OCRSample": Example(make_labelled_parts(**PAGE), json_fields(*PAGE, image="png"), {"image": IMAGE, **PAGE}),
        "VQAOCRSample": Example(
            make_labelled_parts(**QUESTION, **WORDS),
            json_fields(*QUESTION, *WORDS, image="png"),
            {"image": IMAGE, **QUESTION, **WORDS},
        ),
        "InterleavedSample": Example(make_labelled_parts(sequence=STORY), json_fields("sequence"), {"sequence": STORY}),
        "SimilarityInterleavedSample": Example(make_labelled_parts(**PAIRED), json_fields(*PAIRED), PAIRED),
        "VidQASample": Example(
            {"mp4": clip, "json": json.dumps(QUESTION).encode()},
            json_fields(*QUESTION, video="mp4"),
            {"video": AVDecoder, **QUESTION},
        ),
        "VideoSample": Example(
            {"mp4": clip, "wav": tone, "txt": b"a clip"},
            {"video": "mp4", "text": "txt", "audio": "wav"},
            {"video": AVDecoder, "text": "a clip", "audio": AVDecoder},
        ),
        "AudioSample": Example(
            {"wav": tone, "txt": b"a tone"}, {"audio": "wav", "text": "txt"}, {"audio": AVDecoder, "text": "a tone"}
        ),
        "TranscriptionSample": Example(
            {"wav": tone, "json": json.dumps(SPOKEN).encode()},
            json_fields(*SPOKEN, audio="wav"),
            {"audio": AVDecoder, **SPOKEN},
        ),
        "DetectionSample": Example(
            make_labelled_parts(annotations=OBJECTS),
            {
                "image": "png",
                **{field: f"json[annotations][*][{key}]" for field, key in (("boxes", "bbox"), ("labels", "category"))},
            },
            {"image": IMAGE, "boxes": BOXES, "labels": ["cat", "dog"]},
        ),
        "SegmentationSample": Example(
            {"png": PICTURE, "seg.png": ids_image([[0, 7], [7, 200]]), "json": b'{"segments_info": [{"id": 7}]}'},
            {"image": "png", "mask": "seg.png", "segments": "json[segments_info]"},
            {"image": IMAGE, "mask": [[0, 7], [7, 200]], "segments": [{"id": 7}]},
        ),
        "ConversationSample": Example(
            {"json": json.dumps({"conversations": CHAT}).encode(), "txt": b"not used"},
            {"messages": "json"},
            {"messages": MESSAGES, "images": [], "tools": None},
        ),
        "PreferenceSample": Example(
            {"json": b'{"prompt": "hi", "chosen": "hello", "rejected": "no"}'},
            {"prompt": "json", "chosen": "json[chosen]", "rejected": "json[rejected]"},
            {
                name: [{"role": role, "content": [{"type": "text", "text": words}]}]
                for name, role, words in (
                    ("prompt", "user", "hi"),
                    ("chosen", "assistant", "hello"),
                    ("rejected", "assistant", "no"),
                )
            },
        ),
    }


class DecodingEncoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")


def first(path: Any, encoder: Any = None, **options: Any) -> Any:
    options = {"task_encoder": encoder or DecodingEncoder(), "worker_config": raising_worker_config(), **options}
    (item,) = islice(get_loader(get_train_dataset(path, **options)), 1)
    return item


def matches(value: Any, expected: Any) -> bool:
    if expected == IMAGE:
        return isinstance(value, torch.Tensor) and tuple(value.shape) == (3, 32, 48)
    value = value.tolist() if isinstance(value, np.ndarray | torch.Tensor) else value
    return isinstance(value, AVDecoder) if expected is AVDecoder else bool(value == expected)


def test_examples_cover_all_sample_types() -> None:
    assert set(examples()) == set(SAMPLE_TYPES)


def test_subtitles_become_text_and_segments(tmp_path: Path) -> None:
    subtitles = b"WEBVTT\n\n00:00.000 --> 00:01.500\n<i>Hello</i>,\nyou\n\n00:02.000 --> 00:03.000\nbye\n"
    parts = {"wav": make_audio("wav", "pcm_s16le", seconds=0.1), "vtt": subtitles}

    sample = first(a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type=""))

    assert type(sample).__name__ == "TranscriptionSample"
    assert sample.text == "Hello, you bye"
    assert sample.segments == [
        {"start": 0.0, "end": 1.5, "text": "Hello, you"},
        {"start": 2.0, "end": 3.0, "text": "bye"},
    ]


def test_empty_subtitles_have_no_text_and_no_segments(tmp_path: Path) -> None:
    parts = {"wav": make_audio("wav", "pcm_s16le", seconds=0.1), "srt": b"\n"}
    field_map = {"audio": "wav", "text": "srt", "segments": "srt"}

    sample = first(
        a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type="TranscriptionSample", field_map=field_map)
    )

    assert (sample.text.strip(), sample.segments) == ("", [])


@pytest.mark.parametrize("name", SAMPLE_TYPES)
def test_samples_and_batches_have_values_of_their_parts(tmp_path: Path, name: str) -> None:
    parts, fields, values = examples()[name]
    path = a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type=name, field_map=fields)

    sample, batch = first(path), first(path, batch_size=2)

    assert type(sample).__name__ == name
    for field, expected in values.items():
        assert matches(getattr(sample, field), expected), field
        batch_value = getattr(batch, field)
        if expected == IMAGE:
            assert tuple(batch_value.shape) == (2, 3, 32, 48)
        else:
            each = batch_value.tolist() if isinstance(batch_value, torch.Tensor) else batch_value
            assert len(each) == 2
            assert all(matches(value, expected) for value in each), field


def test_sample_type_is_detected_from_parts(tmp_path: Path) -> None:
    for name in ("CaptioningSample", "ImageSample", "VQASample", "VidQASample", "AudioSample", "TextSample"):
        parts_by_index = dict.fromkeys(range(4), examples()[name].parts)
        sample = first(a_dataset(tmp_path / name, 4, parts=parts_by_index.__getitem__, sample_type=""))
        assert type(sample).__name__ == name


def test_cooker_builds_interleaved_samples_of_texts_and_images(tmp_path: Path) -> None:
    @cooker
    def cook(sample: Any) -> InterleavedSample:
        sequence = [sample[step["part"]] if isinstance(step, dict) else step for step in sample["json"]["sequence"]]
        return InterleavedSample(**basic_sample_keys(sample), sequence=sequence)

    class Cooks(DecodingEncoder):
        cookers = (Cooker(cook),)

    story = json.dumps({"sequence": ["once", {"part": "0.png"}, "upon", {"part": "1.png"}]}).encode()
    path = a_dataset(tmp_path, 4, parts=lambda _: {"0.png": PICTURE, "1.png": PICTURE, "json": story})

    sample, batch = first(path, Cooks()), first(path, Cooks(), batch_size=2)

    assert [type(each) for each in sample.sequence] == [str, torch.Tensor, str, torch.Tensor]
    assert [len(sequence) for sequence in batch.sequence] == [4, 4]
