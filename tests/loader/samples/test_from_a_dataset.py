"""Every sample type from a prepared dataset: what its parts become as a sample, and as a batch."""

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
from tests.loader.decoding.av.media import film, sound
from tests.loader.running import strict
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


class Made(NamedTuple):
    """`parts` and `fields` of a dataset, and the `values` of a sample: an image is IMAGE, a medium AVDecoder."""

    parts: dict[str, bytes]
    fields: dict[str, str]
    values: dict[str, Any]


def labelled(**facts: Any) -> dict[str, bytes]:
    return {"png": PICTURE, "json": json.dumps(facts).encode()}


def from_json(*names: str, **others: str) -> dict[str, str]:
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
def kinds() -> dict[str, Made]:
    clip, tone = film("mp4", "libx264", times=range(6)), sound("wav", "pcm_s16le", seconds=0.1)
    return {
        "CaptioningSample": Made(
            {"png": PICTURE, "txt": b"a cat"}, {"image": "png", "caption": "txt"}, {"image": IMAGE, "caption": "a cat"}
        ),
        "ImageSample": Made({"png": PICTURE}, {"image": "png"}, {"image": IMAGE}),
        "ImageClassificationSample": Made(
            {"png": PICTURE, "cls": b"7", "txt": b"cat"},
            {"image": "png", "label": "cls", "label_name": "txt"},
            {"image": IMAGE, "label": 7, "label_name": "cat"},
        ),
        "TextSample": Made({"txt": "größer".encode()}, {"text": "txt"}, {"text": "größer"}),
        "VQASample": Made(labelled(**QUESTION), from_json(*QUESTION, image="png"), {"image": IMAGE, **QUESTION}),
        "MultiChoiceVQASample": Made(labelled(**CHOICE), from_json(*CHOICE, image="png"), {"image": IMAGE, **CHOICE}),
        "OCRSample": Made(labelled(**PAGE), from_json(*PAGE, image="png"), {"image": IMAGE, **PAGE}),
        "VQAOCRSample": Made(
            labelled(**QUESTION, **WORDS),
            from_json(*QUESTION, *WORDS, image="png"),
            {"image": IMAGE, **QUESTION, **WORDS},
        ),
        "InterleavedSample": Made(labelled(sequence=STORY), from_json("sequence"), {"sequence": STORY}),
        "SimilarityInterleavedSample": Made(labelled(**PAIRED), from_json(*PAIRED), PAIRED),
        "VidQASample": Made(
            {"mp4": clip, "json": json.dumps(QUESTION).encode()},
            from_json(*QUESTION, video="mp4"),
            {"video": AVDecoder, **QUESTION},
        ),
        "VideoSample": Made(
            {"mp4": clip, "wav": tone, "txt": b"a clip"},
            {"video": "mp4", "text": "txt", "audio": "wav"},
            {"video": AVDecoder, "text": "a clip", "audio": AVDecoder},
        ),
        "AudioSample": Made(
            {"wav": tone, "txt": b"a tone"}, {"audio": "wav", "text": "txt"}, {"audio": AVDecoder, "text": "a tone"}
        ),
        "TranscriptionSample": Made(
            {"wav": tone, "json": json.dumps(SPOKEN).encode()},
            from_json(*SPOKEN, audio="wav"),
            {"audio": AVDecoder, **SPOKEN},
        ),
        "DetectionSample": Made(
            labelled(annotations=OBJECTS),
            {
                "image": "png",
                **{field: f"json[annotations][*][{key}]" for field, key in (("boxes", "bbox"), ("labels", "category"))},
            },
            {"image": IMAGE, "boxes": BOXES, "labels": ["cat", "dog"]},
        ),
        "SegmentationSample": Made(
            {"png": PICTURE, "seg.png": ids_image([[0, 7], [7, 200]]), "json": b'{"segments_info": [{"id": 7}]}'},
            {"image": "png", "mask": "seg.png", "segments": "json[segments_info]"},
            {"image": IMAGE, "mask": [[0, 7], [7, 200]], "segments": [{"id": 7}]},
        ),
        "ConversationSample": Made(
            {"json": json.dumps({"conversations": CHAT}).encode(), "txt": b"not used"},
            {"messages": "json"},
            {"messages": MESSAGES, "images": [], "tools": None},
        ),
        "PreferenceSample": Made(
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


class Decoded(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")


def first(path: Any, encoder: Any = None, **options: Any) -> Any:
    options = {"task_encoder": encoder or Decoded(), "worker_config": strict(), **options}
    (made,) = islice(get_loader(get_train_dataset(path, **options)), 1)
    return made


def is_as_told(value: Any, told: Any) -> bool:
    if told == IMAGE:
        return isinstance(value, torch.Tensor) and tuple(value.shape) == (3, 32, 48)
    value = value.tolist() if isinstance(value, np.ndarray | torch.Tensor) else value
    return isinstance(value, AVDecoder) if told is AVDecoder else bool(value == told)


def test_all_types_are_looked_at() -> None:
    assert set(kinds()) == set(SAMPLE_TYPES)


def test_subtitles_become_text_and_segments(tmp_path: Path) -> None:
    subtitles = b"WEBVTT\n\n00:00.000 --> 00:01.500\n<i>Hello</i>,\nyou\n\n00:02.000 --> 00:03.000\nbye\n"
    parts = {"wav": sound("wav", "pcm_s16le", seconds=0.1), "vtt": subtitles}

    sample = first(a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type=""))

    assert type(sample).__name__ == "TranscriptionSample"
    assert sample.text == "Hello, you bye"
    assert sample.segments == [
        {"start": 0.0, "end": 1.5, "text": "Hello, you"},
        {"start": 2.0, "end": 3.0, "text": "bye"},
    ]


@pytest.mark.parametrize("name", SAMPLE_TYPES)
def test_a_sample_has_the_values_of_its_parts_and_a_batch_those_of_its_samples(tmp_path: Path, name: str) -> None:
    parts, fields, values = kinds()[name]
    path = a_dataset(tmp_path, 4, parts=lambda _: parts, sample_type=name, field_map=fields)

    sample, batch = first(path), first(path, batch_size=2)

    assert type(sample).__name__ == name
    for field, told in values.items():
        assert is_as_told(getattr(sample, field), told), field
        of_batch = getattr(batch, field)
        if told == IMAGE:
            assert tuple(of_batch.shape) == (2, 3, 32, 48)
        else:
            each = of_batch.tolist() if isinstance(of_batch, torch.Tensor) else of_batch
            assert len(each) == 2
            assert all(is_as_told(value, told) for value in each), field


def test_a_type_is_found_out_from_the_parts_where_nobody_names_it(tmp_path: Path) -> None:
    for name in ("CaptioningSample", "ImageSample", "VQASample", "VidQASample", "AudioSample", "TextSample"):
        same = dict.fromkeys(range(4), kinds()[name].parts)
        sample = first(a_dataset(tmp_path / name, 4, parts=same.__getitem__, sample_type=""))
        assert type(sample).__name__ == name


def test_texts_and_images_interleaved_are_put_together_by_a_cooker(tmp_path: Path) -> None:
    @cooker
    def told(sample: Any) -> InterleavedSample:
        sequence = [sample[step["part"]] if isinstance(step, dict) else step for step in sample["json"]["sequence"]]
        return InterleavedSample(**basic_sample_keys(sample), sequence=sequence)

    class Cooks(Decoded):
        cookers = (Cooker(told),)

    story = json.dumps({"sequence": ["once", {"part": "0.png"}, "upon", {"part": "1.png"}]}).encode()
    path = a_dataset(tmp_path, 4, parts=lambda _: {"0.png": PICTURE, "1.png": PICTURE, "json": story})

    sample, batch = first(path, Cooks()), first(path, Cooks(), batch_size=2)

    assert [type(each) for each in sample.sequence] == [str, torch.Tensor, str, torch.Tensor]
    assert [len(sequence) for sequence in batch.sequence] == [4, 4]
