"""CacheQuota counts the usage of a cache for all processes together and evicts the least recently used files."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest

from wdsctl.loader.stores.disk_cache_folder import DISK_BLOCK_BYTES, USAGE_FILE, CacheQuota, bytes_on_disk


def a_file(folder: Path, name: str, age: int, size: int = 10) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.name != USAGE_FILE)


def read_usage(folder: Path) -> tuple[int, int]:
    """(bytes, files) in use, as the processes of a cache share them."""
    file = folder / USAGE_FILE
    size_bytes, files = struct.unpack("<qq", file.read_bytes()) if file.exists() else (0, 0)
    return size_bytes, files


def test_quotas_of_one_folder_share_usage(tmp_path: Path) -> None:
    one, two = (CacheQuota(str(tmp_path), 3 * DISK_BLOCK_BYTES, 100) for _ in range(2))

    assert [one.reserve(1), two.reserve(DISK_BLOCK_BYTES)] == [True, True]
    assert read_usage(tmp_path) == (2 * DISK_BLOCK_BYTES, 2)
    a_file(tmp_path, "aa/1", 0, DISK_BLOCK_BYTES)
    for _ in range(2):  # a removed file is subtracted only once
        two.remove(str(tmp_path / "aa" / "1"), DISK_BLOCK_BYTES)
    assert read_usage(tmp_path) == (DISK_BLOCK_BYTES, 1)


class Collecting(CacheQuota):
    """A quota in which the garbage collector runs during counting and removes an unreferenced value."""

    def _fits(self, numbers: list[int], need: int) -> bool:
        self.remove(os.path.join(self.folder, "own", "1"), 10)
        return super()._fits(numbers, need)


def test_removal_by_garbage_collector_during_reserve_does_not_deadlock(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 9 * DISK_BLOCK_BYTES, 100)
    assert quota.reserve(10)
    a_file(tmp_path, "own/1", 0)

    assert Collecting(str(tmp_path), 9 * DISK_BLOCK_BYTES, 100).reserve(10)

    assert names(tmp_path) == []
    assert read_usage(tmp_path) == (DISK_BLOCK_BYTES, 1)


class Closed(CacheQuota):
    """A quota whose folder is removed by its owner while this process evicts files in it."""

    def _fits(self, numbers: list[int], need: int) -> bool:
        shutil.rmtree(self.folder, ignore_errors=True)
        return super()._fits(numbers, need)


def test_reserve_does_not_recreate_removed_folder(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()

    with pytest.raises(FileNotFoundError):
        Closed(str(folder), 9 * DISK_BLOCK_BYTES, 100).reserve(10, str(folder / "aa" / "1.partial"))
    assert not folder.exists()


def test_reserve_evicts_least_recently_used_file(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)
    for i, age in enumerate((30, 40, 10, 20)):
        assert quota.reserve(10)
        a_file(tmp_path, f"aa/{i}", age)

    assert quota.reserve(10)
    assert names(tmp_path) == ["0", "2", "3"]
    assert read_usage(tmp_path) == (4 * DISK_BLOCK_BYTES, 4)


def test_reserve_limits_number_of_files(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 1 << 30, 10)
    for i in range(10):
        assert quota.reserve(10)
        a_file(tmp_path, f"aa/{i}", 100 - i)
    assert quota.reserve(10)

    assert names(tmp_path) == [str(i) for i in range(1, 10)]


def test_reserve_keeps_values_of_living_process(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 2 * DISK_BLOCK_BYTES, 100)
    for i in range(2):
        assert quota.reserve(10)
        a_file(tmp_path, f"own/{os.getpid()}-{i}", 0)

    assert not quota.reserve(10)
    assert len(names(tmp_path)) == 2


def test_reserve_evicts_files_of_dead_process_first(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 3 * DISK_BLOCK_BYTES, 100)
    for name in ("own/4194305-1", "aa/4194305-1.partial", "aa/entry"):
        assert quota.reserve(10)
        a_file(tmp_path, name, 0)

    assert quota.reserve(10)
    assert names(tmp_path) == ["entry"]


def test_reserve_corrects_wrong_usage_when_full(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)
    for _ in range(4):
        assert quota.reserve(10)  # of processes that died before they wrote

    assert quota.reserve(10)
    assert read_usage(tmp_path) == (DISK_BLOCK_BYTES, 1)


def test_reserve_rejects_file_larger_than_quota(tmp_path: Path) -> None:
    quota = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)

    assert not quota.reserve(5 * DISK_BLOCK_BYTES)
    assert read_usage(tmp_path) == (0, 0)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, DISK_BLOCK_BYTES),
        (1, DISK_BLOCK_BYTES),
        (DISK_BLOCK_BYTES, DISK_BLOCK_BYTES),
        (DISK_BLOCK_BYTES + 1, 2 * DISK_BLOCK_BYTES),
    ],
)
def test_bytes_on_disk_rounds_up_to_blocks(size: int, expected: int) -> None:
    assert bytes_on_disk(size) == expected
