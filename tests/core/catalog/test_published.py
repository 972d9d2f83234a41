from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.build import some_shards
from wdsctl.core.catalog.open_catalog import connect_catalog, open_catalog_connection
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


def test_catalog_connection_is_read_only_and_accepts_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "a folder? of 100% # & odd names"
    folder.mkdir()
    root = some_shards(folder, 1)
    index(root)
    with open_catalog_connection(locate(root).catalog_path) as connection:
        assert connection.execute("SELECT count(*) FROM shard").fetchone() == (1,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM shard")


def test_reader_leaves_no_files_next_to_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    place = locate(root)
    before = sorted(os.listdir(os.path.dirname(place.catalog_path)))
    with closing(connect_catalog(place.catalog_path)) as connection:
        connection.execute("SELECT * FROM sample").fetchall()
        assert sorted(os.listdir(os.path.dirname(place.catalog_path))) == before


def test_damage_found_while_reading_raises_catalog_error(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    path = Path(locate(root).catalog_path)
    data = bytearray(path.read_bytes())
    data[100:4096] = bytes(4096 - 100)
    path.write_bytes(data)
    with pytest.raises(CatalogError) as caught, open_catalog_connection(str(path)) as connection:
        connection.execute("SELECT * FROM meta").fetchall()
    assert caught.value.code == "WDS302"
