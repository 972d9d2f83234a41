from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import a_dataset, an_image, rewritten, samples, some_shards
from tests.core.catalog.test_schema import rebuilt
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
from wdsctl.core.split.split import split_by_ratios


def kept_and_counted(path: Path | str) -> tuple[Totals, Totals]:
    with open_catalog_connection(str(path)) as connection:
        facts = dict(connection.execute("SELECT key, value FROM meta"))
        assert TOTALS_FACT in facts
        return read_totals(connection, facts), compute_totals(connection)


def without(path: Path | str, totals: str | None) -> Path | str:
    """The catalog with other totals, or none."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM meta WHERE key = ?", (TOTALS_FACT,))
        if totals is not None:
            connection.execute("INSERT INTO meta VALUES (?, ?)", (TOTALS_FACT, totals))
    return path


def test_totals_are_the_sums_of_the_shards_after_everything_that_changes_them(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 12)
    index(root)
    split_by_ratios(root, {"train": 9, "val": 3})
    rewritten(tmp_path / "shard-003.tar", samples(50, 7))
    (tmp_path / "shard-001.tar").unlink()
    (tmp_path / "shard-002.tar").rename(tmp_path / "other.tar")
    rewritten(tmp_path / "shard-004.tar", b"no tar")
    some_shards(tmp_path, 2, first=20)
    index(root, missing="drop")
    kept, counted = kept_and_counted(catalog_of(root))

    assert kept == counted
    assert (kept.shards, kept.statuses) == (13, {"bad": 1, "ok": 12})
    assert kept.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    with Catalog(str(catalog_of(root))) as catalog:
        rows = catalog.shards()
        assert (list(kept.parts), list(kept.splits)) == (catalog.parts(), catalog.splits())
    assert (kept.samples, kept.ids) == (sum(row.samples for row in rows), (rows[0].id, rows[-1].id))


def test_the_digest_of_totals_names_the_shards_of_the_offsets_file(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    rewritten(tmp_path / "shard-001.tar", samples(50, 7))
    (tmp_path / "shard-002.tar").rename(tmp_path / "a.tar")
    (tmp_path / "shard-003.tar").unlink()
    report = index(root, missing="keep")
    offsets = Offsets(locate(root).offsets_path(report.generation))

    assert kept_and_counted(catalog_of(root))[0].digest == digest_shards(offsets.shards)


def test_what_media_are_on_the_whole_is_among_the_totals(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"1.jpg": an_image("JPEG"), "2.jpg": b"none"}, "b.tar": {"3.txt": b"a"}})
    index(root, media=MediaRequest(selection="auto"))
    kept, counted = kept_and_counted(catalog_of(root))

    with Catalog(str(catalog_of(root))) as catalog:
        assert kept == replace(counted, media=tuple(catalog.media_reader.summaries()))
    assert (len(kept.media or ()), kept.without_facts) == (2, 0)


@pytest.mark.parametrize("totals", [None, "no JSON", "[1]", "{}", '{"shards": 9, "of_tomorrow": 1}'])
def test_a_catalog_without_totals_that_are_known_is_added_up(tmp_path: Path, totals: str | None) -> None:
    with open_catalog_connection(str(without(rebuilt(tmp_path), totals))) as connection:
        found = read_totals(connection, dict(connection.execute("SELECT key, value FROM meta")))

    assert (found.shards, found.samples, found.statuses) == (3, 6, {"bad": 1, "ok": 2})
    assert [(part.name, part.samples) for part in found.parts] == [("jpg", 6), ("txt", 4), ("seg.png", 1)]
    assert [(each.name, each.samples) for each in found.splits] == [("train", 4), ("val", 2)]


def test_a_check_finds_totals_that_are_not_the_sums(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    assert not catalog_check(root).findings
    kept, _ = kept_and_counted(catalog_of(root))
    without(catalog_of(root), replace(kept, samples=11).as_text())

    (finding,) = catalog_check(root).findings
    assert "the stored totals differ" in finding.message
