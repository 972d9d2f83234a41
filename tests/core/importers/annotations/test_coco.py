"""COCO captions and detection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import described, faults, held, refused, reported
from wdsctl import Dataset
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert

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
        "id": 3, "width": 5, "box_format": "xywh",
        "annotations": [{**BOXES[0], "category": "dog"}, {**BOXES[2], "category": "dog"}],
    }  # fmt: skip


def test_captions_are_a_list_of_texts_too(tmp_path: Path) -> None:
    notes = [{"id": 1, "image_id": 7, "caption": "a dog"}, {"id": 2, "image_id": 7, "caption": "é"}]
    root = a_coco(tmp_path, "captions_val2017.json", annotations=notes)

    found = held(f"{root}/annotations/captions_val2017.json", {"key": "id"})

    assert json.loads(found["7"]["json"])["captions"] == ["a dog", "é"]
    assert json.loads(found["3"]["json"]) == {
        "id": 3, "width": 5, "annotations": [], "captions": [], "caption_annotations": [],
    }  # fmt: skip
    assert json.loads(found["7"]["json"])["caption_annotations"] == notes


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


def a_whole_coco(root: Path) -> str:
    """Captions, instances, keypoints and panoptic segments of three images for training, and instances of one more."""
    images = [{"id": i, "file_name": f"{i:012d}.png", "width": 48, "height": 32, "license": i} for i in (1, 2, 3)]
    categories = [{"id": 1, "name": "person", "supercategory": "animal"}, {"id": 9, "name": "dog"}]
    whole = {"iscrowd": 0, "area": 6.0, "segmentation": [[1, 1, 4, 1, 4, 3]]}
    person = {"id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 2], **whole}
    dog = {"id": 6, "image_id": 1, "category_id": 9, "bbox": [40, 20, 20, 10], **whole}
    texts = [{"id": 5, "image_id": 1, "caption": "a person"}, {"id": 6, "image_id": 1, "caption": "and a dog"}]
    segments = [{"id": 1, "category_id": 9, "area": 3, "bbox": [0, 0, 3, 1], "iscrowd": 0}]
    told: dict[str, dict[str, Any]] = {
        "captions_train2017": {"images": images, "annotations": texts},
        "instances_train2017": {"images": images, "annotations": [dog, person], "categories": categories},
        "person_keypoints_train2017": {
            "images": images,
            "annotations": [person | {"keypoints": [1, 1, 2], "num_keypoints": 1}],
            "categories": categories[:1],
        },
        "panoptic_train2017": {
            "images": images[:1],
            "annotations": [{"image_id": 1, "file_name": "000000000001.png", "segments_info": segments}],
            "categories": categories,
        },
        "instances_val2017": {
            "images": [{"id": 1, "file_name": "000000000001.png"}],
            "annotations": [],
            "categories": categories,
        },
    }
    files = {f"annotations/{name}.json": json.dumps({"info": {}, **value}).encode() for name, value in told.items()}
    files |= {f"train2017/{i:012d}.png": an_image("PNG") for i in (1, 2, 3)}
    files |= {"val2017/000000000001.png": an_image("PNG")}
    files |= {"annotations/panoptic_train2017/000000000001.png": an_image("PNG")}
    return a_folder(root, files)


def test_files_of_the_same_images_make_one_sample_and_those_of_others_a_split(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path / "raw")

    found = held(root)

    assert list(found) == [*(f"train2017/{i:012d}" for i in (1, 2, 3)), "val2017/000000000001"]
    first = json.loads(found["train2017/000000000001"]["json"])
    assert first.pop("segments_info") == [
        {"id": 1, "category_id": 9, "area": 3, "bbox": [0, 0, 3, 1], "iscrowd": 0, "category": "dog"}
    ]
    assert [note["id"] for note in first["annotations"]] == [6, 5]
    assert first["annotations"][1] == {
        "id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 2], "iscrowd": 0, "area": 6.0,
        "segmentation": [[1, 1, 4, 1, 4, 3]], "category": "person", "keypoints": [1, 1, 2], "num_keypoints": 1,
    }  # fmt: skip
    assert (first["captions"], first["box_format"], first["license"]) == (["a person", "and a dog"], "xywh", 1)
    second = json.loads(found["train2017/000000000002"]["json"])
    assert (second["annotations"], second["captions"]) == ([], [])
    assert found["train2017/000000000001"]["seg.png"] == an_image("PNG")
    assert set(found["train2017/000000000002"]) == {"json", "png"}
    assert held(f"{root}/annotations") == found


def test_a_prepared_coco_is_read_as_boxes_with_names_and_keypoints(tmp_path: Path) -> None:
    (made,) = convert([a_whole_coco(tmp_path / "raw")], str(tmp_path / "made")).datasets
    assert (made.sample_type, made.splits) == ("DetectionSample", {"train": 3, "val": 1})

    dataset = Dataset(str(tmp_path / "made"))
    sample, empty = dataset["train2017/000000000001"], dataset["val2017/000000000001"]

    assert sample.boxes.tolist() == [[40, 20, 20, 10], [1, 1, 3, 2]]
    assert (sample.labels, sample.label_names, sample.box_format) == ([9, 1], ["dog", "person"], "xywh")
    assert (sample.keypoints, sample.areas, sample.is_crowd) == ([None, [1, 1, 2]], [6.0, 6.0], [0, 0])
    assert (empty.boxes.shape, empty.labels) == ((0, 4), [])


def test_a_description_counts_boxes_outside_images_without_annotations_and_unlisted_files(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path)
    extra = {"train2017/more.png": b"", "train2017/old.zip": b"", "README.txt": b"", "annotations/notes.json": b"[]"}
    a_folder(tmp_path, extra)

    found = described(root)

    assert [(each.code, each.severity, each.count) for each in found.findings] == [
        ("WDS163", "warning", 1), ("WDS242", "note", 3), ("WDS240", "error", 1), ("WDS239", "error", 2),
        ("WDS239", "warning", 1),
    ]  # fmt: skip
    assert "instances_train2017.json" in found.findings[0].message
    uses = {use.name: use.becomes for use in found.field_uses}
    assert uses["annotations with boxes"] == "json[annotations]"
    assert (uses["categories[supercategory]"], uses["info"], uses["captions"]) == ("", "", "json[captions]")


def test_panoptic_files_alone_are_segmentations(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path / "raw")
    for name in ("captions_train", "instances_train", "person_keypoints_train", "instances_val"):
        (tmp_path / "raw" / "annotations" / f"{name}2017.json").unlink()

    (made,) = convert([root], str(tmp_path / "made")).datasets
    sample = Dataset(str(tmp_path / "made"))[0]

    assert (made.sample_type, made.samples) == ("SegmentationSample", 1)
    assert sample.segments[0]["category"] == "dog"
    assert set(sample.mask.flatten().tolist()) == {200 + 30 * 256 + 60 * 65536}
    assert ("WDS239", "error", 3) in reported(root)


def test_a_missing_png_of_segments_fails_its_sample(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path)
    (tmp_path / "annotations" / "panoptic_train2017" / "000000000001.png").unlink()

    assert {place: error.code for place, error in faults(root).items()} == {0: "WDS231"}


def test_captions_alone_are_captioning_samples_with_all_captions(tmp_path: Path) -> None:
    notes = [{"id": i, "image_id": 7, "caption": text} for i, text in enumerate(("a dog", "an animal"))]
    root = a_coco(tmp_path, "captions_val2017.json", annotations=notes)

    config = described(root).config

    assert config is not None
    assert (config.sample_type, config.field_map) == (
        "CaptioningSample", {"image": "jpg", "caption": "json[captions][0]", "captions": "json[captions]"},
    )  # fmt: skip
    assert ("WDS148", "warning", 1) in reported(root)


def test_annotations_in_the_folders_of_splits_are_found(tmp_path: Path) -> None:
    def told(name: str) -> bytes:
        return json.dumps({"images": [{"id": 0, "file_name": name}], "annotations": []}).encode()

    files = {f"{split}/_annotations.coco.json": told(f"{split}.jpg") for split in ("train", "valid")}
    root = a_folder(tmp_path, files | {f"{split}/{split}.jpg": split.encode() for split in ("train", "valid")})

    assert {key: parts["jpg"] for key, parts in held(root).items()} == {
        "train/train": b"train", "valid/valid": b"valid",
    }  # fmt: skip
    assert reported(root) == [("WDS242", "note", 2)]


def test_files_that_give_one_id_to_two_images_are_refused(tmp_path: Path) -> None:
    root = a_coco(tmp_path, "a.json")
    a_coco(tmp_path, "b.json", images=[{"id": 7, "file_name": "other.jpg"}], annotations=[])

    assert "'other.jpg' here" in refused(root).message


def test_annotations_without_a_usable_box_are_kept_apart(tmp_path: Path) -> None:
    odd = {"id": 8, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3]}
    root = a_coco(tmp_path, annotations=[*BOXES, odd])

    found = json.loads(held(root)["07"]["json"])

    assert (found["annotations"], found["other_annotations"]) == (
        [{**BOXES[1], "category": "dog"}], [{**odd, "category": "dog"}],
    )  # fmt: skip
    assert ("WDS163", "warning", 1) in reported(root)


def test_skipped_orphans_are_reported(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": 99}])

    assert ("WDS232", "error", 1) in reported(root, {"orphans": "skip"})


def test_texts_that_are_not_utf_8_are_damage(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_bytes(path.read_bytes().replace(b"03.jpg", b"\xff3.jpg"))

    assert refused(root).code == "WDS233"


def test_odd_numbers_of_categories_name_none(tmp_path: Path) -> None:
    odd = [{**BOXES[0], "category_id": [1]}]
    root = a_coco(tmp_path, annotations=odd, categories=[{"id": {}, "name": "cat"}, 5])

    assert json.loads(held(root)["03"]["json"])["annotations"] == odd
