"""A folder of files at a URL: one question and one read an entry."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.loader.stores.stores import a_file_folder, opened
from tests.remote import FaultyFileSystem, uploaded
from wdsctl.core.errors import SampleFailed
from wdsctl.loader.stores import FileStore


@pytest.fixture
def store(tmp_path: Path, faulty_store: None) -> FileStore:
    url = uploaded(a_file_folder(tmp_path), "faulty://bucket/media", "*.*")
    return opened(f"filesystem+{url}")


def test_a_file_is_read_by_one_range(store: FileStore) -> None:
    data, source = store["a/1.txt"]

    assert (data, source.dataset_path, source.shard_name) == ("one", "faulty://bucket/media", "a/1.txt")
    assert len(FaultyFileSystem.reads) == 1


@pytest.mark.parametrize(("name", "code"), [("a/9.txt", "WDS550"), ("../x.txt", "WDS552"), ("/x.txt", "WDS552")])
def test_what_is_not_there_or_elsewhere_is_refused(store: FileStore, name: str, code: str) -> None:
    with pytest.raises(SampleFailed) as raised:
        store.get(name)

    assert raised.value.code == code


def test_a_store_that_does_not_answer_ends_the_run(store: FileStore) -> None:
    FaultyFileSystem.denied.append(PermissionError("no"))
    with pytest.raises(PermissionError):
        store.get("a/1.txt")


def test_nothing_is_known_of_its_media(store: FileStore) -> None:
    with pytest.raises(SampleFailed) as raised:
        store.get_media_metadata("Photo.png")

    assert raised.value.code == "WDS553"


def test_it_pickles_by_reference(store: FileStore) -> None:
    assert pickle.loads(pickle.dumps(store)).get("a/0.txt") == "zero"  # noqa: S301 - our own
