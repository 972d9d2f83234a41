"""The importer scenes: one folder per sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder, an_image
from tests.core.formats import describe_source, description_findings, open_error, read_samples
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def some_scenes(root: Path, top: str = "", *names: str) -> str:
    files = {f"{top}{i:04d}/{name}": f"{i} {name}".encode() for i in range(3) for name in names or ("rgb.jpg", "d.png")}
    return a_folder(root, files)


def test_scenes_makes_files_of_folder_parts_of_sample(tmp_path: Path) -> None:
    root = some_scenes(tmp_path, "", "rgb.jpg", "depth.png", "camera.json")

    assert importers.best_importer(root)[0].name == "scenes"
    assert read_samples(root) == {
        f"{i:04d}": {name: f"{i} {name}".encode() for name in ("camera.json", "depth.png", "rgb.jpg")} for i in range(3)
    }
    assert description_findings(root) == []
    assert [use[:2] for use in describe_source(root).field_uses][:2] == [
        ("folders", "keys"),
        ("camera.json", "camera.json"),
    ]


def test_scenes_reads_splits_from_parent_folders(tmp_path: Path) -> None:
    root = some_scenes(tmp_path / "raw", "train/")
    some_scenes(tmp_path / "raw", "val/")
    a_folder(tmp_path / "raw", {"train/0000/rgb.jpg": an_image("JPEG")})

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 3, "val": 3}


def test_folders_of_volumes_are_scenes(tmp_path: Path) -> None:
    root = some_scenes(tmp_path, "", "imaging.nii.gz", "segmentation.nii.gz")

    assert importers.best_importer(root)[0].name == "scenes"
    assert set(read_samples(root)["0001"]) == {"imaging.nii.gz", "segmentation.nii.gz"}


def test_splits_with_files_of_same_names_are_no_scenes(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"{split}/{x}.png": b"" for split in ("train", "test") for x in ("apple", "pear")})

    assert not importers.get_importer("scenes").recognise(root)


def test_scenes_reports_incomplete_folders_and_other_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"{i:04d}/{name}": b"1" for i in range(10) for name in ("rgb.jpg", "depth.png")})
    (tmp_path / "0007" / "depth.png").unlink()
    a_folder(tmp_path, {"poses.csv": b"", "README": b"", "0001/noextension": b"", "docs/x.pdf": b""})

    assert list(read_samples(root, form="scenes")["0007"]) == ["rgb.jpg"]
    assert description_findings(root, form="scenes") == [
        ("WDS201", "error", 1), ("WDS239", "error", 3), ("WDS239", "warning", 1),
    ]  # fmt: skip


def test_folders_of_numbered_files_or_pairs_are_not_surely_scenes(tmp_path: Path) -> None:
    frames = some_scenes(tmp_path / "frames", "", "0001.jpg", "0002.jpg")
    photos = a_folder(tmp_path / "photos", {"a/x.jpg": b"", "b/y.jpg": b""})
    pairs = some_scenes(tmp_path / "pairs", "", "left.jpg", "left.json", "right.jpg", "right.json")

    for root in (frames, photos):
        assert "scenes" not in [importer.name for importer, _ in importers.find_importers(root)]
    error = open_error(pairs)
    assert (error.code, "folder: " in error.message, "scenes: " in error.message) == ("WDS235", True, True)


@pytest.mark.parametrize("note", ["list.txt", "README.txt"])
@pytest.mark.parametrize("counts", [(6, 14), (30, 71)])
def test_numbered_photos_are_classes_despite_extra_file_per_folder(
    tmp_path: Path, note: str, counts: tuple[int, int]
) -> None:
    files = [f"{name}/{i:03d}.jpg" for name, count in zip(("cat", "dog"), counts, strict=True) for i in range(count)]
    root = a_folder(tmp_path, dict.fromkeys([*files, f"cat/{note}", f"dog/{note}"], b"1"))

    assert importers.best_importer(root)[0].name == "imagefolder"


def test_photos_with_readme_per_folder_are_classes(tmp_path: Path) -> None:
    files = {f"{name}/{name}{i:03d}.jpg": b"1" for name in ("cat", "dog") for i in range(30)}
    root = a_folder(tmp_path, files | {f"{name}/README.txt": b"1" for name in ("cat", "dog")})

    assert importers.best_importer(root)[0].name == "imagefolder"
    assert len(read_samples(root)) == 60


def test_few_numbered_media_with_named_file_are_scenes(tmp_path: Path) -> None:
    captioned = some_scenes(tmp_path / "captioned", "", "1.jpg", "caption.txt")
    views = some_scenes(tmp_path / "views", "", "1.jpg", "2.jpg", "camera.json")
    masks = some_scenes(tmp_path / "masks", "", "image.jpg", *(f"mask_{i}.png" for i in range(8)))

    for root in (captioned, views, masks):
        assert importers.best_importer(root)[0].name == "scenes"


@pytest.mark.parametrize(("folders", "views"), [(3, 8), (20, 24)])
def test_many_folders_of_same_numbered_media_are_reported_as_ambiguous(
    tmp_path: Path, folders: int, views: int
) -> None:
    names = [f"{i:02d}.png" for i in range(views)] + ["camera.json"]

    check_is_ambiguous(a_folder(tmp_path, {f"{chr(97 + i)}/{name}": b"1" for i in range(folders) for name in names}))


@pytest.mark.parametrize("count", [6, 30])
def test_numbered_media_with_single_named_image_are_ambiguous(tmp_path: Path, count: int) -> None:
    files = [f"{name}/{i:03d}.jpg" for name in ("cat", "dog") for i in range(count)]

    check_is_ambiguous(a_folder(tmp_path, dict.fromkeys([*files, "cat/cover.jpg", "dog/cover.jpg"], b"1")))


def check_is_ambiguous(root: str) -> None:
    error = open_error(root)
    assert (error.code, "imagefolder: " in error.message, "scenes: " in error.message) == ("WDS235", True, True)


def test_scenes_refuses_folder_without_media(tmp_path: Path) -> None:
    assert open_error(a_folder(tmp_path, {"a/x.txt": b""}), form="scenes").code == "WDS003"
