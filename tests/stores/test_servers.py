"""The servers have the features that the tests rely on, and lack those listed in `servers.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stores.proxy import FaultProxy
from tests.stores.servers import in_use, rclone_server
from wdsctl.core.errors import PermissionDenied, PreconditionFailed, StorageError
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage


def test_object_store_puts_gets_lists_and_deletes(store_folder: str) -> None:
    store = ObjectStore(store_folder)
    url = f"{store_folder}/a/x.bin"
    stored = store.put(url, b"0123456789")
    assert store.get(url)[0] == b"0123456789"
    assert store.get(url)[1].strip('"') == stored.tag.strip('"') != ""
    assert [(each.url, each.size) for each in store.list(store_folder)] == [(url, 10)]
    assert FsspecStorage(store_folder).read(url, 3, 4) == b"3456"
    store.delete([url])
    assert store.stat(url) is None


@pytest.mark.parametrize("name", ["moto", "azurite"])
def test_if_absent_refuses_existing_object_on_conditional_stores(use_store: Callable[[str], str], name: str) -> None:
    folder = use_store(name)
    store = ObjectStore(folder)
    store.put(f"{folder}/x", b"one", if_absent=True)
    with pytest.raises(PreconditionFailed):
        store.put(f"{folder}/x", b"two", if_absent=True)


@pytest.mark.parametrize("name", ["rclone", "google"])
def test_if_absent_is_refused_on_stores_without_conditions(use_store: Callable[[str], str], name: str) -> None:
    folder = use_store(name)
    with pytest.raises(StorageError, match="ignores the conditions"):
        ObjectStore(folder).put(f"{folder}/x", b"one", if_absent=True)


def test_rclone_server_checks_signatures(use_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = use_store("rclone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(PermissionDenied):
        ObjectStore(folder).put(f"{folder}/x", b"one")


def test_signed_upload_passes_through_proxy(tmp_path: Path) -> None:
    with rclone_server(tmp_path) as store, FaultProxy(store.endpoint) as proxy, in_use(store.through(proxy.url)):
        data = os.urandom(40 << 20)
        with ObjectStore("s3://bucket").open_upload("s3://bucket/large") as upload:
            upload.write(data)
            upload.finish()
        assert ObjectStore("s3://bucket").get("s3://bucket/large")[0] == data
        assert proxy.counts.received >= len(data)
        assert proxy.counts.by_method["POST"] == 2
    assert (tmp_path / "bucket" / "large").stat().st_size == len(data)
