"""A folder for each sample."""

from __future__ import annotations

from pathlib import Path

from tests.build import a_folder, an_image
from tests.core.formats import described, held, refused, reported
from wdsctl.core import importers
from wdsctl.core.convert.convert import convert


def some_scenes(root: Path, top: str = "", *names: str) -> str:
    files = {f"{top}{i:04d}/{name}": f"{i} {name}".encode() for i in range(3) for name in names or ("rgb.jpg", "d.png")}
    return a_folder(root, files)


def test_the_files_of_a_folder_are_the_parts_of_a_sample(tmp_path: Path) -> None:
    root = some_scenes(tmp_path, "", "rgb.jpg", "depth.png", "camera.json")

    assert importers.best_importer(root)[0].name == "scenes"
    assert held(root) == {
        f"{i:04d}": {name: f"{i} {name}".encode() for name in ("camera.json", "depth.png", "rgb.jpg")} for i in range(3)
    }
    assert reported(root) == []
    assert [use[:2] for use in described(root).field_uses][:2] == [("folders", "keys"), ("camera.json", "camera.json")]


def test_folders_of_splits_above_are_splits(tmp_path: Path) -> None:
    root = some_scenes(tmp_path / "raw", "train/")
    some_scenes(tmp_path / "raw", "val/")
    a_folder(tmp_path / "raw", {"train/0000/rgb.jpg": an_image("JPEG")})

    assert convert([root], str(tmp_path / "made")).datasets[0].splits == {"train": 3, "val": 3}


def test_incomplete_folders_and_other_files_are_reported(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {f"{i:04d}/{name}": b"1" for i in range(10) for name in ("rgb.jpg", "depth.png")})
    (tmp_path / "0007" / "depth.png").unlink()
    a_folder(tmp_path, {"poses.csv": b"", "README": b"", "0001/noextension": b"", "docs/x.pdf": b""})

    assert list(held(root, form="scenes")["0007"]) == ["rgb.jpg"]
    assert reported(root, form="scenes") == [
        ("WDS201", "error", 1), ("WDS239", "error", 3), ("WDS239", "warning", 1),
    ]  # fmt: skip


def test_folders_of_numbered_files_or_of_pairs_are_no_scenes_for_sure(tmp_path: Path) -> None:
    frames = some_scenes(tmp_path / "frames", "", "0001.jpg", "0002.jpg")
    photos = a_folder(tmp_path / "photos", {"a/x.jpg": b"", "b/y.jpg": b""})
    pairs = some_scenes(tmp_path / "pairs", "", "left.jpg", "left.json", "right.jpg", "right.json")

    for root in (frames, photos):
        assert "scenes" not in [importer.name for importer, _ in importers.find_importers(root)]
    error = refused(pairs)
    assert (error.code, "folder: " in error.message, "scenes: " in error.message) == ("WDS235", True, True)


def test_a_folder_without_media_is_refused(tmp_path: Path) -> None:
    assert refused(a_folder(tmp_path, {"a/x.txt": b""}), form="scenes").code == "WDS003"
