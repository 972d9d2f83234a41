"""COCO captions and detection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from tests.core.formats import faults, held, refused
from wdsctl.core import importers

IMAGES = [{"id": 7, "file_name": "07.jpg", "width": 4}, {"id": 3, "file_name": "03.jpg", "width": 5}]
BOXES = [{"id": i, "image_id": image, "category_id": 1, "bbox": [i, 0, 1, 1]} for i, image in enumerate((3, 7, 3))]


def a_coco(root: Path, name: str = "instances_val2017.json", **more: Any) -> str:
    said = {
        "info": {"x": [1]},
        "images": IMAGES,
        "annotations": BOXES,
        "categories": [{"id": 1, "name": "dog"}],
        **more,
    }
    files = {f"annotations/{name}": json.dumps(said).encode(), "val2017/07.jpg": b"seven", "val2017/03.jpg": b"three"}
    return a_folder(root, files)


def test_annotations_are_gathered_by_image_with_their_category(tmp_path: Path) -> None:
    root = a_coco(tmp_path)

    found = held(root)

    assert importers.best_importer(root)[0].name == "coco"
    assert found["07"]["jpg"] == b"seven"
    assert json.loads(found["03"]["json"]) == {
        "id": 3, "width": 5, "annotations": [{**BOXES[0], "category": "dog"}, {**BOXES[2], "category": "dog"}],
    }  # fmt: skip


def test_captions_are_a_list_of_texts_too(tmp_path: Path) -> None:
    notes = [{"id": 1, "image_id": 7, "caption": "a dog"}, {"id": 2, "image_id": 7, "caption": "é"}]
    root = a_coco(tmp_path, "captions_val2017.json", annotations=notes)

    found = held(f"{root}/annotations/captions_val2017.json", {"key": "id"})

    assert json.loads(found["7"]["json"])["captions"] == ["a dog", "é"]
    assert json.loads(found["3"]["json"]) == {"id": 3, "width": 5, "annotations": []}


def test_annotations_without_an_image_are_refused_unless_they_are_to_be_skipped(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": 99}])

    assert refused(root).code == "WDS232"
    assert len(held(root, {"orphans": "skip"})) == 2


def test_annotations_of_no_category_are_refused_unless_they_are_to_be_left_out(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": BOXES[0]["image_id"], "category_id": 77}])

    assert refused(root).message == "1 annotation of missing categories, such as 77"
    kept = [json.loads(parts["json"])["annotations"] for parts in held(root, {"orphans": "skip"}).values()]
    assert all(note["category_id"] != 77 for notes in kept for note in notes)


def test_a_category_may_be_a_whole_number_with_a_point(tmp_path: Path) -> None:
    (only,) = json.loads(held(a_coco(tmp_path, annotations=[BOXES[1] | {"category_id": 1.0}]))["07"]["json"])[
        "annotations"
    ]
    assert only["category"] == "dog"


def test_a_file_without_categories_may_have_annotations_that_name_some(tmp_path: Path) -> None:
    assert len(held(a_coco(tmp_path, categories=[]))) == 2


def test_a_missing_image_is_a_fault_of_its_sample(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    (tmp_path / "val2017" / "03.jpg").unlink()

    assert {place: error.code for place, error in faults(root).items()} == {1: "WDS231"}


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.99])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, keep: float) -> None:
    root = a_coco(tmp_path)
    file = tmp_path / "annotations" / "instances_val2017.json"
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])

    assert refused(str(file), form="coco").code == "WDS233"
    assert root


def test_of_several_files_of_annotations_one_must_be_named(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    a_coco(tmp_path, "captions_val2017.json")

    assert "name the file itself" in refused(root, form="coco").hint


def test_texts_that_are_not_utf_8_are_damage(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_bytes(path.read_bytes().replace(b"03.jpg", b"\xff3.jpg"))

    assert refused(root).code == "WDS233"


def test_odd_numbers_of_categories_name_none(tmp_path: Path) -> None:
    odd = [{**BOXES[0], "category_id": [1]}]
    root = a_coco(tmp_path, annotations=odd, categories=[{"id": {}, "name": "cat"}, 5])

    assert json.loads(held(root)["03"]["json"])["annotations"] == odd
