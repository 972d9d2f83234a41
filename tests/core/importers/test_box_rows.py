"""Tables with a row for each box become pictures with lists of boxes. All boxes and labels are compared."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, description_findings, read_errors, read_samples
from tests.core.importers.test_named_files import encode_table, picture
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest

TENSORFLOW: list[dict[str, Any]] = [
    {
        "filename": f"p{i}.jpg",
        "width": 100,
        "height": 80,
        "class": name,
        "xmin": i,
        "ymin": 2,
        "xmax": i + 9,
        "ymax": 70,
    }
    for i in range(6)
    for name in ("dog", "cat", "dog")[: i % 3 + 1]
]
OPEN_IMAGES: list[dict[str, Any]] = [
    {
        "ImageID": f"{i:016x}",
        "Source": "xclick",
        "LabelName": f"/m/0{n}",
        "Confidence": 1,
        "XMin": 0.1 * n,
        "XMax": 0.1 * n + 0.25,
        "YMin": 0.5,
        "YMax": 0.75,
        "IsGroupOf": n % 2,
    }
    for i in range(4)
    for n in range(1, i + 2)
]


def pictures_of(rows: list[dict[str, Any]], form: str) -> dict[str, bytes]:
    field, ending = ("filename", "") if form == "tensorflow" else ("ImageID", ".jpg")
    names = dict.fromkeys(row[field] for row in rows)
    return {f"images/{name}{ending}": picture(i) for i, name in enumerate(names)}


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_rows_of_boxes_become_one_sample_a_picture(tmp_path: Path, form: str, order: str) -> None:
    rows = random.Random(0).sample(TENSORFLOW, len(TENSORFLOW)) if order == "shuffled" else TENSORFLOW
    root = a_folder(tmp_path, {**pictures_of(TENSORFLOW, "tensorflow"), f"t.{form}": encode_table(rows, form)})

    found = read_samples(root)

    assert found == read_samples(f"{root}/t.{form}")
    assert list(found) == list(dict.fromkeys(row["filename"].removesuffix(".jpg") for row in rows))
    for key, parts in found.items():
        own = [row for row in rows if row["filename"] == f"{key}.jpg"]
        assert parts["jpg"] == picture(int(key[1:]))
        assert json.loads(parts["json"]) == {
            "boxes": [[row["xmin"], row["ymin"], row["xmax"], row["ymax"]] for row in own],
            "box_format": "xyxy",
            "labels": [["cat", "dog"].index(row["class"]) for row in own],
            "label_names": [row["class"] for row in own],
            "width": 100,
            "height": 80,
        }
    uses = {use.name: (use.becomes, use.note) for use in describe_source(root).field_uses}
    assert uses["xmin, ymin, xmax, ymax"] == ("json[boxes]", "xyxy; 12 boxes of 6 pictures")
    assert uses["class"] == ("json[labels], json[label_names]", "2 classes, numbered by name: 0 cat, 1 dog")
    assert description_findings(root) == []


def test_open_images_becomes_detection_samples(tmp_path: Path) -> None:
    files = pictures_of(OPEN_IMAGES, "openimages")
    root = a_folder(tmp_path / "raw", {**files, "boxes.csv": encode_table(OPEN_IMAGES, "csv")})

    report = prepare(root, str(tmp_path / "out"), PrepareRequest())

    assert report.sample_type == "DetectionSample"
    assert report.field_map["boxes"] == "json[boxes]"
    for i, (key, parts) in enumerate(read_samples(root).items()):
        own = [row for row in OPEN_IMAGES if row["ImageID"] == key]
        facts = json.loads(parts["json"])
        assert (parts["jpg"], len(own)) == (picture(i), i + 1)
        assert facts["box_format"] == "normalized_xyxy"
        assert facts["boxes"] == [[row["XMin"], row["YMin"], row["XMax"], row["YMax"]] for row in own]
        assert facts["label_names"] == [row["LabelName"] for row in own]
        assert facts["IsGroupOf"] == [row["IsGroupOf"] for row in own]
        assert (facts["Source"], facts["Confidence"]) == ("xclick", 1)
    assert index(str(tmp_path / "out")).samples == 4


def test_pictures_without_boxes_bad_rows_and_missing_files_are_accounted_for(tmp_path: Path) -> None:
    box: dict[str, Any] = {"image": "a.jpg", "x": 1, "y": 2, "w": 3, "h": 4, "label": 7}
    empty = dict.fromkeys(("x", "y", "w", "h", "label"), "")
    rows: list[dict[str, Any]] = [
        *(box, box | {"label": 8}, box | {"x": 20}),
        *({"image": "none.jpg", **empty}, {"image": "none.jpg", **empty}),
        *(box | {"image": "bad.jpg"}, box | {"image": "bad.jpg", "w": -3}),
        *(box | {"image": "unlabelled.jpg", "label": ""}, box | {"image": "gone.jpg"}, box | {"image": ""}),
    ]
    files = {f"{name}.jpg": name.encode() for name in ("a", "none", "bad", "unlabelled")}
    root = a_folder(tmp_path, {**files, "t.csv": encode_table(rows, "csv")})

    faults = read_errors(root)

    assert {at: (fault.code, fault.where.rpartition(":")[2]) for at, fault in faults.items()} == {
        2: ("WDS232", "8"),
        3: ("WDS232", "9"),
        4: ("WDS231", "10, image"),
    }
    facts = {
        "a": {"boxes": [[1, 2, 3, 4], [1, 2, 3, 4], [20, 2, 3, 4]], "box_format": "xywh", "labels": [7, 8, 7]},
        "none": {"boxes": [], "box_format": "xywh", "labels": []},
    }
    alone = [row for row in rows if row["image"] in ("a.jpg", "none.jpg")]
    good = a_folder(tmp_path / "good", {**files, "t.csv": encode_table(alone, "csv")})
    assert {key: json.loads(parts["json"]) for key, parts in read_samples(f"{good}/t.csv").items()} == facts


def test_boxes_outside_of_their_picture_are_reported(tmp_path: Path) -> None:
    rows = [row | {"xmax": 150 if row["filename"] == "p2.jpg" else row["xmax"]} for row in TENSORFLOW]
    root = a_folder(tmp_path, {**pictures_of(rows, "tensorflow"), "t.csv": encode_table(rows, "csv")})

    assert description_findings(root) == [("WDS163", "warning", 3)]


def test_one_box_a_picture_stays_a_row(tmp_path: Path) -> None:
    rows = [
        row for i, row in enumerate(TENSORFLOW) if row["filename"] not in [each["filename"] for each in TENSORFLOW[:i]]
    ]
    root = a_folder(tmp_path, {**pictures_of(rows, "tensorflow"), "t.csv": encode_table(rows, "csv")})

    assert json.loads(read_samples(root)["p1"]["json"])["xmax"] == 10
