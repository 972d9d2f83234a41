"""Labels of annotation tools: what the fixtures of whole datasets do not have, and damage."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from tests.public_datasets import picture

PICTURE = picture(1)


def a_task(*values: dict[str, Any], image: str = "/data/upload/1/0123abcd-a.jpg", **more: Any) -> dict[str, Any]:
    results = [{"original_width": 200, "original_height": 100, "value": value} for value in values]
    return {"id": 1, "data": {"image": image}, "annotations": [{"result": results, **more}]}


def facts_of_task(root: Path, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
    folder = a_folder(root, {"export.json": json.dumps(tasks).encode(), "a.jpg": PICTURE, "b.jpg": picture(2)})
    return [json.loads(parts["json"]) for parts in read_samples(folder, form="labelstudio").values()]


def test_label_studio_reads_polygons_ellipses_and_turned_boxes(tmp_path: Path) -> None:
    values = (
        {"points": [[10, 10], [20, 10], [10, 30]], "closed": True, "polygonlabels": ["a"]},
        {"x": 50, "y": 50, "radiusX": 10, "radiusY": 20, "rotation": 0, "ellipselabels": ["b"]},
        {"x": 50, "y": 10, "width": 10, "height": 40, "rotation": 90, "rectanglelabels": ["c"]},
        {"x": 1, "y": 2, "width": 0.5, "keypointlabels": ["d"]},
        {"format": "rle", "rle": [1, 2], "brushlabels": ["e"]},
    )

    (facts,) = facts_of_task(tmp_path, a_task(*values))

    assert facts["label_names"] == ["a", "b", "c"]
    expected = [[20, 10, 40, 30], [80, 30, 120, 70], [60, 10, 100, 30]]
    assert [box == pytest.approx(each) for box, each in zip(facts["boxes"], expected, strict=True)] == [True] * 3
    assert facts["masks"][0] == [[20, 10, 40, 10, 20, 30]]
    assert facts["annotation"]["data"] == {"image": "/data/upload/1/0123abcd-a.jpg"}
    assert ("WDS163", "warning", 2) in description_findings(str(tmp_path))


def test_label_studio_takes_the_first_annotation_that_was_not_cancelled(tmp_path: Path) -> None:
    task = a_task({"x": 0, "y": 0, "width": 1, "height": 1, "rectanglelabels": ["no"]}, was_cancelled=True)
    other = a_task({"x": 0, "y": 0, "width": 50, "height": 50, "rectanglelabels": ["yes"]})
    task["annotations"] += other["annotations"]

    (facts,) = facts_of_task(tmp_path, task)

    assert (facts["label_names"], facts["boxes"]) == (["yes"], [[0, 0, 100, 50]])


def test_label_studio_choices_are_classes_if_no_task_has_regions(tmp_path: Path) -> None:
    tasks = [a_task({"choices": [name]}, image=f"/data/local-files/?d={file}.jpg") for name, file in ("zb", "ya")]

    assert [(each["label"], each["label_name"]) for each in facts_of_task(tmp_path, *tasks)] == [(0, "y"), (1, "z")][
        ::-1
    ]
    config = describe_source(str(tmp_path)).config
    assert config is not None
    assert config.sample_type == "ImageClassificationSample"


def cvat(*images: str, name: str = "annotations.xml") -> dict[str, bytes]:
    text = f"<annotations><version>1.1</version><meta></meta>{''.join(images)}</annotations>"
    return {name: text.encode(), "images/a.jpg": PICTURE, "images/sub/b.jpg": picture(2)}


def test_cvat_tags_are_classes_if_no_picture_has_shapes(tmp_path: Path) -> None:
    images = (
        '<image name="a.jpg" subset="Train"><tag label="z"/></image>',
        '<image name="sub/b.jpg" subset="Val"><tag label="y"/></image>',
    )
    root = a_folder(tmp_path, cvat(*images))

    found = {key: json.loads(parts["json"]) for key, parts in read_samples(root).items()}

    assert {key: (facts["label"], facts["label_name"]) for key, facts in found.items()} == {
        "images/a": (1, "z"),
        "images/sub/b": (0, "y"),
    }
    assert [use.becomes for use in describe_source(root).field_uses if "split" in use.becomes] == [
        "split train",
        "split val",
    ]


def test_cvat_reads_ellipses_and_masks_and_counts_points(tmp_path: Path) -> None:
    shapes = (
        '<ellipse label="a" cx="10" cy="8" rx="4" ry="2"/>'
        '<mask label="b" rle="1" left="1" top="2" width="3" height="4"/>'
        '<points label="c" points="1,2"/>'
    )
    root = a_folder(tmp_path, cvat(f'<image name="a.jpg" width="32" height="24">{shapes}</image>'))

    facts = json.loads(read_samples(root)["images/a"]["json"])

    assert (facts["label_names"], facts["boxes"]) == (["a", "b"], [[6, 6, 14, 10], [1, 2, 4, 6]])
    assert description_findings(root) == [("WDS163", "warning", 1), ("WDS239", "error", 1)]  # points; b.jpg


def test_cvat_of_a_video_is_refused(tmp_path: Path) -> None:
    root = a_folder(tmp_path, cvat('<track id="0" label="a"><box frame="0"/></track>'))

    error = open_error(root, form="cvat")
    assert error.code == "WDS233"
    assert "CVAT for images 1.1" in error.hint


def labelme(name: str, *shapes: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"shapes": shapes, "imagePath": name, "imageWidth": 32, "imageHeight": 24, **more}).encode()


def test_labelme_finds_pictures_of_other_folders_and_leaves_out_their_copies(tmp_path: Path) -> None:
    circle = {"label": "c", "shape_type": "circle", "points": [[10, 10], [13, 14]]}
    line = {"label": "l", "shape_type": "line", "points": [[1, 1], [2, 2]]}
    copy = base64.b64encode(PICTURE).decode()
    files = {
        "train/json/x.json": labelme("..\\images\\a.jpg", circle, line, imageData=copy),
        "train/images/a.jpg": PICTURE,
        "val/b.jpg": picture(2),
        "val/b.json": labelme("C:\\old\\b.png", circle),
    }
    root = a_folder(tmp_path, files)

    found = read_samples(root)

    assert found["train/images/a"]["jpg"] == PICTURE
    facts = json.loads(found["train/images/a"]["json"])
    assert (facts["boxes"], facts["label_names"]) == ([[5, 5, 15, 15]], ["c"])
    assert "imageData" not in facts["annotation"]
    assert len(facts["annotation"]["shapes"]) == 2
    assert found.keys() == {"train/images/a", "val/b"}
    assert description_findings(root) == [("WDS163", "warning", 1)]


def test_labels_without_their_picture_are_faults_of_their_samples(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a.json": labelme("a.jpg"), "b.json": labelme("b.jpg"), "b.jpg": PICTURE})

    assert {place: error.code for place, error in read_errors(root).items()} == {0: "WDS231"}


def test_names_that_several_pictures_have_are_not_guessed(tmp_path: Path) -> None:
    files = {"x/a.jpg": PICTURE, "y/a.jpg": picture(2), "z/1.json": labelme("a.jpg"), "z/2.json": labelme("y/a.jpg")}
    root = a_folder(tmp_path, files)

    assert [error.code for error in read_errors(root).values()] == ["WDS231"]


@pytest.mark.parametrize("points", [[], [[1]], [["1", 2]], None, [[1, None]]])
def test_shapes_with_odd_points_are_faults(tmp_path: Path, points: Any) -> None:
    bad = labelme("a.jpg", {"label": "x", "shape_type": "polygon", "points": points})
    root = a_folder(tmp_path, {"a.jpg": PICTURE, "a.json": bad, "b.jpg": PICTURE, "b.json": labelme("b.jpg")})

    assert {place: error.code for place, error in read_errors(root).items()} == {0: "WDS232"}


@pytest.mark.parametrize("line", ["Car 0 0", "Car 0 0 -1 a b c d 1 1 1 1 1 1 1", "Car " + "nan " * 14])
def test_kitti_lines_that_are_no_objects_are_faults_with_their_line(tmp_path: Path, line: str) -> None:
    good = "Car 0.00 0 -1.58 1.0 2.0 3.0 4.0 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59"
    files = {f"image_2/{i}.png": picture(i, "PNG") for i in range(2)}
    labels = {"label_2/0.txt": f"{good}\n".encode(), "label_2/1.txt": f"{good}\n{line}\n".encode()}
    root = a_folder(tmp_path, {**files, **labels})

    errors = read_errors(root)

    assert {place: error.code for place, error in errors.items()} == {1: "WDS232"}
    assert errors[1].where.endswith("label_2/1.txt:2")
