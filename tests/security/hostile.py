"""SQLite files as somebody makes them who means harm: each takes a sound file, and leaves another in its place."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Attack = Callable[[Path], None]

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT"


def statements(*texts: str) -> Attack:
    """What SQL itself can do."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for text in texts:
                connection.execute(text)

    return attack


def schema_of(name: str, old: str, new: str) -> Attack:
    """Another text in the statement of a table, an index or a view."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            changed = connection.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ? AND instr(sql, ?)",
                (old, new, name, old),
            )
            assert changed.rowcount == 1

    return attack


def a_view_in_the_place_of(table: str, columns: str) -> Attack:
    """A table becomes a view that never ends."""
    view = f"CREATE VIEW {table} AS {_ENDLESS} {columns} FROM n"

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"DROP TABLE {table}")
            connection.execute(view)

    return attack


def one_place_for(table: str, other: str) -> Attack:
    """Two tables of the same pages."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            query = "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = ?)"
            connection.execute(f"{query} WHERE name = ?", (other, table))

    return attack


def a_tree_that_holds_itself(table: str, *, levels: int = 12) -> Attack:
    """Each page of a level refers to the page of the next one, many times: some 10^25 rows in a few pages."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            (page,) = connection.execute("PRAGMA page_size").fetchone()
        data = bytearray(path.read_bytes())
        leaf = bytes(data[(root - 1) * page : root * page])
        first_new = len(data) // page + 1
        places = [root, *range(first_new, first_new + levels - 1)]
        data += bytes(page * levels)
        for here, below in zip(places, [*places[1:], first_new + levels - 1], strict=True):
            count = 200
            head = struct.pack(">BHHHBI", 5, 0, count, page - 5 * count, 0, below)
            ends = b"".join(struct.pack(">H", page - 5 * (i + 1)) for i in range(count))
            cells = struct.pack(">IB", below, 1) * count
            data[(here - 1) * page : here * page] = (head + ends).ljust(page - len(cells), b"\0") + cells
        data[-page:] = leaf
        data[28:32] = struct.pack(">I", len(data) // page)
        path.write_bytes(data)

    return attack


def a_value_longer_than_the_file(path: Path) -> None:
    """A chain of pages that goes on with its first page: a value of 100 MB in a file of a few pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        pages = path.stat().st_size // 4096
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", ("1" * 100_000_000,))
    data = bytearray(path.read_bytes()[: (pages + 8) * 4096])
    for number in range(pages + 1, pages + 9):  # of the chain; it may begin at any of them
        at = (number - 1) * 4096
        data[at : at + 4] = struct.pack(">I", number)
    data[28:32] = struct.pack(">I", len(data) // 4096)
    path.write_bytes(data)


def a_journal_that_names(victim: Path) -> Attack:
    """Beside the file a journal that says that it is one of several: SQLite deletes the file that names them all."""

    def attack(path: Path) -> None:
        magic = bytes.fromhex("d9d505f920a163d7")
        pages = path.stat().st_size // 4096
        head = (magic + struct.pack(">IIIII", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
        name = str(victim).encode()
        tail = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
        path.with_name(path.name + "-journal").write_bytes(head + tail)

    return attack


#: What is done to a catalog.
ATTACKS: dict[str, Attack] = {
    "a view that never ends in the place of the shards": a_view_in_the_place_of(
        "shard", "1 AS id, '' AS path, 1 AS size, 1 AS samples, 'ok' AS status, NULL AS removed"
    ),
    "a view that never ends in the place of the facts": a_view_in_the_place_of("meta", "'generation' key, '1' value"),
    "a trigger": statements("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM shard; END"),
    "a table more": statements("CREATE TABLE more (a)"),
    "a view more": statements("CREATE VIEW more AS SELECT 1"),
    "an index more": statements("CREATE INDEX more ON shard (abs(size))"),
    "a virtual table": statements("CREATE VIRTUAL TABLE more USING fts5(a)"),
    "statistics": statements("ANALYZE"),
    "a column more": statements("ALTER TABLE shard ADD COLUMN more"),
    "a column that is worked out": statements("ALTER TABLE shard ADD COLUMN more AS (zeroblob(400000000))"),
    "a default": schema_of("shard", "sha256 TEXT", "sha256 TEXT DEFAULT (hex(zeroblob(400000000)))"),
    "a check": schema_of("meta", "value TEXT NOT NULL", "value TEXT NOT NULL CHECK (load_extension('x') IS NULL)"),
    "a view of ours with other words": schema_of("v_shard", "FROM shard", "FROM shard, shard AS s, shard AS t"),
    "a table that is missing": statements("DROP TABLE former_split"),
    "two tables in one place": one_place_for("former_split", "excluded_shard"),
    "a tree of shards that holds itself": a_tree_that_holds_itself("shard"),
    "a tree of facts that holds itself": a_tree_that_holds_itself("sample"),
    "a value longer than the file": a_value_longer_than_the_file,
}
