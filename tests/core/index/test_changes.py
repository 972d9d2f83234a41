from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.build import AsNobody, a_dataset, rewritten, samples, some_shards, tree
from tests.core.dumps import catalog_of, dump, query, split_of
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import ShardRow
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.freshness import compare_shards
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.shards.list import ShardFile
from wdsctl.core.split.split import split_by_ratios


def touch_all(root: str) -> None:
    for path in Path(root).rglob("*.tar"):
        then = path.stat().st_mtime_ns + 5_000_000_000
        os.utime(path, ns=(then, then))


def times(root: str) -> set[int]:
    with Catalog(locate(root).catalog) as catalog:
        return {row.mtime_ns for row in catalog.shards()}


def a_row(path: str) -> ShardRow:
    return ShardRow(1, path, 10, 5, 1, 1, "ok", None, "")


def test_a_row_without_a_shard_has_vanished_unless_a_pattern_leaves_it_out() -> None:
    changes = compare_shards([ShardFile("a.tar", 10, 5)], [a_row("a.tar"), a_row("b.tar"), a_row("c.tar")], ["b*"])

    assert [row.path for row in changes.same] == ["a.tar"]
    assert [row.path for row in changes.excluded] == ["b.tar"]
    assert [row.path for row in changes.vanished] == ["c.tar"]


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_shards_that_were_only_touched_keep_their_numbers_splits_and_generation(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by=by)
    ids, where = query(catalog_of(root), "SELECT id, path, added FROM shard"), split_of(root)
    offsets = tree(root)[".wdsctl/offsets-1.bin"]
    touch_all(root)
    report = index(root, workers=2)

    assert (report.up_to_date, report.generation, report.changed, report.unchanged) == (True, 1, 0, 4)
    assert query(catalog_of(root), "SELECT id, path, added FROM shard") == ids
    assert split_of(root) == where
    assert tree(root)[".wdsctl/offsets-1.bin"] == offsets
    assert times(root) == {path.stat().st_mtime_ns for path in tmp_path.glob("*.tar")}
    assert not (tmp_path / ".wdsctl" / "work").exists()


def test_a_changed_shard_among_touched_ones_is_the_only_one_that_is_new(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    touch_all(root)
    size = (tmp_path / "shard-001.tar").stat().st_size
    rewritten(tmp_path / "shard-001.tar", samples(100, 6, "jpg", "txt"))
    assert (tmp_path / "shard-001.tar").stat().st_size == size
    report = index(root)

    assert (report.changed, report.unchanged, report.generation, report.samples) == (1, 2, 2, 16)
    assert [row[0] for row in query(catalog_of(root), "SELECT id FROM shard WHERE removed IS NULL ORDER BY id")] == [
        1,
        3,
        4,
    ]
    assert index(root).up_to_date


def test_a_rebuild_keeps_the_numbers_of_touched_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, first=1)
    index(root)
    some_shards(tmp_path, 1)
    index(root)
    split_by_ratios(root, {"train": 3, "val": 1}, by="sample")
    before, where = dump(root)["sample"], split_of(root)
    touch_all(root)
    index(root, rebuild=True)

    assert dump(root)["sample"] == before
    assert split_of(root) == where


def test_a_shard_that_stays_unreadable_is_tried_again_and_makes_no_generation(
    public_path: Path, as_nobody: AsNobody
) -> None:
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
