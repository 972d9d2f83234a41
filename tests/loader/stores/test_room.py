"""What a cache may hold is counted for all processes together; what was used longest ago makes room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from wdsctl.loader.stores.disk_cache_folder import DISK_BLOCK_BYTES, CacheQuota, bytes_on_disk


def a_file(folder: Path, name: str, age: int, size: int = 10) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.name != "usage")


def test_two_that_count_in_one_folder_know_of_each_other(tmp_path: Path) -> None:
    one, two = (CacheQuota(str(tmp_path), 3 * DISK_BLOCK_BYTES, 100) for _ in range(2))

    assert [one.reserve(1), two.reserve(DISK_BLOCK_BYTES)] == [True, True]
    assert one.read_usage() == two.read_usage() == (2 * DISK_BLOCK_BYTES, 2)
    a_file(tmp_path, "aa/1", 0, DISK_BLOCK_BYTES)
    for _ in range(2):  # what is gone is not given back twice
        two.remove(str(tmp_path / "aa" / "1"), DISK_BLOCK_BYTES)
    assert one.read_usage() == (DISK_BLOCK_BYTES, 1)


class Collecting(CacheQuota):
    """One in which the garbage collector comes while its thread is counting, and finds a value nobody holds."""

    def _fits(self, numbers: list[int], need: int) -> bool:
        self.remove(os.path.join(self.folder, "own", "1"), 10)
        return super()._fits(numbers, need)


def test_what_is_collected_while_its_thread_counts_is_removed_without_a_deadlock(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 9 * DISK_BLOCK_BYTES, 100)
    assert room.reserve(10)
    a_file(tmp_path, "own/1", 0)

    assert Collecting(str(tmp_path), 9 * DISK_BLOCK_BYTES, 100).reserve(10)

    assert names(tmp_path) == []
    assert room.read_usage() == (DISK_BLOCK_BYTES, 1)


class Closed(CacheQuota):
    """One whose folder is removed by the process that began it, while this one makes room in it."""

    def _fits(self, numbers: list[int], need: int) -> bool:
        shutil.rmtree(self.folder, ignore_errors=True)
        return super()._fits(numbers, need)


def test_a_folder_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()

    with pytest.raises(FileNotFoundError):
        Closed(str(folder), 9 * DISK_BLOCK_BYTES, 100).reserve(10, str(folder / "aa" / "1.partial"))
    assert not folder.exists()


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)
    for i, age in enumerate((30, 40, 10, 20)):
        assert room.reserve(10)
        a_file(tmp_path, f"aa/{i}", age)

    assert room.reserve(10)
    assert names(tmp_path) == ["0", "2", "3"]
    assert room.read_usage() == (4 * DISK_BLOCK_BYTES, 4)


def test_the_number_of_files_has_a_limit_too(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 1 << 30, 10)
    for i in range(10):
        assert room.reserve(10)
        a_file(tmp_path, f"aa/{i}", 100 - i)
    assert room.reserve(10)

    assert names(tmp_path) == [str(i) for i in range(1, 10)]


def test_what_a_living_process_holds_stays(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 2 * DISK_BLOCK_BYTES, 100)
    for i in range(2):
        assert room.reserve(10)
        a_file(tmp_path, f"own/{os.getpid()}-{i}", 0)

    assert not room.reserve(10)
    assert len(names(tmp_path)) == 2


def test_what_a_dead_process_held_goes_first(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 3 * DISK_BLOCK_BYTES, 100)
    for name in ("own/4194305-1", "aa/4194305-1.partial", "aa/entry"):
        assert room.reserve(10)
        a_file(tmp_path, name, 0)

    assert room.reserve(10)
    assert names(tmp_path) == ["entry"]


def test_counts_that_are_wrong_are_put_right_when_it_is_full(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)
    for _ in range(4):
        assert room.reserve(10)  # of processes that died before they wrote

    assert room.reserve(10)
    assert room.read_usage() == (DISK_BLOCK_BYTES, 1)


def test_a_file_that_would_never_fit_is_refused_at_once(tmp_path: Path) -> None:
    room = CacheQuota(str(tmp_path), 4 * DISK_BLOCK_BYTES, 100)

    assert not room.reserve(5 * DISK_BLOCK_BYTES)
    assert room.read_usage() == (0, 0)


@pytest.mark.parametrize(
    ("size", "taken"),
    [
        (0, DISK_BLOCK_BYTES),
        (1, DISK_BLOCK_BYTES),
        (DISK_BLOCK_BYTES, DISK_BLOCK_BYTES),
        (DISK_BLOCK_BYTES + 1, 2 * DISK_BLOCK_BYTES),
    ],
)
def test_sizes_are_those_of_a_disk(size: int, taken: int) -> None:
    assert bytes_on_disk(size) == taken
