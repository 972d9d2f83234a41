"""COCO captions and detection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import describe_source, description_findings, open_error, read_errors, read_samples
from wdsctl import Dataset
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert

IMAGES = [{"id": 7, "file_name": "07.jpg", "width": 4}, {"id": 3, "file_name": "03.jpg", "width": 5}]
BOXES = [{"id": i, "image_id": image, "category_id": 1, "bbox": [i, 0, 1, 1]} for i, image in enumerate((3, 7, 3))]


def a_coco(root: Path, name: str = "instances_val2017.json", **more: Any) -> str:
    document = {
        "info": {"x": [1]},
        "images": IMAGES,
        "annotations": BOXES,
        "categories": [{"id": 1, "name": "dog"}],
        **more,
    }
    files = {
        f"annotations/{name}": json.dumps(document).encode(),
        "val2017/07.jpg": b"seven",
        "val2017/03.jpg": b"three",
    }
    return a_folder(root, files)


def test_annotations_are_grouped_by_image_with_category_name(tmp_path: Path) -> None:
    root = a_coco(tmp_path)

    actual = read_samples(root)

    assert importers.best_importer(root)[0].name == "coco"
    assert actual["07"]["jpg"] == b"seven"
    assert json.loads(actual["03"]["json"]) == {
        "id": 3, "width": 5, "box_format": "xywh",
        "annotations": [{**BOXES[0], "category": "dog"}, {**BOXES[2], "category": "dog"}],
    }  # fmt: skip


def test_captions_are_also_a_list_of_texts(tmp_path: Path) -> None:
    notes = [{"id": 1, "image_id": 7, "caption": "a dog"}, {"id": 2, "image_id": 7, "caption": "é"}]
    root = a_coco(tmp_path, "captions_val2017.json", annotations=notes)

    actual = read_samples(f"{root}/annotations/captions_val2017.json", {"key": "id"})

    assert json.loads(actual["7"]["json"])["captions"] == ["a dog", "é"]
    assert json.loads(actual["3"]["json"]) == {
        "id": 3, "width": 5, "annotations": [], "captions": [], "caption_annotations": [],
    }  # fmt: skip
    assert json.loads(actual["7"]["json"])["caption_annotations"] == notes


def test_annotations_without_image_are_refused_unless_skipped(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": 99}])

    assert open_error(root).code == "WDS232"
    assert len(read_samples(root, {"orphans": "skip"})) == 2


def test_answers_of_vqa_are_refused_with_way_to_join_them(tmp_path: Path) -> None:
    notes = [{"image_id": 7, "question_id": 70, "multiple_choice_answer": "yes"}]
    (tmp_path / "answers.json").write_text(json.dumps({"annotations": notes}))

    error = open_error(str(tmp_path))

    assert (error.code, error.message) == ("WDS233", "the file has annotations, but lists no images")
    assert "pass the folder of the files of questions" in error.hint


def test_annotations_with_unknown_category_are_refused_unless_skipped(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": BOXES[0]["image_id"], "category_id": 77}])

    assert open_error(root).message == "1 annotation of missing categories, such as 77"
    annotation_lists = [
        json.loads(parts["json"])["annotations"] for parts in read_samples(root, {"orphans": "skip"}).values()
    ]
    assert all(note["category_id"] != 77 for notes in annotation_lists for note in notes)


def test_category_id_may_be_float(tmp_path: Path) -> None:
    (annotation,) = json.loads(
        read_samples(a_coco(tmp_path, annotations=[BOXES[1] | {"category_id": 1.0}]))["07"]["json"]
    )["annotations"]
    assert annotation["category"] == "dog"


def test_file_without_categories_is_accepted(tmp_path: Path) -> None:
    assert len(read_samples(a_coco(tmp_path, categories=[]))) == 2


def test_missing_image_fails_its_sample(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    (tmp_path / "val2017" / "03.jpg").unlink()

    assert {sample_index: error.code for sample_index, error in read_errors(root).items()} == {1: "WDS231"}


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 0.99])
def test_truncated_json_is_refused(tmp_path: Path, keep: float) -> None:
    root = a_coco(tmp_path)
    file = tmp_path / "annotations" / "instances_val2017.json"
    file.write_bytes(file.read_bytes()[: int(keep * file.stat().st_size)])

    for path in (root, str(file)):
        error = open_error(path)
        assert (error.code, "the file is truncated" in error.message) == ("WDS233", True)
        assert error.where.startswith(f"{file}:1 (byte ")


def a_whole_coco(root: Path) -> str:
    """Captions, instances, keypoints and panoptic segments of three training images, and instances of one more
    image."""
    images = [{"id": i, "file_name": f"{i:012d}.png", "width": 48, "height": 32, "license": i} for i in (1, 2, 3)]
    categories = [{"id": 1, "name": "person", "supercategory": "animal"}, {"id": 9, "name": "dog"}]
    common_fields = {"iscrowd": 0, "area": 6.0, "segmentation": [[1, 1, 4, 1, 4, 3]]}
    person = {"id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 2], **common_fields}
    dog = {"id": 6, "image_id": 1, "category_id": 9, "bbox": [40, 20, 20, 10], **common_fields}
    texts = [{"id": 5, "image_id": 1, "caption": "a person"}, {"id": 6, "image_id": 1, "caption": "and a dog"}]
    segments = [{"id": 1, "category_id": 9, "area": 3, "bbox": [0, 0, 3, 1], "iscrowd": 0}]
    annotation_files: dict[str, dict[str, Any]] = {
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
    files = {
        f"annotations/{name}.json": json.dumps({"info": {}, **value}).encode()
        for name, value in annotation_files.items()
    }
    files |= {f"train2017/{i:012d}.png": an_image("PNG") for i in (1, 2, 3)}
    files |= {"val2017/000000000001.png": an_image("PNG")}
    files |= {"annotations/panoptic_train2017/000000000001.png": an_image("PNG")}
    return a_folder(root, files)


def test_files_of_same_images_are_merged_and_other_files_are_splits(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path / "raw")

    actual = read_samples(root)

    assert list(actual) == [*(f"train2017/{i:012d}" for i in (1, 2, 3)), "val2017/000000000001"]
    first = json.loads(actual["train2017/000000000001"]["json"])
    assert first.pop("segments_info") == [
        {"id": 1, "category_id": 9, "area": 3, "bbox": [0, 0, 3, 1], "iscrowd": 0, "category": "dog"}
    ]
    assert [note["id"] for note in first["annotations"]] == [6, 5]
    assert first["annotations"][1] == {
        "id": 5, "image_id": 1, "category_id": 1, "bbox": [1, 1, 3, 2], "iscrowd": 0, "area": 6.0,
        "segmentation": [[1, 1, 4, 1, 4, 3]], "category": "person", "keypoints": [1, 1, 2], "num_keypoints": 1,
    }  # fmt: skip
    assert (first["captions"], first["box_format"], first["license"]) == (["a person", "and a dog"], "xywh", 1)
    second = json.loads(actual["train2017/000000000002"]["json"])
    assert (second["annotations"], second["captions"]) == ([], [])
    assert actual["train2017/000000000001"]["seg.png"] == an_image("PNG")
    assert set(actual["train2017/000000000002"]) == {"json", "png"}
    assert read_samples(f"{root}/annotations") == actual


def test_first_file_counts_for_image_of_two_files(tmp_path: Path) -> None:
    root = a_coco(tmp_path, "captions_val2017.json", annotations=[{"id": 1, "image_id": 7, "caption": "a dog"}])
    a_coco(tmp_path, images=[{**image, "width": 9, "height": 8} for image in IMAGES])

    record = json.loads(read_samples(root)["07"]["json"])

    assert (record["width"], record["height"], record["captions"]) == (4, 8, ["a dog"])


def test_prepared_coco_is_read_as_detection_samples(tmp_path: Path) -> None:
    (converted,) = convert([a_whole_coco(tmp_path / "raw")], str(tmp_path / "made")).datasets
    assert (converted.sample_type, converted.splits) == ("DetectionSample", {"train": 3, "val": 1})

    dataset = Dataset(str(tmp_path / "made"))
    sample, empty = dataset["train2017/000000000001"], dataset["val2017/000000000001"]

    assert sample.boxes.tolist() == [[40, 20, 20, 10], [1, 1, 3, 2]]
    assert (sample.labels, sample.label_names, sample.box_format) == ([9, 1], ["dog", "person"], "xywh")
    assert (sample.keypoints, sample.areas, sample.is_crowd) == ([None, [1, 1, 2]], [6.0, 6.0], [0, 0])
    assert (empty.boxes.shape, empty.labels) == ((0, 4), [])


def test_description_reports_bad_boxes_unannotated_images_and_unlisted_files(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path)
    extra = {"train2017/more.png": b"", "train2017/old.zip": b"", "README.txt": b"", "annotations/notes.json": b"[]"}
    a_folder(tmp_path, extra)

    actual = describe_source(root)

    assert [(each.code, each.severity, each.count) for each in actual.findings] == [
        ("WDS163", "warning", 1), ("WDS242", "note", 3), ("WDS240", "error", 1), ("WDS239", "error", 2),
        ("WDS239", "warning", 1),
    ]  # fmt: skip
    assert "instances_train2017.json" in actual.findings[0].message
    uses = {use.name: use.becomes for use in actual.field_uses}
    assert uses["annotations with boxes"] == "json[annotations]"
    assert (uses["categories[supercategory]"], uses["info"], uses["captions"]) == ("", "", "json[captions]")


def test_panoptic_files_alone_are_segmentation_samples(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path / "raw")
    for name in ("captions_train", "instances_train", "person_keypoints_train", "instances_val"):
        (tmp_path / "raw" / "annotations" / f"{name}2017.json").unlink()

    (converted,) = convert([root], str(tmp_path / "made")).datasets
    sample = Dataset(str(tmp_path / "made"))[0]

    assert (converted.sample_type, converted.samples) == ("SegmentationSample", 1)
    assert sample.segments[0]["category"] == "dog"
    assert set(sample.mask.flatten().tolist()) == {200 + 30 * 256 + 60 * 65536}
    assert ("WDS239", "error", 3) in description_findings(root)


def test_missing_panoptic_png_fails_its_sample(tmp_path: Path) -> None:
    root = a_whole_coco(tmp_path)
    (tmp_path / "annotations" / "panoptic_train2017" / "000000000001.png").unlink()

    assert {sample_index: error.code for sample_index, error in read_errors(root).items()} == {0: "WDS231"}


def test_captions_alone_are_captioning_samples(tmp_path: Path) -> None:
    notes = [{"id": i, "image_id": 7, "caption": text} for i, text in enumerate(("a dog", "an animal"))]
    root = a_coco(tmp_path, "captions_val2017.json", annotations=notes)

    config = describe_source(root).config

    assert config is not None
    assert (config.sample_type, config.field_map) == (
        "CaptioningSample", {"image": "jpg", "caption": "json[captions][0]", "captions": "json[captions]"},
    )  # fmt: skip
    assert ("WDS148", "warning", 1) in description_findings(root)


def test_annotations_in_split_folders_are_found(tmp_path: Path) -> None:
    def make_annotations(name: str) -> bytes:
        return json.dumps({"images": [{"id": 0, "file_name": name}], "annotations": []}).encode()

    files = {f"{split}/_annotations.coco.json": make_annotations(f"{split}.jpg") for split in ("train", "valid")}
    root = a_folder(tmp_path, files | {f"{split}/{split}.jpg": split.encode() for split in ("train", "valid")})

    assert {key: parts["jpg"] for key, parts in read_samples(root).items()} == {
        "train/train": b"train", "valid/valid": b"valid",
    }  # fmt: skip
    assert description_findings(root) == [("WDS242", "note", 2)]


def test_second_document_in_file_is_refused(tmp_path: Path) -> None:
    path = Path(a_coco(tmp_path)) / "annotations" / "instances_val2017.json"
    path.write_bytes(path.read_bytes() + b"\n" + path.read_bytes())

    error = open_error(str(tmp_path), form="coco")

    assert (error.code, "more text follows" in error.message) == ("WDS233", True)


def test_one_id_for_two_images_is_refused(tmp_path: Path) -> None:
    root = a_coco(tmp_path, "a.json")
    a_coco(tmp_path, "b.json", images=[{"id": 7, "file_name": "other.jpg"}], annotations=[])

    assert "'other.jpg' here" in open_error(root).message


def test_annotations_without_valid_box_are_stored_separately(tmp_path: Path) -> None:
    odd = {"id": 8, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3]}
    root = a_coco(tmp_path, annotations=[*BOXES, odd])

    actual = json.loads(read_samples(root)["07"]["json"])

    assert (actual["annotations"], actual["other_annotations"]) == (
        [{**BOXES[1], "category": "dog"}], [{**odd, "category": "dog"}],
    )  # fmt: skip
    assert ("WDS163", "warning", 1) in description_findings(root)


def test_skipped_orphans_are_reported_as_warning(tmp_path: Path) -> None:
    root = a_coco(tmp_path, annotations=[*BOXES, {"id": 9, "image_id": 99}])

    assert ("WDS232", "warning", 1) in description_findings(root, {"orphans": "skip"})


def test_text_that_is_not_utf_8_is_damage(tmp_path: Path) -> None:
    root = a_coco(tmp_path)
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_bytes(path.read_bytes().replace(b"03.jpg", b"\xff3.jpg"))

    assert open_error(root).code == "WDS233"


def test_invalid_category_ids_add_no_category_name(tmp_path: Path) -> None:
    odd = [{**BOXES[0], "category_id": [1]}]
    root = a_coco(tmp_path, annotations=odd, categories=[{"id": {}, "name": "cat"}, 5])

    assert json.loads(read_samples(root)["03"]["json"])["annotations"] == odd


@pytest.mark.parametrize("form", ["{}_annotations", "instances_{}_v2", "{}.coco", "my_{}"])
def test_coco_files_named_after_splits_are_not_merged(tmp_path: Path, form: str) -> None:
    def annotations(category: int) -> bytes:
        notes = [{"id": 1, "image_id": 1, "category_id": category, "bbox": [0, 0, 1, 1]}]
        return json.dumps({"images": [{"id": 1, "file_name": "1.jpg"}], "annotations": notes}).encode()

    files = {f"annotations/{form.format(name)}.json": annotations(i) for i, name in enumerate(("train", "val"))}
    root = a_folder(tmp_path / "raw", {**files, "train/1.jpg": b"train", "val/1.jpg": b"val"})

    found = read_samples(root)

    assert {key: parts["jpg"] for key, parts in found.items()} == {"train/1": b"train", "val/1": b"val"}
    labels = [[note["category_id"] for note in json.loads(parts["json"])["annotations"]] for parts in found.values()]
    assert labels == [[0], [1]]
    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}
