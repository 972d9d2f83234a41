from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import rewrite_shard, samples, some_shards, tree
from tests.core.dumps import catalog_of, dump, query
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, UsageError
from wdsctl.core.index.catalog_check import catalog_check
from wdsctl.core.index.index import index
from wdsctl.core.index.vacuum import catalog_vacuum


def make_five_generations(root: Path) -> str:
    text = some_shards(root, 2, 200)
    index(text, columns={"bytes": "size:jpg"})
    for i in range(4):
        rewrite_shard(root / "shard-001.tar", samples(1000 * i, 150))
        index(text)
    return text


def file_names(root: str) -> set[str]:
    return {os.path.relpath(os.path.join(folder, name), root) for folder, _, files in os.walk(root) for name in files}


def test_vacuum_removes_unused_files_and_rows_and_keeps_rest(tmp_path: Path) -> None:
    root = make_five_generations(tmp_path)
    meta = Path(locate(root).meta)
    (meta / "names-1.bin").write_bytes(b"x" * 50)
    (meta / ".catalog.sqlite.123.partial").write_bytes(b"x" * 50)
    (meta / "catalog.sqlite.damaged-1").write_bytes(b"x" * 50)
    before = dump(root)
    report = catalog_vacuum(root)

    assert [kept.generation for kept in report.kept] == [3, 4, 5]
    assert {file.name for file in report.files} >= {"names-1.bin", ".catalog.sqlite.123.partial"}
    assert report.rows == {"shard": 2}  # of generations 1 and 2: jobs may still use those of 3 and 4
    assert [file.name for file in report.damaged] == ["catalog.sqlite.damaged-1"]
    assert (meta / "catalog.sqlite.damaged-1").exists()
    assert {name: rows for name, rows in dump(root).items() if name != "shard"} == {
        name: rows for name, rows in before.items() if name != "shard"
    }
    assert query(catalog_of(tmp_path), "PRAGMA freelist_count") == [(0,)]
    assert not catalog_check(root).findings
    assert index(root).up_to_date


def test_vacuum_keeps_drafts_that_a_reader_may_be_writing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    joins = Path(locate(root).meta) / "joins"
    joins.mkdir()
    for name in (".new.bin.1.partial", ".old.bin.2.partial"):
        (joins / name).write_bytes(b"x")
    os.utime(joins / ".old.bin.2.partial", (1, 1))

    assert [file.name for file in catalog_vacuum(root, dry_run=True).files] == ["joins/.old.bin.2.partial"]
    catalog_vacuum(root)
    assert os.listdir(joins) == [".new.bin.1.partial"]


def test_vacuum_options_keep_fewer_generations_and_remove_damaged_files(tmp_path: Path) -> None:
    root = make_five_generations(tmp_path)
    meta = Path(locate(root).meta)
    (meta / "ledger.sqlite.damaged-2").write_bytes(b"x" * 50)
    report = catalog_vacuum(root, generations=1, damaged=True)

    assert [(kept.generation, kept.why) for kept in report.kept] == [(5, "the current generation")]
    assert {name for name in file_names(str(meta)) if not name.startswith("ledger")} == {
        "catalog.sqlite",
        "offsets-5.bin",
        "columns/bytes-5.bin",
    }
    assert not (meta / "ledger.sqlite.damaged-2").exists()
    assert report.rows == {"shard": 4}
    some_shards(tmp_path, 1, first=7)
    assert index(root).generation == 6
    assert query(catalog_of(tmp_path), "SELECT max(id) FROM shard") == [(7,)]  # no shard number is reused


def test_vacuum_does_not_count_generation_that_killed_run_left(tmp_path: Path) -> None:
    root = make_five_generations(tmp_path)
    (Path(locate(root).meta) / "offsets-6.bin").write_bytes(b"x" * 50)
    report = catalog_vacuum(root, generations=2, dry_run=True)

    assert [kept.generation for kept in report.kept] == [4, 5]
    assert "offsets-6.bin" in {file.name for file in report.files}


def test_vacuum_dry_run_reports_files_and_writes_nothing(tmp_path: Path) -> None:
    root = make_five_generations(tmp_path)
    before = tree(root)
    report = catalog_vacuum(root, generations=2, dry_run=True)

    assert {"offsets-3.bin"} <= {file.name for file in report.files}
    assert tree(root) == before


def test_vacuum_is_refused_under_lock_and_for_zero_generations(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with pytest.raises(UsageError):
        catalog_vacuum(root, generations=0)
    with hold_lock(locate(root).lock), pytest.raises(CatalogError, match="another wdsctl"):
        catalog_vacuum(root)
