"""A refusal or loss by a store raises an error with a code, or is retried; it never changes a result."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from fsspec.config import conf

from tests.build import some_shards
from tests.remote import upload_shards
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import in_use, rclone_server
from wdsctl.core.errors import InputError, PermissionDenied, StorageError
from wdsctl.core.shards.list import list_shards
from wdsctl.core.storage import filesystem
from wdsctl.core.storage.filesystem import open_filesystem
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage

SHARDS = "s3://bucket/shards"


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """A proxy in front of a store with three shards."""
    (tmp_path / "store").mkdir()
    with (
        rclone_server(tmp_path / "store") as store,
        FaultProxy(store.endpoint) as fault_proxy,
        in_use(store.through(fault_proxy.url)),
    ):
        upload_shards(some_shards(tmp_path / "local", 3), SHARDS)
        yield fault_proxy


def shard_names() -> list[str]:
    return [shard.path for shard in list_shards(SHARDS).shards]


@pytest.mark.usefixtures("proxy")
def test_list_shards_refuses_missing_bucket() -> None:
    with pytest.raises(InputError):
        list_shards("s3://nothing/shards")


@pytest.mark.usefixtures("proxy")
def test_wrong_access_key_raises_permission_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    from tests.stores.servers import forget_filesystems

    forget_filesystems()
    with pytest.raises(PermissionDenied):
        shard_names()


def test_put_to_read_only_bucket_raises_permission_denied(proxy: FaultProxy) -> None:
    denied = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    proxy.set_faults(Fault(method="PUT", status=403, body=denied))
    with pytest.raises(PermissionDenied):
        ObjectStore(SHARDS).put(f"{SHARDS}/new", b"1")
    assert len(shard_names()) == 3


def test_wrong_region_error_suggests_default_region_variable(proxy: FaultProxy) -> None:
    wrong_region = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message></Error>"
    proxy.set_faults(Fault(status=400, body=wrong_region))
    with pytest.raises(StorageError) as failed:
        shard_names()
    assert "AWS_DEFAULT_REGION" in failed.value.hint


def test_storage_read_survives_seconds_without_network(proxy: FaultProxy, tmp_path: Path) -> None:
    (path,) = (tmp_path / "local").glob("*000.tar")
    storage, url = FsspecStorage(SHARDS), f"{SHARDS}/{path.name}"
    assert storage.read(url, 0, 512) == path.read_bytes()[:512]
    proxy.go_offline(2.0)
    assert storage.read(url, 512, 512) == path.read_bytes()[512:1024]


def test_list_shards_follows_lagging_listing(proxy: FaultProxy) -> None:
    proxy.set_faults(Fault(path="list-type", times=1, edit=lambda body: body.replace(b"002.tar", b"002.tmp")))
    assert len(shard_names()) == 2
    assert len(shard_names()) == 3


def test_truncated_and_busy_responses_are_retried(proxy: FaultProxy) -> None:
    data = os.urandom(1 << 20)
    ObjectStore(SHARDS).put(f"{SHARDS}/x.bin", data)
    for fault in (
        Fault(path="x.bin", method="GET", cut="body", times=1),
        Fault(path="x.bin", method="GET", status=503, times=1),
        Fault(path="x.bin", method="GET", trim_bytes=10, times=1),
    ):
        proxy.set_faults(fault)
        assert FsspecStorage(SHARDS).read(f"{SHARDS}/x.bin", 0, len(data)) == data


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_retries_of_driver_leave_random_state_of_caller_unchanged(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The driver retries in another thread, also while a hook or a training loop draws."""
    monkeypatch.setenv("AWS_RETRY_MODE", mode)
    storage, before = FsspecStorage(SHARDS), random.getstate()
    proxy.set_faults(Fault(method="GET", path="shard-000", status=503, times=2))
    assert len(storage.read(f"{SHARDS}/shard-000.tar", 0, 512)) == 512
    assert proxy.counts.struck == 2
    assert random.getstate() == before


def test_pauses_of_google_driver_leave_random_state_of_caller_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conf, "gs", {"token": "anon"})
    filesystem._separate_random_pauses.cache_clear()  # an earlier test may have opened the URL without the driver
    open_filesystem("gs://bucket/shards")
    retry, connector = import_module("gcsfs.retry"), import_module("aiohttp.connector")

    before = random.getstate()
    assert 0 <= retry.random.random() < 1  # a second later, the driver would send the request again
    connector.random.shuffle([1, 2, 3])  # the order of servers that wait for a connection
    assert random.getstate() == before
