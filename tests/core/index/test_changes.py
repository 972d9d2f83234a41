from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.build import AsNobody, a_dataset, a_shard, rewrite_shard, samples, some_shards, split_by_ratios, tree
from tests.core.dumps import catalog_of, dump, query, split_of
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.catalog_check import catalog_check
from wdsctl.core.index.freshness import compare_shards
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.shards.list import ShardFile


def touch_all(root: str) -> None:
    for path in Path(root).rglob("*.tar"):
        then = path.stat().st_mtime_ns + 5_000_000_000
        os.utime(path, ns=(then, then))


def times(root: str) -> set[int]:
    with Catalog.open(locate(root).catalog_path) as catalog:
        return {row.mtime_ns for row in catalog.shards()}


def a_row(path: str) -> ShardRow:
    return ShardRow(1, path, 10, 5, 1, 1, "ok", None, "")


def test_compare_shards_separates_vanished_and_excluded_rows() -> None:
    changes = compare_shards([ShardFile("a.tar", 10, 5)], [a_row("a.tar"), a_row("b.tar"), a_row("c.tar")], ["b*"])

    assert [row.path for row in changes.same] == ["a.tar"]
    assert [row.path for row in changes.excluded] == ["b.tar"]
    assert [row.path for row in changes.vanished] == ["c.tar"]


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_touched_shards_keep_numbers_splits_and_generation(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)
    ids, splits = query(catalog_of(root), "SELECT id, path, added FROM shard"), split_of(root)
    offsets = tree(root)[".wdsctl/offsets-1.bin"]
    touch_all(root)
    report = index(root, workers=2)

    assert (report.up_to_date, report.generation, report.changed, report.unchanged) == (True, 1, 0, 4)
    assert query(catalog_of(root), "SELECT id, path, added FROM shard") == ids
    assert split_of(root) == splits
    assert tree(root)[".wdsctl/offsets-1.bin"] == offsets
    assert times(root) == {path.stat().st_mtime_ns for path in tmp_path.glob("*.tar")}
    assert not (tmp_path / ".wdsctl" / "work").exists()


def test_only_changed_shard_is_reindexed_among_touched_ones(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    touch_all(root)
    size = (tmp_path / "shard-001.tar").stat().st_size
    rewrite_shard(tmp_path / "shard-001.tar", samples(100, 6, "jpg", "txt"))
    assert (tmp_path / "shard-001.tar").stat().st_size == size
    report = index(root)

    assert (report.changed, report.unchanged, report.generation, report.samples) == (1, 2, 2, 16)
    assert [row[0] for row in query(catalog_of(root), "SELECT id FROM shard WHERE removed IS NULL ORDER BY id")] == [
        1,
        3,
        4,
    ]
    assert index(root).up_to_date


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_restored_shard_has_its_earlier_number_and_splits(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)
    offsets, splits, rows = Offsets(locate(root).offsets_path(1)), split_of(root), dump(root)["shard"]
    shard = tmp_path / "shard-001.tar"
    original = shard.read_bytes()
    rewrite_shard(shard, samples(5, 3))
    index(root)
    rewrite_shard(shard, samples(6, 2))
    index(root)
    rewrite_shard(shard, original)
    report = index(root)

    assert (report.changed, report.generation) == (1, 4)
    assert list(Offsets(locate(root).offsets_path(4)).shards) == list(offsets.shards)
    kept = [(row[0], row[1], row[-3:-1]) for row in dump(root)["shard"] if row[-2] is None]
    assert kept == [(row[0], row[1], row[-3:-1]) for row in rows]
    assert split_of(root) == splits
    current = "SELECT id FROM shard WHERE removed IS NULL"
    assert not query(catalog_of(root), f"SELECT * FROM former_split WHERE shard IN ({current})")
    assert not catalog_check(root).findings


def test_shard_that_was_missing_before_its_restore_has_a_new_number(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    shard = tmp_path / "shard-001.tar"
    original = shard.read_bytes()
    shard.unlink()
    index(root, missing="drop")  # jobs may begin without the shard
    shard.write_bytes(a_shard(samples(5, 3)))
    index(root)
    shard.write_bytes(original)
    index(root)

    current = query(catalog_of(root), "SELECT id, path FROM shard WHERE removed IS NULL ORDER BY id")
    assert current == [(1, "shard-000.tar"), (3, "shard-002.tar"), (5, "shard-001.tar")]


def test_rebuild_keeps_numbers_of_touched_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, first=1)
    index(root)
    some_shards(tmp_path, 1)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by="sample")
    before, splits = dump(root)["sample"], split_of(root)
    touch_all(root)
    index(root, rebuild=True)

    assert dump(root)["sample"] == before
    assert split_of(root) == splits


def test_unreadable_shard_is_retried_without_new_generation(public_path: Path, as_nobody: AsNobody) -> None:
    root = a_dataset(public_path / "data", {"a.tar": samples(0, 2), "b.tar": samples(2, 2)})
    Path(root).chmod(0o777)
    closed = Path(root, "b.tar")
    closed.chmod(0)
    first = as_nobody(lambda: index(root))
    touch_all(root)
    second = as_nobody(lambda: index(root))
    third = as_nobody(lambda: index(root))

    for report in (first, second, third):
        assert isinstance(report, IndexReport)
        assert (report.generation, [finding.code for finding in report.findings]) == (1, ["WDS402"])
    assert third.up_to_date
