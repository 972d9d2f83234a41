from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path

import pytest

from tests.open_files import open_files
from wdsctl.core.errors import StorageError
from wdsctl.core.offsets.probe import Probe
from wdsctl.core.storage.storage import FileRange, LocalStorage, is_any_remote
from wdsctl.core.tar_header import build_tar_header


def a_file(path: Path, data: bytes = b"0123456789") -> str:
    path.write_bytes(data)
    return str(path)


def test_read_returns_exactly_requested_bytes(tmp_path: Path) -> None:
    path, storage = a_file(tmp_path / "a"), LocalStorage("/")

    assert storage.read(path, 2, 3) == b"234"
    assert storage.read(path, 10, 0) == b""
    assert storage.read_many([FileRange(path, 8, 2), FileRange(path, 0, 1)]) == [b"89", b"0"]
    assert storage.size(path) == 10
    storage.close()


def test_short_read_reports_position_and_missing_bytes(tmp_path: Path) -> None:
    path, storage = a_file(tmp_path / "a"), LocalStorage("/")

    with pytest.raises(StorageError, match="3 bytes too short") as caught:
        storage.read(path, 8, 5)
    assert (caught.value.code, caught.value.where) == ("WDS403", f"{path} (byte 8)")
    storage.close()


def test_read_into_fills_memory(tmp_path: Path) -> None:
    path, storage = a_file(tmp_path / "a"), LocalStorage("/")
    memory = bytearray(5)

    storage.read_into(path, 3, memoryview(memory)[1:])
    assert bytes(memory) == b"\x003456"
    with pytest.raises(StorageError, match="2 bytes too short") as caught:
        storage.read_into(path, 7, memoryview(memory))
    assert (caught.value.code, caught.value.where) == ("WDS403", f"{path} (byte 7)")
    storage.close()


def test_missing_file_is_storage_error(tmp_path: Path) -> None:
    storage = LocalStorage("/")
    for attempt in (lambda: storage.read(str(tmp_path / "a"), 0, 1), lambda: storage.size(str(tmp_path / "a"))):
        with pytest.raises(StorageError, match="cannot read") as caught:
            attempt()
        assert caught.value.where == str(tmp_path / "a")


def test_missing_indexed_shard_hints_at_restore(tmp_path: Path) -> None:
    path = str(tmp_path / "a.tar")
    with closing(LocalStorage("/", {path: 5})) as storage, pytest.raises(StorageError) as caught:
        storage.read(path, 0, 5)

    assert (caught.value.code, caught.value.where) == ("WDS404", path)
    assert caught.value.hint.startswith("restore the shard;")


def test_file_of_other_size_than_expected_is_refused_on_open(tmp_path: Path) -> None:
    path = a_file(tmp_path / "a")
    storage = LocalStorage("/", {path: 11})

    with pytest.raises(StorageError, match="has 10 bytes, but had 11") as caught:
        storage.read(path, 0, 1)
    assert caught.value.code == "WDS403"


@pytest.mark.slow
def test_file_without_expected_header_is_refused_on_open(tmp_path: Path) -> None:
    original, other = build_tar_header(b"a.txt", 5) + bytes(512), build_tar_header(b"b.txt", 5) + bytes(512)
    path = a_file(tmp_path / "a", original)
    probe = Probe(0, b"a.txt")

    with closing(LocalStorage("/", probes={path: lambda _: [probe]})) as storage:
        assert storage.read(path, 0, 512) == original[:512]
    a_file(tmp_path / "a", other)
    with (
        closing(LocalStorage("/", probes={path: lambda _: [probe]})) as storage,
        pytest.raises(StorageError, match=r"differs from the indexed one: no a\.txt at byte 0") as caught,
    ):
        storage.read(path, 0, 512)
    assert (caught.value.code, caught.value.where) == ("WDS403", path)


def test_file_modified_while_open_is_checked_again(tmp_path: Path) -> None:
    """`cp` over a shard keeps its inode: the open descriptor gives the new bytes."""
    path = a_file(tmp_path / "a", build_tar_header(b"a.txt", 5))
    with closing(LocalStorage("/", probes={path: lambda _: [Probe(0, b"a.txt")]})) as storage:
        storage.read(path, 0, 512)
        os.utime(path)  # touched only
        storage.will_need([FileRange(path, 0, 512)])
        storage.read(path, 0, 512)
        a_file(tmp_path / "a", build_tar_header(b"b.txt", 5))
        storage.will_need([FileRange(path, 0, 512)])
        with pytest.raises(StorageError, match="differs from the indexed one"):
            storage.read(path, 0, 512)
    assert not open_files(str(tmp_path))


def test_read_continues_where_system_returns_fewer_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of the system returns at most 2 GiB; here it returns at most 1,000 bytes."""
    data = random.Random(1).randbytes(5_000)
    path, storage = a_file(tmp_path / "a", data), LocalStorage("/")
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda handle, size, offset: pread(handle, min(size, 1_000), offset))
    monkeypatch.setattr(
        os, "preadv", lambda handle, memories, offset: preadv(handle, [each[:1_000] for each in memories], offset)
    )

    assert storage.read(path, 10, 4_500) == data[10:4_510]
    memory = bytearray(4_500)
    storage.read_into(path, 10, memoryview(memory))
    assert memory == data[10:4_510]
    with pytest.raises(StorageError):
        storage.read(path, 10, 5_000)
    storage.close()


@pytest.mark.slow
def test_read_returns_more_than_two_gigabytes(tmp_path: Path) -> None:
    path, storage = tmp_path / "a", LocalStorage("/")
    with path.open("wb") as file:
        file.truncate((2 << 30) + 5000)
        file.seek((2 << 30) + 4000)
        file.write(b"end")

    data = storage.read(str(path), 0, (2 << 30) + 4500)
    assert len(data) == (2 << 30) + 4500
    assert data[(2 << 30) + 4000 : (2 << 30) + 4004] == b"end\0"
    storage.close()


def test_open_files_are_limited_and_closed_with_storage(tmp_path: Path) -> None:
    paths = [a_file(tmp_path / f"{i}", b"%d" % i) for i in range(9)]
    storage = LocalStorage("/", max_open=3)

    assert [storage.read(path, 0, 1) for path in paths * 2] == [b"%d" % i for i in range(9)] * 2
    assert len(open_files(str(tmp_path))) == 3
    storage.close()
    assert not open_files(str(tmp_path))


def test_garbage_collected_storage_closes_its_files(tmp_path: Path) -> None:
    path = a_file(tmp_path / "a")
    LocalStorage("/").read(path, 0, 1)

    assert not open_files(str(tmp_path))


def test_will_need_never_fails(tmp_path: Path) -> None:
    path, storage = a_file(tmp_path / "a"), LocalStorage("/", {str(tmp_path / "b"): 3})
    a_file(tmp_path / "b")
    ranges = [(path, 0, 5), (path, 100, 1 << 40), (str(tmp_path / "b"), 0, 1), (str(tmp_path / "none"), 0, 1)]

    storage.will_need([FileRange(*each) for each in ranges])
    assert storage.read(path, 0, 1) == b"0"
    storage.close()


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/x /mnt/nfs nfs4 rw 0 0
lustre /scratch lustre rw 0 0
/dev/sdb1 /mnt/nfs/local\\040disk xfs rw 0 0
me@host: /home/far fuse.sshfs rw 0 0
a:b /home/merged fuse.mergerfs rw 0 0
bucket /mnt/s3 fuse.s3fs rw 0 0
systemd-1 /auto autofs rw 0 0
server:/y /auto nfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data", False),
        ("/mnt/nfs/a.tar", True),
        ("/mnt/nfsx/a.tar", False),
        ("/mnt/nfs/local disk/a.tar", False),
        ("/scratch", True),
        ("/home/far/a", True),
        ("/home/merged/a", False),
        ("/mnt/s3/a", True),
        ("/auto/a", True),
    ],
)
def test_nearest_mount_decides_whether_path_is_remote(tmp_path: Path, path: str, expected: bool) -> None:
    mounts = a_file(tmp_path / "mounts", MOUNTS.encode())

    assert is_any_remote([path], mounts) is expected


def test_no_local_path_is_remote_without_mount_list(tmp_path: Path) -> None:
    assert not is_any_remote(["/mnt/nfs"], str(tmp_path / "none"))
    assert not is_any_remote([str(tmp_path)])


def test_is_any_remote_finds_one_remote_path_among_many(tmp_path: Path) -> None:
    mounts = a_file(tmp_path / "mounts", MOUNTS.encode())

    assert is_any_remote(["/data", "/mnt/nfs/a.tar"], mounts)
    assert not is_any_remote(["/data", "/home/merged/a"], mounts)
    assert is_any_remote(["/data", "s3://bucket/a"], str(tmp_path / "none"))
    assert not is_any_remote([], mounts)
