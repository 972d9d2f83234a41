"""Tiny datasets of every type that `wdsctl init` has a script for."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import wdsctl
from tests.build import a_dataset
from tests.core.media_files import a_media_file

COUNT = 24
PER_SHARD = 8  # so that a split by shard has several shards


def an_image(i: int, form: str = "JPEG") -> bytes:
    """A rectangle of a color that depends on `i`, on images of different sizes."""
    size = ((64, 48), (40, 80), (33, 33))[i % 3]
    image = Image.new("RGB", size, (40 * (i % 6), 90, 200 - 30 * (i % 6)))
    image.paste((250, 250, 0), (4, 4, 24, 20))
    file = io.BytesIO()
    image.save(file, form)
    return file.getvalue()


def a_sound(i: int, seconds: float = 1.0) -> bytes:
    time = np.arange(int(16_000 * seconds)) / 16_000
    data = (8000 * np.sin(2 * np.pi * (200 + 50 * i) * time)).astype("<i2").tobytes()
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(data)
    return file.getvalue()


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def a_conversation(i: int) -> dict[str, bytes]:
    """A conversation with no, one or two images."""
    images = {f"{n}.png": an_image(i + n, "PNG") for n in range(i % 3)}
    turns = [
        {"from": "human", "value": "<image>\n" * len(images) + f"What is in {i}?"},
        {"from": "gpt", "value": f"A rectangle, ä{i}."},
        {"from": "human", "value": "And?"},
        {"from": "gpt", "value": "Nothing else."},
    ]
    return {"json": as_json({"conversations": turns}), **images}


def a_video_conversation(i: int) -> dict[str, bytes]:
    """A conversation about a film, an image, or both."""
    videos = {"0.mp4": a_media_file("mp4", video="mpeg4", times=range(4 + i % 3))} if i % 3 else {}
    image = {"1.png": an_image(i, "PNG")} if i % 3 != 1 else {}
    question = "<video>\n" * len(videos) + "<image>\n" * len(image) + "What is it?"
    turns = [{"from": "human", "value": question}, {"from": "gpt", "value": f"A rectangle, {i}."}]
    return {"json": as_json({"conversations": turns}), **videos, **image}


def an_object_image(i: int) -> dict[str, bytes]:
    """An image with up to two objects; every fourth image has none."""
    objects = [{"bbox": [4, 4, 20, 16], "category": "cat"}, {"bbox": [10, 10, 5, 5], "category": "dog"}]
    return {"jpg": an_image(i), "json": as_json({"objects": objects[: i % 4]})}


def a_mask(i: int, first_id: int = 0) -> bytes:
    """Class ids of the pixels of `an_image`: `first_id`, one more for the rectangle, and 255 (no class) for a line."""
    mask = np.full(Image.open(io.BytesIO(an_image(i))).size[::-1], first_id, np.uint8)
    mask[4:20, 4:24] = first_id + 1
    mask[0] = 255
    file = io.BytesIO()
    Image.fromarray(mask).save(file, "PNG")
    return file.getvalue()


#: Name -> (parts of the i-th sample, sample type, field map).
SOURCES: dict[str, tuple[Callable[[int], dict[str, bytes]], str, dict[str, str]]] = {
    "classify": (
        lambda i: {"jpg": an_image(i), "cls": str(i % 3).encode()},
        "ImageClassificationSample",
        {"image": "jpg", "label": "cls"},
    ),
    "classify by name": (
        lambda i: {"png": an_image(i, "PNG"), "json": as_json({"kind": ["cat", "dog"][i % 2]})},
        "ImageClassificationSample",
        {"image": "png", "label_name": "json[kind]"},
    ),
    "captions": (
        lambda i: {"jpg": an_image(i), "txt": f"a yellow rectangle, number {i}".encode()},
        "CaptioningSample",
        {"image": "jpg", "caption": "txt"},
    ),
    "ocr": (
        lambda i: {"jpg": an_image(i), "json": as_json({"ocr": f"number {i}"})},
        "OCRSample",
        {"image": "jpg", "text": "json[ocr]"},
    ),
    "video": (
        lambda i: {"mp4": a_media_file("mp4", video="mpeg4", times=range(4 + i % 3)), "txt": f"film {i}".encode()},
        "VideoSample",
        {"video": "mp4", "text": "txt"},
    ),
    "segment": (
        lambda i: {"jpg": an_image(i), "seg.png": a_mask(i)},
        "SegmentationSample",
        {"image": "jpg", "mask": "seg.png"},
    ),
    "segment by category": (
        lambda i: {
            "jpg": an_image(i),
            "seg.png": a_mask(i, first_id=200),
            "json": as_json({"segments_info": [{"id": 201, "category_id": 7}]}),
        },
        "SegmentationSample",
        {"image": "jpg", "mask": "seg.png", "segments": "json[segments_info]"},
    ),
    "text": (
        lambda i: {"txt": (f"document {i}: " + "lorem ipsum " * (7 * i)).encode()},
        "TextSample",
        {"text": "txt"},
    ),
    "chat": (
        lambda i: {"json": as_json({"instruction": f"Say {i}.", "input": "", "output": "word " * (1 + i)})},
        "ConversationSample",
        {"messages": "json"},
    ),
    "vlm": (a_conversation, "ConversationSample", {"messages": "json", "images": "*"}),
    "vlm with videos": (
        a_video_conversation,
        "ConversationSample",
        {"messages": "json", "images": "*", "videos": "*"},
    ),
    "vlm by questions": (
        lambda i: {"jpg": an_image(i), "json": as_json({"q": "What color?", "a": ["yellow", "blue", "yellow"]})},
        "VQASample",
        {"image": "jpg", "context": "json[q]", "answers": "json[a]"},
    ),
    "speech": (
        lambda i: {"wav": a_sound(i, 0.5 + i % 4 / 2), "txt": f"tone {i}".encode()},
        "TranscriptionSample",
        {"audio": "wav", "text": "txt"},
    ),
    "detect": (
        an_object_image,
        "DetectionSample",
        {"image": "jpg", "boxes": "json[objects][*][bbox]", "label_names": "json[objects][*][category]"},
    ),
}


def make_dataset(root: Path, name: str, *, split: str = "train=2,val=1") -> str:
    """A prepared dataset of `COUNT` samples."""
    parts_of, sample_type, field_map = SOURCES[name]
    shards = {
        f"{start // PER_SHARD}.tar": {
            f"{i:04d}.{part}": data for i in range(start, start + PER_SHARD) for part, data in parts_of(i).items()
        }
        for start in range(0, COUNT, PER_SHARD)
    }
    a_dataset(root, shards)
    wdsctl.prepare(root, sample_type=sample_type, field_map=field_map, split=split, workers=1)
    return str(root)
