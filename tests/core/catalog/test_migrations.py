from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.core.catalog.test_schema import rebuilt, schema_of
from tests.core.dumps import catalog_of, query
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.catalog.identity import VERSION
from wdsctl.core.catalog.migrations import MIGRATIONS, migrate
from wdsctl.core.errors import CatalogError
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.media_request import MediaRequest

TABLES = ("shard", "ext", "sample", "shard_part", "split", "split_shard")


def old(folder: Path, version: int = 1) -> str:
    folder.mkdir(exist_ok=True)
    return rebuilt(folder, version)


def rows(path: str) -> dict[str, list[object]]:
    """What the first version has already."""
    columns = {"shard": "id, path, size, mtime_ns, samples, parts, status, code, layout_hash, added, removed"}
    return {table: query(path, f"SELECT {columns.get(table, '*')} FROM {table} ORDER BY 1, 2") for table in TABLES}


def test_there_is_a_way_from_every_version_to_the_present_one() -> None:
    assert sorted(MIGRATIONS) == list(range(1, VERSION))


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_migrated_catalog_has_the_schema_of_a_new_one_and_the_rows_it_had(tmp_path: Path, version: int) -> None:
    path, new = old(tmp_path / "old", version), old(tmp_path / "new", VERSION)
    before = rows(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection)

    assert schema_of(path) == schema_of(new)
    assert rows(path) == before
    assert query(path, "PRAGMA user_version") == [(VERSION,)]


def test_a_draft_is_migrated_and_what_it_is_a_copy_of_is_not(tmp_path: Path) -> None:
    path = old(tmp_path)
    before = Path(path).read_bytes()
    with drafting(path) as draft:
        assert Path(path).read_bytes() == before
        assert draft.media_settings is None
    assert query(path, "PRAGMA user_version") == [(VERSION,)]
    assert os.listdir(tmp_path) == ["catalog.sqlite"]


def test_an_older_catalog_is_read_as_it_is_and_has_no_facts_of_media(tmp_path: Path) -> None:
    with Catalog(old(tmp_path)) as catalog:
        assert (catalog.media_settings(), catalog.is_media_folder) == (None, False)


def to_version_1(root: str) -> None:
    """Make of a catalog of today, without facts of media, one of version 1."""
    with closing(sqlite3.connect(catalog_of(root), isolation_level=None)) as connection:
        for view in ("v_media", "v_file"):
            connection.execute(f"DROP VIEW {view}")
        for table in (
            "media_form",
            "media",
            "media_shard",
            "media_count",
            "keyframes",
            "file",
            "excluded_shard",
            "former_split",
        ):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP VIEW v_shard")
        connection.execute("ALTER TABLE shard DROP COLUMN sha256")
        connection.execute(
            "CREATE VIEW v_shard AS SELECT id, path, size, samples, parts, status FROM shard WHERE removed IS NULL"
        )
        connection.execute("PRAGMA user_version = 1")


def test_an_older_catalog_that_is_up_to_date_stays_until_something_is_to_be_written(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    to_version_1(root)

    assert index(root).up_to_date
    assert query(catalog_of(root), "PRAGMA user_version") == [(1,)]
    some_shards(tmp_path, 1, first=2)
    assert index(root).added == 1
    assert query(catalog_of(root), "PRAGMA user_version") == [(VERSION,)]


@pytest.mark.parametrize("rebuild", [False, True])
def test_media_are_asked_of_an_older_catalog(tmp_path: Path, rebuild: bool) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    to_version_1(root)
    (tmp_path / "shard-000.tar").unlink()
    report = index(root, media=MediaRequest(selection="jpg"), missing="keep", rebuild=rebuild)

    assert report.media is not None
    assert (report.media.state, report.media.counts) == ("incomplete", {"unreadable": 5})


def test_an_older_catalog_that_is_damaged_is_told_as_such(tmp_path: Path) -> None:
    path = old(tmp_path)
    data = bytearray(Path(path).read_bytes())
    data[100:4096] = b"?" * 3996
    Path(path).write_bytes(data)

    with pytest.raises(CatalogError) as caught, drafting(path):
        pass
    assert caught.value.code == "WDS302"
