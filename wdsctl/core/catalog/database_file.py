"""Opens and checks all SQLite files: catalogs, drafts, ledgers and plans of conversions. Standard library only.

A file that came with a dataset may be hostile. Its schema may contain a trigger that changes written values, an endless
view in place of a table, a virtual table, or a computed column. The defence costs about 0.1 ms:

- Each statement of the schema must equal one of ours, as text. The file may contain no other statement.
- Until this check has passed, SQLite trusts no function that the schema calls, and checks the cells of each page that
  it reads.
- No value is longer than the file, or than `MAX_VALUE_BYTES`.
- If a statement takes many more steps than the file has bytes, the pages of the file are checked. The statement ends if
  a page is used twice, as a tree that contains itself has endlessly many rows. Python handles signals between steps, so
  Ctrl-C ends any statement.
- A journal that names another file is refused, because SQLite would delete that file. `wdsctl/core/sqlite_file.py`
  refuses links.
- Rows of large tables are checked when they are read (`check_row_types`), 0.3 us per row: SQLite stores any value in
  any column.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from typing import Any, Literal, NamedTuple

from wdsctl.core.errors import StorageError
from wdsctl.core.files import open_own
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.sqlite_file import open_immutable, open_in_place

MAX_VALUE_BYTES = 1 << 28  # the history of 20 million groups is one value
_MIN_VALUE_LIMIT_BYTES = 1 << 20  # allowed in any file

_STEPS_PER_CHECK = 50_000  # steps of SQLite's virtual machine between two checks: 1 to 2 ms
_FREE_STEPS = 4_000_000
_STEPS_PER_BYTE = 2  # a row takes about 10 steps, and more bytes than that

#: The errors that the driver raises for a damaged file. The text of the message may be damaged, too.
DATABASE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)

_DISK_FULL_MESSAGES = frozenset({"database or disk is full", "disk I/O error"})

#: The end of a journal that names a super-journal (https://www.sqlite.org/fileformat2.html, "The Rollback Journal").
_SUPER_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")

#: "immutable": the file never changes, so SQLite needs no lock and no journal. "rw": an existing file, for writing or
#: for rolling back the unfinished transaction of a killed run. "rwc": like "rw", and creates a missing file.
OpenMode = Literal["immutable", "rw", "rwc"]

#: Problems with pages, by path. Stored here because SQLite reports only that a statement was interrupted.
_PAGE_PROBLEMS: dict[str, str] = {}

#: The index that a draft creates last. A catalog without rows of samples has none.
KEY_INDEX = "CREATE INDEX sample_key ON sample (key)"

#: A table of old ledgers: the former keys of samples whose raw files were renamed. No code reads or writes it.
_FORMER_KEY_TABLE = (
    "CREATE TABLE former_key (shard TEXT NOT NULL, layout_hash TEXT NOT NULL, keys BLOB NOT NULL, "
    "former BLOB NOT NULL, PRIMARY KEY (shard))"
)

_BLANKS = re.compile(r'[\s"]+')
_SPACED_PUNCTUATION = re.compile(r" ?([(),]) ?")
_CREATE_STATEMENT = re.compile(r'CREATE (TABLE|INDEX|VIEW) (?:IF NOT EXISTS )?("?\w+"?)(?: ON (\w+))?')

#: (type, name, table, statement)
_Entry = tuple[str, ...]


def open_database(
    path: str,
    schema: ExpectedSchema | None,
    mode: OpenMode = "immutable",
    *,
    timeout_seconds: float = 5.0,
    check_same_thread: bool = True,
    source: str = "",
) -> sqlite3.Connection:
    """Open the file at `path` in autocommit mode, and check its schema.

    `schema`: None for a new file, or for one that the caller checks later (`check_database`). `source`: the original if
    this file is a copy, for errors. Raises sqlite3.Error with SQLite's message or ours; `error_text` turns it into one
    line.
    """
    if mode != "immutable":
        _check_journal(path)
        connection = open_in_place(
            path, create=mode == "rwc", timeout_seconds=timeout_seconds, check_same_thread=check_same_thread
        )
    else:
        connection = open_immutable(path, timeout_seconds=timeout_seconds, check_same_thread=check_same_thread)
    try:
        _harden(connection, path, mode, source or path)
        if schema is not None:
            check_database(connection, schema)
    except BaseException:  # Ctrl-C too: no caller has the connection yet, so no caller could close it
        connection.close()
        raise
    return connection


def check_database(connection: sqlite3.Connection, schema: ExpectedSchema) -> None:
    """Raise sqlite3.DatabaseError if the file has more or less than `schema`."""
    try:
        problem = find_schema_problem(connection, schema)
    except UnicodeDecodeError:
        problem = "its schema is not UTF-8"
    if problem:
        raise sqlite3.DatabaseError(problem)
    # The schema is now known to be ours. Its views call JSON functions, for which SQLite requires a trusted schema.
    connection.execute("PRAGMA trusted_schema = ON").close()


def watch_statements(
    connection: sqlite3.Connection,
    path: str,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    size_bytes: int | None = None,
    steps: int = _STEPS_PER_CHECK,
) -> None:
    """End statements when `should_stop` returns True, on Ctrl-C, and if pages of the file at `path` are used twice.

    The pages are checked once, after more steps than a valid file of this size needs.
    """
    size = os.path.getsize(path) if size_bytes is None else size_bytes
    left = (_FREE_STEPS + _STEPS_PER_BYTE * size) // steps

    def look() -> bool:
        nonlocal left
        left -= 1
        if left == 0 and (problem := find_page_problem(path)):
            _PAGE_PROBLEMS[path] = problem
        return should_stop() or (left <= 0 and path in _PAGE_PROBLEMS)

    connection.set_progress_handler(look, steps)


def error_text(path: str, error: BaseException) -> str:
    """The message of one of SQLite's errors, in one line. Raises KeyboardInterrupt if Ctrl-C ended the statement."""
    if str(error) == "interrupted":
        if path not in _PAGE_PROBLEMS:
            raise KeyboardInterrupt from error
        return _PAGE_PROBLEMS[path]
    return " ".join(str(error).split())


def recorded_page_problem(path: str) -> str:
    """The problem with the pages of a file that ended a statement; empty if there was none."""
    return _PAGE_PROBLEMS.get(path, "")


def find_page_problem(path: str) -> str:
    """The problem with the pages of a file; empty if there is none. Reads the whole file."""
    if not os.path.exists(path):
        return ""
    try:
        with closing(open_immutable(path)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(lambda: 0, _STEPS_PER_CHECK)
            problem = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except DATABASE_ERRORS as error:
        return error_text(path, error)
    return "" if problem == "ok" else " ".join(problem.split())


def _harden(connection: sqlite3.Connection, path: str, mode: OpenMode, source: str) -> None:
    size = 0
    with suppress(OSError):
        size = os.path.getsize(path)
    if hasattr(connection, "setlimit"):  # Python 3.11
        most = MAX_VALUE_BYTES if mode != "immutable" else min(MAX_VALUE_BYTES, max(size, _MIN_VALUE_LIMIT_BYTES))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
    watch_statements(connection, source, size_bytes=size)
    connection.execute("PRAGMA trusted_schema = OFF").close()
    connection.execute("PRAGMA cell_size_check = ON").close()


def _check_journal(path: str) -> None:
    """Raise sqlite3.DatabaseError if SQLite would follow a journal to another file."""
    with suppress(FileNotFoundError), open_own(f"{path}-journal") as file:
        if file.seek(0, os.SEEK_END) >= len(_SUPER_JOURNAL_MAGIC):
            file.seek(-len(_SUPER_JOURNAL_MAGIC), os.SEEK_END)
            if file.read(len(_SUPER_JOURNAL_MAGIC)) == _SUPER_JOURNAL_MAGIC:
                raise sqlite3.DatabaseError(f"{os.path.basename(path)}-journal beside it names another file")


@contextmanager
def savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep all that the block writes, or roll all of it back if the block raises."""
    connection.execute("SAVEPOINT block")
    try:
        yield
    except BaseException:  # Ctrl-C too: the caller may continue to use its connection
        if connection.in_transaction:  # if the disk is full, SQLite may have rolled back already
            connection.execute("ROLLBACK TO block")
            connection.execute("RELEASE block")
        raise
    connection.execute("RELEASE block")


@contextmanager
def translate_disk_full(failure: str) -> Iterator[None]:
    """Raise StorageError WDS401, with `failure` and the reason, if the disk is too full to write or sort temporary rows
    in the block."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not is_disk_full(error):
            raise
        raise StorageError(
            f"{failure}: {error}",
            where=temporary_folder(),
            hint="free some space in that folder, or set another one: SQLITE_TMPDIR=DIR",
            code="WDS401",
        ) from error


def is_disk_full(error: sqlite3.Error | sqlite3.Warning) -> bool:
    """Whether SQLite had no space left. No query can cause an error with one of these messages."""
    return str(error) in _DISK_FULL_MESSAGES


def temporary_folder() -> str:
    """The folder of SQLite's temporary files: its first candidate, in SQLite's order, that is writable."""
    configured = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"))
    for folder in (*filter(None, configured), "/var/tmp", "/usr/tmp", "/tmp"):  # noqa: S108 - SQLite's own list
        if os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return os.curdir


class ExpectedSchema(NamedTuple):
    """The schema that a file is compared with: entries that it may have, and the names of those that it must have."""

    allowed: frozenset[_Entry]  # as SQLite stores them after it ran our statements
    needed: frozenset[str]


def catalog_statements() -> list[str]:
    """The SQL that creates the tables and views of a catalog. `docs/schema_text.py` writes it from `schema.py`, because
    SQLAlchemy is slow to import.
    """
    return _read_statements("catalog.sql")


def ledger_statements() -> list[str]:
    """The SQL that creates the tables of a ledger, each if it does not exist."""
    return _read_statements("ledger.sql")


def _read_statements(name: str) -> list[str]:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read().split(";\n")[:-1]


@cache
def catalog_schema() -> ExpectedSchema:
    return parse_schema(catalog_statements(), optional=(KEY_INDEX,))


@cache
def ledger_schema() -> ExpectedSchema:
    return parse_schema(ledger_statements(), optional=(_FORMER_KEY_TABLE,))


def parse_schema(statements: Iterable[str], *, optional: Iterable[str] = ()) -> ExpectedSchema:
    """The schema that these statements create. A file may lack what the `optional` statements create."""
    needed = frozenset(_entry(statement.strip()) for statement in statements if statement.strip())
    return ExpectedSchema(needed.union(map(_entry, optional)), frozenset(name for _, name, _, _ in needed))


def find_schema_problem(connection: sqlite3.Connection, schema: ExpectedSchema) -> str:
    """The first difference between the schema of a file and ours; empty if they are equal."""
    found = connection.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master").fetchall()
    for kind, name, table, statement, _ in found:
        # The index of a PRIMARY KEY or UNIQUE: SQLite itself refuses one that its table does not declare.
        is_automatic = statement is None and kind == "index" and str(name).startswith("sqlite_autoindex_")
        entry = (kind, name, table, str(statement).rstrip())
        if not (is_automatic or entry in schema.allowed or _normalize_entry(entry) in _normalized_entries(schema)):
            return f"it has the {kind} {name!r:.60}, which wdsctl did not create"
    roots = [page for *_, page in found if page]
    if len(set(roots)) != len(roots):
        return "two of its tables share pages"
    missing = schema.needed.difference(entry[1] for entry in found)
    return f"{min(missing)} is missing" if missing else ""


def _entry(statement: str) -> _Entry:
    match = _CREATE_STATEMENT.match(statement)
    if match is None:
        raise ValueError(statement)
    kind, name, table = match.groups()
    name = name.strip('"')
    return kind.lower(), name, table or name, statement.replace("IF NOT EXISTS ", "", 1)


@cache
def _normalized_entries(schema: ExpectedSchema) -> frozenset[_Entry]:
    return frozenset(map(_normalize_entry, schema.allowed))


def _normalize_entry(entry: _Entry) -> _Entry:
    """The entry with its statement normalized: a dump may change blanks and quotation marks."""
    return *entry[:3], _SPACED_PUNCTUATION.sub(r"\1", _BLANKS.sub(" ", str(entry[3]))).strip()


#: "count": an integer from 0. "shard": a shard id. "name": a text of one line. With "?" it may be null.
ValueType = Literal[
    "int", "count", "shard", "text", "name", "blob", "number", "int?", "count?", "text?", "blob?", "number?"
]

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "count": (int,),
    "shard": (int,),
    "text": (str,),
    "name": (str,),
    "blob": (bytes,),
    "number": (int, float),
}
SHARD_ID_LIMIT = 1 << 63 - INDEX_BITS  # sample ids have 64 bits, with a sign


def check_row_types(rows: Iterable[tuple[Any, ...]], *types: ValueType) -> Iterator[tuple[Any, ...]]:
    """Yield the rows and check them. Raises sqlite3.DatabaseError for a value of another type than its column."""
    counts = [i for i, kind in enumerate(types) if kind.rstrip("?") in ("count", "shard")]
    shards = [i for i, kind in enumerate(types) if kind == "shard"]
    names = [i for i, kind in enumerate(types) if kind == "name"]
    good: set[tuple[type, ...]] = set()
    for row in rows:
        shape = tuple(map(type, row))
        if shape not in good:
            _check_types(shape, types)
            good.add(shape)
        for i in counts:
            if row[i] is not None and row[i] < 0:
                raise sqlite3.DatabaseError(f"a count is {row[i]}")
        for i in shards:
            if row[i] >= SHARD_ID_LIMIT:
                raise sqlite3.DatabaseError(f"a shard has the invalid number {row[i]}")
        for i in names:
            if not is_one_line(row[i]):
                raise sqlite3.DatabaseError(f"a name is {row[i]!r:.60}")
        yield row


def is_one_line(name: str) -> bool:
    """Whether a name has no control characters, which could control a terminal or end a name early."""
    return name.isprintable() or not any(character < " " or character == "\x7f" for character in name)


def _check_types(shape: tuple[type, ...], types: tuple[ValueType, ...]) -> None:
    for found, kind in zip(shape, types, strict=True):
        if found is type(None):
            if not kind.endswith("?"):
                raise sqlite3.DatabaseError("a value is missing")
        elif found not in _TYPES[kind.rstrip("?")]:
            raise sqlite3.DatabaseError(f"a value is of type {found.__name__}, expected {kind.rstrip('?')}")
