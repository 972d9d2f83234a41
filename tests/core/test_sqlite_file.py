"""SQLite gets the path of a file that was opened without following links before, and is the same afterwards."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wdsctl.core.errors import InputError, StorageError, WdsctlError
from wdsctl.core.sqlite_file import open_immutable


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a 100%?#.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (name TEXT)")
        connection.execute("INSERT INTO t VALUES ('one')")
        connection.commit()
    return path


def names_in(path: Path) -> list[tuple[str]]:
    with closing(open_immutable(str(path))) as connection:
        return connection.execute("SELECT name FROM t").fetchall()


def test_open_immutable_reads_and_does_not_write(database: Path) -> None:
    assert names_in(database) == [("one",)]
    with closing(open_immutable(str(database))) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM t")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "missing"])
def test_open_immutable_refuses_other_than_regular_file(database: Path, kind: str) -> None:
    other = database.with_name("other.sqlite")
    if kind == "link":
        other.symlink_to(database)
    elif kind == "pipe":
        os.mkfifo(other)
    elif kind == "folder":
        other.mkdir()

    with pytest.raises(WdsctlError) as error:
        open_immutable(str(other))
    assert isinstance(error.value, InputError if kind in ("link", "pipe") else StorageError)


def test_open_immutable_notices_file_that_is_replaced_meanwhile(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def replace_and_connect(*args: object, **options: object) -> sqlite3.Connection:
        database.rename(database.with_name("before.sqlite"))
        database.symlink_to("before.sqlite")
        return connect(*args, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", replace_and_connect)
    with pytest.raises(StorageError, match="another program replaced the file") as error:
        open_immutable(str(database))
    assert error.value.code == "WDS416"
