"""What `init` writes, chooses and refuses, without running it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import wdsctl
from tests.build import a_dataset
from tests.core.init.datasets import COUNT, SOURCES, an_image, as_json, make_dataset
from wdsctl.core.errors import DatasetError, InputError, UsageError, WdsctlError
from wdsctl.core.files import write_text
from wdsctl.core.init import init as init_module
from wdsctl.core.init.init import FILES, init
from wdsctl.core.init.kinds import TRAINING_KINDS, TrainingKind

#: Text that would be code, a placeholder or the end of a literal if it were not quoted.
HOSTILE = [
    "'''\nimport os\nos.system('touch pwned')\n'''",
    '"]\nopen("pwned", "w")\n#',
    "$loop ${constants} $$",
    "a\u2028b\x0c\x1b[2J",
    "\ud800",
    "\\",
    "{{x}} %s",
]


def constant(folder: Path, name: str) -> Any:
    """The value of a constant of train.py, read without running it."""
    tree = ast.parse((folder / "train.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            if isinstance(node.value, ast.Call):  # list(range(n))
                assert ast.unparse(node.value).startswith("list(range(")
                return list(range(int(ast.unparse(node.value)[11:-2])))
            return ast.literal_eval(node.value)
    raise AssertionError(name)


def make_class_dataset(root: Path, labels: list[Any]) -> str:
    members: dict[str, bytes] = {}
    for i, label in enumerate(labels):
        members |= {f"{i}.jpg": an_image(i), f"{i}.json": as_json({"label": label})}
    a_dataset(root, {"a.tar": members})
    wdsctl.prepare(
        root,
        sample_type="ImageClassificationSample",
        field_map={"image": "jpg", "label": "json[label]"},
        split="train=1",
        workers=1,
    )
    return str(root)


@pytest.mark.parametrize("name", SOURCES)
def test_init_chooses_kind_by_sample_type(name: str, tmp_path: Path) -> None:
    root = make_dataset(tmp_path / "data", name)
    report = init(root, str(tmp_path / "run"), box_format="xywh" if name == "detect" else None)
    assert report.kind == name.split(maxsplit=1)[0]
    assert (report.train_samples, report.val_split, report.val_samples) == (16, "val", 8)
    assert report.files == FILES
    compile((tmp_path / "run/train.py").read_text(), "train.py", "exec")
    blend = yaml.safe_load((tmp_path / "run/blend.yaml").read_text())
    assert blend["splits"]["train"]["blend"] == [{"path": root, "weight": 1}]


def test_init_reads_classes_from_data(tmp_path: Path) -> None:
    report = init(make_dataset(tmp_path / "data", "classify"), str(tmp_path / "run"))
    assert report.classes == 3
    assert constant(tmp_path / "run", "CLASSES") == [0, 1, 2]
    init(make_class_dataset(tmp_path / "gaps", [7, 2, 7, 2, -1]), str(tmp_path / "run2"))
    assert constant(tmp_path / "run2", "CLASSES") == [-1, 2, 7]
    init(make_class_dataset(tmp_path / "cells of a table", ["3", "0", "3"]), str(tmp_path / "run3"))
    assert constant(tmp_path / "run3", "CLASSES") == [0, 3]


def test_init_counts_unlabelled_samples(tmp_path: Path) -> None:
    report = init(make_class_dataset(tmp_path / "data", ["cat", None, "dog", None]), str(tmp_path / "run"))
    assert (report.classes, report.unlabelled) == (2, 2)


def test_init_escapes_labels_in_script(tmp_path: Path) -> None:
    root = make_class_dataset(tmp_path / "data", HOSTILE)
    init(root, str(tmp_path / "run"))
    assert constant(tmp_path / "run", "CLASSES") == sorted(HOSTILE)
    plain = ast.parse((tmp_path / "run/train.py").read_text())
    init(make_class_dataset(tmp_path / "plain", [str(i) for i in range(len(HOSTILE))]), str(tmp_path / "run2"))
    other = ast.parse((tmp_path / "run2/train.py").read_text())
    assert [type(node) for node in plain.body] == [type(node) for node in other.body]


def test_init_escapes_dataset_name_in_blend_and_readme(tmp_path: Path) -> None:
    name = "a'b\" $(touch pwned) `touch pwned` #: {x} $loop - *y"
    root = make_dataset(tmp_path / name, "captions")
    init(root, str(tmp_path / "run"))
    blend = yaml.safe_load((tmp_path / "run/blend.yaml").read_text())
    assert blend["splits"]["train"]["blend"][0]["path"] == root
    assert name not in (tmp_path / "run/train.py").read_text()
    readme = (tmp_path / "run/README.md").read_text()
    [command] = [line for line in readme.splitlines() if line.startswith("wdsctl inspect")]
    result = subprocess.run(
        ["sh", "-c", command.replace("wdsctl inspect", "printf %s")], capture_output=True, check=True
    )
    assert result.stdout.decode() == root


@pytest.mark.parametrize("name", ["new\nline", "x.yaml", b"\xff"])
def test_init_refuses_dataset_name_that_blend_file_cannot_hold(name: str | bytes, tmp_path: Path) -> None:
    root = make_dataset(tmp_path / os.fsdecode(name), "captions")
    with pytest.raises(UsageError, match="cannot name this dataset"):
        init(root, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_init_derives_image_and_audio_size_from_media_facts(tmp_path: Path) -> None:
    root = make_dataset(tmp_path / "data", "classify")
    init(root, str(tmp_path / "run"))
    assert constant(tmp_path / "run", "SIDE") == 64
    small = tmp_path / "small"
    a_dataset(
        small,
        {"a.tar": {f"{i}.{part}": data for i in range(4) for part, data in (("jpg", an_image(2)), ("cls", b"0"))}},
    )
    wdsctl.prepare(small, split="train=1", media=True, workers=1)
    init(str(small), str(tmp_path / "run2"))
    assert constant(tmp_path / "run2", "SIDE") == 64  # of images of 33 pixels
    sounds = make_dataset(tmp_path / "sounds", "speech")
    wdsctl.index(sounds, media=True)
    init(sounds, str(tmp_path / "run3"))
    assert constant(tmp_path / "run3", "MAX_SECONDS") == 2


def test_init_refuses_to_replace_files_without_overwrite(tmp_path: Path) -> None:
    root = make_dataset(tmp_path / "data", "captions")
    run = tmp_path / "run"
    run.mkdir()
    (run / "blend.yaml").write_text("mine")
    with pytest.raises(UsageError, match=r"blend.yaml exists") as caught:
        init(root, str(run))
    assert "--yes" in caught.value.hint
    assert os.listdir(run) == ["blend.yaml"]
    assert init(root, str(run), overwrite=True).replaced == ("blend.yaml",)
    assert "mine" not in (run / "blend.yaml").read_text()


def test_init_dry_run_writes_nothing(tmp_path: Path) -> None:
    report = init(make_dataset(tmp_path / "data", "captions"), str(tmp_path / "run"), dry_run=True)
    assert report.dry_run
    assert report.files == FILES
    assert not (tmp_path / "run").exists()


def test_failed_init_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_at_the_last(path: str, text: str) -> None:
        if path.endswith("README.md"):
            raise InputError("no space left", hint="free some")
        write_text(path, text)

    monkeypatch.setattr(init_module, "write_text", fail_at_the_last)
    with pytest.raises(InputError):
        init(make_dataset(tmp_path / "data", "captions"), str(tmp_path / "run"))
    assert os.listdir(tmp_path / "run") == []


def test_init_names_folder_after_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert init(make_dataset(tmp_path / "my data", "captions")).folder == str(tmp_path / "my-data-train")
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": f"line {i}"}) + "\n" for i in range(COUNT)))
    wdsctl.prepare(tmp_path / "lines.jsonl", split="train=1")
    report = init(str(tmp_path / "lines.jsonl"))
    assert (report.folder, report.kind) == (str(tmp_path / "lines-train"), "text")


def test_init_recognises_validation_split_by_other_name(tmp_path: Path) -> None:
    report = init(make_dataset(tmp_path / "data", "captions", split="train=2,dev=1"), str(tmp_path / "run"))
    assert report.val_split == "dev"
    blend = yaml.safe_load((tmp_path / "run/blend.yaml").read_text())
    assert blend["splits"]["val"]["blend"][0]["split_part"] == "dev"


def test_init_of_polylithic_dataset_uses_outer_folder(tmp_path: Path) -> None:
    wdsctl.convert(make_dataset(tmp_path / "data", "vlm"), tmp_path / "poly", layout="polylithic", media="png")
    report = init(str(tmp_path / "poly"), str(tmp_path / "run"))
    assert (report.kind, report.train_samples, report.val_samples) == ("vlm", 16, 8)
    blend = yaml.safe_load((tmp_path / "run/blend.yaml").read_text())
    assert blend["splits"]["train"]["blend"][0]["path"] == str(tmp_path / "poly")
    error = refusal(str(tmp_path / "poly/primary"))
    assert error.hint == f"pass the folder that contains both: `wdsctl init {tmp_path / 'poly'}`"


@pytest.mark.parametrize("kind", ["vlm", "chat", None])
def test_init_refuses_conversations_with_media_that_no_script_reads(tmp_path: Path, kind: TrainingKind | None) -> None:
    turns = as_json({"conversations": [{"from": "human", "value": "<audio>"}, {"from": "gpt", "value": "b"}]})
    a_dataset(tmp_path / "data", {"a.tar": {"0.json": turns, "0.wav": b"sound"}})
    wdsctl.prepare(
        tmp_path / "data",
        sample_type="ConversationSample",
        field_map={"messages": "json", "audios": "*"},
        split="train=1",
    )
    assert "the conversations have audios" in refusal(str(tmp_path / "data"), kind=kind).message


def refusal(root: str, **options: Any) -> WdsctlError:
    with pytest.raises(WdsctlError) as caught:
        init(root, root + "-run", **options)
    assert not os.path.exists(root + "-run")
    return caught.value


@pytest.mark.parametrize("kind", [kind for kind in TRAINING_KINDS if kind != "captions"])
def test_init_refuses_kind_that_does_not_fit_sample_type(kind: TrainingKind, tmp_path: Path) -> None:
    error = refusal(make_dataset(tmp_path / "data", "captions"), kind=kind)
    assert error.code == "WDS224"
    assert f"--{kind} needs" in error.message
    assert "CaptioningSample" in error.message


def test_init_refuses_crude_samples(tmp_path: Path) -> None:
    a_dataset(tmp_path / "data", {"a.tar": {f"{i}.bin": b"x" for i in range(4)}})
    wdsctl.prepare(tmp_path / "data", sample_type="CrudeSample", split="train=1")
    error = refusal(str(tmp_path / "data"))
    assert (error.code, "CrudeSample" in error.message) == ("WDS224", True)
    assert "dataset.yaml" in error.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample_type: ImageClassificationSample\nfield_map: {image: jpg}\n", "no label and no label_name"),
        ("sample_type: VidQASample\nfield_map: {video: jpg, context: jpg}\n", "no script for VidQASample"),
        ("sample_type: mine.samples:Own\n", "no script for mine.samples:Own"),
        ("sample_type: VQASample\nfield_map: {image: jpg, context: txt}\n", "no answers"),
        ("sample_type: CaptioningSample\nsample_loader: load.py:load\n", "names code"),
    ],
)
def test_init_refuses_unsupported_dataset_yaml(text: str, message: str, tmp_path: Path) -> None:
    root = make_dataset(tmp_path / "data", "captions")
    (tmp_path / "data/.wdsctl/dataset.yaml").write_text(text)
    error = refusal(root)
    assert isinstance(error, DatasetError)
    assert error.code == "WDS224"
    assert message in error.message


@pytest.mark.parametrize("label", [1.5, {"a": 1}, [None]])
def test_init_refuses_labels_that_are_neither_integers_nor_text(label: Any, tmp_path: Path) -> None:
    error = refusal(make_class_dataset(tmp_path / "data", ["cat", label]))
    assert (error.code, error.where) == ("WDS224", "a.tar, sample 1")


def test_init_refuses_dataset_without_labels(tmp_path: Path) -> None:
    error = refusal(make_class_dataset(tmp_path / "data", [None, None]))
    assert "no sample has a label" in error.message


def test_init_refuses_label_field_with_too_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wdsctl.core.init.labels.MAX_CLASSES", 3)
    assert "more than 3 different values" in refusal(make_class_dataset(tmp_path / "data", list("abcd"))).message


def test_init_requires_box_format_for_detection_only(tmp_path: Path) -> None:
    error = refusal(make_dataset(tmp_path / "data", "detect"))
    assert isinstance(error, UsageError)
    assert "--box-format" in error.hint
    error = refusal(make_dataset(tmp_path / "other", "captions"), box_format="xywh")
    assert "--box-format only applies to --detect" in error.message


def test_init_refuses_dataset_without_train_split(tmp_path: Path) -> None:
    error = refusal(make_dataset(tmp_path / "data", "captions", split="test=1"))
    assert error.code == "WDS211"
    assert "wdsctl split" in error.hint


def test_init_refuses_unprepared_folder(tmp_path: Path) -> None:
    a_dataset(tmp_path / "data", {"a.tar": {"0.jpg": an_image(0), "0.txt": b"a"}})
    error = refusal(str(tmp_path / "data"))
    assert error.code in ("WDS002", "WDS301")
    assert "wdsctl prepare" in error.hint


def test_init_refuses_url_destination(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="destination is a URL"):
        init(make_dataset(tmp_path / "data", "captions"), "s3://bucket/run")


@pytest.mark.parametrize(("boxes", "has_options"), [(False, True), (True, False)])
def test_images_of_texts_with_boxes_are_decoded_as_their_boxes_need(
    tmp_path: Path, *, boxes: bool, has_options: bool
) -> None:
    text = as_json({"text": "a", "words": [[1, 2, 3, 4]]})
    a_dataset(tmp_path / "a", {"a.tar": {"0.jpg": an_image(0), "0.json": text}})
    field_map = {"image": "jpg", "text": "json[text]"} | ({"words_boxes": "json[words]"} if boxes else {})
    wdsctl.prepare(tmp_path / "a", sample_type="OCRSample", field_map=field_map, split="train=1", workers=1)

    init(str(tmp_path / "a"), str(tmp_path / "b"))

    script = (tmp_path / "b" / "train.py").read_text()
    assert (", min_side=SIDE, exif_orientation=True" in script) == has_options
