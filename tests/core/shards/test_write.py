from __future__ import annotations

import errno
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_folder
from wdsctl.core.errors import DatasetError, PermissionDenied, StorageError
from wdsctl.core.prepare.plan import tar_size_bytes
from wdsctl.core.samples.naming import RawPart, RawSample
from wdsctl.core.shards.write import write_shard
from wdsctl.core.shards.write_job import ShardJob, UnreadableFile, run_shard_job


def a_sample(key: str, **sizes: int) -> RawSample:
    """A sample with parts of these sizes; `__` means a dot."""
    return RawSample(key, tuple(RawPart(name.replace("__", "."), size, 0) for name, size in sorted(sizes.items())))


def members(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        found = [(member.name, archive.extractfile(member)) for member in archive]
        return [(name, file.read() if file else b"") for name, file in found]


def test_written_parts_are_grouped_in_order_and_readable(tmp_path: Path) -> None:
    files = {"b/1.jpg": b"J" * 513, "b/1.seg.png": b"P", "a.txt": "grüße".encode()}
    samples = [a_sample("b/1", jpg=513, seg__png=1), a_sample("a", txt=7)]

    report = write_shard(str(tmp_path / "s.tar"), a_folder(tmp_path / "raw", files), samples)

    assert members(tmp_path / "s.tar") == list(files.items())
    assert report == (2, (tmp_path / "s.tar").stat().st_size) == (2, tar_size_bytes(samples))


@pytest.mark.parametrize("key", ["with space", "grüße/日本", "k" * 200, "/".join(["folder" * 8] * 6) + "/k"])
def test_long_and_non_ascii_names_are_readable(tmp_path: Path, key: str) -> None:
    root = a_folder(tmp_path / "raw", {f"{key}.jpg": b"1", f"{key}.txt": b"22"})

    write_shard(str(tmp_path / "s.tar"), root, [a_sample(key, jpg=1, txt=2)])

    assert members(tmp_path / "s.tar") == [(f"{key}.jpg", b"1"), (f"{key}.txt", b"22")]
    assert subprocess.run(["tar", "tf", tmp_path / "s.tar"], check=True, capture_output=True).stderr == b""


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_parts_of_every_size_are_written(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    root = a_folder(tmp_path / "raw", {"a.bin": data, "b.bin": b"after"})

    report = write_shard(str(tmp_path / "s.tar"), root, [a_sample("a", bin=size), a_sample("b", bin=5)])

    assert members(tmp_path / "s.tar") == [("a.bin", data), ("b.bin", b"after")]
    assert report.size_bytes == (tmp_path / "s.tar").stat().st_size


def test_large_parts_from_other_file_system_are_written(tmp_path: Path, a_disk: Callable[[str], Path]) -> None:
    """The kernel may refuse to copy between two file systems."""
    disk = a_disk("2m")
    data = os.urandom((1 << 20) + 5)
    root = a_folder(tmp_path / "raw", {"a.bin": data})

    write_shard(str(disk / "s.tar"), root, [a_sample("a", bin=len(data))])

    assert members(disk / "s.tar") == [("a.bin", data)]


def test_shard_bytes_are_independent_of_mtime_and_mode(tmp_path: Path) -> None:
    for name in ("one", "two"):
        a_folder(tmp_path / name, {"a.txt": b"text"})
        os.utime(tmp_path / name / "a.txt", (len(name), 99))
        (tmp_path / name / "a.txt").chmod(0o600 if name == "one" else 0o755)
        write_shard(str(tmp_path / f"{name}.tar"), str(tmp_path / name), [a_sample("a", txt=4)])

    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_write_shard_creates_folders(tmp_path: Path) -> None:
    write_shard(str(tmp_path / "x" / "y" / "s.tar"), a_folder(tmp_path / "raw", {"a.t": b""}), [a_sample("a", t=0)])

    assert members(tmp_path / "x" / "y" / "s.tar") == [("a.t", b"")]


@pytest.mark.parametrize(
    ("listed_size", "size"),
    [(3, 4), (5, 4), (0, 4), (4, 0), (2 << 20, 4), (2 << 20, 0), (2 << 20, (2 << 20) + 7), (4, 2 << 20)],
)
def test_file_changed_since_listing_is_refused(tmp_path: Path, listed_size: int, size: int) -> None:
    root = a_folder(tmp_path / "raw", {"a.t": b"x" * size})
    (tmp_path / "s.tar").write_bytes(b"before")

    with pytest.raises(DatasetError) as caught:
        write_shard(str(tmp_path / "s.tar"), root, [a_sample("a", t=listed_size)])

    assert (caught.value.code, caught.value.where) == ("WDS202", f"{root}/a.t")
    assert (tmp_path / "s.tar").read_bytes() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["raw", "s.tar"]


def test_missing_file_is_refused_as_changed(tmp_path: Path) -> None:
    for size in (5, 2 << 20):
        with pytest.raises(DatasetError) as caught:
            write_shard(str(tmp_path / "s.tar"), str(tmp_path), [a_sample("a", t=size)])
        assert (caught.value.code, caught.value.where) == ("WDS202", f"{tmp_path}/a.t")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", [100_000, 3 << 20])
def test_full_disk_raises_storage_error_and_keeps_old_shard(
    tmp_path: Path, a_disk: Callable[[str], Path], size: int
) -> None:
    disk = a_disk("2m")
    count = (3 << 20) // size
    root = a_folder(tmp_path / "raw", {f"{i:02d}.t": b"x" * size for i in range(count)})
    (disk / "s.tar").write_bytes(b"before")

    with pytest.raises(StorageError) as caught:
        write_shard(str(disk / "s.tar"), root, [a_sample(f"{i:02d}", t=size) for i in range(count)])

    assert (caught.value.code, caught.value.where) == ("WDS401", str(disk / "s.tar"))
    assert os.listdir(disk) == ["s.tar"]
    assert (disk / "s.tar").read_bytes() == b"before"


def test_unwritable_folder_raises_permission_denied(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    root = a_folder(public_path / "raw", {"a.t": b"x"})
    (public_path / "out").mkdir(mode=0o755)

    error = as_nobody(lambda: write_shard(f"{public_path}/out/s.tar", root, [a_sample("a", t=1)]))

    assert isinstance(error, PermissionDenied)
    assert error.code == "WDS402"


def test_unreadable_file_is_location_of_error(public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]) -> None:
    root = a_folder(public_path / "raw", {"a.t": b"x"})
    (public_path / "raw" / "a.t").chmod(0)

    error = as_nobody(lambda: write_shard(f"{public_path}/s.tar", root, [a_sample("a", t=1)]))

    assert isinstance(error, PermissionDenied)
    assert error.where == f"{root}/a.t"
    assert os.listdir(public_path) == ["raw"]


@pytest.mark.slow
def test_part_of_3_gb_is_written(tmp_path: Path) -> None:
    size = 3 * 10**9
    root = a_folder(tmp_path / "raw", {"a.mp4": b"", "a.txt": b"after"})
    os.truncate(tmp_path / "raw" / "a.mp4", size)
    with (tmp_path / "raw" / "a.mp4").open("r+b") as file:
        file.seek(size - 4)
        file.write(b"last")

    report = write_shard(str(tmp_path / "s.tar"), root, [a_sample("a", mp4=size, txt=5)])

    with tarfile.open(tmp_path / "s.tar") as archive:
        video, text = archive.getmembers()
        assert (video.size, text.name) == (size, "a.txt")
    with (tmp_path / "s.tar").open("rb") as file:
        file.seek(video.offset_data + size - 4)
        assert file.read(4) == b"last"
    assert report.size_bytes == (tmp_path / "s.tar").stat().st_size
    (tmp_path / "s.tar").unlink()


def test_lenient_job_reports_unreadable_files_and_writes_nothing(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"a.txt": b"words", "b.jpg": b"x"})
    for name in ("c.txt", "d.jpg"):
        (tmp_path / "raw" / name).symlink_to(name)  # a link to itself
    samples = [a_sample("a", txt=5), a_sample("b", jpg=1), a_sample("c", txt=5), a_sample("d", jpg=5)]

    result = run_shard_job(ShardJob(str(tmp_path / "out.tar"), root, samples, is_lenient=True))

    reason = os.strerror(errno.ELOOP)
    assert result == (UnreadableFile("c", "txt", reason), UnreadableFile("d", "jpg", reason))
    assert sorted(os.listdir(tmp_path)) == ["raw"]
    with pytest.raises(StorageError) as caught:
        run_shard_job(ShardJob(str(tmp_path / "out.tar"), root, samples))
    assert (caught.value.where, "--on-missing" in caught.value.hint) == (f"{root}/c.txt", True)


def test_lenient_job_raises_if_shard_cannot_be_written(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"a.txt": b"words"})
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StorageError):
        run_shard_job(ShardJob(str(tmp_path / "file" / "out.tar"), root, [a_sample("a", txt=5)], is_lenient=True))
