"""What carries meaning is in the sample type that `prepare` chooses, or the type is not sure."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.core.samples.test_detect import JPEG, MP4, NUMPY, PNG, WAV
from wdsctl.core.samples.detect import Detection, infer_sample_type
from wdsctl.core.samples.evidence import Evidence, PartEvidence

SAMPLES = 32
DOGS = ["pug", "beagle", "akita", "corgi", "husky", "poodle", "boxer", "whippet"]
WORDS = ["a", "the", "red", "big", "small", "dog", "cat", "runs", "jumps", "over", "under", "house", "tree", "blue"]

Make = Callable[[int], Any]


def sentence(number: int, seed: int = 0) -> str:
    draw = random.Random(f"{number} {seed}")
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(4, 12)))


def dog(number: int) -> str:
    return random.Random(number).choice(DOGS)


def detect(**parts: bytes | Make) -> Detection:
    """The type of samples with these parts, of which functions return text or JSON values."""
    found = []
    for name, make in parts.items():
        values = [make if isinstance(make, bytes) else make(i) for i in range(SAMPLES)]
        heads = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in values]
        found.append(PartEvidence(name.replace("_", "."), SAMPLES, tuple(heads)))
    return infer_sample_type(Evidence(SAMPLES, tuple(found)), is_jsonl=parts.keys() == {"json"})


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda i: {"vlm_caption": sentence(i), "aesthetic": i / 7, "similarity": 0.3}, "json[vlm_caption]"),
        (lambda i: {"desc_zh": f"一只狗在{chr(0x4E00 + i)}跑步", "url": f"http://x/{i}.jpg"}, "json[desc_zh]"),
        (lambda i: {"meta": {"about": sentence(i)}, "id": i}, "json[meta][about]"),
        (lambda i: {"sentences": [sentence(i, n) for n in range(5)]}, "json[sentences][0]"),
        (lambda i: {"sentences": [{"raw": sentence(i), "sentid": i}] * 5, "imgid": i}, "json[sentences][0][raw]"),
        (lambda i: {"caption": sentence(i), "note": sentence(i, 1)}, "json[caption]"),
    ],
)
def test_sentences_are_the_caption_whatever_their_key_is_called(make: Make, path: str) -> None:
    found = detect(jpg=JPEG, json=make)

    assert (found.sample_type, found.field_map["caption"], found.is_sure) == ("CaptioningSample", path, True)


def test_all_sentences_of_a_picture_are_captions() -> None:
    found = detect(jpg=JPEG, json=lambda i: {"sentences": [{"raw": sentence(i, n)} for n in range(5)]})
    assert found.field_map["captions"] == "json[sentences][*][raw]"


@pytest.mark.parametrize(
    ("parts", "unread"),
    [
        ({"npy": NUMPY, "txt": lambda i: sentence(i).encode()}, "npy"),
        ({"pdf": b"%PDF-1.4 \0\1", "txt": lambda i: sentence(i).encode()}, "pdf"),
        ({"mid": b"MThd\0\0\0\6\0\1\0\2", "txt": lambda i: sentence(i).encode()}, "mid"),
        ({"bin": bytes(range(9)), "json": lambda i: {"text": sentence(i)}}, "bin"),
        ({"jpg": JPEG, "txt": b"0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.2 0.2\n"}, "txt"),
        ({"jpg": JPEG, "xml": b"<annotation><object/></annotation>"}, "xml"),
        (
            {"png": PNG, "txt": b"Car 0.00 0 -1.58 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.7 46 -1.5\n"},
            "txt",
        ),
        ({"jpg": JPEG, "json": lambda i: {"bbox": [1, 2, i, 4], "label": dog(i)}}, "json[bbox]"),
        (
            {"jpg": JPEG, "json": lambda i: {"xmin": 1, "ymin": 2, "xmax": 30 + i, "ymax": 40, "cls": dog(i)}},
            "json[xmin]",
        ),
        ({"jpg": JPEG, "json": lambda i: {"caption": sentence(i), "boxes": [[1, 2, 3, i]]}}, "json[caption]"),
        ({"jpg": JPEG, "json": lambda i: {"caption": sentence(i), "label": i % 3}}, "json[label]"),
        ({"json": lambda i: {"text": sentence(i), "label": i % 2}}, "json[label]"),
        ({"json": lambda i: {"review": sentence(i), "sentiment": ("good", "bad")[i % 2]}}, "json[sentiment]"),
        ({"wav": WAV, "json": lambda i: {"target": i % 9, "category": dog(i), "fold": i % 5}}, "json[category]"),
        ({"mp4": MP4, "json": lambda i: {"label": dog(i), "youtube_id": f"x{i}"}}, "json[label]"),
    ],
)
def test_type_that_leaves_meaning_unread_is_not_sure(parts: dict[str, bytes | Make], unread: str) -> None:
    found = detect(**parts)

    assert not found.is_sure
    assert unread in found.unread


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda i: {"breed": dog(i), "id": i}, "json[breed]"),
        (lambda i: {"smiling": (1, -1)[i % 2], "url": f"http://x/{i}"}, "json[smiling]"),
        (lambda i: {"short_caption": sentence(i), "long_caption": sentence(i, 1)}, "json[short_caption]"),
    ],
)
def test_values_that_may_be_labels_or_captions_are_offered(make: Make, field: str) -> None:
    found = detect(jpg=JPEG, json=make)

    assert not found.is_sure
    assert field in found.field_map.values()


@pytest.mark.parametrize(
    ("parts", "sample_type"),
    [
        # A web crawl with its metadata.
        (
            {
                "jpg": JPEG,
                "txt": lambda i: sentence(i).encode(),
                "json": lambda i: {"caption": sentence(i), "key": f"{i:09}", "status": "success", "label": i % 3},
            },
            "CaptioningSample",
        ),
        ({"jpg": JPEG, "json": lambda i: {"width": 512 + i % 2, "license": ("cc0", "by")[i % 2]}}, "ImageSample"),
        ({"json": lambda i: {"text": sentence(i), "meta": {"source": "wiki"}, "lang": "en"}}, "TextSample"),
        ({"jpg": JPEG, "json": lambda i: {"label": float(i % 5), "score": i / 3}}, "ImageClassificationSample"),
        ({"jpg": JPEG, "json": lambda i: {"label": f"{i % 5}.0"}}, "ImageClassificationSample"),
    ],
)
def test_other_metadata_needs_no_question(parts: dict[str, bytes | Make], sample_type: str) -> None:
    found = detect(**parts)

    assert (found.sample_type, found.is_sure, found.unread) == (sample_type, True, ())
