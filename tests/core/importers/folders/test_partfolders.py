"""A folder for each part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import described, held, refused, reported
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def some_pairs(
    root: Path, image: str = "images/{}.jpg", mask: str = "masks/{}.png", numbers: Iterable[str] = "0123"
) -> str:
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

    assert "partfolders" not in formats_of(classes)
    assert refused(classes, form="partfolders").code == "WDS003"


def masks_belong_to_images(root: str, mask: str = "mask.png") -> bool:
    """Whether each sample has an image and a mask, and these have the same number."""
    samples = held(root).values()
    numbers = [(parts["jpg"].split()[-1], parts[mask].split()[-1]) for parts in samples]
    return bool(numbers) and all(image == number for image, number in numbers)


def kind_of(root: str) -> str:
    config = described(root).config
    return config.sample_type if config else ""


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("images/{}.jpg", "masks/mask_{}.png"),
        ("images/{}.jpg", "masks/mask{}.png"),
        ("images/{}.jpg", "masks/m{}.png"),
        ("images/{}.jpg", "masks/GT-{}.png"),
        ("images/img_{}.jpg", "masks/mask_{}.png"),
        ("images/img{}.jpg", "masks/{}.png"),
        ("images/{}_sat.jpg", "masks/{}_mask.png"),
        ("images/frame_{}.jpg", "masks/seg {}.png"),
        ("images/train/frame_{}.jpg", "masks/train/x{}.png"),
    ],
)
def test_names_may_differ_in_a_role_word_or_in_what_all_of_a_folder_begin_with(
    tmp_path: Path, image: str, mask: str
) -> None:
    root = some_pairs(tmp_path, image, mask, ["0", "1", "10", "11"])

    assert importers.best_importer(root)[0].name == "partfolders"
    assert len(held(root)) == 4
    assert masks_belong_to_images(root)
    assert reported(root) == []
    assert kind_of(root) == "SegmentationSample"


def test_maps_of_depth_are_a_part_named_by_their_folder(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/{}.jpg", "depth_maps/d{}.png")

    assert masks_belong_to_images(root, "depth_maps.png")
    assert kind_of(root) == ""


def test_parts_may_be_in_folders_below_annotations(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, mask="annotations/trimaps/{}.png")
    a_folder(tmp_path, {f"annotations/xmls/{n}.xml": b"<annotation/>" for n in "02"})
    a_folder(tmp_path, {f"annotations/{name}": b"" for name in ("list.txt", "test.txt", "README")})

    assert importers.best_importer(root)[0].name == "partfolders"
    assert masks_belong_to_images(root)
    assert [sorted(parts) for parts in held(root).values()] == [["jpg", "mask.png", "xml"], ["jpg", "mask.png"]] * 2
    assert reported(root) == [("WDS201", "error", 2), ("WDS239", "error", 2), ("WDS239", "warning", 1)]
    assert kind_of(root) == "SegmentationSample"


@pytest.mark.parametrize(
    "mask", ["{}_masks/{{}}_mask.png", "{}_masks/{{}}.png", "{}annot/{{}}.png", "mask-{}/x{{}}.png"]
)
def test_folders_named_after_a_split_and_a_part_belong_to_that_of_the_split(tmp_path: Path, mask: str) -> None:
    root = tmp_path / "raw"
    some_pairs(root, "train/{}.jpg", mask.format("train"))
    some_pairs(root, "val_images/{}.jpg", mask.format("val"))

    assert importers.best_importer(str(root))[0].name == "partfolders"
    assert list(held(root)) == [f"{split}/{n}" for split in ("train", "val") for n in "0123"]
    assert masks_belong_to_images(str(root))
    assert kind_of(str(root)) == "SegmentationSample"
    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 4}


def test_two_masks_of_an_image_keep_their_words(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, mask="masks/mask_{}.png")
    some_pairs(tmp_path, mask="masks/label_{}.png")

    assert set(held(root)["2"]) == {"jpg", "mask.png", "label.png"}
    assert held(root)["2"]["label.png"] == b"masks/label_{}.png 2"


def test_media_that_are_equal_without_their_words_have_no_partner(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/img_{}.jpg", "masks/mask_{}.png")
    some_pairs(tmp_path, "images/rgb_{}.jpg", "masks/mask_{}.png")

    assert refused(root).code == "WDS003"


@pytest.mark.parametrize(
    ("image", "other"),
    [
        ("images/{}.jpg", "masks/a{0}x{0}.png"),
        ("images/{}.jpg", "depth/a/b-{0}-{0}.png"),
        ("train/{}.jpg", "train_gt/x{0}y.png"),
    ],
)
def test_folders_named_like_parts_are_no_classes(tmp_path: Path, image: str, other: str) -> None:
    root = some_pairs(tmp_path, image, other)

    error = refused(root)

    folder = other.rpartition("/")[0]
    assert (error.code, image.format(0) in error.message, other.format(0) in error.message) == ("WDS003", True, True)
    assert f"{image.format(0)} and {folder.partition('/')[0]}/0.png" in error.hint
    assert importers.get_importer("folder").recognise(root)


def test_classes_named_like_a_class_and_its_mask_are_asked_about(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "face/{}.jpg", "face_mask/{}.jpg")

    error = refused(root)

    assert (error.code, "imagefolder: " in error.message, "partfolders: " in error.message) == ("WDS235", True, True)


@pytest.mark.parametrize("names", [("NORMAL", "PNEUMONIA"), ("mask", "no_mask"), ("with_mask", "without_mask")])
def test_classes_may_have_the_names_of_parts(tmp_path: Path, names: tuple[str, str]) -> None:
    root = some_pairs(tmp_path, f"{names[0]}/{{}}.jpg", f"{names[1]}/{{}}.jpg")

    assert importers.best_importer(root)[0].name == "imagefolder"
