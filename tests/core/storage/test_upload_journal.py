from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote import FaultyFileSystem
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.upload_journal import abort_left_uploads, journaled_upload, put_file_journaled

ROOT = "memory://journaled/data"


@pytest.fixture
def store() -> ObjectStore:
    FaultyFileSystem.reset()
    return ObjectStore(ROOT)


def leave_upload(store: ObjectStore, name: str, folder: Path) -> None:
    """What a killed process leaves."""
    context = journaled_upload(store, f"{ROOT}/{name}", str(folder))
    context.__enter__().write(bytes(33 << 20))
    del context


def test_a_finished_upload_leaves_no_file(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(20 << 20))
    assert put_file_journaled(store, str(tmp_path / "file"), f"{ROOT}/a", str(tmp_path / "journal")).size == 20 << 20
    assert list((tmp_path / "journal").iterdir()) == []


def test_uploads_in_the_journal_and_in_the_listing_are_aborted_if_ours(store: ObjectStore, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for name in ("a", "b"):
        upload = store.open_upload(f"{ROOT}/{name}")
        upload.write(bytes(33 << 20))

    assert abort_left_uploads(store, str(journal), {"a"}.__contains__) == 1
    assert [each.url for each in store.pending(ROOT)] == [f"{ROOT}/b"]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"path": "../x", "id": "1"}', b'{"path": 3, "id": 4}', b"\xff"])
def test_a_damaged_file_of_the_journal_is_removed(store: ObjectStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.upload").write_bytes(data)
    assert abort_left_uploads(store, str(tmp_path), lambda _: True) == 0
    assert list(tmp_path.iterdir()) == []
