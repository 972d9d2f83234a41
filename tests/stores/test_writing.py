"""Writing objects and shards to servers of each kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.raw_folders import a_folder, shards
from tests.prepare_requests import prepare_request
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.storage.objects import PART_BYTES, ObjectStore
from wdsctl.core.storage.remote import FsspecStorage


def test_multipart_upload_appears_only_when_finished(store_folder: str) -> None:
    store, url = ObjectStore(store_folder), f"{store_folder}/large"
    data = os.urandom(PART_BYTES + 2_000_000)
    with store.open_upload(url) as upload:
        for start in range(0, len(data), 1_000_003):
            upload.write(data[start : start + 1_000_003])
        assert store.stat(url) is None
        stored = upload.finish()

    assert store.get(url)[0] == data
    listed = store.list(store_folder)
    assert [(each.url, each.size, each.tag, each.number) for each in listed] == [
        (url, len(data), stored.tag, stored.number)
    ]


def test_aborted_upload_leaves_nothing(store_folder: str) -> None:
    store, url = ObjectStore(store_folder), f"{store_folder}/large"
    with store.open_upload(url) as upload:
        upload.write(os.urandom(PART_BYTES + 2_000_000))
    assert store.stat(url) is None
    assert store.pending(store_folder) == []


def test_list_stat_and_delete_accept_missing_objects(store_folder: str) -> None:
    store = ObjectStore(store_folder)
    assert store.list(store_folder) == []
    assert store.stat(f"{store_folder}/a") is None
    store.put(f"{store_folder}/a", b"")
    store.delete([f"{store_folder}/a", f"{store_folder}/b"])
    assert store.list(store_folder) == []


def test_prepare_to_store_gives_shards_of_local_destination(
    store_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    source = str(a_folder(tmp_path / "raw", 10))
    options = prepare_request(shard_samples=4, accept_type=True, workers=2)
    prepare(source, str(tmp_path / "local"), options)
    monkeypatch.setattr("wdsctl.core.index.merge.run_scan_unit", None)  # no shard is read back

    report = prepare(source, store_folder, options)

    storage = FsspecStorage(store_folder)
    found = {name: storage.read(f"{store_folder}/{name}", 0, facts["size"]) for name, facts in storage.files()}
    assert {name: data for name, data in found.items() if name.endswith(".tar")} == shards(tmp_path / "local")
    assert report.index is not None
    assert report.index.samples == 10
    assert prepare(source, store_folder, options).up_to_date
