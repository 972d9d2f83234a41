"""A folder for each part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import described, held, refused, reported
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def some_pairs(root: Path, image: str = "images/{}.jpg", mask: str = "masks/{}.png", numbers: str = "0123") -> str:
    return a_folder(root, {name.format(n): f"{name} {n}".encode() for n in numbers for name in (image, mask)})


def formats_of(root: str) -> list[str]:
    return [importer.name for importer, _ in importers.find_importers(root)]


def test_images_and_masks_of_the_same_names_are_samples(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/a b{}.JPG")
    some_pairs(tmp_path, mask="masks/a b{}.png", image="images/a b{}.JPG")
    for n in "0123":
        (tmp_path / f"masks/{n}.png").unlink()

    assert importers.best_importer(root)[0].name == "partfolders"
    assert held(root)["a b2"] == {"jpg": b"images/a b{}.JPG 2", "mask.png": b"masks/a b{}.png 2"}
    assert reported(root) == []
    config = described(root).config
    assert config is not None
    assert (config.sample_type, config.field_map) == ("SegmentationSample", {"image": "jpg", "mask": "mask.png"})


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("{split}/images/{{}}.jpg", "{split}/masks/{{}}.png"),
        ("images/{split}/{{}}.jpg", "masks/{split}/{{}}.png"),
        ("set/leftImg8bit/{split}/aachen/{{}}_leftImg8bit.jpg", "set/gtFine/{split}/aachen/{{}}_gtFine_labelIds.png"),
    ],
)
def test_splits_may_be_above_or_below_the_folders(tmp_path: Path, image: str, mask: str) -> None:
    root = tmp_path / "raw"
    some_pairs(root, image.format(split="train"), mask.format(split="train"))
    some_pairs(root, image.format(split="val"), mask.format(split="val"), "56")

    assert {tuple(parts) for parts in held(root).values()} == {("jpg", "mask.png")}
    assert reported(root) == []
    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 2}


def test_every_addition_to_a_name_is_a_part(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "leftImg8bit/x{}_leftImg8bit.png", "gtFine/x{}_gtFine_labelIds.png")
    some_pairs(tmp_path, "leftImg8bit/x{}_leftImg8bit.png", "gtFine/x{}_gtFine_polygons.json")

    assert list(held(root)) == [f"x{n}_leftImg8bit" for n in "0123"]
    assert list(held(root)["x0_leftImg8bit"]) == ["gtFine_labelIds.png", "gtFine_polygons.json", "png"]
    assert described(root).config is None


def test_texts_keep_their_extension_and_pairs_need_no_folder_of_media(tmp_path: Path) -> None:
    captions = some_pairs(tmp_path / "c", mask="captions/{}.txt")
    edits = some_pairs(tmp_path / "e", "input/{}.png", "target/{}.png")

    assert list(held(captions)["0"]) == ["jpg", "txt"]
    assert list(held(edits)["0"]) == ["png", "target.png"]


def test_files_without_a_partner_are_reported(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, numbers="0123456789")
    (tmp_path / "masks/3.png").unlink()
    a_folder(tmp_path, {"masks/x.png": b"", "classes.txt": b"road", "README.md": b"", "masks/1.PNG": b""})

    assert list(held(root)["3"]) == ["jpg"]
    assert reported(root) == [("WDS201", "error", 1), ("WDS239", "error", 3), ("WDS239", "warning", 1)]


def test_classes_with_numbered_files_stay_classes(tmp_path: Path) -> None:
    classes = some_pairs(tmp_path / "classes", "cat/{}.jpg", "dog/{}.jpg")
    one = some_pairs(tmp_path / "one", mask="masks/other{}.png")

    assert "partfolders" not in formats_of(classes)
    assert "partfolders" not in formats_of(one)
    assert refused(one, form="partfolders").code == "WDS003"
