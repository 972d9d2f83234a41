"""Samples of each type: the values that a program gives are those that the loader reads, or are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import wdsctl
from tests.core.media_files import a_media_file, a_wav
from tests.core.pictures import picture
from tests.core.raw_folders import members
from wdsctl.core.errors import DatasetError, PermissionDenied, UsageError, WdsctlError
from wdsctl.core.samples.types import SAMPLE_TYPES
from wdsctl.core.writer.values import is_picture

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 12, 3), np.uint8)
IDS = np.arange(96).reshape(8, 12) * 300
BOXES = [[0, 0, 4, 2], [4, 0, 8, 2]]
QUESTION = {"image": PIXELS, "context": "how many?", "answers": ["two", "2"], "answer_weights": [1.0, 0.5]}
WORDS = {"text": "no entry", "words_boxes": BOXES, "words_text": ["no", "entry"]}
CHAT = [{"role": "user", "content": "<image><image> which?"}, {"role": "assistant", "content": "both"}]
MEDIA = ("image", "mask", "images", "video", "videos", "audio", "audios")


def a_video() -> bytes:
    return a_media_file("mp4", video="mpeg4")


EXAMPLES: dict[str, dict[str, Any]] = {
    "CaptioningSample": {"image": PIXELS, "caption": "a cat", "captions": ["a cat", "an animal"]},
    "ImageSample": {"image": Image.fromarray(PIXELS)},
    "ImageClassificationSample": {"image": picture(8, 8), "label": np.int64(3), "label_name": "cat"},
    "TextSample": {"text": "größe\n"},
    "VQASample": QUESTION,
    "MultiChoiceVQASample": {"image": PIXELS, "context": "which?", "choices": ["a", "b"], "correct_choice_idx": 1},
    "OCRSample": {"image": PIXELS, **WORDS, "chars_text": ["n"]},
    "VQAOCRSample": {**QUESTION, **WORDS},
    "InterleavedSample": {"sequence": ["once", "upon a time"]},
    "SimilarityInterleavedSample": {"images": ["a.jpg"], "texts": ["one"], "similarity_matrix": np.array([[0.5, 1.0]])},
    "VidQASample": {"video": a_video(), "context": "how many?", "answers": {"a": 1}},
    "VideoSample": {"video": a_video(), "text": "grey", "audio": a_wav(), "captions": ["grey"]},
    "AudioSample": {"audio": a_wav(), "text": "silence"},
    "TranscriptionSample": {
        "audio": a_wav(),
        "text": "no entry",
        "language": "en",
        "speaker": "s7",
        "segments": [{"start": 0.0, "end": 0.1, "text": "no entry"}],
    },
    "DetectionSample": {"image": PIXELS, "boxes": np.array(BOXES), "labels": [1, 2], "box_format": "xyxy"},
    "SegmentationSample": {"image": PIXELS, "mask": IDS, "segments": [{"id": 1}]},
    "ConversationSample": {"messages": CHAT, "images": [PIXELS, picture(8, 8)]},
    "PreferenceSample": {"prompt": "<image>?", "chosen": "yes", "rejected": "no", "images": [PIXELS]},
}


def test_every_type_has_an_example() -> None:
    assert EXAMPLES.keys() == SAMPLE_TYPES.keys()


@pytest.mark.parametrize("sample_type", EXAMPLES)
def test_values_of_each_type_are_read_as_given(tmp_path: Path, sample_type: str) -> None:
    given = EXAMPLES[sample_type]
    required = {field.name for field in SAMPLE_TYPES[sample_type] if field.required}
    few = {name: value for name, value in given.items() if name in required}
    if sample_type in ("ConversationSample", "PreferenceSample"):
        few = given

    wdsctl.from_iterable([given, few], tmp_path / "out", sample_type=sample_type, workers=1)

    dataset = wdsctl.Dataset(tmp_path / "out")
    assert dataset.sample_type == sample_type
    for sample, values in zip(dataset, (given, few), strict=True):
        for name, value in values.items():
            read = getattr(sample, name)
            if name in MEDIA or name in ("boxes", "messages", "prompt", "chosen", "rejected"):
                assert read is not None, name
            else:
                assert _plain(read) == _plain(value), name
    if isinstance(given.get("image"), np.ndarray):
        assert torch.equal((dataset[0].image * 255).round().to(torch.uint8), torch.tensor(PIXELS).permute(2, 0, 1))
    if "mask" in given:
        assert np.array_equal(np.asarray(dataset[0].mask).squeeze(), IDS)
    if sample_type == "ConversationSample":
        assert len(dataset[0].images) == 2
    if "boxes" in given:
        assert np.array_equal(np.asarray(dataset[0].boxes), BOXES)
    found = wdsctl.validate(tmp_path / "out", level="load").findings
    assert {each.code for each in found} <= {"WDS172"}  # optional fields that some samples lack


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


CAPTION = {"image": PIXELS, "caption": "x"}


@pytest.mark.parametrize(
    ("sample_type", "change", "names"),
    [
        ("CaptioningSample", {"caption": None}, ("caption", "None", "text")),
        ("CaptioningSample", {"caption": 3}, ("caption", "int 3", "str")),
        ("CaptioningSample", {"caption": b"x"}, ("caption", "1 bytes", "str")),
        ("CaptioningSample", {"caption": "\ud800"}, ("caption", "surrogate")),
        ("CaptioningSample", {"captions": "x"}, ("captions", "'x'", "list")),
        ("CaptioningSample", {"captions": [float("nan")]}, ("captions", "JSON")),
        ("CaptioningSample", {"captions": [b"x"]}, ("captions", "bytes")),
        ("CaptioningSample", {"image": b"no image"}, ("image", "8 bytes", "a picture")),
        ("CaptioningSample", {"image": a_wav()}, ("image", "a picture")),
        ("CaptioningSample", {"image": PIXELS.astype(np.float32)}, ("image", "float32", "uint8")),
        ("CaptioningSample", {"image": PIXELS.transpose(2, 0, 1)}, ("image", "(3, 8, 12)", "height, width")),
        ("CaptioningSample", {"image": PIXELS[:0]}, ("image", "(0, 12, 3)")),
        ("CaptioningSample", {"image": Image.new("F", (2, 2))}, ("image", "mode=F", "a picture")),
        ("CaptioningSample", {"image": [1]}, ("image", "list [1]", "a picture")),
        ("ImageClassificationSample", {"label": True}, ("label", "bool True", "whole number")),
        ("ImageClassificationSample", {"label": 2.5}, ("label", "2.5", "whole number")),
        ("ImageClassificationSample", {"label": 1 << 64}, ("label", "64 bits")),
        ("SegmentationSample", {"mask": IDS - 1}, ("mask", "65535")),
        ("SegmentationSample", {"mask": PIXELS}, ("mask", "(8, 12, 3)")),
        ("SegmentationSample", {}, ("mask", "not given")),
        ("AudioSample", {"audio": np.zeros(9)}, ("audio", "(9,)", "audio file")),
        ("AudioSample", {"audio": picture(8, 8)}, ("audio", "audio file")),
        ("DetectionSample", {"boxes": [[1, 2, 3]]}, ("boxes", "four numbers")),
        ("DetectionSample", {"boxes": BOXES, "box_format": "xyyx"}, ("box_format", "'xyyx'", "xyxy")),
        ("ConversationSample", {"messages": CHAT, "images": [PIXELS]}, ("2 <image> tokens", "1 image")),
        ("ConversationSample", {"messages": CHAT, "images": PIXELS}, ("images", "a list")),
        ("PreferenceSample", {"prompt": "<image>", "chosen": "a", "rejected": "b"}, ("1 <image> token", "0 images")),
        ("InterleavedSample", {"sequence": ["a", Image.new("L", (2, 2))]}, ("sequence", "Image")),
    ],
)
def test_values_that_do_not_fit_are_refused(
    tmp_path: Path, sample_type: str, change: dict[str, Any], names: tuple[str, ...]
) -> None:
    known = {field.name for field in SAMPLE_TYPES[sample_type]}
    sample = {**{name: value for name, value in CAPTION.items() if name in known}, **change}

    with pytest.raises(DatasetError) as error:
        wdsctl.from_iterable([{"key": "k7", **sample}], tmp_path / "out", sample_type=sample_type)

    assert error.value.code in ("WDS262", "WDS161", "WDS163")
    assert all(name in error.value.message for name in ("'k7'", *names)), error.value.message
    assert error.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("text", "did you mean caption?"),
        ("url", "'url.json'"),
        ("image.png", "another name"),
        ("caption.json", "another"),
    ],
)
def test_names_that_are_no_fields_are_refused(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        wdsctl.from_iterable([{**CAPTION, name: b"x"}], tmp_path / "out", sample_type="CaptioningSample")

    assert hint in error.value.hint


def test_items_that_are_no_samples_are_refused(tmp_path: Path) -> None:
    for item in ((PIXELS, "x"), [1], "x", {1: "x"}, {"key": "x"}):
        with pytest.raises((UsageError, DatasetError)):
            wdsctl.from_iterable([item], tmp_path / "out", sample_type="CrudeSample")


def test_names_with_a_dot_are_parts(tmp_path: Path) -> None:
    extra = {"meta.json": {"a": [1]}, "depth.npy": np.arange(3), "note.txt": "n", "raw.bin": b"\0", "n.cls": 4}
    wdsctl.from_iterable([{**CAPTION, **extra}], tmp_path / "out", sample_type="CaptioningSample")

    found = members(tmp_path / "out")
    assert sorted(found) == [f"000000000.{name}" for name in sorted(["png", "txt", *extra])]
    assert found["000000000.meta.json"] == b'{"a":[1]}'
    crude = wdsctl.Dataset(tmp_path / "out", crude=True)[0]
    assert crude["depth.npy"].tolist() == [0, 1, 2]


def test_parts_of_crude_samples_have_the_format_of_their_extension(tmp_path: Path) -> None:
    sample = {"__key__": "a", "jpg": picture(8, 8), "txt": "t", "cls": 3, "score.json": 0.5, "npy": PIXELS}
    sample |= {"seg.png": Image.fromarray(PIXELS), "view.jpg": PIXELS, "own": b"o", "pickle": b"p"}
    wdsctl.from_iterable([sample], tmp_path / "out", sample_type="CrudeSample")

    assert sorted(members(tmp_path / "out")) == sorted(f"a.{name}" for name in sample if name != "__key__")
    read = wdsctl.Dataset(tmp_path / "out")[0]
    assert (read["cls"], read["score.json"], read["seg.png"].shape) == (3, 0.5, (3, 8, 12))


@pytest.mark.parametrize(
    "sample",
    [{"pt": [1]}, {"mp4": PIXELS}, {"gif": PIXELS}, {"a/b": 1}, {"__x__": 1}, {"": 1}, {"a.own": 1}, {"title": "x"}],
)
def test_crude_values_without_a_format_are_refused(tmp_path: Path, sample: dict[str, Any]) -> None:
    with pytest.raises(WdsctlError):
        wdsctl.from_iterable([sample], tmp_path / "out", sample_type="CrudeSample")


def test_pictures_have_the_chosen_encoding(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = 6  # the orientation
    image = Image.fromarray(PIXELS)
    image.info["exif"] = exif.tobytes()

    for text, name in (("", "png"), ("jpeg:90", "jpg"), ("webp:50", "webp")):
        encode = {"image": text} if text else None
        wdsctl.from_iterable([{"image": image}], tmp_path / name, sample_type="ImageSample", encode=encode)
        ((part, data),) = members(tmp_path / name).items()
        assert part == f"000000000.{name}"
        assert Image.open(io.BytesIO(data)).getexif()[274] == 6
    assert image.info["exif"] == exif.tobytes()


def test_files_keep_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    large = picture(8, 8) + bytes(2_000_000)
    (tmp_path / "raw" / "a.JPG").write_bytes(picture(8, 8))
    (tmp_path / "raw" / "large.jpeg").write_bytes(large)
    (tmp_path / "raw" / "none").write_bytes(picture(9, 9))
    (tmp_path / "b.jpg").write_bytes(picture(10, 10))
    rows = [
        *("a.JPG", "large.jpeg", "none", tmp_path / "b.jpg", str(tmp_path / "raw" / "a.JPG")),
        *({"bytes": None, "path": "a.JPG"}, {"bytes": picture(8, 8), "path": "x/y.jpeg"}),
    ]

    for _ in range(2):  # the second run compares them with the shards
        wdsctl.from_iterable(
            ({"image": row} for row in rows), tmp_path / "out", sample_type="ImageSample", base=tmp_path / "raw"
        )

    assert list(members(tmp_path / "out").items()) == [
        ("000000000.jpg", picture(8, 8)),
        ("000000001.jpeg", large),
        ("000000002.jpg", picture(9, 9)),
        ("000000003.jpg", picture(10, 10)),
        ("000000004.jpg", picture(8, 8)),
        ("000000005.jpg", picture(8, 8)),
        ("000000006.jpeg", picture(8, 8)),
    ]
    assert len(list(wdsctl.Dataset(tmp_path / "out"))) == 7


def test_texts_name_files_below_base_only(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "b.jpg").write_bytes(picture(8, 8))
    (tmp_path / "raw" / "link.jpg").symlink_to(tmp_path / "b.jpg")
    (tmp_path / "raw" / "empty.jpg").write_bytes(b"")
    (tmp_path / "raw" / "a.txt").write_bytes(b"text")
    options: dict[str, Any] = {"sample_type": "ImageSample", "base": tmp_path / "raw"}

    for name in ("../b.jpg", str(tmp_path / "b.jpg"), "link.jpg"):
        with pytest.raises(PermissionDenied) as error:
            wdsctl.from_iterable([{"image": name}], tmp_path / "out", **options)
        assert (error.value.code, "Path" in error.value.hint) == ("WDS409", True)
    for name, code in (("no.jpg", "WDS231"), ("a\0.jpg", "WDS231"), ("empty.jpg", "WDS262"), ("a.txt", "WDS262")):
        with pytest.raises(DatasetError) as refused:
            wdsctl.from_iterable([{"image": name}], tmp_path / "out", **options)
        assert refused.value.code == code
    with pytest.raises(WdsctlError):
        wdsctl.from_iterable([{"image": "."}], tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_whole_floats_and_single_elements_are_whole_numbers(tmp_path: Path) -> None:
    rows = [{"image": PIXELS, "label": label} for label in (2.0, torch.tensor(2), np.array(2), np.uint8(2))]
    wdsctl.from_iterable(rows, tmp_path / "out", sample_type="ImageClassificationSample")

    assert [data for name, data in members(tmp_path / "out").items() if name.endswith("cls")] == [b"2"] * 4


def test_only_pictures_of_pillow_are_pictures() -> None:
    assert is_picture(Image.new("L", (1, 1)))
    assert not is_picture(PIXELS)
