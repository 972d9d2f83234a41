"""ImageFolder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import faults, held
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.importers.imagefolder import image_folder_config
from wdsctl.core.media.kinds import media_extensions


def test_folders_are_classes_numbered_in_the_order_of_their_names(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"dog/a.b.JPG": b"1", "cat/x/2.png": b"2", "cat/1.jpeg": b"3", ".hidden/1.jpg": b"4"})

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert held(root) == {
        "cat/1": {"jpeg": b"3", "cls": b"0", "txt": b"cat"},
        "cat/x/2": {"png": b"2", "cls": b"0", "txt": b"cat"},
        "dog/a_b": {"jpg": b"1", "cls": b"1", "txt": b"dog"},
    }


def test_images_of_every_format_are_imported(tmp_path: Path) -> None:
    endings = media_extensions("image")
    root = a_folder(tmp_path, {f"{name}/{ending}.{ending}": ending.encode() for name in "ab" for ending in endings})

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert {parts.keys() - {"cls", "txt"} == {key[2:]} for key, parts in held(root).items()} == {True}
    assert len(held(root)) == 2 * len(endings)
    config = image_folder_config(root)
    assert config is not None
    assert set(config.field_map["image"].split(",")) == set(endings)


@pytest.mark.parametrize(("form", "ending"), [("AVIF", "avif"), ("JPEG2000", "jp2"), ("WEBP", "webp"), ("TGA", "tga")])
def test_a_folder_of_images_of_a_rare_format_becomes_a_dataset(tmp_path: Path, form: str, ending: str) -> None:
    image = an_image(form)
    root = a_folder(tmp_path / "raw", {f"{name}/{i}.{ending}": image for name in "ab" for i in range(3)})

    (made,) = convert([root], str(tmp_path / "made")).datasets

    assert (made.sample_type, sum(made.splits.values())) == ("ImageClassificationSample", 6)


def test_splits_above_the_classes_are_part_of_the_keys(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"train/dog/1.jpg": b"1", "train/cat/2.jpg": b"2", "val/dog/1.jpg": b"3"})

    found = held(root)

    assert list(found) == ["train/cat/2", "train/dog/1", "val/dog/1"]
    assert [parts["cls"] for parts in found.values()] == [b"0", b"1", b"1"]


def test_splits_above_the_classes_are_the_splits_of_the_samples(tmp_path: Path) -> None:
    files = {f"{split}/{name}/{i}.jpg": b"1" for split in ("train", "valid") for name in "ab" for i in range(2)}
    plain = a_folder(tmp_path / "plain", {"a/1.jpg": b"1", "b/1.jpg": b"2"})

    (made,) = convert([a_folder(tmp_path / "raw", files)], str(tmp_path / "made")).datasets
    (whole,) = convert([plain], str(tmp_path / "whole")).datasets

    assert made.splits == {"train": 4, "valid": 4}
    assert whole.splits == {"train": 2}


def test_samples_are_images_with_a_class_and_its_name(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"a/1.jpg": b"1", "b/1.PNG": b"2", "b/note.md": b"?"})
    config = image_folder_config(root)

    assert config is not None
    assert config.field_map == {"image": "jpg,png", "label": "cls", "label_name": "txt"}
    made = convert([root], str(tmp_path / "made"), ConvertRequest(from_format="imagefolder"))
    assert made.datasets[0].sample_type == "ImageClassificationSample"
    assert image_folder_config(a_folder(tmp_path / "none", {"a/note.md": b"?"})) is None


def test_files_that_are_no_images_are_faults_of_their_places(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2", "b/note.md": b"?", "README": b"?"})

    assert {place: error.code for place, error in faults(root, form="imagefolder").items()} == {
        0: "WDS232", 3: "WDS232",
    }  # fmt: skip


def test_pairs_of_files_and_single_folders_are_raw_folders(tmp_path: Path) -> None:
    pairs = a_folder(tmp_path / "p", {"a/1.jpg": b"1", "a/1.txt": b"1", "b/1.jpg": b"1", "b/1.txt": b"2"})
    single = a_folder(tmp_path / "s", {"photos/1.jpg": b"1"})

    assert importers.best_importer(pairs)[0].name == importers.best_importer(single)[0].name == "folder"


def test_the_mark_changes_with_the_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    importer = importers.get_importer("imagefolder")
    with importer.open(root, {}) as source:
        before = source.digest()
        assert source.digest() == before
        a_folder(tmp_path, {"a/1.jpg": b"11"})
        assert source.digest() != before


def test_a_link_back_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    (tmp_path / "b" / "up").symlink_to(tmp_path)

    assert list(held(root)) == ["a/1", "b/2"]


def test_a_link_that_leads_nowhere_is_one_failed_image(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"cat/1.jpg": b"1", "dog/1.jpg": b"2"})
    (tmp_path / "cat/2.jpg").symlink_to(tmp_path / "nowhere.jpg")

    assert list(faults(root, form="imagefolder")) == [1]
    report = convert([root], f"{root}-made", ConvertRequest(from_format="imagefolder"))
    assert (report.samples, report.failed) == (3, 1)
