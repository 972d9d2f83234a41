"""`prepare` of raw folders writes the same shards and catalog to a store as to a disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import children
from tests.core.dumps import query
from tests.core.raw_folders import a_folder
from tests.prepare_requests import prepare_request
from tests.remote import read_objects
from tests.stores.servers import forget_filesystems
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, UsageError
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.s3_objects import S3Objects

OPTIONS = {"shard_samples": 4, "accept_type": True, "split": {"train": 3, "val": 1}}


@pytest.fixture
def s3_dest(use_store: Callable[[str], str]) -> str:
    return f"{use_store('moto')}/dest"


def stored_shards(dest: str) -> dict[str, bytes]:
    return read_objects(dest, ".tar")


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


@pytest.mark.parametrize(("dest", "workers"), [("memory", 1), ("s3", 2)], indirect=["dest"])
def test_prepare_to_store_gives_shards_and_catalog_of_local_run(tmp_path: Path, dest: str, workers: int) -> None:
    source = str(a_folder(tmp_path / "raw", 10))
    prepare(source, str(tmp_path / "local"), prepare_request(**OPTIONS))

    report = prepare(source, dest, prepare_request(**OPTIONS, workers=workers))

    assert stored_shards(dest) == shards(tmp_path / "local")
    assert (report.folder and report.folder.written, report.index and report.index.samples) == (3, 10)
    for table in ("sample", "shard_part", "split", "split_shard", "ext"):
        rows = [query(locate(root).catalog_path, f"SELECT * FROM {table}") for root in (dest, str(tmp_path / "local"))]
        assert rows[0] == rows[1]


def test_index_does_not_read_shards_back(tmp_path: Path, s3_dest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = str(a_folder(tmp_path / "raw", 10))
    monkeypatch.setattr("wdsctl.core.index.merge.run_scan_unit", None)

    assert prepare(source, s3_dest, prepare_request(**OPTIONS)).split is not None


def test_second_run_writes_only_new_shards(tmp_path: Path, dest: str) -> None:
    source = a_folder(tmp_path / "raw", 10)
    prepare(str(source), dest, prepare_request(**OPTIONS))
    assert prepare(str(source), dest, prepare_request(**OPTIONS)).up_to_date
    before = stored_shards(dest)

    a_folder(source, 3, first=10)
    report = prepare(str(source), dest, prepare_request(**OPTIONS))

    assert report.folder is not None
    assert (report.folder.written, report.folder.kept) == (1, 3)
    assert before.items() < stored_shards(dest).items()


def test_dry_run_writes_nothing(tmp_path: Path, dest: str) -> None:
    source = str(a_folder(tmp_path / "raw", 10))
    report = prepare(source, dest, prepare_request(**OPTIONS, dry_run=True))
    assert report.folder is not None
    assert report.folder.shards == 3
    assert ObjectStore(dest).list(dest) == []


def test_destination_with_other_shards_is_refused(tmp_path: Path, dest: str) -> None:
    ObjectStore(dest).put(f"{dest}/other.tar", b"x")
    with pytest.raises(UsageError, match=r"other shards: other\.tar"):
        prepare(str(a_folder(tmp_path / "raw", 10)), dest, prepare_request(**OPTIONS))


def test_destination_with_nested_dataset_is_refused(tmp_path: Path, dest: str) -> None:
    ObjectStore(dest).put(f"{dest}/inner/.wdsctl/catalog", b"x")
    with pytest.raises(UsageError, match="contains the dataset inner"):
        prepare(str(a_folder(tmp_path / "raw", 10)), dest, prepare_request(**OPTIONS))


@pytest.mark.parametrize("url", ["https://host/dest", "hf://datasets/me/dest", "simplecache::s3://bucket/dest"])
def test_read_only_store_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        prepare(str(a_folder(tmp_path / "raw", 10)), url, prepare_request(**OPTIONS))


def test_missing_bucket_is_reported(tmp_path: Path, s3_dest: str) -> None:
    with pytest.raises(InputError, match="no such bucket"):
        prepare(str(a_folder(tmp_path / "raw", 10)), "s3://nowhere/dest", prepare_request(**OPTIONS))


def test_read_only_bucket_is_reported(tmp_path: Path, s3_dest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = S3Objects._request

    async def deny(driver: S3Objects, method: str, path: str, **options: object) -> object:
        if method in ("put_object", "create_multipart_upload"):
            raise PermissionError("Access Denied")
        return await request(driver, method, path, **options)

    monkeypatch.setattr(S3Objects, "_request", deny)
    with pytest.raises(PermissionDenied, match="allow these credentials to write"):
        prepare(str(a_folder(tmp_path / "raw", 10)), s3_dest, prepare_request(**OPTIONS))


def test_missing_credentials_are_reported(tmp_path: Path, s3_dest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        patch.setenv("HOME", str(tmp_path))
        forget_filesystems()
        with pytest.raises(PermissionDenied, match="no credentials for this store"):
            prepare(str(a_folder(tmp_path / "raw", 10)), s3_dest, prepare_request(**OPTIONS))


def test_second_writer_is_refused_with_name_of_first(tmp_path: Path, dest: str) -> None:
    source = str(a_folder(tmp_path / "raw", 10))
    prepare(source, dest, prepare_request(**OPTIONS))
    store, url = ObjectStore(dest), f"{dest}/.wdsctl/writer.json"
    facts = json.loads(store.get(url)[0])
    facts |= {"ended": False, "holder": facts["holder"] | {"host": "node-17", "command": "wdsctl prepare raw dest"}}
    store.put(url, json.dumps(facts).encode())
    a_folder(tmp_path / "raw", 3, first=10)

    with pytest.raises(CatalogError, match=r"on node-17, since .* \(wdsctl prepare raw dest\)"):
        prepare(source, dest, prepare_request(**OPTIONS))

    assert len(stored_shards(dest)) == 3


def test_rerun_after_kill_during_upload_leaves_no_pending_uploads(tmp_path: Path, s3_dest: str) -> None:
    source = a_folder(tmp_path / "raw", 4, size=15 << 20)
    command = [sys.executable, "-m", "wdsctl", "prepare", str(source), s3_dest, "--yes"]
    command += ["--shard-samples", "2", "--workers", "2", "--sample-type", "CrudeSample"]
    child = children.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    store = ObjectStore(s3_dest)
    while not store.pending(s3_dest):
        assert child.poll() is None
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    pending = store.pending(s3_dest)
    prepare(str(source), str(tmp_path / "local"), prepare_request(shard_samples=2, accept_type=True))

    children.run(command, check=True, stdout=subprocess.DEVNULL)

    assert pending
    assert store.pending(s3_dest) == []
    assert stored_shards(s3_dest) == shards(tmp_path / "local")
