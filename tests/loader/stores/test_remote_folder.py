"""A folder of files at a URL: one lookup and one read per entry."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.loader.stores.stores import a_file_folder, open_reference
from tests.remote import FaultyFileSystem, upload_shards
from wdsctl.core.errors import SampleFailed
from wdsctl.loader.stores import FileStore


@pytest.fixture
def store(tmp_path: Path, faulty_store: None) -> FileStore:
    url = upload_shards(a_file_folder(tmp_path), "faulty://bucket/media", "*.*")
    return open_reference(f"filesystem+{url}")


def test_remote_file_is_read_with_one_range(store: FileStore) -> None:
    data, source = store["a/1.txt"]

    assert (data, source.dataset_path, source.shard_name) == ("one", "faulty://bucket/media", "a/1.txt")
    assert len(FaultyFileSystem.reads) == 1


@pytest.mark.parametrize(("name", "code"), [("a/9.txt", "WDS550"), ("../x.txt", "WDS552"), ("/x.txt", "WDS552")])
def test_get_rejects_missing_name_or_path_outside_folder(store: FileStore, name: str, code: str) -> None:
    with pytest.raises(SampleFailed) as raised:
        store.get(name)

    assert raised.value.code == code


def test_permission_error_of_store_is_raised(store: FileStore) -> None:
    FaultyFileSystem.denied.append(PermissionError("no"))
    with pytest.raises(PermissionError):
        store.get("a/1.txt")


def test_remote_folder_has_no_media_metadata(store: FileStore) -> None:
    with pytest.raises(SampleFailed) as raised:
        store.get_media_metadata("Photo.png")

    assert raised.value.code == "WDS553"


def test_remote_folder_pickles_by_reference(store: FileStore) -> None:
    assert pickle.loads(pickle.dumps(store)).get("a/0.txt") == "zero"  # noqa: S301 - our own
