from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image, rewrite_shard, samples, some_shards, split_by_ratios
from tests.core.catalog.test_schema import restore_golden_catalog
from tests.core.dumps import catalog_of
from wdsctl.core.catalog.open_catalog import open_catalog_connection
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import Totals, compute_totals, read_totals
from wdsctl.core.catalog.values import TOTALS_FACT
from wdsctl.core.columns.column_file import digest_shards
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.catalog_check import catalog_check
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest
from wdsctl.core.offsets.read import Offsets


def read_and_compute_totals(path: Path | str) -> tuple[Totals, Totals]:
    with open_catalog_connection(str(path)) as connection:
        facts = dict(connection.execute("SELECT key, value FROM meta"))
        assert TOTALS_FACT in facts
        return read_totals(connection, facts), compute_totals(connection)


def replace_stored_totals(path: Path | str, totals: str | None) -> Path | str:
    """Replaces the stored totals of the catalog, or removes them."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (TOTALS_FACT,))
        if totals is not None:
            connection.execute("INSERT INTO meta VALUES (?, ?)", (TOTALS_FACT, totals))
    return path


def test_totals_equal_sums_of_shards_after_every_change(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 12)
    index(root)
    split_by_ratios(root, {"train": 9, "val": 3})
    rewrite_shard(tmp_path / "shard-003.tar", samples(50, 7))
    (tmp_path / "shard-001.tar").unlink()
    (tmp_path / "shard-002.tar").rename(tmp_path / "other.tar")
    rewrite_shard(tmp_path / "shard-004.tar", b"no tar")
    some_shards(tmp_path, 2, first=20)
    index(root, missing="drop")
    stored, computed = read_and_compute_totals(catalog_of(root))

    assert stored == computed
    assert (stored.shards, stored.statuses) == (13, {"bad": 1, "ok": 12})
    assert stored.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    with Catalog.open(str(catalog_of(root))) as catalog:
        rows = catalog.shards()
        assert (list(stored.parts), list(stored.splits)) == (catalog.parts(), catalog.splits())
    assert (stored.samples, stored.ids) == (sum(row.samples for row in rows), (rows[0].id, rows[-1].id))


def test_totals_digest_matches_shards_of_offsets_file(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    rewrite_shard(tmp_path / "shard-001.tar", samples(50, 7))
    (tmp_path / "shard-002.tar").rename(tmp_path / "a.tar")
    (tmp_path / "shard-003.tar").unlink()
    report = index(root, missing="keep")
    offsets = Offsets(locate(root).offsets_path(report.generation))

    assert read_and_compute_totals(catalog_of(root))[0].digest == digest_shards(offsets.shards)


def test_totals_include_media_summaries(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": an_image("JPEG"), "2.jpg": b"none"}, "b.tar": {"3.txt": b"a"}})
    index(root, media=MediaRequest(selection="auto"))
    stored, computed = read_and_compute_totals(catalog_of(root))

    with Catalog.open(str(catalog_of(root))) as catalog:
        assert stored == replace(computed, media=tuple(catalog.media_reader.summaries()))
    assert (len(stored.media or ()), stored.without_facts) == (2, 0)


@pytest.mark.parametrize("totals", [None, "no JSON", "[1]", "{}", '{"shards": 9, "of_tomorrow": 1}'])
def test_missing_or_unknown_totals_are_computed(tmp_path: Path, totals: str | None) -> None:
    with open_catalog_connection(str(replace_stored_totals(restore_golden_catalog(tmp_path), totals))) as connection:
        actual = read_totals(connection, dict(connection.execute("SELECT key, value FROM meta")))

    assert (actual.shards, actual.samples, actual.statuses) == (3, 6, {"bad": 1, "ok": 2})
    assert [(part.name, part.samples) for part in actual.parts] == [("jpg", 6), ("txt", 4), ("seg.png", 1)]
    assert [(each.name, each.samples) for each in actual.splits] == [("train", 4), ("val", 2)]


def test_catalog_check_reports_wrong_totals(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    assert not catalog_check(root).findings
    stored, _ = read_and_compute_totals(catalog_of(root))
    replace_stored_totals(catalog_of(root), replace(stored, samples=11).as_text())

    (finding,) = catalog_check(root).findings
    assert "the stored totals differ" in finding.message
