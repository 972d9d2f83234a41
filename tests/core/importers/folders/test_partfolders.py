"""The importer partfolders: one folder per part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.build import a_folder
from tests.core.formats import describe_source, description_findings, open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def some_pairs(
    root: Path, image: str = "images/{}.jpg", mask: str = "masks/{}.png", numbers: Iterable[str] = "0123"
) -> str:
    return a_folder(root, {name.format(n): f"{name} {n}".encode() for n in numbers for name in (image, mask)})


def formats_of(root: str) -> list[str]:
    return [importer.name for importer, _ in importers.find_importers(root)]


def test_partfolders_pairs_images_and_masks_by_name(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/a b{}.JPG")
    some_pairs(tmp_path, mask="masks/a b{}.png", image="images/a b{}.JPG")
    for n in "0123":
        (tmp_path / f"masks/{n}.png").unlink()

    assert importers.best_importer(root)[0].name == "partfolders"
    assert read_samples(root)["a b2"] == {"jpg": b"images/a b{}.JPG 2", "mask.png": b"masks/a b{}.png 2"}
    assert description_findings(root) == []
    config = describe_source(root).config
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
def test_partfolders_reads_splits_above_or_below_part_folders(tmp_path: Path, image: str, mask: str) -> None:
    root = tmp_path / "raw"
    some_pairs(root, image.format(split="train"), mask.format(split="train"))
    some_pairs(root, image.format(split="val"), mask.format(split="val"), "56")

    assert {tuple(parts) for parts in read_samples(root).values()} == {("jpg", "mask.png")}
    assert description_findings(root) == []
    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 2}


def test_partfolders_reads_splits_called_sets_or_data(tmp_path: Path) -> None:
    root = tmp_path / "raw"  # as FUNSD
    some_pairs(root, "training_data/images/{}.jpg", "training_data/masks/{}.png")
    some_pairs(root, "test-set/images/{}.jpg", "test-set/masks/{}.png", "56")

    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "test": 2}


def test_partfolders_pairs_names_that_differ_in_word_in_middle(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    for case in ("left", "right"):
        some_pairs(root, f"images/{case}_img_{{}}.jpg", f"masks/{case}_mask_{{}}.png")

    assert importers.best_importer(str(root))[0].name == "partfolders"
    assert read_samples(str(root))["right_img_2"] == {
        "jpg": b"images/right_img_{}.jpg 2", "mask.png": b"masks/right_mask_{}.png 2",
    }  # fmt: skip
    assert description_findings(str(root)) == []


def test_partfolders_names_parts_by_file_name_suffix(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "leftImg8bit/x{}_leftImg8bit.png", "gtFine/x{}_gtFine_labelIds.png")
    some_pairs(tmp_path, "leftImg8bit/x{}_leftImg8bit.png", "gtFine/x{}_gtFine_polygons.json")

    assert list(read_samples(root)) == [f"x{n}_leftImg8bit" for n in "0123"]
    assert list(read_samples(root)["x0_leftImg8bit"]) == ["gtFine_labelIds.png", "gtFine_polygons.json", "png"]
    assert describe_source(root).config is None


def test_partfolders_names_text_by_extension_and_media_by_folder(tmp_path: Path) -> None:
    captions = some_pairs(tmp_path / "c", mask="captions/{}.txt")
    edits = some_pairs(tmp_path / "e", "input/{}.png", "target/{}.png")

    assert list(read_samples(captions)["0"]) == ["jpg", "txt"]
    assert list(read_samples(edits)["0"]) == ["png", "target.png"]


def test_partfolders_reports_files_without_partner(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, numbers="0123456789")
    (tmp_path / "masks/3.png").unlink()
    a_folder(tmp_path, {"masks/x.png": b"", "classes.txt": b"road", "README.md": b"", "masks/1.PNG": b""})

    assert list(read_samples(root)["3"]) == ["jpg"]
    assert description_findings(root) == [("WDS201", "error", 1), ("WDS239", "error", 3), ("WDS239", "warning", 1)]


def masks_belong_to_images(root: str, mask: str = "mask.png") -> bool:
    """Whether each sample has an image and a mask, and these have the same number."""
    samples = read_samples(root).values()
    numbers = [(parts["jpg"].split()[-1], parts[mask].split()[-1]) for parts in samples]
    return bool(numbers) and all(image == number for image, number in numbers)


def kind_of(root: str) -> str:
    config = describe_source(root).config
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
def test_partfolders_ignores_role_words_and_common_prefixes_in_names(tmp_path: Path, image: str, mask: str) -> None:
    root = some_pairs(tmp_path, image, mask, ["0", "1", "10", "11"])

    assert importers.best_importer(root)[0].name == "partfolders"
    assert len(read_samples(root)) == 4
    assert masks_belong_to_images(root)
    assert description_findings(root) == []
    assert kind_of(root) == "SegmentationSample"


def test_depth_maps_become_part_named_after_folder(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/{}.jpg", "depth_maps/d{}.png")

    assert masks_belong_to_images(root, "depth_maps.png")
    assert kind_of(root) == ""


def test_partfolders_reads_part_folders_below_annotations(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, mask="annotations/trimaps/{}.png")
    a_folder(tmp_path, {f"annotations/xmls/{n}.xml": b"<annotation/>" for n in "02"})
    a_folder(tmp_path, {f"annotations/{name}": b"" for name in ("list.txt", "test.txt", "README")})

    assert importers.best_importer(root)[0].name == "partfolders"
    assert masks_belong_to_images(root)
    assert [sorted(parts) for parts in read_samples(root).values()] == [
        ["jpg", "mask.png", "xml"],
        ["jpg", "mask.png"],
    ] * 2
    assert description_findings(root) == [("WDS201", "error", 2), ("WDS239", "error", 2), ("WDS239", "warning", 1)]
    assert kind_of(root) == "SegmentationSample"


@pytest.mark.parametrize(
    "mask", ["{}_masks/{{}}_mask.png", "{}_masks/{{}}.png", "{}annot/{{}}.png", "mask-{}/x{{}}.png"]
)
def test_partfolders_matches_part_folders_of_each_split(tmp_path: Path, mask: str) -> None:
    root = tmp_path / "raw"
    some_pairs(root, "train/{}.jpg", mask.format("train"))
    some_pairs(root, "val_images/{}.jpg", mask.format("val"))

    assert importers.best_importer(str(root))[0].name == "partfolders"
    assert list(read_samples(root)) == [f"{split}/{n}" for split in ("train", "val") for n in "0123"]
    assert masks_belong_to_images(str(root))
    assert kind_of(str(root)) == "SegmentationSample"
    assert convert([str(root)], str(tmp_path / "made")).datasets[0].splits == {"train": 4, "val": 4}


def test_two_masks_of_image_are_named_by_their_role_words(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, mask="masks/mask_{}.png")
    some_pairs(tmp_path, mask="masks/label_{}.png")

    assert set(read_samples(root)["2"]) == {"jpg", "mask.png", "label.png"}
    assert read_samples(root)["2"]["label.png"] == b"masks/label_{}.png 2"


def test_partfolders_refuses_media_ambiguous_without_role_words(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "images/img_{}.jpg", "masks/mask_{}.png")
    some_pairs(tmp_path, "images/rgb_{}.jpg", "masks/mask_{}.png")

    assert open_error(root).code == "WDS003"


@pytest.mark.parametrize(
    ("image", "other"),
    [
        ("images/{}.jpg", "masks/a{0}x{0}.png"),
        ("images/{}.jpg", "depth/a/b-{0}-{0}.png"),
        ("train/{}.jpg", "train_gt/x{0}y.png"),
        ("Faces-img/{}.jpg", "Faces-mask-anno/a{0}x{0}.png"),
    ],
)
def test_part_named_folders_without_pairs_are_refused_with_hint(tmp_path: Path, image: str, other: str) -> None:
    root = some_pairs(tmp_path, image, other)

    error = open_error(root)

    folder = other.rpartition("/")[0]
    assert (error.code, image.format(0) in error.message, other.format(0) in error.message) == ("WDS003", True, True)
    assert f"{image.format(0)} and {folder.partition('/')[0]}/0.png" in error.hint
    assert importers.get_importer("folder").recognise(root)


def test_class_folders_named_like_masks_are_reported_as_ambiguous(tmp_path: Path) -> None:
    root = some_pairs(tmp_path, "face/{}.jpg", "face_mask/{}.jpg")

    error = open_error(root)

    assert (error.code, "imagefolder: " in error.message, "partfolders: " in error.message) == ("WDS235", True, True)


@pytest.mark.parametrize("names", [("mask", "no_mask"), ("with_mask", "without_mask")])
def test_class_folders_named_like_parts_are_imagefolder(tmp_path: Path, names: tuple[str, str]) -> None:
    root = some_pairs(tmp_path, f"{names[0]}/{{}}.jpg", f"{names[1]}/{{}}.jpg")

    assert importers.best_importer(root)[0].name == "imagefolder"
