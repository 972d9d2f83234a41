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
    """Leaves an unfinished upload, as a killed process does."""
    context = journaled_upload(store, f"{ROOT}/{name}", str(folder))
    context.__enter__().write(bytes(33 << 20))
    del context


def test_finished_upload_leaves_no_journal_file(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(20 << 20))
    assert put_file_journaled(store, str(tmp_path / "file"), f"{ROOT}/a", str(tmp_path / "journal")).size == 20 << 20
    assert list((tmp_path / "journal").iterdir()) == []


def test_abort_left_uploads_aborts_only_own_uploads(store: ObjectStore, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    for name in ("a", "b"):
        upload = store.open_upload(f"{ROOT}/{name}")
        upload.write(bytes(33 << 20))

    assert abort_left_uploads(store, str(journal), {"a"}.__contains__) == 1
    assert [each.url for each in store.pending(ROOT)] == [f"{ROOT}/b"]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"path": "../x", "id": "1"}', b'{"path": 3, "id": 4}', b"\xff"])
def test_damaged_journal_file_is_removed(store: ObjectStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.upload").write_bytes(data)
    assert abort_left_uploads(store, str(tmp_path), lambda _: True) == 0
    assert list(tmp_path.iterdir()) == []
