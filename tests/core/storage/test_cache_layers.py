"""Datasets behind an fsspec cache equal the datasets of the store, whatever happens to the cached copies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.config import conf

from tests.build import a_shard, samples, some_shards
from tests.remote import upload_shards
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, in_use
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.index.index import index
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.storage.cache_layers import _hold_folder
from wdsctl.core.storage.objects import ObjectStore
from wdsctl.core.storage.remote import FsspecStorage
from wdsctl.core.storage.storage import FileRange

# fsspec's blockcache never closes the file that it maps.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

UNSURE = PrepareRequest(accept_type=True)
LAYERS = ["simplecache", "filecache", "blockcache"]


@pytest.mark.parametrize("layer", LAYERS)
def test_cache_layer_returns_bytes_of_store(use_store: Callable[[str], str], layer: str) -> None:
    root = use_store("rclone")
    data = os.urandom(11 << 20)
    ObjectStore(root).put(f"{root}/a.bin", data)
    storage = FsspecStorage(f"{layer}::{root}", {f"{layer}::{root}/a.bin": len(data)})
    path = f"{layer}::{root}/a.bin"
    ranges = [FileRange(path, at, 100_000) for at in (0, 5_200_000, 11_000_000, 5)]

    assert storage.read_many(ranges) == [data[at : at + size] for _, at, size in ranges]
    storage.will_need(ranges)
    assert [storage.read(*each) for each in ranges] == [data[at : at + size] for _, at, size in ranges]
    assert storage.read(path, 0, len(data)) == data
    assert [name for name, _ in storage.files()] == ["a.bin"]


@pytest.mark.parametrize("layer", LAYERS)
def test_dataset_behind_cache_shares_its_catalog(use_store: Callable[[str], str], tmp_path: Path, layer: str) -> None:
    root = upload_shards(some_shards(tmp_path / "local", 3), f"{use_store('rclone')}/shards")
    prepare(f"{layer}::{root}", None, UNSURE)

    assert locate(f"{layer}::{root}").catalog_path == locate(root).catalog_path
    assert inspect(root).samples == inspect(f"{layer}::{root}").samples == 15


@pytest.mark.parametrize("layer", LAYERS)
def test_replaced_shard_is_read_again_through_cache(
    use_store: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    root = use_store("rclone")
    if layer != "simplecache":
        monkeypatch.setitem(conf, layer, {"cache_storage": str(tmp_path / "cache")})
    store, path = ObjectStore(root), f"{layer}::{root}/a.tar"
    for number in range(2):
        shard = a_shard(samples(number * 5, 5, "txt"))
        store.put(f"{root}/a.tar", shard)
        report = index(f"{layer}::{root}")
        assert report.samples == 5
        assert FsspecStorage(f"{layer}::{root}").read(path, 0, len(shard)) == shard


@pytest.mark.parametrize("layer", LAYERS)
def test_truncated_download_is_repeated(running_store: Callable[[str], Store], layer: str) -> None:
    data, store, root = os.urandom(3 << 20), running_store("rclone"), f"s3://bucket/truncated-{layer}"
    with FaultProxy(store.endpoint) as proxy, in_use(store.through(proxy.url)):
        ObjectStore(root).put(f"{root}/a.bin", data)
        proxy.set_faults(Fault(method="GET", path="/a.bin", trim_bytes=1 << 20, times=2))
        storage = FsspecStorage(f"{layer}::{root}")
        assert storage.read(f"{layer}::{root}/a.bin", 0, len(data)) == data


def test_processes_never_share_cache_folder(tmp_path: Path) -> None:
    folder = _hold_folder(str(tmp_path))
    code = "import sys; from wdsctl.core.storage.cache_layers import _hold_folder as f; print(f(sys.argv[1]))"
    completed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True)

    assert _hold_folder(str(tmp_path)) == folder != completed.stdout.strip()


def test_simplecache_with_fixed_folder_is_refused(
    use_store: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = use_store("rclone")
    monkeypatch.setitem(conf, "simplecache", {"cache_storage": str(tmp_path)})
    with pytest.raises(InputError, match="does not notice replaced shards"):
        FsspecStorage(f"simplecache::{root}").read(f"simplecache::{root}/a", 0, 1)


@pytest.mark.parametrize("chain", ["zip::s3://bucket/a.zip", "simplecache::filecache::s3://bucket/x"])
def test_locate_refuses_other_url_chains(chain: str) -> None:
    with pytest.raises(InputError, match="through one cache of fsspec"):
        locate(chain)


def test_put_through_cache_is_refused() -> None:
    with pytest.raises((InputError, UsageError), match="cache"):
        ObjectStore("simplecache::memory://x").put("simplecache::memory://x/a", b"1")


def test_store_errors_are_same_through_cache(use_store: Callable[[str], str]) -> None:
    root = use_store("rclone")
    for prefix in ("", *(f"{layer}::" for layer in LAYERS)):
        with pytest.raises(WdsctlError) as caught:
            FsspecStorage(f"{prefix}{root}").read(f"{prefix}{root}/none.tar", 0, 10)
        assert caught.value.code == "WDS404"


def test_cache_folder_of_process_is_private_with_any_umask(tmp_path: Path) -> None:
    (tmp_path / "process-0").mkdir()
    (tmp_path / "process-0").chmod(0o777)  # another user may have made it
    umask = os.umask(0)
    try:
        path = _hold_folder(str(tmp_path))
    finally:
        os.umask(umask)
    assert path == str(tmp_path / "process-1")
    assert os.stat(path).st_mode & 0o777 == 0o700
