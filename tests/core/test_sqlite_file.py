"""SQLite gets the path of a file that was opened without following links before, and is the same afterwards."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from wdsctl.core.errors import InputError, StorageError, WdsctlError
from wdsctl.core.sqlite_file import open_immutable, open_in_place


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


@pytest.mark.parametrize("open_file", [open_immutable, open_in_place])
def test_file_that_is_replaced_only_while_sqlite_opens_it_is_refused(
    database: Path, monkeypatch: pytest.MonkeyPatch, open_file: Callable[[str], sqlite3.Connection]
) -> None:
    """Also if another connection of this process has the file open."""
    connect = sqlite3.connect
    other = database.with_name("other.sqlite")
    other.write_bytes(database.read_bytes())

    def swap_and_connect(*args: object, **options: object) -> sqlite3.Connection:
        database.rename(database.with_name("before.sqlite"))
        database.symlink_to("other.sqlite")
        try:
            return connect(*args, **options)  # type: ignore[call-overload,no-any-return]
        finally:
            database.with_name("before.sqlite").rename(database)

    with closing(open_file(str(database))):
        monkeypatch.setattr(sqlite3, "connect", swap_and_connect)
        with pytest.raises(StorageError, match="another program replaced the file"):
            open_file(str(database))
        monkeypatch.undo()
        with closing(open_file(str(database))) as connection:
            assert connection.execute("SELECT name FROM t").fetchall() == [("one",)]


def test_descriptor_that_sqlite_uses_again_is_accepted(database: Path) -> None:
    with closing(open_in_place(str(database))) as writer:
        closed = open_in_place(str(database))
        writer.execute("BEGIN IMMEDIATE")
        closed.close()  # SQLite keeps its descriptor: closing it would end the lock
        with closing(open_in_place(str(database))) as connection:
            assert connection.execute("SELECT name FROM t").fetchall() == [("one",)]


def test_threads_open_a_file_at_the_same_time(database: Path) -> None:
    def read(_: int) -> list[tuple[str]]:
        with closing(open_in_place(str(database))) as connection, database.open("rb"):
            return [*names_in(database), *connection.execute("SELECT name FROM t")]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(400))) == [[("one",), ("one",)]] * 400
