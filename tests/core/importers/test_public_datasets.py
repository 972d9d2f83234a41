"""Datasets as people download them: `prepare` takes every picture and every label, without an option.

What a sample must hold is computed here from the files, by code that shares nothing with the importers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import public_datasets
from tests.core.formats import open_error, read_errors
from tests.public_datasets import DATASETS, SIZE
from wdsctl import Dataset
from wdsctl.cli.main import main

Objects = list[tuple[str, list[float]]]  # (name or number of the class, [left, top, right, bottom] in pixels)


def prepared(tmp_path: Path, name: str) -> tuple[Path, Path]:
    """(the source, what `prepare` made of it); its exit code was 0."""
    source, made = tmp_path / name, tmp_path / "made"
    DATASETS[name](source)
    assert main(["prepare", str(source), str(made), "--no-input"]) == 0
    return source, made


def media_of(made: Path) -> dict[bytes, dict[str, bytes]]:
    """The bytes of each medium -> all parts of its sample; no medium is in two samples."""
    endings = ("jpg", "jpeg", "png", "wav", "mp3", "avi")
    found: dict[bytes, dict[str, bytes]] = {}
    for sample in Dataset(made, decode=False):
        parts = {name: bytes(value) for name, value in sample.items() if not name.startswith("__")}
        (medium,) = [value for name, value in parts.items() if name in endings]
        assert medium not in found
        found[medium] = parts
    return found


def xywh_to_corners(box: list[float]) -> list[float]:
    left, top, width, height = box
    return [left, top, left + width, top + height]


def corners(box: list[float], box_format: str) -> list[float]:
    if box_format == "normalized_cxcywh":
        x, y, width, height = (value * side for value, side in zip(box, SIZE * 2, strict=True))
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return xywh_to_corners(box) if box_format == "xywh" else box


def objects_of(made: Path) -> dict[bytes, Objects]:
    """The bytes of each picture -> its objects, as the loader gives them."""
    raw = {sample["__key__"]: sample for sample in Dataset(made, decode=False)}
    found = {}
    for sample in Dataset(made):
        (picture,) = [bytes(raw[sample.__key__][name]) for name in ("jpg", "png") if name in raw[sample.__key__]]
        names = sample.label_names if sample.label_names is not None else sample.labels
        names = [""] * len(sample.boxes) if names is None else names
        found[picture] = [
            (str(name), corners([float(each) for each in box], sample.box_format))
            for name, box in zip(names, sample.boxes, strict=True)
        ]
    return found


def of_coco(root: Path) -> Iterator[tuple[Path, Objects]]:
    for path in (root / "annotations").glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        names = {each["id"]: each["name"] for each in document["categories"]}
        for image in document["images"]:
            objects = [each for each in document["annotations"] if each["image_id"] == image["id"]]
            yield (
                root / "/".join(image["coco_url"].split("/")[-2:]),
                [(names[each["category_id"]], xywh_to_corners(each["bbox"])) for each in objects],
            )


def of_sa1b(root: Path) -> Iterator[tuple[Path, Objects]]:
    for path in root.glob("*.jpg"):
        objects = json.loads(path.with_suffix(".json").read_text("utf-8"))["annotations"]
        yield path, [("", xywh_to_corners(each["bbox"])) for each in objects]


def of_labelme(root: Path) -> Iterator[tuple[Path, Objects]]:
    for path in root.glob("*.jpg"):
        label = path.with_suffix(".json")
        shapes = json.loads(label.read_text("utf-8"))["shapes"] if label.exists() else []
        yield path, [(each["label"], around(each["points"])) for each in shapes]


def around(points: list[list[float]]) -> list[float]:
    xs, ys = zip(*points, strict=True)
    return [min(xs), min(ys), max(xs), max(ys)]


def of_label_studio(root: Path) -> Iterator[tuple[Path, Objects]]:
    (export,) = root.glob("*.json")
    for task in json.loads(export.read_text("utf-8")):
        objects = []
        for result in task["annotations"][0]["result"]:
            x, y, width, height = (result["value"][name] for name in ("x", "y", "width", "height"))
            box = [x * 0.32, y * 0.24, (x + width) * 0.32, (y + height) * 0.24]
            objects.append((result["value"]["rectanglelabels"][0], box))
        yield root / task["data"]["image"].removeprefix("/data/"), objects


def of_cvat(root: Path) -> Iterator[tuple[Path, Objects]]:
    text = (root / "annotations.xml").read_text("utf-8")
    for name, content in re.findall('<image id="[0-9]*" name="(.*?)".*?>(.*?)</image>', text):
        box = re.compile('<box label="(.*?)".*? xtl="(.*?)" ytl="(.*?)" xbr="(.*?)" ybr="(.*?)"')
        objects = [(kind, [float(each) for each in numbers]) for kind, *numbers in box.findall(content)]
        for kind, points in re.findall('<polygon label="(.*?)".*? points="(.*?)"', content):
            objects.append((kind, around([[*map(float, pair.split(","))] for pair in points.split(";")])))
        yield root / "images" / name, objects


def of_kitti(root: Path) -> Iterator[tuple[Path, Objects]]:
    for path in (root / "training" / "image_2").glob("*.png"):
        label = root / "training" / "label_2" / f"{path.stem}.txt"
        lines = [line.split(" ") for line in label.read_text("utf-8").splitlines()]
        yield path, [(words[0], [*map(float, words[4:8])]) for words in lines]


def of_yolo(root: Path) -> Iterator[tuple[Path, Objects]]:
    for path in root.rglob("*.jpg"):
        label = next(each for each in root.rglob("*.txt") if each.stem == path.stem)
        for line in label.read_text("utf-8").splitlines():
            kind, x, y, width, height = map(float, line.split())
            box = [(x - width / 2) * 32, (y - height / 2) * 24, (x + width / 2) * 32, (y + height / 2) * 24]
            yield path, [(str(int(kind)), box)]


BOXES: dict[str, Callable[[Path], Iterator[tuple[Path, Objects]]]] = {
    "lvis": of_coco,
    "sa1b": of_sa1b,
    "labelme": of_labelme,
    "label_studio": of_label_studio,
    "cvat": of_cvat,
    "kitti": of_kitti,
    "yolo_in_images": of_yolo,
    "yolo_below_images": of_yolo,
}


@pytest.mark.parametrize("name", BOXES)
def test_prepare_takes_every_picture_with_all_its_objects(tmp_path: Path, name: str) -> None:
    source, made = prepared(tmp_path, name)

    found = objects_of(made)

    expected = {path.read_bytes(): objects for path, objects in BOXES[name](source)}
    assert len(expected) == 6
    assert found.keys() == expected.keys()
    assert sum(map(len, expected.values())) >= 5
    for picture, objects in expected.items():
        assert [kind for kind, _ in found[picture]] == [kind for kind, _ in objects]
        for (_, box), (_, wanted) in zip(found[picture], objects, strict=True):
            assert box == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("count", [4, 100, 101])
def test_recognition_does_not_depend_on_the_number_of_files(tmp_path: Path, count: int) -> None:
    public_datasets.sa1b(tmp_path / "raw", count)

    assert main(["prepare", str(tmp_path / "raw"), str(tmp_path / "made"), "--no-input"]) == 0
    assert len(Dataset(tmp_path / "made")) == count
    assert all(len(sample.boxes) == 2 for sample in Dataset(tmp_path / "made"))


def test_kitti_keeps_other_columns_and_files_of_a_frame(tmp_path: Path) -> None:
    source, made = prepared(tmp_path, "kitti")

    found = media_of(made)

    for path in (source / "training" / "image_2").iterdir():
        parts = found[path.read_bytes()]
        assert parts["calib.txt"] == (source / "training" / "calib" / f"{path.stem}.txt").read_bytes()
        facts = json.loads(parts["json"])
        assert facts["is_crowd"] == [0, 1]
        assert facts["dimensions"][0] == [1.65, 1.67, 3.64]
        assert facts["location"][0] == [-0.65, 1.71, 46.7]
        assert facts["rotation_y"] == [-1.59, -10]


def test_sa1b_keeps_masks_as_they_are(tmp_path: Path) -> None:
    source, made = prepared(tmp_path, "sa1b")

    for sample in Dataset(made):
        (original,) = source.glob(f"{os.path.basename(sample.__key__)}.json")
        objects = json.loads(original.read_text("utf-8"))["annotations"]
        assert sample.masks == [each["segmentation"] for each in objects]


def test_vqa_joins_questions_answers_and_pictures(tmp_path: Path) -> None:
    source, made = prepared(tmp_path, "vqa")

    asked: dict[int, tuple[dict[str, Any], str]] = {}
    answered: dict[int, dict[str, Any]] = {}
    for path in source.glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        asked |= {each["question_id"]: (each, document["data_subtype"]) for each in document.get("questions", ())}
        answered |= {each["question_id"]: each for each in document.get("annotations", ())}
    raw = {sample["__key__"]: sample for sample in Dataset(made, decode=False)}
    for split in ("train", "val"):
        for sample in Dataset(made, split):
            question, subset = asked.pop(int(sample.__key__))
            assert subset == f"{split}2014"
            assert sample.context == question["question"]
            assert sample.answers == [each["answer"] for each in answered[question["question_id"]]["answers"]]
            name = f"{subset}/COCO_{subset}_{question['image_id']:012d}.jpg"
            assert bytes(raw[sample.__key__]["jpg"]) == (source / name).read_bytes()
            facts = json.loads(bytes(raw[sample.__key__]["json"]))
            assert facts == {**question, **answered[question["question_id"]]}
    assert asked == {}
    assert len(raw) == len(answered) == 12


@pytest.mark.parametrize("name", ["kaldi", "aishell"])
def test_speech_has_every_recording_with_its_transcript(tmp_path: Path, name: str) -> None:
    source, made = prepared(tmp_path, name)

    table = source / ("text" if name == "kaldi" else "transcript/aishell_transcript_v0.8.txt")
    texts = dict(line.split(" ", 1) for line in table.read_text("utf-8").splitlines())
    files = {path.stem: path for path in source.rglob("*.wav")}
    assert files.keys() == texts.keys()
    parts = media_of(made)
    assert parts.keys() == {path.read_bytes() for path in files.values()}
    splits = {"train": 4, "val": 2, "test": 2} if name == "aishell" else {"train": 6}
    for split, count in splits.items():
        samples = list(Dataset(made, split))
        assert len(samples) == count
        for sample in samples:
            assert sample.text == texts[sample.__key__]
            path = files[sample.__key__]
            assert sample.speaker == (sample.__key__[:4] if name == "kaldi" else path.parent.name)
            assert parts[path.read_bytes()]["txt"].decode() == sample.text
            assert name == "kaldi" or path.parent.parent.name == {"val": "dev"}.get(split, split)


def test_kaldi_never_runs_commands_and_refuses_segments(tmp_path: Path) -> None:
    public_datasets.kaldi(tmp_path / "raw")
    table = tmp_path / "raw" / "wav.scp"
    table.write_text(table.read_text("utf-8").replace("wavs/spk0-utt0.wav", "touch hacked |"), "utf-8")

    errors = read_errors(tmp_path / "raw")
    assert {number: error.code for number, error in errors.items()} == {0: "WDS231"}
    assert "never runs" in errors[0].message

    (tmp_path / "raw" / "segments").write_text("a b 0.0 1.0\n", "utf-8")
    assert open_error(tmp_path / "raw").code == "WDS232"


def test_common_voice_has_the_rows_of_its_splits(tmp_path: Path) -> None:
    source, made = prepared(tmp_path, "common_voice")

    for name, split in (("train", "train"), ("dev", "val"), ("test", "test")):
        lines = [line.split("\t") for line in (source / f"{name}.tsv").read_text("utf-8").splitlines()]
        rows = {row[1].removesuffix(".mp3"): dict(zip(lines[0], row, strict=True)) for row in lines[1:]}
        samples = {sample.__key__: sample for sample in Dataset(made, split)}
        assert samples.keys() == rows.keys()
        for key, row in rows.items():
            assert (samples[key].text, samples[key].speaker) == (row["sentence"], row["client_id"])
    raw = {sample["__key__"]: bytes(sample["mp3"]) for sample in Dataset(made, decode=False)}
    assert raw == {key: (source / "clips" / f"{key}.mp3").read_bytes() for key in raw}
    assert len(raw) == 8
