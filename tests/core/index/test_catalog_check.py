from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import some_shards, split_by_ratios
from tests.core.dumps import catalog_of
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.catalog_check import CatalogCheckReport, catalog_check
from wdsctl.core.index.index import index


def failed_checks(report: CatalogCheckReport) -> list[str]:
    return [each.name for each in report.checks if each.problems]


def make_catalog(root: Path) -> str:
    text = some_shards(root, 3)
    index(text, columns={"bytes": "size:jpg"})
    split_by_ratios(text, {"train": 2, "val": 1}, by="sample")
    return text


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("sample_rows", [True, False])
def test_catalog_check_passes_with_and_without_sample_rows(tmp_path: Path, sample_rows: bool) -> None:
    root = make_catalog(tmp_path)
    index(root, sample_rows=sample_rows)
    report = catalog_check(root)

    assert (failed_checks(report), report.findings) == ([], ())


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("DELETE FROM sample WHERE id % 7 = 3", "counts agree with rows"),
        ("UPDATE split_shard SET samples = 4 WHERE shard = 1", "counts agree with rows"),
        ("INSERT INTO sample VALUES ((99 << 28), 'k', 0, 1, '[]')", "no row without its shard"),
        ("UPDATE shard SET removed = 1 WHERE id = 2", "no row without its shard"),
        ("DELETE FROM ext WHERE id = 1", "no row without its shard"),
        ("UPDATE shard SET size = 1 WHERE id = 2", "offsets agree with the catalog"),
        ("UPDATE shard SET path = 'shard-000.tar'", "facts and counts of shards"),
        ("DROP VIEW v_part", "views"),
        ("DROP TABLE ext", "views"),
        ("UPDATE meta SET value = '9' WHERE key = 'generation'", "offsets agree with the catalog"),
        ("UPDATE meta SET value = '{' WHERE key = 'exclude'", "facts and counts of shards"),
    ],
)
def test_catalog_check_finds_inconsistencies(tmp_path: Path, statement: str, name: str) -> None:
    root = make_catalog(tmp_path)
    with closing(sqlite3.connect(catalog_of(tmp_path))) as connection, connection:
        connection.execute(statement)
    report = catalog_check(root)

    assert name in failed_checks(report)
    assert "WDS302" in {finding.code for finding in report.findings}


def test_catalog_check_reports_damaged_pages_and_runs_all_checks(tmp_path: Path) -> None:
    root = make_catalog(tmp_path)
    data = bytearray(catalog_of(tmp_path).read_bytes())
    for page in range(4, len(data) // 4096, 3):
        data[page * 4096 : page * 4096 + 200] = b"\xa5" * 200
    catalog_of(tmp_path).write_bytes(data)
    report = catalog_check(root)

    assert "pages and indexes" in failed_checks(report)
    assert len(report.checks) == 8


@pytest.mark.parametrize("which", ["offsets-1.bin", "columns/bytes-1.bin"])
def test_catalog_check_finds_truncated_offsets_and_column_files(tmp_path: Path, which: str) -> None:
    root = make_catalog(tmp_path)
    path = Path(locate(root).meta, which)
    path.write_bytes(path.read_bytes()[:-20])
    assert failed_checks(catalog_check(root))


def test_catalog_check_without_catalog_raises(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    with pytest.raises(CatalogError, match="no catalog"):
        catalog_check(root)
