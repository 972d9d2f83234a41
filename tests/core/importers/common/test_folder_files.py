"""Folder listings, which all importers share when they recognise a format."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wdsctl.core.errors import PermissionDenied
from wdsctl.core.importers.common.folder_files import (
    FolderNames,
    keep_listings,
    list_folder,
    normalize_split_names,
    scan_folder,
)


def test_list_folder_sorts_names_and_counts_hidden_files(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.txt", ".hidden", "Thumbs.db"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    path = str(tmp_path)

    assert list_folder(path, path) == FolderNames(["folder"], ["a.txt", "b.jpg"], 2, [])


def test_scan_folder_separates_outside_links_and_list_folder_refuses_them(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    os.symlink(tmp_path, root / "out")
    (root / "a.jpg").touch()

    assert scan_folder(str(root), str(root)) == FolderNames([], ["a.jpg"], 0, ["out"])
    with pytest.raises(PermissionDenied, match="out"):
        list_folder(str(root), str(root))


def test_keep_listings_caches_scan_folder(tmp_path: Path) -> None:
    path = str(tmp_path)
    with keep_listings():
        first = scan_folder(path, path)
        (tmp_path / "new.jpg").touch()
        assert scan_folder(path, path) is first
    assert scan_folder(path, path).files == ["new.jpg"]


def test_normalize_split_names_keeps_words_that_mean_the_same_split() -> None:
    assert normalize_split_names(["training", "dev", "dev", "", "testing"]) == {
        "training": "train",
        "dev": "val",
        "": "",
        "testing": "test",
    }
    assert normalize_split_names(["train", "dev", "val"]) == {"train": "train", "dev": "dev", "val": "val"}
