from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests import children
from tests.core.catalog.readers import read_view, read_views
from wdsctl.core.catalog.ledger import Ledger, StoredView, ViewShard, drop_view, store_view
from wdsctl.core.errors import CatalogError

VIEW = StoredView("big", '{"where": "size > 1"}', "2026-01-01T00:00:00+00:00", 3, 5, "0" * 32)
PARTS = [ViewShard("a.tar", "la", 3, None), ViewShard("b.tar", "lb", 2, b"\x05")]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.sqlite")
    with Ledger.open(path) as open_ledger:
        assert store_view(open_ledger, VIEW, PARTS, replace=False)
    return path


def test_stored_view_is_read_back(ledger: str) -> None:
    assert read_view(ledger, "big") == (VIEW, PARTS)
    assert read_views(ledger) == [VIEW]
    assert read_view(ledger, "other") is None


def test_store_view_replaces_existing_view_only_on_request(ledger: str) -> None:
    other = VIEW._replace(samples=1, hash="1" * 32)
    with Ledger.open(ledger) as open_ledger:
        assert not store_view(open_ledger, other, PARTS[:1], replace=False)
        assert read_view(ledger, "big") == (VIEW, PARTS)
        assert store_view(open_ledger, other, PARTS[:1], replace=True)
    assert read_view(ledger, "big") == (other, PARTS[:1])


def test_failed_store_view_keeps_existing_view(ledger: str) -> None:
    duplicated = [PARTS[0], PARTS[0]]
    with Ledger.open(ledger) as open_ledger, pytest.raises(CatalogError):
        store_view(open_ledger, VIEW._replace(samples=9), duplicated, replace=True)
    assert read_view(ledger, "big") == (VIEW, PARTS)


def test_drop_view_removes_its_shards(ledger: str) -> None:
    with Ledger.open(ledger) as open_ledger:
        assert drop_view(open_ledger, "big")
        assert not drop_view(open_ledger, "big")
    assert read_views(ledger) == []
    with closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("SELECT count(*) FROM view_shard").fetchone() == (0,)


@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_ledger_has_no_views(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ledger.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert read_views(str(path)) == []
    assert read_view(str(path), "big") is None


def test_damaged_ledger_raises_catalog_error(ledger: str) -> None:
    Path(ledger).write_bytes(b"nonsense" * 1000)
    with pytest.raises(CatalogError, match="which stores the views") as raised:
        read_views(ledger)
    assert raised.value.code == "WDS302"


def test_ledger_of_newer_version_is_refused(ledger: str) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(CatalogError, match="schema version 99"):
        read_view(ledger, "big")


def test_partial_write_of_killed_run_is_rolled_back(ledger: str) -> None:
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE');"
        "c.execute('DELETE FROM view_shard');"
        "c.executemany('INSERT INTO view_shard VALUES (?, ?, ?, 1, ?)',"
        " ((str(i), 's', 'l', bytes(3000)) for i in range(300))); os._exit(9)"
    )
    assert children.run([sys.executable, "-c", script, ledger], check=False).returncode == 9
    assert os.path.exists(f"{ledger}-journal")
    assert read_view(ledger, "big") == (VIEW, PARTS)


def test_reading_views_does_not_import_sqlalchemy() -> None:
    script = "import sys, wdsctl.core.views.selections; print('sqlalchemy' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"
