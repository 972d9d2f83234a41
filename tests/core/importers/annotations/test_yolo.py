"""YOLO."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from wdsctl import Dataset
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert

ROWS = b"1 0.5 0.5 0.2 0.4\n0 0.25 0.25 0.5 0.5\n"
NAMES = b"names: [cat, dog]\nnc: 2\n"
SPLIT = {"data.yaml": NAMES, "images/train/a.png": an_image("PNG"), "labels/train/a.txt": ROWS}


def label_files(rows: bytes, data: bytes = NAMES) -> dict[str, bytes]:
    return {"data.yaml": data, "images/a.jpg": b"a", "labels/a.txt": rows}


def read_json(root: str | Path) -> dict[str, dict[str, object]]:
    return {key: json.loads(parts["json"]) for key, parts in read_samples(root).items()}


def test_label_rows_are_boxes_with_labels_and_names(tmp_path: Path) -> None:
    root = a_folder(tmp_path, SPLIT)

    found = read_samples(root)

    assert importers.best_importer(root)[0].name == importers.best_importer(f"{root}/data.yaml")[0].name == "yolo"
    assert list(found) == ["images/train/a"]
    assert found["images/train/a"]["png"] == an_image("PNG")
    assert json.loads(found["images/train/a"]["json"]) == {
        "boxes": [[0.5, 0.5, 0.2, 0.4], [0.25, 0.25, 0.5, 0.5]], "box_format": "normalized_cxcywh",
        "labels": [1, 0], "label_names": ["dog", "cat"],
    }  # fmt: skip


def test_prepared_yolo_has_splits_and_detection_samples(tmp_path: Path) -> None:
    more = {"images/val/b.png": an_image("PNG"), "labels/val/b.txt": b"", "images/val/c.png": an_image("PNG")}
    (converted,) = convert([a_folder(tmp_path / "raw", SPLIT | more)], str(tmp_path / "made")).datasets

    dataset = Dataset(str(tmp_path / "made"))

    assert (converted.sample_type, converted.splits) == ("DetectionSample", {"train": 1, "val": 2})
    sample = dataset["images/train/a"]
    assert (sample.boxes.shape, sample.labels, sample.label_names) == ((2, 4), [1, 0], ["dog", "cat"])
    assert sample.box_format == "normalized_cxcywh"
    assert dataset["images/val/c"].boxes.shape == (0, 4)


def test_polygons_are_masks_and_their_bounds_are_boxes(tmp_path: Path) -> None:
    root = a_folder(tmp_path, label_files(b"0 0.25 0.5 0.75 0.5 0.5 1\n1 0.5 0.5 1 1\n"))

    assert read_json(root)["images/a"] == {
        "boxes": [[0.5, 0.75, 0.5, 0.5], [0.5, 0.5, 1, 1]], "box_format": "normalized_cxcywh", "labels": [0, 1],
        "label_names": ["cat", "dog"], "masks": [[[0.25, 0.5, 0.75, 0.5, 0.5, 1]], None],
    }  # fmt: skip
    config = describe_source(root).config
    assert config is not None
    assert (config.field_map["masks"], config.optional) == ("json[masks]", ("masks",))


def test_keypoints_follow_box_if_data_yaml_has_kpt_shape(tmp_path: Path) -> None:
    root = a_folder(
        tmp_path, label_files(b"0 0.5 0.5 1 1 0.1 0.2 2 0 0 0\n", b"names: {0: person}\nkpt_shape: [2, 3]\n")
    )

    assert read_json(root)["images/a"]["keypoints"] == [[[0.1, 0.2, 2.0], [0.0, 0.0, 0.0]]]
    assert "expected 4 and 2 x 3" in read_errors(a_folder(tmp_path / "odd", label_files(
        b"0 0.5 0.5 1 1 0.1\n", b"names: {0: person}\nkpt_shape: [2, 3]\n",
    )), form="yolo")[0].message  # fmt: skip


@pytest.mark.parametrize(
    ("row", "expected_message"),
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
def test_invalid_label_row_fails_its_sample_with_line(tmp_path: Path, row: bytes, expected_message: str) -> None:
    root = a_folder(tmp_path, label_files(ROWS + row) | {"images/b.jpg": b"b", "labels/b.txt": ROWS})

    found = read_errors(root, form="yolo")

    assert list(found) == [0]
    assert (found[0].code, expected_message in found[0].message) == ("WDS232", True)
    assert found[0].where.endswith("labels/a.txt:3")


def test_files_that_become_no_sample_are_reported(tmp_path: Path) -> None:
    more = {
        "images/b.jpg": b"b", "labels/lost.txt": ROWS, "notes.csv": b"", "labels/c.zip": b"", "README.md": b"",
        ".git/config": b"",
    }  # fmt: skip
    root = a_folder(tmp_path, label_files(b"0 0.9 0.9 0.5 0.5\n") | more)

    assert description_findings(root) == [
        ("WDS163", "warning", 1), ("WDS242", "warning", 1), ("WDS239", "error", 1), ("WDS240", "error", 1),
        ("WDS239", "error", 1), ("WDS239", "warning", 1), ("WDS239", "note", 1),
    ]  # fmt: skip
    messages = [found.message for found in describe_source(root).findings]
    assert "labels/lost.txt: label files without an image" in messages[2]


def test_data_yaml_maps_folders_to_splits(tmp_path: Path) -> None:
    files: Mapping[str, bytes] = {f"{name}/images/{name}.jpg": b"1" for name in ("train", "valid")}
    labels = {f"{name}/labels/{name}.txt": ROWS for name in ("train", "valid")}
    data = NAMES + b"train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"
    root = a_folder(tmp_path / "raw", {**files, **labels, "data.yaml": data})

    assert read_json(root).keys() == {"train/images/train", "valid/images/valid"}
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}


def test_image_lists_are_splits_and_missing_images_are_reported(tmp_path: Path) -> None:
    files = {f"images/{name}.jpg": b"1" for name in "abc"} | {f"labels/{name}.txt": ROWS for name in "abc"}
    lists = {"train.txt": b"./images/a.jpg\nimages/b.jpg\n", "val.txt": b"images/c.jpg\nimages/d.jpg\n/etc/passwd\n"}
    root = a_folder(tmp_path / "raw", {**files, **lists, "data.yaml": NAMES})

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 2, "val": 1}
    assert ("WDS231", "error", 2) in description_findings(root)


def test_images_in_two_lists_or_in_no_split_are_reported(tmp_path: Path) -> None:
    files = {f"images/{name}.jpg": b"1" for name in "abc"} | {f"labels/{name}.txt": ROWS for name in "abc"}
    lists = {"train.txt": b"images/a.jpg\nimages/b.jpg\n", "val.txt": b"images/b.jpg\n"}
    root = a_folder(tmp_path / "raw", {**files, **lists, "data.yaml": NAMES})

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 2}
    assert description_findings(root) == [("WDS212", "warning", 1), ("WDS213", "warning", 1)]
    assert "images/c.jpg" in describe_source(root).findings[1].message


@pytest.mark.parametrize("val", ["images/train2017", "images"])
def test_folder_of_two_splits_in_data_yaml_is_reported(tmp_path: Path, val: str) -> None:
    data = NAMES + b"train: images/train2017\nval: " + val.encode() + b"\n"
    files = {"data.yaml": data, "images/train2017/a.jpg": b"1", "labels/train2017/a.txt": ROWS}
    root = a_folder(tmp_path / "raw", files)

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 1}
    assert description_findings(root) == [("WDS212", "warning", 1)]


def test_absolute_folders_in_data_yaml_are_splits(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    data = NAMES + f"train: {root}/images/a\nval: {root}/images/b\n".encode()
    a_folder(
        root, {f"{kind}/{name}/1.{end}": ROWS for name in "ab" for kind, end in (("images", "jpg"), ("labels", "txt"))}
    )
    a_folder(root, {"data.yaml": data})

    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}


def test_class_names_keep_their_numbers_after_mark_and_blank_line(tmp_path: Path) -> None:
    names = b"\xef\xbb\xbfcat\r\n\r\ndog\r\n\r\n"
    root = a_folder(tmp_path, {"classes.txt": names, "a.jpg": b"a", "a.txt": b"0 0.5 0.5 1 1\n2 0.5 0.5 1 1\n"})

    assert read_json(root)["a"]["label_names"] == ["cat", "dog"]


def test_labels_next_to_images_with_classes_txt_are_yolo(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"classes.txt": b"cat\ndog\n", "a.jpg": b"a", "a.txt": ROWS})

    assert read_json(root)["a"]["label_names"] == ["dog", "cat"]
    assert description_findings(root) == []


def test_captions_next_to_images_are_no_labels(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"images/a.jpg": b"a", "labels/a.txt": b"a cat on a mat\n"})

    assert "yolo" not in [importer.name for importer, _ in importers.find_importers(root)]


def test_classes_without_names_have_only_numbers(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"images/a.jpg": b"a", "labels/a.txt": ROWS})

    assert "label_names" not in read_json(root)["images/a"]
    assert ("names of classes", "") in [use[:2] for use in describe_source(root).field_uses]


def test_invalid_data_yaml_is_refused(tmp_path: Path) -> None:
    assert open_error(a_folder(tmp_path / "a", label_files(ROWS, b"names: [")), form="yolo").code == "WDS220"
    assert open_error(a_folder(tmp_path / "b", label_files(ROWS, b"names: 3")), form="yolo").code == "WDS233"


def test_data_yaml_with_python_tag_is_refused_and_runs_no_code(tmp_path: Path) -> None:
    data = f"names: !!python/object/apply:os.mkdir [{tmp_path / 'made'}]\n".encode()
    error = open_error(a_folder(tmp_path / "raw", label_files(ROWS, data)), form="yolo")

    assert (error.code, "python/object/apply:os.mkdir" in error.message) == ("WDS220", True)
    assert not (tmp_path / "made").exists()


def test_duplicate_class_names_are_read_once(tmp_path: Path) -> None:
    files = {"images/a.jpg": b"a", "labels/a.txt": ROWS, "data.yaml": b"names: [cat, dog]\n"}
    same = a_folder(tmp_path / "same", {**files, "classes.txt": b"cat\ndog\n"})
    other = a_folder(tmp_path / "other", {**files, "classes.txt": b"dog\ncat\n"})

    assert ("classes.txt", "", "data.yaml has the same names") in describe_source(same).field_uses
    assert description_findings(same) == []
    assert description_findings(other) == [("WDS239", "error", 1)]
