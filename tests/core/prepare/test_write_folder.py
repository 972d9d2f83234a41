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

from tests import children
from tests.core.raw_folders import FEW, a_folder, files, members, shards, write
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.errors import DatasetError, PermissionDenied, UsageError
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.prepare.write import FolderReport, write_folder


def test_write_folder_writes_all_files(tmp_path: Path) -> None:
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
    """webdataset runs in its own process: it does not close its files reliably, and warnings are errors here."""
    source = a_folder(tmp_path / "raw", 6)
    (source / ("k" * 240 + ".jpg")).write_bytes(b"long")
    (source / ("k" * 240 + ".txt")).write_bytes(b"name")
    write(source, tmp_path / "out")

    paths = [tmp_path / "out" / name for name in shards(tmp_path / "out")]
    reader = children.run([sys.executable, "-c", WEBDATASET, *paths], check=True, stdout=subprocess.PIPE)

    assert pickle.loads(reader.stdout) == files(source)  # noqa: S301 - our own child


def test_shards_are_independent_of_workers(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 30)

    for workers in (1, 2, 3):
        write(source, tmp_path / f"out{workers}", PrepareRequest(shard_samples=4, index=IndexRequest(workers=workers)))

    assert len(shards(tmp_path / "out1")) == 8
    assert shards(tmp_path / "out1") == shards(tmp_path / "out2") == shards(tmp_path / "out3")


def test_shards_are_independent_of_file_creation_order(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 20)
    for path in sorted(source.rglob("*.*"), reverse=True):
        copy = tmp_path / "copy" / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)

    write(source, tmp_path / "out")
    write(tmp_path / "copy", tmp_path / "out2")

    assert shards(tmp_path / "out") == shards(tmp_path / "out2")


def test_first_reached_limit_closes_shard(tmp_path: Path) -> None:
    """Alternates pairs of samples of 2,048 and 21,504 tar bytes, so that the third shard is closed by its size."""
    source = a_folder(tmp_path / "raw", 6, size=0)
    a_folder(source, 6, first=100, size=10_000)

    write(source, tmp_path / "out", PrepareRequest(shard_samples=3, shard_size=45_000))

    counts = []
    for name in shards(tmp_path / "out"):
        with tarfile.open(tmp_path / "out" / name) as archive:
            counts.append(len(archive.getnames()) // 2)
    assert counts == [3, 3, 2, 3, 1]


def test_second_run_writes_nothing(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept, report.shards) == (0, 3, 3)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == stamps


def test_new_files_are_appended_as_new_shards(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    a_folder(source, 5, first=100)

    report = write(source, tmp_path / "out")

    after = shards(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert (report.written, report.kept, max(after)) == (2, 3, "shard-000004.tar")
    assert members(tmp_path / "out") == files(source)


def test_changed_file_rewrites_its_shard(tmp_path: Path) -> None:
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


def test_missing_files_stay_in_their_shard(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()

    report = write(source, tmp_path / "out")

    assert (report.vanished, report.kept, report.samples) == (1, 3, 10)
    assert shards(tmp_path / "out") == before


def test_missing_and_changed_files_of_one_shard_are_refused(tmp_path: Path) -> None:
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


def test_missing_drop_drops_samples_and_adds_renamed_ones(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    for part in ("jpg", "txt"):
        (source / "0" / f"00000.{part}").unlink()
        (source / "0" / f"00003.{part}").rename(source / "0" / f"renamed.{part}")
    (source / "0" / "00006.txt").write_bytes(b"changed")
    dry_report = write(
        source, tmp_path / "out", PrepareRequest(shard_samples=4, index=IndexRequest(missing="drop", dry_run=True))
    )

    report = write(source, tmp_path / "out", PrepareRequest(shard_samples=4, index=IndexRequest(missing="drop")))

    assert (report.dropped, report.added) == (("0/00000", "0/00003"), 1)
    assert (dry_report.dropped, dry_report.added) == (report.dropped, report.added)
    assert (report.written, report.samples, report.vanished) == (2, 9, 0)
    assert members(tmp_path / "out") == files(source)
    assert write(source, tmp_path / "out").written == 0


def test_deleted_shard_is_rewritten(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    (tmp_path / "out" / "shard-000001.tar").unlink()

    report = write(source, tmp_path / "out")

    assert (report.written, report.kept) == (1, 2)
    assert shards(tmp_path / "out") == before


def test_new_settings_apply_to_new_shards_only(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 8)
    write(source, tmp_path / "out")
    before = shards(tmp_path / "out")
    a_folder(source, 8, first=50)

    write(source, tmp_path / "out", PrepareRequest(shard_samples=8, template="more/{index:02d}.tar"))

    after = shards(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["more/02.tar"]


def test_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
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
def test_overlapping_source_and_destination_are_refused(tmp_path: Path, source: str, dest: str) -> None:
    a_folder(tmp_path / "raw", 3)
    (tmp_path / "link").symlink_to(tmp_path / "raw")

    with Ledger.open_for_reading(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="in one another"):
        write_folder(str(tmp_path / source), str(tmp_path / dest), FEW, ledger=ledger)


def test_destination_with_other_shards_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out" / "train").mkdir(parents=True)
    (tmp_path / "out" / "train" / "theirs.tar").write_bytes(b"theirs")

    with pytest.raises(UsageError, match=r"already contains other shards: train/theirs\.tar"):
        write(source, tmp_path / "out")

    assert shards(tmp_path / "out") == {"train/theirs.tar": b"theirs"}


def test_file_as_destination_is_refused(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 3)
    (tmp_path / "out").write_bytes(b"")

    with Ledger.open_for_reading(str(tmp_path / "none")) as ledger, pytest.raises(UsageError, match="is a file"):
        write_folder(str(source), str(tmp_path / "out"), FEW, ledger=ledger)


def test_unwritable_destination_raises_permission_denied(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    source = a_folder(public_path / "raw", 3)
    (public_path / "out").mkdir()
    (public_path / "meta").mkdir(mode=0o777)
    (public_path / "meta").chmod(0o777)

    def run() -> FolderReport:
        with Ledger.open(str(public_path / "meta" / "ledger.sqlite")) as ledger:
            return write_folder(str(source), str(public_path / "out"), FEW, ledger=ledger)

    assert isinstance(as_nobody(run), PermissionDenied)
    assert os.listdir(public_path / "out") == []


def test_progress_reports_phases_and_all_bytes(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "raw", 10)
    phases: list[tuple[str, int | None, int | None]] = []
    done = {"items": 0, "bytes": 0}

    class RecordingProgress:
        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            phases.append((name, items, size_bytes))

        def advance(self, *, items: int = 0, size_bytes: int = 0, doing: str = "") -> None:
            if phases[-1][0] == "write":
                done["items"] += items
                done["bytes"] += size_bytes

        def note(self, message: str) -> None: ...

    report = write(source, tmp_path / "out", progress=RecordingProgress())

    assert phases == [("list", None, None), ("write", 10, report.size_bytes)]
    assert done == {"items": 10, "bytes": report.size_bytes}
