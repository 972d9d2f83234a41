from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.catalog.drafts import open_draft
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.open_catalog import open_catalog_connection
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import CatalogSummary, summarize_catalog
from wdsctl.core.index.index import index

_MANY = """
WITH RECURSIVE number(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM number WHERE i < {shards})
INSERT INTO shard (id, path, size, mtime_ns, samples, parts, status, layout_hash, added)
SELECT i, printf('%07d.tar', i), 1, 1, 1, 1, 'ok', '', 1 FROM number
"""


def make_catalog(folder: Path, shards: int, *, removed: str = "0") -> str:
    """A catalog of this many shards, except those that match the condition `removed`."""
    root = some_shards(folder, 1)
    index(root)
    path = str(catalog_of(root))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_MANY.format(shards=shards))
        connection.execute(f"UPDATE shard SET removed = 2 WHERE {removed}")
    with open_draft(path):
        pass  # publishing adds up the totals
    return path


def count_steps(path: str) -> int:
    """The number of SQLite VM instructions that a summary takes."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    with open_catalog_connection(path) as connection:
        connection.set_progress_handler(tick, 1)
        summarize_catalog(connection, first=50, spread=50)
    return count


def read_summary(path: str, first: int, spread: int) -> CatalogSummary:
    with Catalog.open(path) as catalog:
        return catalog.summary(first=first, spread=spread)


def test_summary_cost_is_independent_of_shard_count(tmp_path: Path) -> None:
    few, many = (count_steps(make_catalog(tmp_path / str(shards), shards)) for shards in (100, 10_000))
    assert many == pytest.approx(few, rel=0.01)


def test_summary_spread_is_even_over_all_shards(tmp_path: Path) -> None:
    summary = read_summary(make_catalog(tmp_path, 1_000), first=3, spread=10)

    assert [row.id for row in summary.spread] == [1, 101, 201, 301, 401, 501, 601, 701, 801, 901]
    assert [row.id for row in summary.first] == [1, 2, 3]
    assert (summary.has_all, summary.totals.shards) == (False, 1_000)


def test_summary_spread_excludes_removed_shards(tmp_path: Path) -> None:
    path = make_catalog(tmp_path, 1_000, removed="id <= 500 OR id % 2 = 0 OR id BETWEEN 600 AND 749")
    summary = read_summary(path, first=2, spread=10)

    assert [row.id for row in summary.spread] == [501, 551, 751, 801, 851, 901, 951]
    assert [row.id for row in summary.first] == [501, 503]


@pytest.mark.parametrize("shards", [2, 9, 10])
def test_summary_of_few_shards_has_all(tmp_path: Path, shards: int) -> None:
    summary = read_summary(make_catalog(tmp_path, shards), first=10, spread=10)

    assert [row.id for row in summary.spread] == list(range(1, shards + 1))
    assert summary.has_all
    assert summary.first == summary.spread


def test_summary_rows_equal_those_of_catalog(tmp_path: Path) -> None:
    path = make_catalog(tmp_path, 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE shard SET sha256 = 'abc' WHERE id = 2")

    with Catalog.open(path) as catalog:
        assert list(catalog.summary(first=3, spread=3).first) == catalog.shards()
