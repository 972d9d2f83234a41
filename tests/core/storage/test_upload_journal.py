from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.remote import FaultyFileSystem
from wdsctl.core.errors import PermissionDenied
from wdsctl.core.storage.objects import ObjectStore, Upload
from wdsctl.core.storage.upload_journal import abort_left_uploads, journaled_upload, put_file_journaled

ROOT = "memory://journaled/data"


@pytest.fixture
def store() -> ObjectStore:
    FaultyFileSystem.reset()
    return ObjectStore(ROOT)


@pytest.fixture
def leave_upload(store: ObjectStore, tmp_path: Path) -> Iterator[Callable[[str], Upload]]:
    """Leaves an unfinished upload of 33 MiB in `tmp_path/journal`, as a killed process does.

    Its context stays open until the end of the test, as leaving it aborts the upload.
    """
    contexts = []

    def leave(name: str) -> Upload:
        context = journaled_upload(store, f"{ROOT}/{name}", str(tmp_path / "journal"))
        contexts.append(context)
        upload = context.__enter__()
        upload.write(bytes(33 << 20))
        return upload

    yield leave
    for context in contexts:
        context.__exit__(None, None, None)


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


def test_abort_left_uploads_aborts_uploads_in_journal_without_listing(
    store: ObjectStore, tmp_path: Path, leave_upload: Callable[[str], Upload], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_upload("a")
    leave_upload("deep/b")
    assert [each.url for each in store.pending(ROOT)] == [f"{ROOT}/a", f"{ROOT}/deep/b"]

    def deny(_store: ObjectStore, _prefix: str) -> None:
        raise PermissionDenied("no permission to list uploads", hint="")

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "pending", deny)
        assert abort_left_uploads(store, str(tmp_path / "journal"), lambda _: True) == 2
    assert store.pending(ROOT) == []
    assert list((tmp_path / "journal").iterdir()) == []


def test_abort_left_uploads_keeps_object_whose_upload_was_finished(
    store: ObjectStore, tmp_path: Path, leave_upload: Callable[[str], Upload]
) -> None:
    leave_upload("a").finish()  # killed before it removes the file of the journal
    assert len(list((tmp_path / "journal").iterdir())) == 1

    abort_left_uploads(store, str(tmp_path / "journal"), lambda _: True)
    assert [(each.url, each.size) for each in store.list(ROOT)] == [(f"{ROOT}/a", 33 << 20)]
    assert list((tmp_path / "journal").iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"{}", b'{"path": "../x", "id": "1"}', b'{"path": 3, "id": 4}', b"\xff"])
def test_damaged_journal_file_is_removed(store: ObjectStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.upload").write_bytes(data)
    assert abort_left_uploads(store, str(tmp_path), lambda _: True) == 0
    assert list(tmp_path.iterdir()) == []
