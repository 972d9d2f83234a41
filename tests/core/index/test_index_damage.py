"""Catalogs and offsets files that are damaged, newer, of another program, or being written by another process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests import children
from tests.build import RecordingProgress, some_shards, split_by_ratios, tree
from tests.core.dumps import catalog_of, dump, split_of
from tests.core.indexed import leftovers
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def overwrite(path: Path) -> None:
    path.write_bytes(b"?" * path.stat().st_size)


@pytest.mark.parametrize("damage", [Path.unlink, truncate, overwrite])
def test_lost_or_damaged_offsets_file_is_restored_identically(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root)
    some_shards(tmp_path, 1)
    index(root)
    path = Path(locate(root).offsets_path(2))
    before = path.read_bytes()
    damage(path)
    report = index(root)

    assert (report.up_to_date, report.generation, report.findings) == (False, 2, ())
    assert path.read_bytes() == before
    assert index(root).up_to_date


def write_catalog(root: str, content: bytes) -> Path:
    path = catalog_of(root)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"SQLite format 3\0" + bytes(5000)])
def test_damaged_catalog_is_reported_and_unchanged(tmp_path: Path, content: bytes) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    path = write_catalog(root, content)

    with pytest.raises(CatalogError) as caught:
        index(root)
    assert (caught.value.code, caught.value.where) == ("WDS302", str(path))
    assert "--rebuild" in caught.value.hint
    assert path.read_bytes() == content


def test_truncated_catalog_is_reported_as_damaged(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    write_catalog(root, catalog_of(root).read_bytes()[:-4096])

    with pytest.raises(CatalogError, match="shorter than its header"):
        index(root)


def test_overwritten_catalog_is_damaged_and_can_be_rebuilt(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    good = catalog_of(root).read_bytes()
    write_catalog(root, good[:4096] + b"\x5a" * (len(good) - 4096))

    with pytest.raises(CatalogError) as caught:
        index(root)
    assert caught.value.code == "WDS302"
    index(root, rebuild=True)
    assert (tmp_path / ".wdsctl" / "catalog.sqlite.damaged-1").exists()
    assert index(root).up_to_date


def test_rebuild_keeps_damaged_catalog_and_split_of_dataset_yaml(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    index(root)
    Path(locate(root).config_path).write_text("sample_type: CrudeSample\n")
    split_by_ratios(root, {"train": 8, "val": 1, "test": 1}, seed=3)
    before, splits = dump(root), split_of(root)
    for content in (b"first", b"second"):
        write_catalog(root, content)
        report = index(root, rebuild=True)

    assert [(tmp_path / f".wdsctl/catalog.sqlite.damaged-{i}").read_bytes() for i in (1, 2)] == [b"first", b"second"]
    assert report.generation == 3
    assert split_of(root) == splits
    assert dump(root)["sample"] == before["sample"]


def test_rebuild_of_valid_catalog_keeps_ids_and_splits(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 6, first=3)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by="sample")
    some_shards(tmp_path, 3)
    index(root)
    before, splits = dump(root), split_of(root)
    assert splits
    report = index(root, rebuild=True)

    assert report.generation == 3
    assert split_of(root) == splits
    assert [row[:2] for row in dump(root)["shard"]] == [row[:2] for row in before["shard"]]
    assert dump(root)["sample"] == before["sample"]
    assert not list((tmp_path / ".wdsctl").glob("*damaged*"))


def test_catalog_of_newer_version_is_refused_and_unchanged(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with closing(sqlite3.connect(catalog_of(root))) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = catalog_of(root).read_bytes()

    for rebuild in (False, True):
        with pytest.raises(CatalogError, match="version 99") as caught:
            index(root, rebuild=rebuild)
        assert caught.value.code == "WDS303"
    assert catalog_of(root).read_bytes() == before


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    (tmp_path / ".wdsctl").mkdir()
    with closing(sqlite3.connect(catalog_of(root))) as connection:
        connection.execute("CREATE TABLE mine (x)")

    with pytest.raises(CatalogError, match="of another program"):
        index(root)


HOLD = """
import sys, time
from wdsctl.core.dataset.lock import hold_lock
with hold_lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_index_lock_excludes_second_writer_until_holder_dies(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    with children.Popen([sys.executable, "-c", HOLD, locate(root).lock], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CatalogError, match=f"process {holder.pid}") as caught:
            index(root)
        assert (caught.value.code, caught.value.where) == ("WDS304", locate(root).lock)
        holder.kill()

    assert index(root).samples == 5
    assert leftovers(root) == []


def test_writer_without_its_lock_publishes_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    before = tree(Path(root, ".wdsctl"))
    some_shards(tmp_path, 1, first=1)
    progress = RecordingProgress(at_advance=lambda: Path(locate(root).lock).unlink())

    with pytest.raises(CatalogError, match="another process took the lock") as caught:
        index(root, progress=progress)
    assert caught.value.code == "WDS304"
    after = tree(Path(root, ".wdsctl"))
    assert {name: after[name] for name in ("catalog.sqlite", "offsets-1.bin")} == {
        name: before[name] for name in ("catalog.sqlite", "offsets-1.bin")
    }
    assert not Path(locate(root).offsets_path(2)).exists()


def test_index_removes_stale_temporary_files_but_keeps_recent_lock_files(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    meta = tmp_path / ".wdsctl"
    young, old, partial = meta / f"lock.{'a' * 32}", meta / f"lock.{'b' * 32}", meta / ".catalog.sqlite.9.partial"
    claim = meta / "lock.unreadable.dead"
    for path in (young, old, claim, partial):
        path.write_bytes(b"")
    for path in (old, claim):
        os.utime(path, (0, 0))
    some_shards(tmp_path, 1, first=1)
    index(root)

    assert [path.exists() for path in (young, old, claim, partial)] == [True, False, False, False]
