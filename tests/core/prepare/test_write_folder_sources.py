"""Sources that were moved, copied or replaced, and files that change or become unreadable during a run."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Literal

import pytest

from tests.core.raw_folders import a_folder, files, members, others, shards, write
from wdsctl.core.errors import DatasetError, StorageError, UsageError
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import Progress


@pytest.mark.parametrize("workers", [1, 2])
def test_file_changed_during_run_is_reported_and_finished_shards_are_kept(tmp_path: Path, workers: int) -> None:
    source = a_folder(tmp_path / "raw", 40)
    options = PrepareRequest(shard_samples=4, index=IndexRequest(workers=workers))

    class BreakingProgress:
        """Changes a file between the listing and the writing."""

        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            if name == "write":
                (source / "2" / "00038.txt").write_bytes(b"changed")

        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

        def note(self, message: str) -> None: ...

    with pytest.raises(DatasetError) as caught:
        write(source, tmp_path / "out", options, progress=BreakingProgress())
    finished = shards(tmp_path / "out")
    report = write(source, tmp_path / "out", options)

    assert (caught.value.code, caught.value.where) == ("WDS202", f"{source}/2/00038.txt")
    assert finished.items() <= shards(tmp_path / "out").items()
    assert report.kept >= 1
    assert members(tmp_path / "out") == files(source)
    assert others(tmp_path / "out") == []


def test_other_source_folder_is_refused_without_changes(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    before = shards(tmp_path / "out")
    other = a_folder(tmp_path / "other", 10, first=100)

    with pytest.raises(UsageError, match=f"written from another folder, {tmp_path / 'raw'}") as caught:
        write(other, tmp_path / "out")

    assert "--source-moved" in caught.value.hint
    assert shards(tmp_path / "out") == before


def test_other_source_folder_with_same_names_is_refused(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    before = shards(tmp_path / "out")
    shutil.copytree(tmp_path / "raw", tmp_path / "other")
    (tmp_path / "other" / "0" / "00003.txt").write_bytes(b"theirs")

    with pytest.raises(UsageError, match="another folder"):
        write(tmp_path / "other", tmp_path / "out")
    assert shards(tmp_path / "out") == before


def test_moved_source_folder_continues(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    shutil.move(tmp_path / "raw", tmp_path / "moved")
    a_folder(tmp_path / "moved", 2, first=100)

    report = write(tmp_path / "moved", tmp_path / "out")
    second_report = write(tmp_path / "moved", tmp_path / "out")

    assert (report.written, report.kept, second_report.written) == (1, 3, 0)
    assert members(tmp_path / "out") == files(tmp_path / "moved")


class RecordingProgress(Progress):
    def __init__(self) -> None:
        self.phases: dict[str, tuple[int | None, int | None]] = {}
        self.notes: list[str] = []

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        self.phases[name] = (items, size_bytes)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

    def note(self, message: str) -> None:
        self.notes.append(message)


def a_copy(source: Path, dest: Path) -> Path:
    """A copy with new modification times, as `cp -r` makes it."""
    shutil.copytree(source, dest)
    for path in files(dest):
        os.utime(dest / path, ns=(1, 1))
    return dest


def test_identical_copy_continues_with_note_and_is_compared_once(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = {path: path.stat().st_ino for path in (tmp_path / "out").glob("*.tar")}
    copy = a_copy(source, tmp_path / "copy")
    first, second = RecordingProgress(), RecordingProgress()

    dry_report = write(copy, tmp_path / "out", PrepareRequest(shard_samples=4, index=IndexRequest(dry_run=True)))
    report = write(copy, tmp_path / "out", progress=first)
    second_report = write(copy, tmp_path / "out", progress=second)

    assert (dry_report.written, report.written, report.kept, second_report.written) == (0, 0, 3, 0)
    assert before == {path: path.stat().st_ino for path in (tmp_path / "out").glob("*.tar")}
    assert first.phases["compare"] == (10, sum(map(len, files(copy).values())))
    assert first.notes == [f"this folder is a copy of {source}, byte for byte: continuing from it"]
    assert "compare" not in second.phases
    assert second.notes == []


def test_additional_files_of_copy_are_written_to_new_shards(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    copy = a_folder(a_copy(tmp_path / "raw", tmp_path / "copy"), 2, first=100)

    report = write(copy, tmp_path / "out")

    assert (report.written, report.kept) == (1, 3)
    assert members(tmp_path / "out") == files(copy)


@pytest.mark.parametrize("change", ["bytes", "size", "gone", "more parts"])
def test_copy_with_different_sample_is_refused(tmp_path: Path, change: str) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    before = shards(tmp_path / "out")
    copy = a_copy(tmp_path / "raw", tmp_path / "copy")
    path = copy / "0" / "00003.txt"
    if change == "bytes":
        path.write_bytes(path.read_bytes()[::-1])
    elif change == "size":
        path.write_bytes(b"theirs")
    elif change == "gone":
        for each in copy.glob("0/00003.*"):
            each.unlink()
    else:
        path.with_suffix(".more").write_bytes(b"more")

    with pytest.raises(UsageError, match="another folder"):
        write(copy, tmp_path / "out", PrepareRequest(shard_samples=4, on_missing="keep"))
    assert shards(tmp_path / "out") == before


def test_copy_is_recognised_with_dotted_keys(tmp_path: Path) -> None:
    source = tmp_path / "raw"
    source.mkdir()
    for i in range(6):
        for part in ("jpg", "txt"):
            (source / f"IMG_2024.01.{i:02d}.{part}").write_bytes(f"{i} {part}".encode())
    options = PrepareRequest(shard_samples=4, index=IndexRequest(key_until="known-extension"))
    write(source, tmp_path / "out", options)

    assert write(a_copy(source, tmp_path / "copy"), tmp_path / "out", options).written == 0


def test_copy_is_refused_when_a_shard_is_missing(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    (tmp_path / "out" / "shard-000001.tar").unlink()

    with pytest.raises(UsageError, match="another folder"):
        write(a_copy(tmp_path / "raw", tmp_path / "copy"), tmp_path / "out")


def test_moved_option_accepts_other_source_folder(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 4), tmp_path / "out")
    for path in files(a_folder(tmp_path / "copy", 4)):
        os.utime(tmp_path / "copy" / path, ns=(1, 1))

    report = write(tmp_path / "copy", tmp_path / "out", PrepareRequest(shard_samples=4, source_moved=True))

    assert (report.written, report.kept) == (1, 0)
    assert write(tmp_path / "copy", tmp_path / "out").written == 0


class BreakingProgress:
    """Replaces files by links to themselves, which nobody can read, between listing and writing."""

    def __init__(self, *paths: Path) -> None:
        self.paths = paths

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        if name == "write":
            for path in self.paths:
                path.unlink()
                path.symlink_to(path)

    def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

    def note(self, message: str) -> None: ...


@pytest.mark.parametrize(("on_missing", "left"), [("skip", 0), ("keep", 1)])
@pytest.mark.parametrize("workers", [1, 2])
def test_unreadable_file_is_skipped_and_the_rest_is_written(
    tmp_path: Path, on_missing: Literal["skip", "keep"], left: int, workers: int
) -> None:
    source, dest = a_folder(tmp_path / "raw", 12), tmp_path / "out"
    options = PrepareRequest(shard_samples=4, on_missing=on_missing, index=IndexRequest(workers=workers))
    breaking_progress = BreakingProgress(source / "1" / "00001.txt", source / "1" / "00007.jpg")
    first = write(source, dest, options, progress=breaking_progress)
    second_report = write(source, dest, options)

    assert (first.samples, first.unreadable, first.kept) == (10 + 2 * left, 2, 0)
    assert first.written == first.shards == len(shards(dest))
    assert f"1/00001.txt: {os.strerror(errno.ELOOP)}" in first.examples
    assert (second_report.written, second_report.unreadable, second_report.samples) == (0, 2, first.samples)
    found = members(dest)
    assert ("1/00001.jpg" in found, "1/00001.txt" in found) == (bool(left), False)
    assert found.items() <= files(source).items()
    assert others(dest) == []


def test_unreadable_file_without_policy_is_reported_with_hint(
    tmp_path: Path,
) -> None:
    source = a_folder(tmp_path / "raw", 12)

    with pytest.raises(StorageError) as caught:
        write(source, tmp_path / "out", progress=BreakingProgress(source / "1" / "00001.txt"))
    assert (caught.value.where, "--on-missing keep" in caught.value.hint) == (f"{source}/1/00001.txt", True)


def test_progress_does_not_report_finished_reads_as_slow(tmp_path: Path) -> None:
    doing: list[str] = []

    class ListeningProgress(BreakingProgress):
        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "", steps: list[str] = doing) -> None:
            steps.append(doing)

    write(a_folder(tmp_path / "raw", 10), tmp_path / "out", progress=ListeningProgress())

    assert set(doing) == {""}
