from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.raw_folders import FEW, a_folder, files, members, shards, write
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import DatasetError, PermissionDenied, UsageError
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.write import FolderReport, RenamedSample, write_folder


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
        write(source, tmp_path / f"out{workers}", PrepareRequest(shard_samples=4, index=IndexRequest(workers=workers)))

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

    write(source, tmp_path / "out", PrepareRequest(shard_samples=3, shard_size=45_000))

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


def test_vanished_samples_are_dropped_and_renamed_ones_recognised_where_that_is_said(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()
        (source / "0" / f"00003.{part}").rename(source / "0" / f"renamed.{part}")
        os.utime(source / "0" / f"renamed.{part}", (1, 1))  # what it is does not go by the time
    (source / "0" / "00006.txt").write_bytes(b"changed")
    foreseen = write(
        source, tmp_path / "out", PrepareRequest(shard_samples=4, index=IndexRequest(missing="drop", dry_run=True))
    )

    report = write(source, tmp_path / "out", PrepareRequest(shard_samples=4, index=IndexRequest(missing="drop")))

    assert (report.dropped, report.renamed) == (("0/00000",), (RenamedSample(before="0/00003", after="0/renamed"),))
    assert (foreseen.dropped, foreseen.renamed) == (report.dropped, report.renamed)
    assert (report.written, report.samples, report.vanished) == (1, 9, 0)
    assert members(tmp_path / "out") == files(source)
    assert write(source, tmp_path / "out").written == 0


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

    write(source, tmp_path / "out", PrepareRequest(shard_samples=8, template="more/{index:02d}.tar"))

    after = shards(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["more/02.tar"]


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    options = PrepareRequest(shard_samples=4, index=IndexRequest(dry_run=True))

    with Ledger.open_for_reading(str(tmp_path / "out" / ".wdsctl" / "ledger.sqlite")) as ledger:
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

    with Ledger.open_for_reading(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="in one another"):
        write_folder(str(tmp_path / source), str(tmp_path / dest), FEW, ledger=ledger)


def test_a_destination_with_other_shards_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    (tmp_path / "out" / "train" / "theirs.tar").write_bytes(b"theirs")

    with pytest.raises(UsageError, match=r"already contains other shards: train/theirs\.tar"):
        write(source, tmp_path / "out")

    assert shards(tmp_path / "out") == {"train/theirs.tar": b"theirs"}


def test_a_destination_that_is_a_file_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out").write_bytes(b"")

    with Ledger.open_for_reading(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="is a file"):
        write_folder(str(source), str(tmp_path / "out"), FEW, ledger=ledger)


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
