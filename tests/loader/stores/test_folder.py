"""Files of a plain folder are found by their relative path, and nothing outside of the folder is ever read."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from tests.loader.stores.stores import a_file_folder, open_reference
from wdsctl.core.errors import SampleFailed, StorageDown, StorageError
from wdsctl.core.index.media_folder import index_media_folder
from wdsctl.core.media.facts import ImageFacts
from wdsctl.loader.decoding.av.media_source import make_media_source
from wdsctl.loader.stores import FileStore
from wdsctl.loader.stores.folder import FolderStore


def open_folder(root: Path) -> FileStore:
    store = open_reference(f"filesystem://{a_file_folder(root)}")
    assert isinstance(store, FolderStore)
    return store


def test_files_are_decoded_by_extension(tmp_path: Path) -> None:
    store = open_folder(tmp_path)
    data, source = store["a/1.txt"]

    assert (data, source.dataset_path, source.shard_name, source.file_names, source.byte_range) == (
        "one",
        str(tmp_path),
        "a/1.txt",
        ("a/1.txt",),
        (0, 3),
    )
    assert tuple(store.get("Photo.png").shape) == (3, 32, 48)


def test_find_normalizes_path_of_entry(tmp_path: Path) -> None:
    store = open_folder(tmp_path)

    assert store.find("./a//1.txt") == store.find("a/1.txt")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../etc/passwd", "contains"),
        ("a/../a/1.txt", "contains"),
        ("/etc/passwd", "absolute path"),
        ("", "not the name"),
        ("a\0b", "not the name"),
        (".", "folder itself"),
        ("a", "is not a file"),
        ("out/passwd", "link to a file outside"),
        ("passwd", "link to a file outside"),
    ],
)
def test_get_rejects_paths_outside_folder(tmp_path: Path, name: str, message: str) -> None:
    store = open_folder(tmp_path / "inside")
    os.symlink("/etc", tmp_path / "inside" / "out")
    os.symlink("/etc/passwd", tmp_path / "inside" / "passwd")

    with pytest.raises(SampleFailed, match=message) as raised:
        store.get(name)

    assert raised.value.code == "WDS552"
    assert name not in store


def test_sibling_folder_with_common_prefix_is_outside(tmp_path: Path) -> None:
    a_file_folder(tmp_path / "media-2")
    store = open_folder(tmp_path / "media")
    os.symlink(tmp_path / "media-2", tmp_path / "media" / "link")

    assert "link/a/1.txt" not in store


def test_symlinks_inside_folder_and_to_folder_are_followed(tmp_path: Path) -> None:
    open_folder(tmp_path / "inside")
    os.symlink("1.txt", tmp_path / "inside" / "a" / "link.txt")
    os.symlink(tmp_path / "inside", tmp_path / "link")

    assert open_reference(f"filesystem://{tmp_path / 'link'}").get("a/link.txt") == "one"


@pytest.mark.parametrize(("name", "suggestion"), [("A/1.TXT", "a/1.txt"), ("photo.png", "Photo.png")])
def test_missing_name_suggests_existing_name_in_other_case(tmp_path: Path, name: str, suggestion: str) -> None:
    with pytest.raises(SampleFailed) as raised:
        open_folder(tmp_path).get(name)

    assert (raised.value.code, raised.value.where) == ("WDS550", f"store {tmp_path}, entry {name}")
    assert repr(suggestion) in raised.value.hint


def test_name_below_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SampleFailed) as raised:
        open_folder(tmp_path).get("a/1.txt/x")

    assert raised.value.code == "WDS550"


def test_changed_file_is_reported(tmp_path: Path) -> None:
    store = open_folder(tmp_path)
    entry = store.find("a/1.txt")
    (tmp_path / "a" / "1.txt").write_bytes(b"longer than it was")

    with pytest.raises(StorageError) as raised:
        store.load(entry)

    assert (raised.value.code, "entry a/1.txt" in raised.value.where) == ("WDS403", True)


def test_removed_folder_raises_storage_down(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "media")
    entry = store.find("a/1.txt")
    os.rename(tmp_path / "media", tmp_path / "gone")

    with pytest.raises(StorageDown):
        store.load(entry)


def test_opened_file_can_be_read_by_media_source(tmp_path: Path) -> None:
    handle = open_folder(tmp_path).open("a/1.txt")

    with make_media_source(handle).open() as file:
        assert file.read(2) == b"on"


def test_media_metadata_is_read_from_catalog_of_folder(tmp_path: Path) -> None:
    with pytest.raises(SampleFailed) as unknown:
        open_folder(tmp_path).get_media_metadata("Photo.png")
    index_media_folder(str(tmp_path))
    facts = open_reference(str(tmp_path)).get_media_metadata("Photo.png")

    assert unknown.value.code == "WDS553"
    assert isinstance(facts, ImageFacts)
    assert facts.width == 48


def test_medium_changed_since_indexing_is_rejected(tmp_path: Path) -> None:
    a_file_folder(tmp_path)
    index_media_folder(str(tmp_path))
    store = open_reference(str(tmp_path))
    (tmp_path / "Photo.png").write_bytes(b"another")
    (tmp_path / "new.txt").write_bytes(b"nobody has indexed it")

    with pytest.raises(StorageError) as raised:
        store.get("Photo.png")

    assert raised.value.code == "WDS403"
    assert store.get("new.txt") == "nobody has indexed it"


def test_folder_store_pickles_by_reference(tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(open_folder(tmp_path))).get("a/1.txt") == "one"  # noqa: S301 - our own
