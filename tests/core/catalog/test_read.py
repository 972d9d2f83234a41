from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, some_shards
from tests.core.dumps import catalog_of, query
from wdsctl.core.catalog.consistency import RepeatedKey, find_repeated_keys
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.values import SplitCount, SplitMembership
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index
from wdsctl.core.split.split import split_by_ratios


def an_indexed(root: Path, count: int = 4) -> Catalog:
    index(some_shards(root, count))
    return Catalog(str(catalog_of(root)))


def test_shards_come_in_the_order_they_were_added(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, first=1))
    with an_indexed(tmp_path, 1) as catalog:
        rows = catalog.shards()

    assert [(row.id, row.path, row.samples, row.parts, row.status) for row in rows] == [
        (1, "shard-001.tar", 5, 10, "ok"),
        (2, "shard-002.tar", 5, 10, "ok"),
        (3, "shard-000.tar", 5, 10, "ok"),
    ]


def test_parts_come_by_how_many_samples_have_them(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.txt": b"a", "2.jpg": b"bb", "2.txt": b"", "2.x": b""}, "b.tar": b""})
    index(root)
    with Catalog(str(catalog_of(root))) as catalog:
        assert [(p.name, p.samples, p.share, p.size_bytes, p.empty) for p in catalog.parts()] == [
            ("txt", 2, 1.0, 1, 1),
            ("jpg", 1, 0.5, 2, 0),
            ("x", 1, 0.5, 0, 1),
        ]


def test_a_part_that_a_sample_has_twice_counts_once(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": [("1.jpg", b"a"), ("1.jpg", b"bb"), ("2.jpg", b"c")]})
    index(root)
    with Catalog(str(catalog_of(root))) as catalog:
        (part,) = catalog.parts()

    assert (part.samples, part.share, part.size_bytes) == (2, 1.0, 4)


def test_an_empty_catalog_has_no_parts_and_no_splits(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b""})
    index(root)
    with Catalog(str(catalog_of(root))) as catalog:
        assert (catalog.parts(), catalog.splits(), catalog.default_split_rule()) == ([], [], None)
        assert find_repeated_keys(catalog) == (0, [])


def test_splits_come_as_they_were_named(tmp_path: Path) -> None:
    with an_indexed(tmp_path):
        split_by_ratios(str(tmp_path), {"z": 3, "a": 1}, seed=5)
    with Catalog(str(catalog_of(tmp_path))) as catalog:
        assert catalog.splits() == [SplitCount("z", 3.0, 3, 15), SplitCount("a", 1.0, 1, 5)]
        assert catalog.default_split_rule() == SplitRule({"z": 3.0, "a": 1.0}, "shard", 5)


def test_who_holds_a_shard_is_told_by_its_path(tmp_path: Path) -> None:
    with an_indexed(tmp_path):
        split_by_ratios(str(tmp_path), {"train": 4, "val": 1}, by="sample")
    with Catalog(str(catalog_of(tmp_path))) as catalog:
        rows = catalog.shards()
        held = catalog.split_membership([rows[1].id, 999])

    assert set(held) == {"shard-001.tar"}
    assert isinstance(held["shard-001.tar"], SplitMembership)
    assert {name: count for name, (count, _) in held["shard-001.tar"].splits.items()} == {"train": 4, "val": 1}
    assert held["shard-001.tar"].layout_hash == rows[1].layout_hash


def test_more_shards_can_be_asked_for_than_a_statement_takes(tmp_path: Path) -> None:
    with an_indexed(tmp_path):
        split_by_ratios(str(tmp_path), {"train": 1})
    with Catalog(str(catalog_of(tmp_path))) as catalog:
        assert len(catalog.split_membership(range(100_000))) == 4


def test_repeated_keys_are_counted_in_full_and_shown_in_part(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {f"{name}.tar": samples(0, 30) for name in "abcd"})
    index(root)
    with Catalog(str(catalog_of(root))) as catalog:
        count, first = find_repeated_keys(catalog, 2)

    assert count == 30
    assert first == [RepeatedKey(f"00000{i}", ("a.tar", "b.tar", "c.tar")) for i in (0, 1)]


def test_repeated_keys_are_found_by_the_key_index_alone(tmp_path: Path) -> None:
    with an_indexed(tmp_path):
        pass
    plan = query(
        catalog_of(tmp_path),
        "EXPLAIN QUERY PLAN SELECT key FROM sample GROUP BY key HAVING min(id >> 28) < max(id >> 28) ORDER BY key",
    )

    assert [row[3] for row in plan] == ["SCAN sample USING COVERING INDEX sample_key"]


def test_damage_inside_is_said_when_it_is_met(tmp_path: Path) -> None:
    with an_indexed(tmp_path):
        pass
    path = catalog_of(tmp_path)
    good = path.read_bytes()
    path.write_bytes(good[:4096] + b"\x5a" * (len(good) - 4096))

    with pytest.raises(CatalogError) as caught, Catalog(str(path)) as catalog:
        catalog.shards()
    assert (caught.value.code, caught.value.where) == ("WDS302", str(path))


def test_readers_go_on_while_the_catalog_is_replaced(tmp_path: Path) -> None:
    with an_indexed(tmp_path) as catalog:
        some_shards(tmp_path, 2, first=4)
        index(str(tmp_path))
        assert len(catalog.shards()) == 4
    with closing(sqlite3.connect(catalog_of(tmp_path))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)
