"""Bytes of entries are brought to a local disk and shared; nothing but the time depends on it."""

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

from tests.loader.stores.stores import a_tar_store, prepared
from wdsctl.core.errors import SampleFailed, StorageError, UsageError
from wdsctl.loader import CrudeSample
from wdsctl.loader.stores import PreparedStore, StoreEntry
from wdsctl.loader.stores.cache import NoCachePool
from wdsctl.loader.stores.disk_cache import FileStoreCachePool

BLOCK = 4096


class Counted(PreparedStore):
    """A store that counts what is read of it; `pause` seconds each."""

    reads = 0
    pause = 0.0

    def _read(self, entry: StoreEntry) -> bytes:
        self.reads += 1
        time.sleep(self.pause)
        return super()._read(entry)


@pytest.fixture
def store(tmp_path: Path) -> Counted:
    plain = prepared(a_tar_store(tmp_path / "media", {f"{i}.txt": f"text {i}".encode() for i in range(20)}))
    return Counted(plain.location, plain.offsets, plain.decoder)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FileStoreCachePool]:
    made = FileStoreCachePool(tmp_path / "cache", num_workers=2)
    yield made
    made.close()


def entries(pool: FileStoreCachePool) -> list[Path]:
    return [each for each in Path(pool.cache_dir).rglob("*") if len(each.name) == 32]


def until(what: Any) -> None:
    """Wait for it, for a minute."""
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_an_entry_is_brought_once_and_read_from_the_disk_every_time(store: Counted, pool: FileStoreCachePool) -> None:
    lazy, same = pool.get_lazy(store, "3.txt"), pool.get_lazy(store, "3.txt")
    until(lambda: entries(pool))

    assert [lazy.get(), lazy.get(), same.get(), pool.get(store, "3.txt")] == ["text 3"] * 4
    assert (store.reads, len(entries(pool))) == (1, 1)
    assert lazy == same
    assert hash(lazy) == hash(same)


def test_asking_for_it_adds_its_source(store: Counted, pool: FileStoreCachePool) -> None:
    sample = CrudeSample(__sources__=())
    pool.get_lazy(store, "3.txt").get(sample)
    pool.get(store, "4.txt", sample)

    assert [source.file_names for source in sample["__sources__"]] == [("3.txt",), ("4.txt",)]


def test_what_is_asked_for_before_it_was_brought_is_read_once(store: Counted, pool: FileStoreCachePool) -> None:
    store.pause = 0.05
    lazies = [pool.get_lazy(store, f"{i}.txt") for i in range(10)]

    assert [lazy.get() for lazy in lazies] == [f"text {i}" for i in range(10)]
    assert store.reads == 10


def test_a_name_that_is_missing_is_told_at_once(store: Counted, pool: FileStoreCachePool) -> None:
    for each in (pool, NoCachePool()):
        with pytest.raises(SampleFailed):
            each.get_lazy(store, "99.txt")


def test_what_cannot_be_read_is_told_to_whoever_asks(store: Counted, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    pool.close()
    shutil.rmtree(store.path)

    with pytest.raises(StorageError):
        lazy.get()


def test_an_entry_that_went_is_read_from_its_store(store: Counted, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    until(lambda: entries(pool))
    entries(pool)[0].unlink()

    assert lazy.get() == "text 3"


def test_an_entry_that_was_cut_short_is_not_used(store: Counted, pool: FileStoreCachePool) -> None:
    lazy = pool.get_lazy(store, "3.txt")
    until(lambda: entries(pool))
    entries(pool)[0].write_bytes(b"te")

    assert lazy.get() == "text 3"


def test_limits_hold(store: Counted, tmp_path: Path) -> None:
    pool = FileStoreCachePool(tmp_path / "cache", max_cache_size_gbytes=5 * BLOCK / 2**30, max_cache_count=4)
    lazies = [pool.get_lazy(store, f"{i}.txt") for i in range(20)]

    assert [lazy.get() for lazy in lazies] == [f"text {i}" for i in range(20)]
    assert len(entries(pool)) <= 4
    pool.close()


def test_a_value_that_is_put_aside_comes_back_and_goes_with_its_holder(pool: FileStoreCachePool) -> None:
    value = {"x": torch.arange(5), "y": b"bytes", "z": "text"}
    kept = pool.to_cache(value, "mine")
    first, second = kept.get(), kept.get()
    own = Path(pool.cache_dir) / "own"

    assert torch.equal(first["x"], torch.arange(5))
    assert second["y"] == b"bytes"
    assert len(list(own.iterdir())) == 1
    del kept
    gc.collect()
    assert list(own.iterdir()) == []


def test_what_has_no_safe_form_or_no_room_stays_in_memory(pool: FileStoreCachePool, tmp_path: Path) -> None:
    thing = object()
    small = FileStoreCachePool(tmp_path / "small", max_cache_size_gbytes=BLOCK / 2**30)

    assert pool.to_cache(thing, "thing").get() is thing
    assert len(small.to_cache(b"x" * 2 * BLOCK, "large").get()) == 2 * BLOCK
    assert NoCachePool().to_cache(thing, "thing").get() is thing
    small.close()


def test_pickled_lazies_come_back_to_the_same_pool(store: Counted, pool: FileStoreCachePool) -> None:
    plain = prepared(store.path)
    lazy, kept = pool.get_lazy(plain, "3.txt"), pool.to_cache([1, 2], "mine")
    again, value = pickle.loads(pickle.dumps((lazy, kept)))  # noqa: S301 - our own

    assert (again.get(), value.get()) == ("text 3", [1, 2])
    assert again == lazy
    assert pickle.loads(pickle.dumps(pool)) is pool  # noqa: S301 - our own


def test_a_folder_that_cannot_be_written_is_told_once_and_done_without(
    store: Counted, tmp_path: Path, caplog: pytest.LogCaptureFixture
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


def test_a_disk_that_is_full_is_told_once_and_done_without(
    store: Counted, pool: FileStoreCachePool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.open()
    os.symlink("/dev/full", Path(pool.cache_dir) / "usage")  # every write to it says: no space left on device
    with caplog.at_level(logging.WARNING):
        kept = [pool.to_cache(i, "number").get() for i in range(3)]
        values = [pool.get_lazy(store, f"{i}.txt").get() for i in range(5)]

    assert (kept, values) == ([0, 1, 2], [f"text {i}" for i in range(5)])
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "media cache disabled; reading from the stores instead"
    ]


def test_a_pool_that_is_closed_leaves_nothing_and_reads_from_the_stores(store: Counted, tmp_path: Path) -> None:
    pool = FileStoreCachePool(tmp_path / "cache")
    lazy = pool.get_lazy(store, "3.txt")
    pool.close()
    pool.close()

    assert (lazy.get(), pool.get(store, "4.txt")) == ("text 3", "text 4")
    assert [list(each.iterdir()) for each in (tmp_path / "cache").iterdir()] == [[]]


def test_a_process_that_is_forked_shares_the_folder_and_does_not_end_it(
    store: Counted, pool: FileStoreCachePool
) -> None:
    pool.open()
    child = os.fork()
    if child == 0:
        good = pool.get_lazy(store, "3.txt").get() == "text 3"
        until(lambda: entries(pool))
        pool.close()
        os._exit(0 if good else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert len(entries(pool)) == 1
    assert pool.get(store, "3.txt") == "text 3"
    assert store.reads == 0, "what the child has brought is read here"


KILLED = """
import sys, time
from tests.loader.stores.stores import prepared
from wdsctl.loader import FileStoreCachePool
pool = FileStoreCachePool(sys.argv[2])
store = prepared(sys.argv[1])
lazy = [pool.get_lazy(store, f"{i}.txt") for i in range(10)]
kept = pool.to_cache(b"x", "x")
print("ready", flush=True)
time.sleep(60)
"""


def test_after_a_kill_nothing_is_left_by_the_next_start(store: Counted, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, store.path, str(tmp_path / "cache")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
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
def test_options_that_cannot_be_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        FileStoreCachePool(**options)
