"""YOLO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import described, faults, held, refused, reported
from wdsctl import Dataset
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert

ROWS = b"1 0.5 0.5 0.2 0.4\n0 0.25 0.25 0.5 0.5\n"
NAMES = b"names: [cat, dog]\nnc: 2\n"
SPLIT = {"data.yaml": NAMES, "images/train/a.png": an_image("PNG"), "labels/train/a.txt": ROWS}


def labelled(rows: bytes, data: bytes = NAMES) -> dict[str, bytes]:
    return {"data.yaml": data, "images/a.jpg": b"a", "labels/a.txt": rows}


def facts(root: str | Path) -> dict[str, dict[str, object]]:
    return {key: json.loads(parts["json"]) for key, parts in held(root).items()}


def test_rows_of_the_label_file_are_boxes_with_labels_and_names(tmp_path: Path) -> None:
    root = a_folder(tmp_path, SPLIT)

    found = held(root)

    assert importers.best_importer(root)[0].name == importers.best_importer(f"{root}/data.yaml")[0].name == "yolo"
    assert list(found) == ["images/train/a"]
    assert found["images/train/a"]["png"] == an_image("PNG")
    assert json.loads(found["images/train/a"]["json"]) == {
        "boxes": [[0.5, 0.5, 0.2, 0.4], [0.25, 0.25, 0.5, 0.5]], "box_format": "normalized_cxcywh",
        "labels": [1, 0], "label_names": ["dog", "cat"],
    }  # fmt: skip


def test_a_prepared_folder_has_splits_and_is_read_as_detection_samples(tmp_path: Path) -> None:
    more = {"images/val/b.png": an_image("PNG"), "labels/val/b.txt": b"", "images/val/c.png": an_image("PNG")}
    (made,) = convert([a_folder(tmp_path / "raw", SPLIT | more)], str(tmp_path / "made")).datasets

    dataset = Dataset(str(tmp_path / "made"))

    assert (made.sample_type, made.splits) == ("DetectionSample", {"train": 1, "val": 2})
    sample = dataset["images/train/a"]
    assert (sample.boxes.shape, sample.labels, sample.label_names) == ((2, 4), [1, 0], ["dog", "cat"])
    assert sample.box_format == "normalized_cxcywh"
    assert dataset["images/val/c"].boxes.shape == (0, 4)


def test_polygons_are_masks_whose_bounds_are_the_boxes(tmp_path: Path) -> None:
    root = a_folder(tmp_path, labelled(b"0 0.25 0.5 0.75 0.5 0.5 1\n1 0.5 0.5 1 1\n"))

    assert facts(root)["images/a"] == {
        "boxes": [[0.5, 0.75, 0.5, 0.5], [0.5, 0.5, 1, 1]], "box_format": "normalized_cxcywh", "labels": [0, 1],
        "label_names": ["cat", "dog"], "masks": [[[0.25, 0.5, 0.75, 0.5, 0.5, 1]], None],
    }  # fmt: skip
    config = described(root).config
    assert config is not None
    assert (config.field_map["masks"], config.optional) == ("json[masks]", ("masks",))


def test_keypoints_follow_the_box_if_data_yaml_has_their_shape(tmp_path: Path) -> None:
    root = a_folder(tmp_path, labelled(b"0 0.5 0.5 1 1 0.1 0.2 2 0 0 0\n", b"names: {0: person}\nkpt_shape: [2, 3]\n"))

    assert facts(root)["images/a"]["keypoints"] == [[[0.1, 0.2, 2.0], [0.0, 0.0, 0.0]]]
    assert "expected 4 and 2 x 3" in faults(a_folder(tmp_path / "odd", labelled(
        b"0 0.5 0.5 1 1 0.1\n", b"names: {0: person}\nkpt_shape: [2, 3]\n",
    )), form="yolo")[0].message  # fmt: skip


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"2 0.5 0.5 0.2 0.2", "the class is 2, expected 0 to 1"),
        (b"-1 0.5 0.5 0.2 0.2", "the class is -1, expected 0 to 1"),
        (b"0 320 240 64 48", "320 is not a fraction"),
        (b"0 nan 0.5 0.1 0.1", "nan is not a fraction"),
        (b"0 0.5 0.5 0.2", "3 values after the class"),
        (b"0 0.5 0.5 0.2 0.2 0.9", "5 values after the class"),
        (b"cat 0.5 0.5 0.2 0.2", "found text"),
    ],
)
def test_a_row_that_is_no_object_fails_its_sample_with_the_line(tmp_path: Path, row: bytes, said: str) -> None:
    root = a_folder(tmp_path, labelled(ROWS + row) | {"images/b.jpg": b"b", "labels/b.txt": ROWS})

    found = faults(root, form="yolo")

    assert list(found) == [0]
    assert (found[0].code, said in found[0].message) == ("WDS232", True)
    assert found[0].where.endswith("labels/a.txt:3")


def test_all_files_that_become_no_sample_are_reported(tmp_path: Path) -> None:
    more = {
        "images/b.jpg": b"b", "labels/lost.txt": ROWS, "notes.csv": b"", "labels/c.zip": b"", "README.md": b"",
        ".git/config": b"",
    }  # fmt: skip
    root = a_folder(tmp_path, labelled(b"0 0.9 0.9 0.5 0.5\n") | more)

    assert reported(root) == [
        ("WDS163", "warning", 1), ("WDS242", "warning", 1), ("WDS239", "error", 1), ("WDS240", "error", 1),
        ("WDS239", "error", 1), ("WDS239", "warning", 1), ("WDS239", "note", 1),
    ]  # fmt: skip
    messages = [found.message for found in described(root).findings]
    assert "labels/lost.txt: label files without an image" in messages[2]


def test_data_yaml_says_which_folder_is_which_split(tmp_path: Path) -> None:
    files: Mapping[str, bytes] = {f"{name}/images/{name}.jpg": b"1" for name in ("train", "valid")}
    labels = {f"{name}/labels/{name}.txt": ROWS for name in ("train", "valid")}
    data = NAMES + b"train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    root = a_folder(tmp_path / "raw", {**files, **labels, "data.yaml": data})

    assert facts(root).keys() == {"train/images/train", "valid/images/valid"}
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}


def test_lists_of_images_are_splits_and_lines_without_an_image_are_reported(tmp_path: Path) -> None:
    files = {f"images/{name}.jpg": b"1" for name in "abc"} | {f"labels/{name}.txt": ROWS for name in "abc"}
    lists = {"train.txt": b"./images/a.jpg\nimages/b.jpg\n", "val.txt": b"images/c.jpg\nimages/d.jpg\n/etc/passwd\n"}
    root = a_folder(tmp_path / "raw", {**files, **lists, "data.yaml": NAMES})

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 2, "val": 1}
    assert ("WDS231", "error", 2) in reported(root)


def test_labels_beside_the_images_with_classes_txt_are_yolo_too(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"classes.txt": b"cat\ndog\n", "a.jpg": b"a", "a.txt": ROWS})

    assert facts(root)["a"]["label_names"] == ["dog", "cat"]
    assert reported(root) == []


def test_captions_beside_images_are_no_labels(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"images/a.jpg": b"a", "labels/a.txt": b"a cat on a mat\n"})

    assert "yolo" not in [importer.name for importer, _ in importers.find_importers(root)]


def test_names_are_numbers_if_nothing_names_them(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"images/a.jpg": b"a", "labels/a.txt": ROWS})

    assert "label_names" not in facts(root)["images/a"]
    assert ("names of classes", "") in [use[:2] for use in described(root).field_uses]


def test_a_data_yaml_that_is_no_yaml_or_has_odd_names_is_refused(tmp_path: Path) -> None:
    assert refused(a_folder(tmp_path / "a", labelled(ROWS, b"names: [")), form="yolo").code == "WDS220"
    assert refused(a_folder(tmp_path / "b", labelled(ROWS, b"names: 3")), form="yolo").code == "WDS233"
    assert refused(a_folder(tmp_path / "c", labelled(ROWS, b"names: !!python/name:os.system x")), form="yolo").code


def test_names_that_are_there_twice_are_read_once(tmp_path: Path) -> None:
    files = {"images/a.jpg": b"a", "labels/a.txt": ROWS, "data.yaml": b"names: [cat, dog]\n"}
    same = a_folder(tmp_path / "same", {**files, "classes.txt": b"cat\ndog\n"})
    other = a_folder(tmp_path / "other", {**files, "classes.txt": b"dog\ncat\n"})

    assert ("classes.txt", "", "data.yaml has the same names") in described(same).field_uses
    assert reported(same) == []
    assert reported(other) == [("WDS239", "error", 1)]
