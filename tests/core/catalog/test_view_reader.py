from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from wdsctl.core.catalog.ledger import Ledger, StoredView, ViewShard, drop_view, read_view, read_views, store_view
from wdsctl.core.errors import CatalogError

VIEW = StoredView("big", '{"where": "size > 1"}', "2026-01-01T00:00:00+00:00", 3, 5, "0" * 32)
PARTS = [ViewShard("a.tar", "la", 3, None), ViewShard("b.tar", "lb", 2, b"\x05")]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    path = str(tmp_path / "ledger.sqlite")
    with Ledger.open(path) as opened:
        assert store_view(opened, VIEW, PARTS, replace=False)
    return path


def test_a_view_comes_back_as_it_was_put(ledger: str) -> None:
    assert read_view(ledger, "big") == (VIEW, PARTS)
    assert read_views(ledger) == [VIEW]
    assert read_view(ledger, "other") is None


def test_a_view_takes_the_place_of_another_only_if_asked(ledger: str) -> None:
    other = VIEW._replace(samples=1, hash="1" * 32)
    with Ledger.open(ledger) as opened:
        assert not store_view(opened, other, PARTS[:1], replace=False)
        assert read_view(ledger, "big") == (VIEW, PARTS)
        assert store_view(opened, other, PARTS[:1], replace=True)
    assert read_view(ledger, "big") == (other, PARTS[:1])


def test_a_view_that_cannot_be_put_leaves_the_one_that_was_there(ledger: str) -> None:
    twice = [PARTS[0], PARTS[0]]
    with Ledger.open(ledger) as opened, pytest.raises(CatalogError):
        store_view(opened, VIEW._replace(samples=9), twice, replace=True)
    assert read_view(ledger, "big") == (VIEW, PARTS)


def test_a_view_is_forgotten_with_its_shards(ledger: str) -> None:
    with Ledger.open(ledger) as opened:
        assert drop_view(opened, "big")
        assert not drop_view(opened, "big")
    assert read_views(ledger) == []
    with closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("SELECT count(*) FROM view_shard").fetchone() == (0,)


@pytest.mark.parametrize("content", [None, b""])
def test_where_there_is_no_ledger_there_are_no_views(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ledger.sqlite"
    if content is not None:
        path.write_bytes(content)
    assert read_views(str(path)) == []
    assert read_view(str(path), "big") is None


def test_a_damaged_ledger_is_an_error_of_ours(ledger: str) -> None:
    Path(ledger).write_bytes(b"nonsense" * 1000)
    with pytest.raises(CatalogError, match="which stores the views") as raised:
        read_views(ledger)
    assert raised.value.code == "WDS302"


def test_a_ledger_of_a_newer_version_is_refused(ledger: str) -> None:
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(CatalogError, match="schema version 99"):
        read_view(ledger, "big")


def test_what_a_killed_run_left_half_written_is_rolled_back(ledger: str) -> None:
    script = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE');"
        "c.execute('DELETE FROM view_shard');"
        "c.executemany('INSERT INTO view_shard VALUES (?, ?, ?, 1, ?)',"
        " ((str(i), 's', 'l', bytes(3000)) for i in range(300))); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, ledger], check=False).returncode == 9
    assert os.path.exists(f"{ledger}-journal")
    assert read_view(ledger, "big") == (VIEW, PARTS)


def test_reading_views_takes_no_sqlalchemy() -> None:
    script = "import sys, wdsctl.core.views.selections; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
