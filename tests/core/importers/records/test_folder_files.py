"""Listings of folders, which the recognition of formats shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wdsctl.core.errors import PermissionDenied
from wdsctl.core.importers.records.folder_files import FolderNames, keep_listings, list_folder, scan_folder


def test_names_are_sorted_and_hidden_ones_counted(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.txt", ".hidden", "Thumbs.db"):
        (tmp_path / name).touch()
    (tmp_path / "folder").mkdir()
    path = str(tmp_path)

    assert list_folder(path, path) == FolderNames(["folder"], ["a.txt", "b.jpg"], 2, [])


def test_links_that_lead_out_are_apart_and_end_a_listing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    os.symlink(tmp_path, root / "out")
    (root / "a.jpg").touch()

    assert scan_folder(str(root), str(root)) == FolderNames([], ["a.jpg"], 0, ["out"])
    with pytest.raises(PermissionDenied, match="out"):
        list_folder(str(root), str(root))


def test_a_folder_is_listed_once_while_listings_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path)
    with keep_listings():
        first = scan_folder(path, path)
        (tmp_path / "new.jpg").touch()
        assert scan_folder(path, path) is first
    assert scan_folder(path, path).files == ["new.jpg"]
