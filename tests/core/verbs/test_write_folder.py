from __future__ import annotations

import errno
import os
import pickle
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.killing import Moment, died, kill_by_the_clock, moments
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import DatasetError, PermissionDenied, StorageError, UsageError
from wdsctl.core.verbs.write_folder import FolderOptions, FolderReport, write_folder

FEW = FolderOptions(shard_samples=4)


def a_folder(root: Path, samples: int, *, first: int = 0, size: int = 300) -> Path:
    """Samples of two parts whose bytes follow from their names."""
    for i in range(first, first + samples):
        folder = root / f"{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        for part in ("jpg", "txt"):
            (folder / f"{i:05d}.{part}").write_bytes(random.Random(f"{i}.{part}").randbytes(size + i % 700))
    return root


def write(source: Path, dest: Path, options: FolderOptions = FEW, **more: Any) -> FolderReport:
    with Ledger.open(str(dest / ".wdsctl" / "ledger.sqlite")) as ledger:
        return write_folder(str(source), str(dest), options, ledger=ledger, **more)


def shards(dest: Path) -> dict[str, bytes]:
    return {str(path.relative_to(dest)): path.read_bytes() for path in sorted(dest.rglob("*.tar"))}


def others(dest: Path) -> list[str]:
    """Files that are neither shards nor ours to keep."""
    files = [path for path in dest.rglob("*") if path.is_file() and ".wdsctl" not in path.parts]
    return [path.name for path in files if path.suffix != ".tar"]


def members(dest: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(dest.rglob("*.tar")):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                assert member.name not in found
                found[member.name] = file.read()
    return found


def files(source: Path) -> dict[str, bytes]:
    return {str(path.relative_to(source)): path.read_bytes() for path in source.rglob("*") if path.is_file()}


def test_all_files_are_in_the_shards(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)

    report = write(source, tmp_path / "out")

    assert members(tmp_path / "out") == files(source)
    assert (report.shards, report.samples, report.written, report.kept) == (3, 10, 3, 0)
    assert report.size_bytes == report.written_bytes == sum(map(len, shards(tmp_path / "out").values()))
    assert report.parts == ("jpg", "txt")


WEBDATASET = """
from __future__ import annotations
import pickle, sys
import webdataset
samples = webdataset.WebDataset(sys.argv[1:], shardshuffle=False)
read = {f"{sample['__key__']}.{part}": sample[part] for sample in samples for part in ("jpg", "txt")}
sys.stdout.buffer.write(pickle.dumps(read))
"""


def test_webdataset_reads_the_same_samples(tmp_path: Path) -> None:
    """In a process of its own: it leaves the closing of its files to chance, and warnings are errors here."""
    source = a_folder(tmp_path / "raw", 6)
    (source / ("k" * 240 + ".jpg")).write_bytes(b"long")
    (source / ("k" * 240 + ".txt")).write_bytes(b"name")
    write(source, tmp_path / "out")

    paths = [tmp_path / "out" / name for name in shards(tmp_path / "out")]
    reader = subprocess.run([sys.executable, "-c", WEBDATASET, *paths], check=True, stdout=subprocess.PIPE)

    assert pickle.loads(reader.stdout) == files(source)  # noqa: S301 - our own child


def test_the_number_of_workers_changes_no_byte(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 30)

    for workers in (1, 2, 3):
        write(source, tmp_path / f"out{workers}", FolderOptions(shard_samples=4, workers=workers))

    assert len(shards(tmp_path / "out1")) == 8
    assert shards(tmp_path / "out1") == shards(tmp_path / "out2") == shards(tmp_path / "out3")


def test_the_order_in_which_files_were_made_changes_no_byte(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 20)
    for path in sorted(source.rglob("*.*"), reverse=True):
        copy = tmp_path / "copy" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)

    write(source, tmp_path / "out")
    write(tmp_path / "copy", tmp_path / "out2")

    assert shards(tmp_path / "out") == shards(tmp_path / "out2")


def test_whichever_limit_comes_first_closes_a_shard(tmp_path: Path) -> None:
    """Samples of 2,048 and of 21,504 bytes in a tar, by turns of two: the third shard is closed by its bytes."""
    source = a_folder(tmp_path / "raw", 6, size=0)
    a_folder(source, 6, first=100, size=10_000)

    write(source, tmp_path / "out", FolderOptions(shard_samples=3, shard_size=45_000))

    counts = []
    for name in shards(tmp_path / "out"):
        with tarfile.open(tmp_path / "out" / name) as archive:
            counts.append(len(archive.getnames()) // 2)
    assert counts == [3, 3, 2, 3, 1]


def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept, report.shards) == (0, 3, 3)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == stamps


def test_new_files_are_appended(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    a_folder(source, 5, first=100)

    report = write(source, tmp_path / "out")

    after = shards(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert (report.written, report.kept, max(after)) == (2, 3, "shard-000004.tar")
    assert members(tmp_path / "out") == files(source)


def test_a_changed_file_has_its_shard_written_again(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    (source / "0" / "00000.txt").write_bytes(b"something longer than it was, or shorter")

    report = write(source, tmp_path / "out")

    after = shards(tmp_path / "out")
    assert [name for name in after if after[name] != before[name]] == ["shard-000000.tar"]
    assert (report.written, report.kept) == (1, 2)
    assert members(tmp_path / "out") == files(source)
    assert write(source, tmp_path / "out").written == 0


def test_vanished_files_stay_in_their_shard(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()

    report = write(source, tmp_path / "out")

    assert (report.vanished, report.kept, report.samples) == (1, 3, 10)
    assert shards(tmp_path / "out") == before


def test_vanished_and_changed_files_of_one_shard_are_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()
    (source / "0" / "00003.txt").write_bytes(b"changed")

    with pytest.raises(DatasetError) as caught:
        write(source, tmp_path / "out")

    assert caught.value.code == "WDS203"
    assert shards(tmp_path / "out") == before


def test_a_shard_that_was_deleted_is_written_again(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    (tmp_path / "out" / "shard-000001.tar").unlink()

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept) == (1, 2)
    assert shards(tmp_path / "out") == before


def test_other_settings_touch_new_shards_only(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 8)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    a_folder(source, 8, first=50)

    write(source, tmp_path / "out", FolderOptions(shard_samples=8, template="more/{index:02d}.tar"))

    after = shards(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["more/02.tar"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    options = FolderOptions(shard_samples=4, dry_run=True)

    with Ledger.peek(str(tmp_path / "out" / ".wdsctl" / "ledger.sqlite")) as ledger:
        report = write_folder(str(source), str(tmp_path / "out"), options, ledger=ledger)

    assert (report.shards, report.written, report.dry_run) == (3, 3, True)
    assert not (tmp_path / "out").exists()
    assert report.size_bytes == write(source, tmp_path / "out").size_bytes


@pytest.mark.parametrize(
    ("source", "dest"), [("raw", "raw/out"), ("raw", "raw"), ("raw/0", "raw"), ("raw", "link/out")]
)
def test_source_and_destination_must_not_lie_in_one_another(tmp_path: Path, source: str, dest: str) -> None:
    a_folder(tmp_path / "raw", 3)
    (tmp_path / "link").symlink_to(tmp_path / "raw")

    with Ledger.peek(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="in one another"):
        write_folder(str(tmp_path / source), str(tmp_path / dest), FEW, ledger=ledger)


def test_a_destination_with_other_shards_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    (tmp_path / "out" / "train" / "theirs.tar").write_bytes(b"theirs")

    with pytest.raises(UsageError, match=r"already holds other shards: train/theirs\.tar"):
        write(source, tmp_path / "out")

    assert shards(tmp_path / "out") == {"train/theirs.tar": b"theirs"}


def test_a_destination_that_is_a_file_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out").write_bytes(b"")

    with Ledger.peek(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="is a file"):
        write_folder(str(source), str(tmp_path / "out"), FEW, ledger=ledger)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_changes_under_way_is_named_and_finished_shards_are_kept(tmp_path: Path, workers: int) -> None:
    source = a_folder(tmp_path / "raw", 40)
    options = FolderOptions(shard_samples=4, workers=workers)

    class Spoils:
        """Changes a file between the listing and the writing."""

        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            if name == "write":
                (source / "2" / "00038.txt").write_bytes(b"changed")

        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None: ...

        def note(self, message: str) -> None: ...

    with pytest.raises(DatasetError) as caught:
        write(source, tmp_path / "out", options, progress=Spoils())
    finished = shards(tmp_path / "out")
    report = write(source, tmp_path / "out", options)

    assert (caught.value.code, caught.value.where) == ("WDS202", f"{source}/2/00038.txt")
    assert finished.items() <= shards(tmp_path / "out").items()
    assert report.kept >= 1
    assert members(tmp_path / "out") == files(source)
    assert others(tmp_path / "out") == []


def test_a_destination_that_cannot_be_written(public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]) -> None:
    source = a_folder(public_path / "raw", 3)
    (public_path / "out").mkdir()
    (public_path / "meta").mkdir(mode=0o777)
    (public_path / "meta").chmod(0o777)

    def run() -> FolderReport:
        with Ledger.open(str(public_path / "meta" / "ledger.sqlite")) as ledger:
            return write_folder(str(source), str(public_path / "out"), FEW, ledger=ledger)

    assert isinstance(as_nobody(run), PermissionDenied)
    assert os.listdir(public_path / "out") == []


def test_progress_names_the_phases_and_counts_every_byte(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    told: list[tuple[str, int | None, int | None]] = []
    done = {"items": 0, "bytes": 0}

    class Listens:
        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            told.append((name, items, size_bytes))

        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
            if told[-1][0] == "write":
                done["items"] += items
                done["bytes"] += size_bytes

        def note(self, message: str) -> None: ...

    report = write(source, tmp_path / "out", progress=Listens())

    assert told == [("list", None, None), ("write", 10, report.size_bytes)]
    assert done == {"items": 10, "bytes": report.size_bytes}


SCRIPT = """
from __future__ import annotations
import sys
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.verbs.write_folder import FolderOptions, write_folder
source, dest, workers = sys.argv[1:]
with Ledger.open(dest + "/.wdsctl/ledger.sqlite") as ledger:
    write_folder(source, dest, FolderOptions(shard_samples=20, workers=int(workers)), ledger=ledger)
"""


def run_of(source: Path, dest: Path, workers: int) -> list[str | Path]:
    """The command that does the same in a process of its own, which can be killed."""
    return [sys.executable, "-c", SCRIPT, source, dest, str(workers)]


def check_continued(source: Path, dest: Path, truth: dict[str, bytes], workers: int) -> int:
    """What is there is whole; run again, all is. Returns how many shards there were."""
    there = shards(dest)
    assert there.items() <= truth.items()
    write(source, dest, FolderOptions(shard_samples=20, workers=workers))
    assert shards(dest) == truth
    assert others(dest) == []
    return len(there)


def test_a_killed_run_that_is_continued_gives_the_same_bytes(tmp_path: Path) -> None:
    """Killed before the sixth shard is put in its place: at least four are, and its four units under way may be."""
    source = a_folder(tmp_path / "raw", 400, size=6_000)
    dest = tmp_path / "out"
    write(source, tmp_path / "truth", FolderOptions(shard_samples=20))

    assert died(run_of(source, dest, 2), Moment("replace", 6, parent_only=True), tmp_path / "count")

    assert 4 <= check_continued(source, dest, shards(tmp_path / "truth"), 1) < 20


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seam", ["write", "fsync"])
def test_killed_at_any_moment_and_continued_it_gives_the_same_bytes(tmp_path: Path, workers: int, seam: str) -> None:
    """The first and the last of the calls, and some between: while a shard is written, before and after its place."""
    source, dest, count = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out", tmp_path / "count"
    write(source, tmp_path / "truth", FolderOptions(shard_samples=20))
    truth = shards(tmp_path / "truth")

    seen = []
    for moment in moments(run_of(source, tmp_path / "counted", workers), seam, 7, count):
        assert died(run_of(source, dest, workers), moment, count)
        seen.append(check_continued(source, dest, truth, 3 - workers))
        shutil.rmtree(dest)

    assert seen[0] == 0
    assert sorted(seen) == seen or workers > 1
    assert len(set(seen)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_by_the_clock_and_continued_it_gives_the_same_bytes(tmp_path: Path, workers: int) -> None:
    source, dest = a_folder(tmp_path / "raw", 400, size=30_000), tmp_path / "out"
    write(source, tmp_path / "truth", FolderOptions(shard_samples=20))
    rng = random.Random(workers)
    for _ in range(4):
        kill_by_the_clock(run_of(source, dest, workers), 1.5, rng)
        check_continued(source, dest, shards(tmp_path / "truth"), 3 - workers)
        shutil.rmtree(dest)


def test_a_shard_in_place_that_the_ledger_does_not_know_yet_is_written_again(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    with Ledger.open(str(tmp_path / "out" / ".wdsctl" / "ledger.sqlite")) as ledger:
        ledger.mark_done("shard-000002.tar", "planned")

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept) == (1, 2)
    assert shards(tmp_path / "out") == before


def test_what_dead_runs_left_half_written_is_removed_and_nothing_else(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    for name in (".shard-000009.tar.999999.partial", "train/.7.tar.1.partial", "notes.partial", ".a.txt.1.partial"):
        (tmp_path / "out" / name).write_bytes(b"half")

    write(source, tmp_path / "out")

    assert sorted(others(tmp_path / "out")) == [".a.txt.1.partial", "notes.partial"]


def test_another_folder_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    before = shards(tmp_path / "out")
    other = a_folder(tmp_path / "other", 10, first=100)

    with pytest.raises(UsageError, match=f"made from another folder, {tmp_path / 'raw'}") as caught:
        write(other, tmp_path / "out")

    assert "--yes" in caught.value.hint
    assert shards(tmp_path / "out") == before


def test_another_folder_with_files_of_the_same_names_is_refused(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    before = shards(tmp_path / "out")
    shutil.copytree(tmp_path / "raw", tmp_path / "other")
    (tmp_path / "other" / "0" / "00003.txt").write_bytes(b"theirs")

    with pytest.raises(UsageError, match="another folder"):
        write(tmp_path / "other", tmp_path / "out")
    assert shards(tmp_path / "out") == before


def test_a_folder_that_was_moved_goes_on_without_a_question(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 10), tmp_path / "out")
    shutil.move(tmp_path / "raw", tmp_path / "moved")
    a_folder(tmp_path / "moved", 2, first=100)

    report = write(tmp_path / "moved", tmp_path / "out")
    again = write(tmp_path / "moved", tmp_path / "out")

    assert (report.written, report.kept, again.written) == (1, 3, 0)
    assert members(tmp_path / "out") == files(tmp_path / "moved")


def test_a_folder_that_is_said_to_be_moved_is_believed(tmp_path: Path) -> None:
    write(a_folder(tmp_path / "raw", 4), tmp_path / "out")
    for path in files(a_folder(tmp_path / "copy", 4)):
        os.utime(tmp_path / "copy" / path, ns=(1, 1))

    report = write(tmp_path / "copy", tmp_path / "out", FolderOptions(shard_samples=4, moved=True))

    assert (report.written, report.kept) == (1, 0)
    assert write(tmp_path / "copy", tmp_path / "out").written == 0


class Spoils:
    """Makes files that no user can read of some, between the listing and the writing: links to themselves."""

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
def test_a_file_that_turns_out_unreadable_is_left_out_and_the_rest_is_written(
    tmp_path: Path, on_missing: Literal["skip", "keep"], left: int, workers: int
) -> None:
    source, dest = a_folder(tmp_path / "raw", 12), tmp_path / "out"
    options = FolderOptions(shard_samples=4, on_missing=on_missing, workers=workers)
    spoils = Spoils(source / "1" / "00001.txt", source / "1" / "00007.jpg")
    first = write(source, dest, options, progress=spoils)
    again = write(source, dest, options)

    assert (first.samples, first.unreadable, first.kept) == (10 + 2 * left, 2, 0)
    assert first.written == first.shards == len(shards(dest))
    assert f"1/00001.txt: {os.strerror(errno.ELOOP)}" in first.examples
    assert (again.written, again.unreadable, again.samples) == (0, 2, first.samples)
    found = members(dest)
    assert ("1/00001.jpg" in found, "1/00001.txt" in found) == (bool(left), False)
    assert found.items() <= files(source).items()
    assert others(dest) == []


def test_without_a_policy_a_file_that_turns_out_unreadable_is_named_with_what_to_do(
    tmp_path: Path,
) -> None:
    source = a_folder(tmp_path / "raw", 12)

    with pytest.raises(StorageError) as caught:
        write(source, tmp_path / "out", progress=Spoils(source / "1" / "00001.txt"))
    assert (caught.value.where, "--on-missing skip" in caught.value.hint) == (f"{source}/1/00001.txt", True)


def test_nothing_is_said_to_be_slow_that_is_done(tmp_path: Path) -> None:
    doing: list[str] = []

    class Listens(Spoils):
        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "", said: list[str] = doing) -> None:
            said.append(doing)

    write(a_folder(tmp_path / "raw", 10), tmp_path / "out", progress=Listens())

    assert set(doing) == {""}
