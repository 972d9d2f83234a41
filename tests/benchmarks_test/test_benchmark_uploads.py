"""The parts of the upload and many-shards benchmarks: the server, equal uploads, and complete catalogs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.contenders import many_shards, uploads
from tests.stores.servers import forget_filesystems
from wdsctl.core.errors import WdsctlError
from wdsctl.core.storage.objects import PART_BYTES, ObjectStore

pytest.importorskip("s3fs")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with uploads.running_sink(0) as endpoint:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        forget_filesystems()  # those of other tests have no credentials
        yield ObjectStore("s3://bucket")
        forget_filesystems()


def test_sink_stores_objects_and_refuses_writes_with_stale_tag(store: ObjectStore) -> None:
    data = os.urandom(2 * PART_BYTES + 77)
    with store.open_upload("s3://bucket/a/large") as upload:
        upload.write(data)
        upload.finish()
    first = store.put("s3://bucket/a/small", b"1")

    assert store.get("s3://bucket/a/large")[0] == data
    assert [(each.url, each.size) for each in store.list("s3://bucket/a")] == [
        ("s3://bucket/a/large", len(data)),
        ("s3://bucket/a/small", 1),
    ]
    store.put("s3://bucket/a/small", b"2", if_tag=first.tag)
    with pytest.raises(WdsctlError, match="another writer"):
        store.put("s3://bucket/a/small", b"3", if_tag=first.tag)
    store.delete(["s3://bucket/a/small"])
    assert store.stat("s3://bucket/a/small") is None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["prepare", "put"])
def test_upload_sends_all_shards_on_disk(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "state"))
    raw = uploads.ensure_raw(30, tmp_path)
    monkeypatch.setattr(uploads, "ensure_raw", lambda _files: raw)

    cost, size_bytes = uploads.upload(method, 1, 0, 30)

    assert size_bytes == sum(path.stat().st_size for path in tmp_path.glob("uploads-raw-30-tars/*.tar"))
    assert cost.cpu_seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["local", "job"])
def test_index_shards_catalogs_all_tiny_shards(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_shards, "DATA", tmp_path)
    root = many_shards.ensure_shards(40, tmp_path)
    monkeypatch.setattr(many_shards, "ensure_shards", lambda _count: root)

    figures = many_shards.index_shards(method, 40)

    assert figures["steps_cpu_seconds"] > 0
    assert ("merge_cpu_share" in figures) == (method == "job")
