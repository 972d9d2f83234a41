"""Renamed shards keep their numbers, samples, splits and media facts."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, an_image, samples, some_shards, split_by_ratios
from tests.core.dumps import catalog_of, dump, query
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import InputError
from wdsctl.core.index.catalog_check import catalog_check
from wdsctl.core.index.changes import apply_renames_to_files
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.offsets.read import Offsets


def renamed_pairs(report: IndexReport) -> list[tuple[str, str]]:
    return [(each.was, each.now) for each in report.renamed]


def move_file(root: Path, was: str, now: str) -> None:
    (root / now).parent.mkdir(parents=True, exist_ok=True)
    (root / was).rename(root / now)


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_renamed_shard_keeps_number_samples_splits_and_generation(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)
    before = dump(root)
    move_file(tmp_path, "shard-001.tar", "deep/er/one.tar")
    dry_run_report = index(root, dry_run=True)
    report = index(root)
    after = dump(root)

    assert renamed_pairs(report) == renamed_pairs(dry_run_report) == [("shard-001.tar", "deep/er/one.tar")]
    assert (report.added, report.changed, report.removed, report.generation) == (0, 0, 0, 1)
    assert {name: rows for name, rows in after.items() if name not in ("shard", "meta")} == {
        name: rows for name, rows in before.items() if name not in ("shard", "meta")
    }
    assert [shard.path for shard in Offsets(locate(root).offsets_path(1)).shards][1] == "deep/er/one.tar"
    assert index(root).up_to_date


def test_index_detects_renamed_folder_and_new_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"old/{i}.tar": samples(3 * i, 3) for i in range(6)})
    index(root)
    move_file(tmp_path, "old", "new")
    a_dataset(tmp_path, {"more.tar": samples(90, 2)})
    report = index(root, workers=2)

    assert renamed_pairs(report) == [(f"old/{i}.tar", f"new/{i}.tar") for i in range(6)]
    assert (report.added, report.unchanged, report.generation) == (1, 6, 2)
    for generation in (1, 2):  # saved states continue with the shards under their new names
        names = [shard.path for shard in Offsets(locate(root).offsets_path(generation)).shards]
        assert names[:6] == [f"new/{i}.tar" for i in range(6)]


def test_index_detects_renumbered_shards_after_removal(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"{i}.tar": samples(10 * i, 3 + i) for i in range(4)})
    index(root)
    (tmp_path / "0.tar").unlink()
    for i in range(1, 4):
        move_file(tmp_path, f"{i}.tar", f"{i - 1}.tar")
    report = index(root)

    assert renamed_pairs(report) == [(f"{i}.tar", f"{i - 1}.tar") for i in range(1, 4)]
    assert (report.removed, report.added, report.shards, report.samples) == (1, 0, 3, 15)
    assert query(catalog_of(tmp_path), "SELECT id, path FROM shard WHERE removed IS NULL") == [
        (2, "0.tar"),
        (3, "1.tar"),
        (4, "2.tar"),
    ]


def test_shard_with_same_layout_but_other_mtime_is_no_rename(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3), "b.tar": samples(0, 3), "c.tar": samples(5, 1)})
    index(root)
    (tmp_path / "a.tar").unlink()
    a_dataset(tmp_path, {"d.tar": samples(0, 3)})
    os.utime(tmp_path / "d.tar", (9, 9))

    with pytest.raises(InputError, match=r"1 of 3 shards has vanished: a\.tar"):
        index(root)
    assert renamed_pairs(index(root, missing="drop")) == []


def test_renames_are_detected_by_hash(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, hashed=True)
    data = (tmp_path / "shard-000.tar").read_bytes()
    (tmp_path / "shard-000.tar").unlink()
    other = tmp_path / "other.tar"
    other.write_bytes(data.replace(b"0 jpg", b"9 jpg"))
    with pytest.raises(InputError, match="has vanished"):
        index(root)

    other.write_bytes(data)
    os.utime(other, (9, 9))
    assert renamed_pairs(index(root)) == [("shard-000.tar", "other.tar")]


def test_renamed_shard_keeps_media_facts_without_reading(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"{i}.tar": {f"{i}.png": an_image("PNG")} for i in range(2)})
    index(root, media=MediaRequest(selection="auto"))
    move_file(tmp_path, "0.tar", "z.tar")
    report = index(root)

    assert report.media is not None
    assert (report.media.state, report.media.read) == ("current", 0)


def test_ledger_entries_follow_renamed_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    with closing(sqlite3.connect(locate(root).ledger_path)) as ledger, ledger:
        for i in (0, 1):
            ledger.execute("INSERT INTO view_shard VALUES ('v', ?, 'x', 5, NULL)", (f"shard-00{i}.tar",))
        ledger.execute("INSERT INTO known VALUES ('shard-001.tar', 'headers', 'all', '', x'00', '[]')")
    move_file(tmp_path, "shard-000.tar", "spare.tar")
    move_file(tmp_path, "shard-001.tar", "shard-000.tar")
    move_file(tmp_path, "spare.tar", "shard-009.tar")
    report = index(root)

    assert len(report.renamed) == 2
    with closing(sqlite3.connect(locate(root).ledger_path)) as ledger:
        assert sorted(ledger.execute("SELECT shard FROM view_shard")) == [("shard-000.tar",), ("shard-009.tar",)]
        assert ledger.execute("SELECT shard FROM known").fetchall() == [("shard-000.tar",)]


def test_rebuild_detects_renamed_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    split_by_ratios(root, {"train": 2, "val": 1})
    before = dump(root)["split_shard"]
    move_file(tmp_path, "shard-002.tar", "a.tar")
    report = index(root, rebuild=True)

    assert renamed_pairs(report) == [("shard-002.tar", "a.tar")]
    assert dump(root)["split_shard"] == before


def test_rename_interrupted_after_offsets_is_completed_by_next_run(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    move_file(tmp_path, "shard-001.tar", "b.tar")
    with Catalog.open(locate(root).catalog_path) as catalog:
        row = catalog.shards()[1]
    apply_renames_to_files(locate(root), [(row, row._replace(path="b.tar"))])
    (found,) = catalog_check(root).findings
    report = index(root)

    assert (found.code, found.severity, found.shard) == ("WDS305", "warning", "shard-001.tar")
    assert f"began to rename it to b.tar: `wdsctl index {root}` completes the renaming" in found.message
    assert renamed_pairs(report) == [("shard-001.tar", "b.tar")]
    assert index(root).up_to_date


def test_interrupted_rename_is_reverted_when_old_name_is_kept(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    with Catalog.open(str(catalog_of(tmp_path))) as catalog:
        row = catalog.shards()[0]
    apply_renames_to_files(locate(root), [(row, row._replace(path="b.tar"))])
    assert not index(root, dry_run=True).up_to_date
    index(root)

    assert [shard.path for shard in Offsets(locate(root).offsets_path(1)).shards] == ["shard-000.tar", "shard-001.tar"]
    assert catalog_check(root).findings == ()
    assert index(root).up_to_date


def test_rename_interrupted_after_ledger_is_not_applied_twice(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    with closing(sqlite3.connect(locate(root).ledger_path)) as ledger, ledger:
        for i in (1, 2):
            ledger.execute("INSERT INTO view_shard VALUES ('v', ?, 'x', ?, NULL)", (f"shard-00{i}.tar", i))
    move_file(tmp_path, "shard-002.tar", "shard-003.tar")
    move_file(tmp_path, "shard-001.tar", "shard-002.tar")
    with Catalog.open(locate(root).catalog_path) as catalog:
        rows = catalog.shards()[1:]
    names = ("shard-002.tar", "shard-003.tar")
    apply_renames_to_files(
        locate(root), [(row, row._replace(path=name)) for row, name in zip(rows, names, strict=True)]
    )
    assert len(index(root).renamed) == 2

    with closing(sqlite3.connect(locate(root).ledger_path)) as ledger:
        found = ledger.execute("SELECT shard, samples FROM view_shard ORDER BY shard").fetchall()
    assert found == [("shard-002.tar", 1), ("shard-003.tar", 2)]
