"""ImageFolder."""

from __future__ import annotations

from pathlib import Path

from tests.build import a_folder
from tests.core.convert.forms import faults, held
from wdsctl.core.convert import importers


def test_folders_are_classes_numbered_in_the_order_of_their_names(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"dog/a.b.JPG": b"1", "cat/x/2.png": b"2", "cat/1.jpeg": b"3", ".hidden/1.jpg": b"4"})

    assert importers.best(root)[0].name == "imagefolder"
    assert held(root) == {
        "cat/1": {"jpeg": b"3", "cls": b"0", "txt": b"cat"},
        "cat/x/2": {"png": b"2", "cls": b"0", "txt": b"cat"},
        "dog/a_b": {"jpg": b"1", "cls": b"1", "txt": b"dog"},
    }


def test_splits_above_the_classes_are_part_of_the_keys(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"train/dog/1.jpg": b"1", "train/cat/2.jpg": b"2", "val/dog/1.jpg": b"3"})

    found = held(root)

    assert list(found) == ["train/cat/2", "train/dog/1", "val/dog/1"]
    assert [parts["cls"] for parts in found.values()] == [b"0", b"1", b"1"]


def test_files_that_are_no_images_are_faults_of_their_places(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2", "b/note.md": b"?", "README": b"?"})

    assert {place: error.code for place, error in faults(root, form="imagefolder").items()} == {
        0: "WDS232", 3: "WDS232",
    }  # fmt: skip


def test_pairs_of_files_and_single_folders_are_raw_folders(tmp_path: Path) -> None:
    pairs = a_folder(tmp_path / "p", {"a/1.jpg": b"1", "a/1.txt": b"1", "b/1.jpg": b"1", "b/1.txt": b"2"})
    single = a_folder(tmp_path / "s", {"photos/1.jpg": b"1"})

    assert importers.best(pairs)[0].name == importers.best(single)[0].name == "folder"


def test_the_mark_changes_with_the_files(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    importer = importers.get("imagefolder")
    with importer.open(root, {}) as source:
        before = source.mark()
        assert source.mark() == before
        a_folder(tmp_path, {"a/1.jpg": b"11"})
        assert source.mark() != before


def test_a_link_back_to_a_folder_above_is_not_followed(tmp_path: Path) -> None:
    root = a_folder(tmp_path, {"a/1.jpg": b"1", "b/2.jpg": b"2"})
    (tmp_path / "b" / "up").symlink_to(tmp_path)

    assert list(held(root)) == ["a/1", "b/2"]
