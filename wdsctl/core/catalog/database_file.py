"""The one way to SQLite files: catalogs, drafts, ledgers and plans are opened and checked here.

A file that came with a dataset may have been made to harm. What is done about that, for some 0.1 ms:

- its schema must be ours (`own_schema.py`): no triggers, no views in the place of tables, no virtual tables;
- until that is known, SQLite trusts nothing that the schema calls; it looks at the cells of each page it reads;
- no value is longer than the file, or than `LONGEST`;
- a statement that takes many more steps than the file has bytes has its pages checked, and ends where one of them is
  used twice: a tree that refers to itself has more rows than there is time. Python handles signals meanwhile, so that
  Ctrl-C ends every statement;
- a journal that names another file is refused: SQLite would delete that file, wherever it is; links are, by
  `wdsctl/core/sqlite_file.py`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Literal
from urllib.parse import quote

from wdsctl.core.catalog.own_schema import OwnSchema, foreign_entry
from wdsctl.core.sqlite_file import open_in_place

LONGEST = 1 << 28  # bytes of one value: a draft may have to write what 20 million groups are remembered by
_SHORT = 1 << 20  # bytes that a value may have in any file

_STEPS = 50_000  # of SQLite's machine between two looks: 1 to 2 ms
_FREE_STEPS = 4_000_000
_STEPS_A_BYTE = 2  # a row takes some 10, and more bytes than that

#: How a journal ends that names a super-journal (https://www.sqlite.org/fileformat2.html, "The Rollback Journal").
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")

#: "immutable": it never changes where it lies, so there is no lock and no journal. "rw": a file that is there, which is
#: written, or rolled back where a killed run left it half-written. "rwc": it is made where it is not there.
Mode = Literal["immutable", "rw", "rwc"]

#: What is wrong with pages, by path: SQLite tells no more than that a statement was interrupted.
_UNSOUND: dict[str, str] = {}


def uri_of(path: str) -> str:
    return f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"


def open_database(
    path: str,
    schema: OwnSchema | None,
    mode: Mode = "immutable",
    *,
    timeout_seconds: float = 5.0,
    check_same_thread: bool = True,
    source: str = "",
) -> sqlite3.Connection:
    """A connection to the file at `path`, in autocommit, which has no more than `schema`.

    `schema`: None for a file that is new, or is checked later (`check_database`). `source`: the file that this one is a
    copy of, where it is being written. Raises sqlite3.Error, in SQLite's words or in ours; `error_of` tells what that
    means.
    """
    if mode != "immutable":
        _check_journal(path)
        connection = open_in_place(
            path, make=mode == "rwc", timeout_seconds=timeout_seconds, check_same_thread=check_same_thread
        )
    else:
        connection = sqlite3.connect(
            uri_of(path),
            uri=True,
            timeout=timeout_seconds,
            isolation_level=None,
            check_same_thread=check_same_thread,
        )
    try:
        _harden(connection, path, mode, source or path)
        if schema is not None:
            check_database(connection, schema)
    except BaseException:  # Ctrl-C too: nobody else has the connection yet, so nobody else would close it
        connection.close()
        raise
    return connection


def check_database(connection: sqlite3.Connection, schema: OwnSchema) -> None:
    """Raise sqlite3.DatabaseError where the file has more than `schema`, or less."""
    said = foreign_entry(connection, schema)
    if said:
        raise sqlite3.DatabaseError(said)
    # All that it calls is ours from here on: a view of parts takes JSON apart, for which SQLite asks to be trusted.
    connection.execute("PRAGMA trusted_schema = ON").close()


def watch_statements(
    connection: sqlite3.Connection,
    path: str,
    is_over: Callable[[], bool] = lambda: False,
    *,
    size_bytes: int | None = None,
    steps: int = _STEPS,
) -> None:
    """Have statements end where `is_over` says so, on Ctrl-C, or where pages of the file at `path` are used twice.

    Pages are checked once, when there have been more steps than an honest file of its size needs.
    """
    size = os.path.getsize(path) if size_bytes is None else size_bytes
    left = (_FREE_STEPS + _STEPS_A_BYTE * size) // steps

    def look() -> bool:
        nonlocal left
        left -= 1
        if left == 0 and (said := page_problem(path)):
            _UNSOUND[path] = said
        return is_over() or (left <= 0 and path in _UNSOUND)

    connection.set_progress_handler(look, steps)


def error_of(path: str, error: BaseException) -> str:
    """What an error of SQLite says, in one line. Raises KeyboardInterrupt where Ctrl-C ended a statement."""
    if str(error) == "interrupted":
        if path not in _UNSOUND:
            raise KeyboardInterrupt from error
        return _UNSOUND[path]
    return " ".join(str(error).split())


def unsound(path: str) -> str:
    """What was found wrong with the pages of a file when a statement of it was ended; empty where nothing was."""
    return _UNSOUND.get(path, "")


def page_problem(path: str) -> str:
    """What is wrong with the pages of a file that nobody writes, all of which is read; empty where nothing is."""
    if not os.path.exists(path):
        return ""
    try:
        with closing(sqlite3.connect(uri_of(path), uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(lambda: 0, _STEPS)
            said = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return error_of(path, error)
    return "" if said == "ok" else " ".join(said.split())


def _harden(connection: sqlite3.Connection, path: str, mode: Mode, source: str) -> None:
    size = 0
    with suppress(OSError):
        size = os.path.getsize(path)
    if hasattr(connection, "setlimit"):  # Python 3.11
        most = LONGEST if mode != "immutable" else min(LONGEST, max(size, _SHORT))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
    watch_statements(connection, source, size_bytes=size)
    connection.execute("PRAGMA trusted_schema = OFF").close()
    connection.execute("PRAGMA cell_size_check = ON").close()


def _check_journal(path: str) -> None:
    """Raise sqlite3.DatabaseError where SQLite would follow a journal to another file."""
    with suppress(FileNotFoundError), open(f"{path}-journal", "rb") as file:
        if file.seek(0, os.SEEK_END) >= len(_NAMES_ANOTHER):
            file.seek(-len(_NAMES_ANOTHER), os.SEEK_END)
            if file.read() == _NAMES_ANOTHER:
                raise sqlite3.DatabaseError(f"{os.path.basename(path)}-journal beside it names another file")
