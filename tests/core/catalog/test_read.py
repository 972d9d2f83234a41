from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, some_shards, split_by_ratios
from tests.core.dumps import catalog_of, query
from wdsctl.core.catalog.consistency import RepeatedKey, find_repeated_keys
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import SplitCount
from wdsctl.core.catalog.values import SplitMembership
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.split_rules.rule import SplitRule


def make_catalog(root: Path, count: int = 4) -> Catalog:
    index(some_shards(root, count))
    return Catalog.open(str(catalog_of(root)))


def test_shards_are_listed_in_order_of_addition(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, first=1))
    with make_catalog(tmp_path, 1) as catalog:
        rows = catalog.shards()

    assert [(row.id, row.path, row.samples, row.parts, row.status) for row in rows] == [
        (1, "shard-001.tar", 5, 10, "ok"),
        (2, "shard-002.tar", 5, 10, "ok"),
        (3, "shard-000.tar", 5, 10, "ok"),
    ]


def test_parts_are_ordered_by_number_of_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"a", "2.jpg": b"bb", "2.txt": b"", "2.x": b""}, "b.tar": b""})
    index(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        assert [(p.name, p.samples, p.share, p.size_bytes, p.empty) for p in catalog.parts()] == [
            ("txt", 2, 1.0, 1, 1),
            ("jpg", 1, 0.5, 2, 0),
            ("x", 1, 0.5, 0, 1),
        ]


def test_duplicate_part_of_sample_counts_once(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": [("1.jpg", b"a"), ("1.jpg", b"bb"), ("2.jpg", b"c")]})
    index(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        (part,) = catalog.parts()

    assert (part.samples, part.share, part.size_bytes) == (2, 1.0, 4)


def test_empty_catalog_has_no_parts_and_no_splits(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b""})
    index(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        assert (catalog.parts(), catalog.splits(), catalog.default_split_rule()) == ([], [], None)
        assert find_repeated_keys(catalog) == (0, [])


def test_splits_keep_order_of_definition(tmp_path: Path) -> None:
    with make_catalog(tmp_path):
        split_by_ratios(str(tmp_path), {"z": 3, "a": 1}, seed=5)
    with Catalog.open(str(catalog_of(tmp_path))) as catalog:
        assert catalog.splits() == [
            SplitCount(name="z", share=3.0, shards=3, samples=15),
            SplitCount(name="a", share=1.0, shards=1, samples=5),
        ]
        assert catalog.default_split_rule() == SplitRule({"z": 3.0, "a": 1.0}, "shard", 5)


def test_split_membership_is_returned_by_shard_path(tmp_path: Path) -> None:
    with make_catalog(tmp_path):
        split_by_ratios(str(tmp_path), {"train": 4, "val": 1}, by="sample")
    with Catalog.open(str(catalog_of(tmp_path))) as catalog:
        rows = catalog.shards()
        membership = catalog.split_membership([rows[1].id, 999])

    assert set(membership) == {"shard-001.tar"}
    assert isinstance(membership["shard-001.tar"], SplitMembership)
    assert {name: count for name, (count, _) in membership["shard-001.tar"].splits.items()} == {"train": 4, "val": 1}
    assert membership["shard-001.tar"].layout_hash == rows[1].layout_hash


def test_split_membership_accepts_more_ids_than_sql_parameters(tmp_path: Path) -> None:
    with make_catalog(tmp_path):
        split_by_ratios(str(tmp_path), {"train": 1})
    with Catalog.open(str(catalog_of(tmp_path))) as catalog:
        assert len(catalog.split_membership(range(100_000))) == 4


def test_find_repeated_keys_counts_all_and_returns_some(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"{name}.tar": samples(0, 30) for name in "abcd"})
    index(root)
    with Catalog.open(str(catalog_of(root))) as catalog:
        count, first = find_repeated_keys(catalog, 2)

    assert count == 30
    assert first == [RepeatedKey(f"00000{i}", ("a.tar", "b.tar", "c.tar")) for i in (0, 1)]


def test_repeated_keys_query_uses_only_key_index(tmp_path: Path) -> None:
    with make_catalog(tmp_path):
        pass
    plan = query(
        catalog_of(tmp_path),
        "EXPLAIN QUERY PLAN SELECT key FROM sample GROUP BY key HAVING min(id >> 28) < max(id >> 28) ORDER BY key",
    )

    assert [row[3] for row in plan] == ["SCAN sample USING COVERING INDEX sample_key"]


def test_catalog_raises_error_for_damaged_pages(tmp_path: Path) -> None:
    with make_catalog(tmp_path):
        pass
    path = catalog_of(tmp_path)
    intact = path.read_bytes()
    path.write_bytes(intact[:4096] + b"\x5a" * (len(intact) - 4096))

    with pytest.raises(CatalogError) as caught, Catalog.open(str(path)) as catalog:
        catalog.shards()
    assert (caught.value.code, caught.value.where) == ("WDS302", str(path))


def test_open_catalog_stays_readable_while_replaced(tmp_path: Path) -> None:
    with make_catalog(tmp_path) as catalog:
        some_shards(tmp_path, 2, first=4)
        index(str(tmp_path))
        assert len(catalog.shards()) == 4
    with closing(sqlite3.connect(catalog_of(tmp_path))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)
