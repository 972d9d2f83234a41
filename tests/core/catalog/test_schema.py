"""Catalogs of every released version can be opened: `tests/golden/catalog-vN.sql` is an SQL dump of one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import a_dataset, samples, split_by_ratios
from tests.core.catalog.readers import read_current_generation, read_split
from wdsctl.core.catalog.consistency import find_repeated_keys
from wdsctl.core.catalog.open_catalog import CATALOG_APPLICATION_ID, CATALOG_SCHEMA_VERSION
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.catalog.totals import SplitCount
from wdsctl.core.index.index import index
from wdsctl.core.samples.naming import INDEX_BITS

GOLDEN = Path(__file__).parents[2] / "golden"


def restore_golden_catalog(folder: Path, version: int = CATALOG_SCHEMA_VERSION) -> str:
    path = str(folder / "catalog.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript((GOLDEN / f"catalog-v{version}.sql").read_text())
    return path


def a_small_catalog(root: Path) -> str:
    """The catalog from which the golden file was dumped."""
    a_dataset(
        root,
        {
            "a.tar": samples(0, 4),
            "b/c.tar": {"x/1.jpg": b"1", "x/1.seg.png": b"", "x/2.jpg": b"22"},
            "d.tar": b"no tar",
        },
    )
    for path in sorted(root.rglob("*.tar")):
        os.utime(path, ns=(10**18, 10**18))
    index(str(root))
    split_by_ratios(str(root), {"train": 2, "val": 1}, by="sample", seed=1)
    return str(root / ".wdsctl" / "catalog.sqlite")


def dump_catalog(path: str) -> str:
    """The catalog as SQL, with its application id and version, and without values that differ in every run."""
    with closing(sqlite3.connect(path)) as connection:
        pragmas = [
            f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("application_id", "user_version")
        ]
        connection.execute("UPDATE meta SET value = 'golden' WHERE key IN ('uuid', 'written_by')")
        return "\n".join([*pragmas, *connection.iterdump()]) + "\n"


def read_schema(path: str) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1, 2")
        return [(kind, name, " ".join(sql.split()).replace("( ", "(").replace(" )", ")")) for kind, name, sql in rows]


@pytest.mark.parametrize("version", range(1, CATALOG_SCHEMA_VERSION + 1))
def test_catalogs_of_all_released_versions_are_readable(tmp_path: Path, version: int) -> None:
    path = restore_golden_catalog(tmp_path, version)

    with Catalog.open(path) as catalog:
        assert [(row.path, row.samples, row.status, row.code) for row in catalog.shards()] == [
            ("a.tar", 4, "ok", None),
            ("b/c.tar", 2, "ok", None),
            ("d.tar", 0, "bad", "WDS101"),
        ]
        assert [(part.name, part.samples, part.empty) for part in catalog.parts()] == [
            ("jpg", 6, 0),
            ("txt", 4, 0),
            ("seg.png", 1, 1),
        ]
        assert catalog.splits() == [
            SplitCount(name="train", share=2.0, shards=2, samples=4),
            SplitCount(name="val", share=1.0, shards=2, samples=2),
        ]
        assert find_repeated_keys(catalog) == (0, [])
    assert read_current_generation(path) == 1
    assert sum(part.samples for part in read_split(path, "train")) == 4


def test_new_catalog_matches_golden_dump(tmp_path: Path) -> None:
    golden = restore_golden_catalog(tmp_path, CATALOG_SCHEMA_VERSION)

    created = a_small_catalog(tmp_path / "data")
    assert read_schema(created) == read_schema(golden)
    assert dump_catalog(created) == (GOLDEN / f"catalog-v{CATALOG_SCHEMA_VERSION}.sql").read_text()


def test_catalog_file_has_application_id_and_version(tmp_path: Path) -> None:
    with closing(sqlite3.connect(restore_golden_catalog(tmp_path, CATALOG_SCHEMA_VERSION))) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (CATALOG_APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (CATALOG_SCHEMA_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_views_have_positions_of_sample_ids(tmp_path: Path) -> None:
    with closing(sqlite3.connect(restore_golden_catalog(tmp_path, CATALOG_SCHEMA_VERSION))) as connection:
        rows = connection.execute("SELECT id, position FROM v_sample").fetchall()
        (split_rows,) = connection.execute("SELECT samples FROM v_split WHERE name = 'val'").fetchall()
        parts = connection.execute("SELECT count(*) FROM v_part").fetchone()

    assert all(position == id & ((1 << INDEX_BITS) - 1) for id, position in rows)  # noqa: A001
    assert (len(rows), split_rows, parts) == (6, (2,), (11,))
