"""Pascal VOC."""

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
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.annotations.xml_text import parse_xml


def an_annotation(*objects: tuple[str, str, str, str, str]) -> bytes:
    """The XML of a 48 x 32 image with objects, each of a name and four corners."""
    objects_xml = "".join(
        f"<object><name>{name}</name><difficult>0</difficult>"
        f"<bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for name, a, b, c, d in objects
    )
    size = "<size><width>48</width><height>32</height><depth>3</depth></size>"
    return f"<annotation><filename>x</filename>{size}{objects_xml}</annotation>".encode()


DOG = ("dog", "1", "2", "48", "32")


def a_voc(root: Path, more: Mapping[str, bytes] | None = None, *, top: str = "") -> str:
    files = {
        "JPEGImages/a.jpg": an_image("JPEG"),
        "JPEGImages/b.jpg": an_image("JPEG"),
        "Annotations/a.xml": an_annotation(DOG, ("cat", "3.5", "4", "5", "6")),
        "Annotations/b.xml": an_annotation(),
        "ImageSets/Main/train.txt": b"a\n",
        "ImageSets/Main/val.txt": b"b\n",
        "ImageSets/Main/trainval.txt": b"a\nb\n",
        "ImageSets/Main/dog_train.txt": b"a  1\n",
        "SegmentationClass/a.png": an_image("PNG"),
        "SegmentationObject/a.png": an_image("PNG"),
        **(more or {}),
    }
    return a_folder(root, {f"{top}{name}": data for name, data in files.items()})


def test_xml_becomes_boxes_and_masks_become_parts(tmp_path: Path) -> None:
    root = a_voc(tmp_path)

    actual = read_samples(root)

    assert importers.best_importer(root)[0].name == "voc"
    assert set(actual["a"]) == {"jpg", "json", "seg.png", "instances.png"}
    assert json.loads(actual["a"]["json"]) == {
        "boxes": [[1, 2, 48, 32], [3.5, 4, 5, 6]], "box_format": "xyxy", "label_names": ["dog", "cat"],
        "difficult": [False, False],
        "annotation": {
            "filename": "x", "size": {"width": "48", "height": "32", "depth": "3"},
            "object": [
                {"name": "dog", "difficult": "0",
                 "bndbox": {"xmin": "1", "ymin": "2", "xmax": "48", "ymax": "32"}},
                {"name": "cat", "difficult": "0",
                 "bndbox": {"xmin": "3.5", "ymin": "4", "xmax": "5", "ymax": "6"}},
            ],
        },
    }  # fmt: skip
    assert json.loads(actual["b"]["json"])["boxes"] == []
    assert description_findings(root) == []


def test_prepared_voc_has_splits_of_lists_and_detection_samples(tmp_path: Path) -> None:
    (converted,) = convert([a_voc(tmp_path / "raw")], str(tmp_path / "made")).datasets

    sample = Dataset(str(tmp_path / "made"))["a"]

    assert (converted.sample_type, converted.splits) == ("DetectionSample", {"train": 1, "val": 1})
    assert (sample.boxes.tolist()[0], sample.label_names, sample.box_format) == (
        [1, 2, 48, 32], ["dog", "cat"], "xyxy",
    )  # fmt: skip


def test_several_years_are_read_together(tmp_path: Path) -> None:
    root = a_voc(tmp_path, top="VOC2007/")
    a_voc(tmp_path, top="VOC2012/")

    assert list(read_samples(root)) == ["VOC2007/a", "VOC2007/b", "VOC2012/a", "VOC2012/b"]


def test_voc_in_folders_named_after_splits_has_these_splits(tmp_path: Path) -> None:
    for name in ("train", "valid"):
        files = {"images/a.jpg": an_image("JPEG"), "Annotations/a.xml": an_annotation(DOG)}
        a_folder(tmp_path / "raw" / name, files)

    assert convert([str(tmp_path / "raw")], str(tmp_path / "made")).datasets[0].splits == {"train": 1, "val": 1}
    uses = {use.name: (use.becomes, use.note) for use in describe_source(tmp_path / "raw").field_uses}
    assert (uses["train/"], uses["valid/"]) == (("split train", "1 sample"), ("split val", "1 sample"))


def test_report_counts_images_of_each_list_of_several_years(tmp_path: Path) -> None:
    root = a_voc(tmp_path, top="VOC2007/")
    a_voc(tmp_path, {"ImageSets/Main/val.txt": b""}, top="VOC2012/")

    uses = {use.name: use.note for use in describe_source(root).field_uses}

    assert uses["VOC2007/ImageSets/Main/val.txt"] == "1 sample"
    assert uses["VOC2012/ImageSets/Main/val.txt"] == "0 samples"


def test_mismatched_files_and_boxes_are_reported(tmp_path: Path) -> None:
    root = a_voc(
        tmp_path,
        {
            "Annotations/b.xml": an_annotation(("dog", "1", "1", "60", "5")),
            "Annotations/lost.xml": an_annotation(),
            "JPEGImages/c.jpg": b"",
            "ImageSets/Main/val.txt": b"b\na\nnone\n",
            "ImageSets/Main/trainval.txt": b"",
            "labels.csv": b"",
        },
    )

    assert description_findings(root) == [
        ("WDS163", "warning", 1), ("WDS212", "warning", 1), ("WDS231", "error", 1), ("WDS213", "warning", 1),
        ("WDS242", "warning", 1), ("WDS239", "error", 1), ("WDS239", "error", 1),
    ]  # fmt: skip
    uses = {use.name: use.becomes for use in describe_source(root).field_uses}
    assert uses["ImageSets/Main/train.txt"] == "split train"
    assert uses["other lists in ImageSets"] == ""


@pytest.mark.parametrize(
    "data",
    [
        b"<annotation><object>",
        b"",
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        b"<a>" * 100 + b"</a>" * 100,
    ],
)
def test_damaged_xml_and_entity_declarations_are_refused(tmp_path: Path, data: bytes) -> None:
    root = a_voc(tmp_path, {"Annotations/a.xml": data})

    actual = read_errors(root)

    assert {sample_index: error.code for sample_index, error in actual.items()} == {0: "WDS233"}
    with pytest.raises(DatasetError):
        parse_xml(data, "a.xml")


def test_box_without_numbers_fails_its_sample(tmp_path: Path) -> None:
    root = a_voc(tmp_path, {"Annotations/a.xml": an_annotation(("dog", "nan", "1", "2", "3"))})

    assert {sample_index: error.code for sample_index, error in read_errors(root).items()} == {0: "WDS232"}


def test_masks_without_xml_are_segmentation_samples(tmp_path: Path) -> None:
    root = a_voc(tmp_path, {"Annotations/z.xml": an_annotation()})
    for name in "ab":
        (tmp_path / "Annotations" / f"{name}.xml").unlink()

    config = describe_source(root).config

    assert config is not None
    assert (config.sample_type, config.field_map["mask"]) == ("SegmentationSample", "seg.png")


def test_parse_xml_keeps_text_repeated_elements_and_attributes() -> None:
    assert parse_xml(b'<a k="1"> t <b>1</b><b>2</b><b/><c/></a>', "x") == {
        "@k": "1", "b": ["1", "2", ""], "c": "", "#text": "t",
    }  # fmt: skip


def test_folder_without_annotations_is_refused(tmp_path: Path) -> None:
    assert open_error(a_folder(tmp_path, {"a.jpg": b""}), form="voc").code == "WDS003"
