from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wdsctl.core.catalog.database_file import temporary_folder, translate_disk_full
from wdsctl.core.errors import StorageError


def test_a_full_disk_is_told_with_the_folder_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with closing(sqlite3.connect("")) as connection:
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute("CREATE TABLE t (x)")
        words = "keys cannot be sorted: database or disk is full"
        with pytest.raises(StorageError, match=words) as caught, translate_disk_full("keys cannot be sorted"):
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert (caught.value.code, caught.value.where) == ("WDS401", str(tmp_path))


def test_the_folder_is_the_first_that_sqlite_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_folder() == str(tmp_path)
    monkeypatch.delenv("SQLITE_TMPDIR")
    monkeypatch.delenv("TMPDIR")
    assert temporary_folder() in ("/var/tmp", "/usr/tmp", "/tmp", ".")  # noqa: S108 - SQLite's own list


def test_other_errors_stay_as_they_are() -> None:
    with (
        closing(sqlite3.connect("")) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table: full_disk"),
        translate_disk_full("keys cannot be sorted"),
    ):
        connection.execute("SELECT 1 FROM full_disk")
