from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wdsctl.core.catalog.database_file import temporary_folder, translate_disk_full
from wdsctl.core.errors import StorageError


def test_translate_disk_full_names_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    with closing(sqlite3.connect("")) as connection:
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute("CREATE TABLE t (x)")
        words = "keys cannot be sorted: database or disk is full"
        with pytest.raises(StorageError, match=words) as caught, translate_disk_full("keys cannot be sorted"):
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert (caught.value.code, caught.value.where) == ("WDS401", str(tmp_path))


def test_temporary_folder_is_first_choice_of_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_folder() == str(tmp_path)
    monkeypatch.delenv("SQLITE_TMPDIR")
    monkeypatch.delenv("TMPDIR")
    assert temporary_folder() in ("/var/tmp", "/usr/tmp", "/tmp", ".")  # noqa: S108 - SQLite's own list


def test_translate_disk_full_keeps_other_errors() -> None:
    with (
        closing(sqlite3.connect("")) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table: full_disk"),
        translate_disk_full("keys cannot be sorted"),
    ):
        connection.execute("SELECT 1 FROM full_disk")
