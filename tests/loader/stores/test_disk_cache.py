"""A cache pool copies entries of stores to a local disk and shares them; only the speed depends on it."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import children
from tests.loader.stores.stores import a_tar_store, open_prepared_store
from wdsctl.core.errors import SampleFailed, StorageError, UsageError
from wdsctl.loader import CrudeSample
from wdsctl.loader.stores import PreparedStore, StoreEntry
from wdsctl.loader.stores.cache import NoCachePool
from wdsctl.loader.stores.disk_cache import FileStoreCachePool

BLOCK = 4096


class CountingStore(PreparedStore):
    """A store that counts its reads and sleeps `pause` seconds in each."""

    reads = 0
    pause = 0.0

    def _read(self, entry: StoreEntry) -> bytes:
        self.reads += 1
        time.sleep(self.pause)
        return super()._read(entry)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    plain = open_prepared_store(a_tar_store(tmp_path / "media", {f"{i}.txt": f"text {i}".encode() for i in range(20)}))
    return CountingStore(plain.location, plain.offsets, plain.decoder)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FileStoreCachePool]:
    cache_pool = FileStoreCachePool(tmp_path / "cache", num_workers=2)
    yield cache_pool
    cache_pool.close()


def entries(pool: FileStoreCachePool) -> list[Path]:
    return [each for each in Path(pool.cache_dir).rglob("*") if len(each.name) == 32]


def wait_until(condition: Any) -> None:
    """Waits up to a minute for the condition."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_entry_is_fetched_once_and_then_read_from_disk(store: CountingStore, pool: FileStoreCachePool) -> None:
    lazy, second = pool.get_lazy(store, "3.txt"), pool.get_lazy(store, "3.txt")
    wait_until(lambda: entries(pool))

    assert [lazy.get(), lazy.get(), second.get(), pool.get(store, "3.txt")] == ["text 3"] * 4
    assert (store.reads, len(entries(pool))) == (1, 1)
    assert lazy == second
    assert hash(lazy) == hash(second)


def test_lazy_get_adds_source_to_sample(store: CountingStore, pool: FileStoreCachePool) -> None:
    sample = CrudeSample(__sources__=())
    pool.get_lazy(store, "3.txt").get(sample)
    pool.get(store, "4.txt", sample)

    assert [source.file_names for source in sample["__sources__"]] == [("3.txt",), ("4.txt",)]


def test_entry_requested_before_fetch_is_read_once(store: CountingStore, pool: FileStoreCachePool) -> None:
    store.pause = 0.05
    lazies = [pool.get_lazy(store, f"{i}.txt") for i in range(10)]

    assert [lazy.get() for lazy in lazies] == [f"text {i}" for i in range(10)]
    assert store.reads == 10


def test_get_lazy_rejects_missing_name_at_once(store: CountingStore, pool: FileStoreCachePool) -> None:
    for each in (pool, NoCachePool()):
        with pytest.raises(SampleFailed):
            each.get_lazy(store, "99.txt")


def test_read_error_is_raised_by_lazy_get(store: CountingStore, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    pool.close()
    shutil.rmtree(store.path)

    with pytest.raises(StorageError):
        lazy.get()


def test_evicted_entry_is_read_from_store(store: CountingStore, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    wait_until(lambda: entries(pool))
    entries(pool)[0].unlink()

    assert lazy.get() == "text 3"


def test_truncated_entry_is_not_used(store: CountingStore, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    wait_until(lambda: entries(pool))
    entries(pool)[0].write_bytes(b"te")

    assert lazy.get() == "text 3"


def test_pool_respects_size_and_count_limits(store: CountingStore, tmp_path: Path) -> None:
    pool = FileStoreCachePool(tmp_path / "cache", max_cache_size_gbytes=5 * BLOCK / 2**30, max_cache_count=4)
    lazies = [pool.get_lazy(store, f"{i}.txt") for i in range(20)]

    assert [lazy.get() for lazy in lazies] == [f"text {i}" for i in range(20)]
    assert len(entries(pool)) <= 4
    pool.close()


def test_to_cache_restores_value_and_removes_it_with_its_handle(pool: FileStoreCachePool) -> None:
    value = {"x": torch.arange(5), "y": b"bytes", "z": "text"}
    cached = pool.to_cache(value, "mine")
    first, second = cached.get(), cached.get()
    own = Path(pool.cache_dir) / "own"

    assert torch.equal(first["x"], torch.arange(5))
    assert second["y"] == b"bytes"
    assert len(list(own.iterdir())) == 1
    del cached
    gc.collect()
    assert list(own.iterdir()) == []


def test_to_cache_keeps_unserializable_or_too_large_values_in_memory(pool: FileStoreCachePool, tmp_path: Path) -> None:
    thing = object()
    small = FileStoreCachePool(tmp_path / "small", max_cache_size_gbytes=BLOCK / 2**30)

    assert pool.to_cache(thing, "thing").get() is thing
    assert len(small.to_cache(b"x" * 2 * BLOCK, "large").get()) == 2 * BLOCK
    assert NoCachePool().to_cache(thing, "thing").get() is thing
    small.close()


def test_pickled_lazies_use_same_pool(store: CountingStore, pool: FileStoreCachePool) -> None:
    plain = open_prepared_store(store.path)
    lazy, cached = pool.get_lazy(plain, "3.txt"), pool.to_cache([1, 2], "mine")
    unpickled, value = pickle.loads(pickle.dumps((lazy, cached)))  # noqa: S301 - our own

    assert (unpickled.get(), value.get()) == ("text 3", [1, 2])
    assert unpickled == lazy
    assert pickle.loads(pickle.dumps(pool)) is pool  # noqa: S301 - our own


def test_unwritable_folder_disables_cache_with_one_warning(
    store: CountingStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    pool = FileStoreCachePool(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING):
        values = [pool.get_lazy(store, f"{i}.txt").get() for i in range(5)]

    assert values == [f"text {i}" for i in range(5)]
    assert pool.to_cache(b"x", "x").get() == b"x"
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "cannot open the media cache; reading from the stores instead"
    ]


def test_full_disk_disables_cache_with_one_warning(
    store: CountingStore, pool: FileStoreCachePool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.open()
    os.symlink("/dev/full", Path(pool.cache_dir) / "usage")  # every write to it fails with: no space left on device
    with caplog.at_level(logging.WARNING):
        cached = [pool.to_cache(i, "number").get() for i in range(3)]
        values = [pool.get_lazy(store, f"{i}.txt").get() for i in range(5)]

    assert (cached, values) == ([0, 1, 2], [f"text {i}" for i in range(5)])
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "media cache disabled; reading from the stores instead"
    ]


def test_closed_pool_removes_files_and_reads_from_stores(store: CountingStore, tmp_path: Path) -> None:
    pool = FileStoreCachePool(tmp_path / "cache")
    lazy = pool.get_lazy(store, "3.txt")
    pool.close()
    pool.close()

    assert (lazy.get(), pool.get(store, "4.txt")) == ("text 3", "text 4")
    assert [list(each.iterdir()) for each in (tmp_path / "cache").iterdir()] == [[]]


def test_forked_process_shares_cache_folder_without_removing_it(store: CountingStore, pool: FileStoreCachePool) -> None:
    pool.open()
    child = os.fork()
    if child == 0:
        good = pool.get_lazy(store, "3.txt").get() == "text 3"
        wait_until(lambda: entries(pool))
        pool.close()
        os._exit(0 if good else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert len(entries(pool)) == 1
    assert pool.get(store, "3.txt") == "text 3"
    assert store.reads == 0, "what the child has brought is read here"


KILLED = """
import sys, time
from tests.loader.stores.stores import open_prepared_store
from wdsctl.loader import FileStoreCachePool
pool = FileStoreCachePool(sys.argv[2])
store = open_prepared_store(sys.argv[1])
lazy = [pool.get_lazy(store, f"{i}.txt") for i in range(10)]
kept = pool.to_cache(b"x", "x")
print("ready", flush=True)
time.sleep(60)
"""


def test_pool_removes_folder_of_killed_process(store: CountingStore, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, store.path, str(tmp_path / "cache")]
    process = children.Popen(command, stdout=subprocess.PIPE, parent="training")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (parent,) = (tmp_path / "cache").iterdir()
    assert len(list(parent.iterdir())) == 1

    pool = FileStoreCachePool(tmp_path / "cache")
    pool.open()
    assert [str(each) for each in parent.iterdir()] == [pool.cache_dir]
    pool.close()


@pytest.mark.parametrize("options", [{"method": "pickle"}, {"num_workers": 0}, {"max_cache_size_gbytes": 0}])
def test_pool_rejects_invalid_options(options: Any) -> None:
    with pytest.raises(UsageError):
        FileStoreCachePool(**options)
