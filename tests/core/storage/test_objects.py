from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tests.remote import FaultyFileSystem, s3_server
from wdsctl.core.errors import InputError, PermissionDenied, PreconditionFailed, StorageError, UsageError
from wdsctl.core.storage import objects
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote_errors import RetryPolicy
from wdsctl.core.storage.s3_objects import S3Objects

NO_PAUSES = RetryPolicy(first_pause_seconds=0.0)
MIB = 1 << 20


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["memory", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        FaultyFileSystem.reset()
        return f"memory://{tmp_path.name}/root"
    request.getfixturevalue("s3")
    return f"s3://bucket/{tmp_path.name}/root"


def test_put_if_absent_succeeds_for_one_writer_only(root: str) -> None:
    store = ObjectStore(root)
    first = store.put(f"{root}/a", b"one", if_absent=True)

    with pytest.raises(PreconditionFailed, match="another writer") as caught:
        store.put(f"{root}/a", b"two", if_absent=True)

    assert caught.value.code == "WDS418"
    assert store.get(f"{root}/a") == (b"one", first.tag)


def test_put_if_tag_replaces_only_version_that_was_read(root: str) -> None:
    store = ObjectStore(root)
    first = store.put(f"{root}/a", b"one")
    second = store.put(f"{root}/a", b"two", if_tag=first.tag)

    with pytest.raises(PreconditionFailed):
        store.put(f"{root}/a", b"three", if_tag=first.tag)
    with pytest.raises(PreconditionFailed):
        store.put(f"{root}/gone", b"three", if_tag=first.tag)

    assert store.get(f"{root}/a") == (b"two", second.tag)


def test_put_after_lost_answer_accepts_own_object(root: str) -> None:
    store = ObjectStore(root)
    store.put(f"{root}/a", b"mine", if_absent=True)

    assert store.put(f"{root}/a", b"mine", if_absent=True).size == 4


def test_upload_is_visible_only_after_finish(root: str) -> None:
    store = ObjectStore(root)
    pieces = [bytes([i]) * 1_000_003 for i in range(20)]
    with store.open_upload(f"{root}/big") as upload:
        for piece in pieces:
            upload.write(piece)
        assert store.stat(f"{root}/big") is None
        assert [each.url for each in store.pending(root)] == [f"{root}/big"]
        stored = upload.finish()

    assert store.get(f"{root}/big") == (b"".join(pieces), stored.tag)
    assert [each[:3] for each in store.list(root)] == [stored[:3]]
    assert store.pending(root) == []


@pytest.mark.parametrize("size", [0, 1, 16 * MIB - 1, 16 * MIB, 16 * MIB + 1, 33 * MIB])
def test_put_file_stores_file_byte_for_byte(root: str, tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "file").write_bytes(data[:size])
    store = ObjectStore(root)

    stored = store.put_file(str(tmp_path / "file"), f"{root}/file", if_absent=True)

    assert stored.size == size
    assert store.get(f"{root}/file")[0] == data[:size]
    (tmp_path / "file").write_bytes(b"x" * size + b"y")
    with pytest.raises(PreconditionFailed):
        store.put_file(str(tmp_path / "file"), f"{root}/file", if_absent=True)


def test_failed_upload_leaves_nothing(root: str) -> None:
    store = ObjectStore(root)
    with suppress(KeyError), store.open_upload(f"{root}/big") as upload:
        upload.write(bytes(17 * MIB))
        raise KeyError

    assert (store.list(root), store.pending(root)) == ([], [])


def test_abort_pending_aborts_only_own_uploads(root: str) -> None:
    store = ObjectStore(root)
    for name in ("ours", "theirs"):
        upload = store.open_upload(f"{root}/{name}")
        upload.write(bytes(33 * MIB))

    assert store.abort_pending(root, is_own=lambda url: url.endswith("ours")) == 1
    assert [each.url for each in store.pending(root)] == [f"{root}/theirs"]
    assert store.abort_pending(root) == 1


def test_missing_objects_are_none_and_can_be_deleted(root: str) -> None:
    store = ObjectStore(root)
    store.put(f"{root}/a", b"")
    assert store.stat(f"{root}/b") is None
    store.delete([f"{root}/a", f"{root}/b"])
    assert store.list(root) == []
    with pytest.raises(StorageError):
        store.get(f"{root}/a")


def test_object_store_pickles_by_value(root: str) -> None:
    store = ObjectStore(root)
    store.put(f"{root}/a", b"1")
    assert pickle.loads(pickle.dumps(store)).get(f"{root}/a")[0] == b"1"  # noqa: S301 - our own


def _put_in_child(store: ObjectStore) -> None:
    store.put(f"{store.root}/child", b"1")


def test_object_store_works_after_fork(s3: str, tmp_path: Path) -> None:
    store = ObjectStore(f"s3://bucket/{tmp_path.name}")
    store.put(f"{store.root}/parent", b"1")
    child = multiprocessing.get_context("fork").Process(target=_put_in_child, args=(store,))
    child.start()
    child.join(60)

    assert [each.url.rpartition("/")[2] for each in store.list(store.root)] == ["child", "parent"]


def test_put_refuses_url_outside_root(root: str) -> None:
    with pytest.raises(UsageError, match="not below"):
        ObjectStore(root).put(f"{root}-other/a", b"")


def test_server_that_ignores_conditions_is_refused(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = S3Objects.put
    monkeypatch.setattr(S3Objects, "put", lambda self, path, data, _tag, _absent: put(self, path, data, None, False))
    root = f"s3://bucket/{tmp_path.name}"

    with pytest.raises(StorageError, match="ignores the conditions") as caught:
        ObjectStore(root).put(f"{root}/a", b"1", if_absent=True)

    assert caught.value.code == "WDS419"
    assert ObjectStore(root).list(root) == []


def test_driver_without_conditional_writes_is_refused(tmp_path: Path) -> None:
    root = f"local://{tmp_path}"
    store = ObjectStore(root)
    with pytest.raises(StorageError, match="does not support conditional writes") as caught:
        store.put(f"{root}/a", b"1", if_absent=True)
    assert caught.value.code == "WDS419"


def test_generic_driver_writes_draft_and_renames_it(tmp_path: Path) -> None:
    root = f"local://{tmp_path}/store"
    store = ObjectStore(root)
    with store.open_upload(f"{root}/a/big") as upload:
        upload.write(bytes(17 * MIB))
        assert not (tmp_path / "store/a/big").exists()
        assert upload.finish().size == 17 * MIB

    assert [path.name for path in (tmp_path / "store/a").iterdir()] == ["big"]


def test_missing_bucket_is_reported(s3: str) -> None:
    with pytest.raises(InputError, match="no such bucket"):
        ObjectStore("s3://nowhere/a").put("s3://nowhere/a/b", b"")
    with pytest.raises(InputError, match="no such bucket"):
        ObjectStore("s3://nowhere/a").list("s3://nowhere/a")


class _RequestFault:
    """Lets the first `good` requests of one kind through, and fails the others `times` times."""

    def __init__(self, method: str, error: Exception, *, good: int = 0, times: int = 1 << 30) -> None:
        self.method = method
        self.error = error
        self.good = good
        self.times = times
        self._call = S3Objects._request

    async def __call__(self, driver: S3Objects, method: str, path: str, **options: Any) -> Any:
        if method == self.method:
            self.good -= 1
            if self.good < 0 and self.times > 0:
                self.times -= 1
                raise self.error
        return await self._call(driver, method, path, **options)


def inject_fault(monkeypatch: pytest.MonkeyPatch, fault: _RequestFault) -> None:
    async def request(driver: S3Objects, method: str, path: str, **options: Any) -> Any:
        return await fault(driver, method, path, **options)

    monkeypatch.setattr(S3Objects, "_request", request)


STEPS = ["create_multipart_upload", "upload_part", "complete_multipart_upload"]


@pytest.mark.parametrize("step", STEPS)
def test_failed_upload_step_is_retried(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    inject_fault(monkeypatch, _RequestFault(step, ConnectionError("cut"), times=1))
    store = ObjectStore(f"s3://bucket/{tmp_path.name}", retry_policy=NO_PAUSES)
    (tmp_path / "file").write_bytes(bytes(33 * MIB))

    assert store.put_file(str(tmp_path / "file"), f"{store.root}/a").size == 33 * MIB


@pytest.mark.parametrize("step", STEPS)
def test_upload_with_permanently_failing_step_leaves_nothing(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    inject_fault(monkeypatch, _RequestFault(step, PermissionError("Access Denied"), good=step == "upload_part"))
    store = ObjectStore(f"s3://bucket/{tmp_path.name}", retry_policy=NO_PAUSES)
    (tmp_path / "file").write_bytes(bytes(33 * MIB))

    with pytest.raises(PermissionDenied, match="allow these credentials to write"):
        store.put_file(str(tmp_path / "file"), f"{store.root}/a")

    assert (store.list(store.root), store.pending(store.root)) == ([], [])


def test_finished_upload_counts_after_lost_answer(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = S3Objects._request
    lost: list[str] = []

    async def lose_answer(driver: S3Objects, method: str, path: str, **options: Any) -> Any:
        answer = await request(driver, method, path, **options)
        if method == "complete_multipart_upload" and not lost:
            lost.append(path)
            raise ConnectionError("cut")
        if method == "complete_multipart_upload":  # Amazon's answer to the second request
            raise FileNotFoundError("NoSuchUpload")
        return answer

    monkeypatch.setattr(S3Objects, "_request", lose_answer)
    store = ObjectStore(f"s3://bucket/{tmp_path.name}", retry_policy=NO_PAUSES)
    with store.open_upload(f"{store.root}/a") as upload:
        upload.write(bytes(33 * MIB))
        assert upload.finish().size == 33 * MIB


def test_corrupted_upload_is_detected(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = S3Objects._request

    async def truncate_part(driver: S3Objects, method: str, path: str, **options: Any) -> Any:
        if method == "upload_part" and options["PartNumber"] == 2:
            options["Body"] = options["Body"][:-1]
        return await request(driver, method, path, **options)

    monkeypatch.setattr(S3Objects, "_request", truncate_part)
    store = ObjectStore(f"s3://bucket/{tmp_path.name}", retry_policy=NO_PAUSES)
    (tmp_path / "file").write_bytes(bytes(20 * MIB))
    with pytest.raises(StorageError, match="expected 20,971,520") as caught:
        store.put_file(str(tmp_path / "file"), f"{store.root}/a")

    assert caught.value.code == "WDS420"
    assert store.list(store.root) == []


def test_upload_memory_is_bounded_by_parts_in_flight(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PART_BYTES", 5 * MIB)
    store = ObjectStore(f"s3://bucket/{tmp_path.name}")
    with store.open_upload(f"{store.root}/a") as upload:
        for _ in range(60):
            upload.write(bytes(MIB))
            assert len(upload._in_flight) <= 4
            assert upload._buffered_bytes <= 5 * MIB


def test_credentials_never_show_in_errors() -> None:
    fsspec.filesystem("memory")
    with pytest.raises(UsageError) as caught:
        ObjectStore("s3://user:hunter2secret@bucket/a").put("s3://user:hunter2secret@other/b", b"")
    assert "hunter2secret" not in str(caught.value)
