"""Datasets as people download them: `prepare` takes every picture and every label, without an option.

What a sample must hold is computed here from the files, by code that shares nothing with the importers.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
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
    """(the source, what `prepare` wrote); its exit code was 0."""
    source, dest = tmp_path / name, tmp_path / "made"
    DATASETS[name](source)
    assert main(["prepare", str(source), str(dest), "--no-input"]) == 0
    return source, dest


def media_of(dest: Path) -> dict[bytes, dict[str, bytes]]:
    """The bytes of each medium -> all parts of its sample; no medium is in two samples."""
    endings = ("jpg", "jpeg", "png", "wav", "mp3", "avi")
    found: dict[bytes, dict[str, bytes]] = {}
    for sample in Dataset(dest, decode=False):
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


def objects_of(dest: Path) -> dict[bytes, Objects]:
    """The bytes of each picture -> its objects, as the loader gives them."""
    raw = {sample["__key__"]: sample for sample in Dataset(dest, decode=False)}
    found = {}
    for sample in Dataset(dest):
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
        yield path, [(each["label"], bounds(each["points"])) for each in shapes]


def bounds(points: list[list[float]]) -> list[float]:
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
            objects.append((kind, bounds([[*map(float, pair.split(","))] for pair in points.split(";")])))
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
    source, dest = prepared(tmp_path, name)

    found = objects_of(dest)

    expected = {path.read_bytes(): objects for path, objects in BOXES[name](source)}
    assert len(expected) == 6
    assert found.keys() == expected.keys()
    assert sum(map(len, expected.values())) >= 5
    for picture, objects in expected.items():
        assert [kind for kind, _ in found[picture]] == [kind for kind, _ in objects]
        for (_, box), (_, expected_box) in zip(found[picture], objects, strict=True):
            assert box == pytest.approx(expected_box, abs=1e-4)


@pytest.mark.parametrize("count", [4, 100, 101])
def test_recognition_does_not_depend_on_the_number_of_files(tmp_path: Path, count: int) -> None:
    public_datasets.sa1b(tmp_path / "raw", count)

    assert main(["prepare", str(tmp_path / "raw"), str(tmp_path / "made"), "--no-input"]) == 0
    assert len(Dataset(tmp_path / "made")) == count
    assert all(len(sample.boxes) == 2 for sample in Dataset(tmp_path / "made"))


def test_kitti_keeps_other_columns_and_files_of_a_frame(tmp_path: Path) -> None:
    source, dest = prepared(tmp_path, "kitti")

    found = media_of(dest)

    for path in (source / "training" / "image_2").iterdir():
        parts = found[path.read_bytes()]
        assert parts["calib.txt"] == (source / "training" / "calib" / f"{path.stem}.txt").read_bytes()
        facts = json.loads(parts["json"])
        assert facts["is_crowd"] == [0, 1]
        assert facts["dimensions"][0] == [1.65, 1.67, 3.64]
        assert facts["location"][0] == [-0.65, 1.71, 46.7]
        assert facts["rotation_y"] == [-1.59, -10]


def test_sa1b_keeps_masks_as_they_are(tmp_path: Path) -> None:
    source, dest = prepared(tmp_path, "sa1b")

    for sample in Dataset(dest):
        (original,) = source.glob(f"{os.path.basename(sample.__key__)}.json")
        objects = json.loads(original.read_text("utf-8"))["annotations"]
        assert sample.masks == [each["segmentation"] for each in objects]


def test_vqa_joins_questions_answers_and_pictures(tmp_path: Path) -> None:
    source, dest = prepared(tmp_path, "vqa")

    questions: dict[int, tuple[dict[str, Any], str]] = {}
    answered: dict[int, dict[str, Any]] = {}
    for path in source.glob("*.json"):
        document = json.loads(path.read_text("utf-8"))
        questions |= {each["question_id"]: (each, document["data_subtype"]) for each in document.get("questions", ())}
        answered |= {each["question_id"]: each for each in document.get("annotations", ())}
    raw = {sample["__key__"]: sample for sample in Dataset(dest, decode=False)}
    for split in ("train", "val"):
        for sample in Dataset(dest, split):
            question, subset = questions.pop(int(sample.__key__))
            assert subset == f"{split}2014"
            assert sample.context == question["question"]
            assert sample.answers == [each["answer"] for each in answered[question["question_id"]]["answers"]]
            name = f"{subset}/COCO_{subset}_{question['image_id']:012d}.jpg"
            assert bytes(raw[sample.__key__]["jpg"]) == (source / name).read_bytes()
            facts = json.loads(bytes(raw[sample.__key__]["json"]))
            assert facts == {**question, **answered[question["question_id"]]}
    assert questions == {}
    assert len(raw) == len(answered) == 12


def test_vqa_names_fields_that_batch_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(tmp_path, "vqa")

    line = next(line for line in capsys.readouterr().out.splitlines() if "not in the batch:" in line)
    assert "json[question_type], json[multiple_choice_answer], json[answer_type]" in line


@pytest.mark.parametrize("name", ["kaldi", "aishell"])
def test_speech_has_every_recording_with_its_transcript(tmp_path: Path, name: str) -> None:
    source, dest = prepared(tmp_path, name)

    table = source / ("text" if name == "kaldi" else "transcript/aishell_transcript_v0.8.txt")
    texts = dict(line.split(" ", 1) for line in table.read_text("utf-8").splitlines())
    files = {path.stem: path for path in source.rglob("*.wav")}
    assert files.keys() == texts.keys()
    parts = media_of(dest)
    assert parts.keys() == {path.read_bytes() for path in files.values()}
    splits = {"train": 4, "val": 2, "test": 2} if name == "aishell" else {"train": 6}
    for split, count in splits.items():
        samples = list(Dataset(dest, split))
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
    text = tmp_path / "raw" / "text"
    text.write_text("\n" + text.read_text("utf-8"), "utf-8")

    errors = read_errors(tmp_path / "raw")
    assert {number: (error.code, error.where) for number, error in errors.items()} == {0: ("WDS231", f"{text}:2")}
    assert "never runs" in errors[0].message

    (tmp_path / "raw" / "segments").write_text("a b 0.0 1.0\n", "utf-8")
    assert open_error(tmp_path / "raw").code == "WDS232"


def test_common_voice_has_the_rows_of_its_splits(tmp_path: Path) -> None:
    source, dest = prepared(tmp_path, "common_voice")

    for name, split in (("train", "train"), ("dev", "val"), ("test", "test")):
        lines = [line.split("\t") for line in (source / f"{name}.tsv").read_text("utf-8").splitlines()]
        rows = {row[1].removesuffix(".mp3"): dict(zip(lines[0], row, strict=True)) for row in lines[1:]}
        samples = {sample.__key__: sample for sample in Dataset(dest, split)}
        assert samples.keys() == rows.keys()
        for key, row in rows.items():
            assert (samples[key].text, samples[key].speaker) == (row["sentence"], row["client_id"])
    raw = {sample["__key__"]: bytes(sample["mp3"]) for sample in Dataset(dest, decode=False)}
    assert raw == {key: (source / "clips" / f"{key}.mp3").read_bytes() for key in raw}
    assert len(raw) == 8


def test_tables_are_found_below_lone_folders(tmp_path: Path) -> None:
    DATASETS["common_voice"](tmp_path / "raw" / "cv-corpus-17.0" / "cy")
    assert main(["prepare", str(tmp_path / "raw"), str(tmp_path / "made"), "--no-input"]) == 0
    assert [len(list(Dataset(tmp_path / "made", split))) for split in ("train", "val", "test")] == [4, 2, 2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def follow_hint(name: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """Prepare a dataset that is refused, and run the commands of the message; returns what they make."""
    DATASETS[name](Path(name))
    assert main(["prepare", name, "made", "--no-input"]) == 3
    message = capsys.readouterr().err
    assert not Path("made").exists()
    script, again = re.findall("`([pw][^`]*)`", message[message.index("help:") :])
    before = {path: path.read_bytes() for path in Path(name).rglob("*") if path.is_file()}
    subprocess.run([sys.executable, *shlex.split(script)[1:]], check=True)
    assert before.items() <= {path: path.read_bytes() for path in Path(name).rglob("*") if path.is_file()}.items()
    words = [word.replace("DEST", "made") for word in shlex.split(again)]
    assert main([*words[1:], "--no-input"]) == 0
    return Path("made")


@pytest.mark.usefixtures("folder")
def test_celeba_is_refused_with_commands_that_keep_all_labels(capsys: pytest.CaptureFixture[str]) -> None:
    found = media_of(follow_hint("celeba", capsys))

    tables = {
        path.name: [line.split() for line in path.read_text("utf-8").splitlines()]
        for path in Path("celeba").glob("*.txt")
    }
    identity, partition = dict(tables["identity_CelebA.txt"]), dict(tables["list_eval_partition.txt"])
    _, names, *rows = tables["list_attr_celeba.txt"]
    assert len(found) == len(rows) == 6
    for picture, *values in rows:
        facts = json.loads(found[Path(f"celeba/img_align_celeba/{picture}").read_bytes()]["json"])
        assert [facts[name] for name in names] == [int(value) for value in values]
        assert (facts["identity"], facts["split"]) == (
            int(identity[picture]),
            ("train", "val", "test")[int(partition[picture])],
        )
    for split in ("train", "val", "test"):
        keys = {sample["__key__"].rpartition("/")[2] for sample in Dataset("made", split, decode=False)}
        assert keys == {p[:-4] for p, number in partition.items() if ("train", "val", "test")[int(number)] == split}


@pytest.mark.usefixtures("folder")
def test_parallel_texts_are_refused_with_commands_that_join_lines(capsys: pytest.CaptureFixture[str]) -> None:
    dest = follow_hint("parallel_texts", capsys)

    for split, name, number in (("train", "train", 6), ("val", "val", 3), ("test", "test_2016_flickr", 3)):
        rows = [json.loads(bytes(sample["json"])) for sample in Dataset(dest, split, decode=False)]
        lines = [{each: f"{name} {i} \u2028 in {each}" for each in ("de", "en", "pt_BR")} for i in range(number)]
        assert rows == [{**line, "split": split} for line in lines]


@pytest.mark.usefixtures("folder")
def test_files_with_other_numbers_of_lines_are_no_parallel_texts() -> None:
    for name in ("a.en", "b.en", "a.de"):
        Path("raw").mkdir(exist_ok=True)
        Path("raw", name).write_text("one\n" * (3 if name == "a.de" else 2), "utf-8")
    Path("raw", "b.de").write_text("one\n", "utf-8")
    assert main(["prepare", "raw", "made", "--no-input"]) == 0


@pytest.mark.usefixtures("folder")
def test_web_texts_are_refused_with_commands_that_list_pages(capsys: pytest.CaptureFixture[str]) -> None:
    dest = follow_hint("web_texts", capsys)

    pages = {
        f"http://localhost/{i}/{page}": f"Page {page} of {i}\r\n\r\nWARC/1.0\r\n" for i in range(2) for page in range(3)
    }
    rows = [json.loads(bytes(sample["json"])) for sample in Dataset(dest, decode=False)]
    assert {row["WARC-Target-URI"]: row["text"] for row in rows} == pages


@pytest.mark.usefixtures("folder")
def test_web_archives_of_pages_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("raw").mkdir()
    Path("raw/a.warc").write_bytes(b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 2\r\n\r\nhi\r\n\r\n")
    assert main(["prepare", "raw", "made", "--no-input"]) == 3
    assert "extract the texts" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["ucf101", "hmdb51"])
def test_video_lists_are_refused_with_commands_that_make_their_first_split(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = media_of(follow_hint(name, capsys))

    files = list(Path(name).rglob("*.avi"))
    assert found.keys() == {path.read_bytes() for path in files}
    splits = {
        sample["__key__"]: split for split in ("train", "test") for sample in Dataset("made", split, decode=False)
    }
    classes = sorted({path.parent.name for path in files})
    for path in files:
        facts = json.loads(found[path.read_bytes()]["json"])
        assert (facts["label_name"], facts["label"]) == (path.parent.name, classes.index(path.parent.name))
        expected: str | None
        if name == "ucf101":
            tested = Path("ucf101/ucfTrainTestlist/testlist01.txt").read_text("utf-8").split()
            expected = "test" if f"{path.parent.name}/{path.name}" in tested else "train"
        else:
            lines = Path(f"hmdb51/testTrainMulti_7030_splits/{path.parent.name}_test_split1.txt").read_text("utf-8")
            expected = {"1": "train", "2": "test", "0": None}[
                dict(each.split() for each in lines.splitlines())[path.name]
            ]
        assert splits.get(str(path.relative_to(name).with_suffix(""))) == expected


@pytest.mark.usefixtures("folder")
def test_labelbox_is_refused_with_commands_that_take_its_boxes(capsys: pytest.CaptureFixture[str]) -> None:
    found = objects_of(follow_hint("labelbox", capsys))

    rows = [json.loads(line) for line in Path("labelbox/export.ndjson").read_text("utf-8").splitlines()]
    assert len(found) == len(rows) == 6
    for row in rows:
        (one,) = row["projects"]["p1"]["labels"][0]["annotations"]["objects"]
        box = [one["bounding_box"][side] for side in ("left", "top", "width", "height")]
        picture = Path("labelbox/images", row["data_row"]["external_id"]).read_bytes()
        assert found[picture] == [(one["name"], xywh_to_corners(box))]


@pytest.mark.usefixtures("folder")
def test_lhotse_is_refused_with_commands_that_join_texts_and_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    dest = follow_hint("lhotse", capsys)

    found = media_of(dest)
    texts = {sample.__key__: sample.text for sample in Dataset(dest)}
    for line in Path("lhotse/supervisions.jsonl").read_text("utf-8").splitlines():
        each = json.loads(line)
        parts = found.pop(Path(f"lhotse/audio/{each['recording_id']}.wav").read_bytes())
        assert each.items() <= json.loads(parts["json"]).items()
        assert texts.pop(each["id"]) == each["text"]
    assert (found, texts) == ({}, {})


@pytest.mark.parametrize("name", ["imagenet_kaggle", "imagenet_folders"])
def test_imagenet_has_labelled_pictures_for_validation(tmp_path: Path, name: str) -> None:
    source, dest = prepared(tmp_path, name)

    solution = source / "LOC_val_solution.csv"
    lines = solution.read_text("utf-8").splitlines()[1:] if solution.exists() else []
    labels = {line.split(",")[0]: line.split(",")[1].split(" ")[0] for line in lines}
    parts = media_of(dest)
    for split, count in (("train", 12), ("val", 6 if labels else 12)):
        files = [path for path in source.rglob("*.JPEG") if split in path.relative_to(source).parts]
        assert len(files) == len(Dataset(dest, split)) == count
        for path in files:
            synset = labels.get(path.stem, path.parent.name)
            assert parts.pop(path.read_bytes())["cls"] == str(public_datasets.SYNSETS.index(synset)).encode()
    assert parts == {}


def test_imagenet_with_numbers_of_the_devkit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public_datasets.imagenet_flat(tmp_path / "raw")

    assert main(["prepare", str(tmp_path / "raw"), str(tmp_path / "made"), "--no-input"]) == 3
    (command,) = re.findall("`(.*?)`", capsys.readouterr().err)
    words = [word.replace("DEST", str(tmp_path / "made")) for word in shlex.split(command)]
    assert main([*words[1:], "--no-input"]) == 5  # val/ and its numbers are left out, as it says
    assert len(Dataset(tmp_path / "made", "train")) == 12


def test_doccano_asks_whether_labels_stay_unread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, dest = tmp_path / "raw", tmp_path / "made"
    public_datasets.doccano(source)

    assert main(["prepare", str(source), str(dest), "--no-input"]) == 2
    assert "would leave json[label] unused" in capsys.readouterr().err
    assert main(["prepare", str(source), str(dest), "--no-input", "--sample-type", "CrudeSample"]) == 0
    rows = [json.loads(line) for line in (source / "admin.jsonl").read_text("utf-8").splitlines()]
    assert [sample["json"] for sample in Dataset(dest)] == rows


def test_repeated_ids_have_a_way_that_the_message_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "You."}]
    rows = [{"id": f"r{i // 2}", "n": i, "conversations": turns} for i in range(6)]
    (folder / "chat.json").write_text(json.dumps(rows), "utf-8")

    assert main(["prepare", "chat.json", "made", "--no-input"]) == 2
    (command,) = re.findall("rows: `(.*?)`", " ".join(capsys.readouterr().err.split()))
    assert main(shlex.split(command)[1:]) == 0

    assert [json.loads(bytes(sample["json"])) for sample in Dataset("made", decode=False)] == rows


def test_repeated_ids_of_labels_have_a_way_that_the_message_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    public_datasets.vqa(folder / "vqa")
    name = "v2_OpenEnded_mscoco_val2014_questions.json"
    (folder / "vqa" / name.replace("val2014", "val2014b")).write_bytes((folder / "vqa" / name).read_bytes())

    assert main(["prepare", "vqa", "made", "--no-input"]) == 2
    commands = re.findall("`(.*?)`", capsys.readouterr().err)
    for command in commands:
        assert main(shlex.split(command.replace("SOURCE", "vqa").replace("DEST", "made"))[1:]) == 0
    assert len(Dataset("made")) == 12 + 4
