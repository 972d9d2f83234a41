"""Attacks with SQLite files: each takes an intact file and turns it into a hostile one."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Attack = Callable[[Path], None]

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT"


def statements(*texts: str) -> Attack:
    """Execute SQL statements on the file."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for text in texts:
                connection.execute(text)

    return attack


def schema_of(name: str, old: str, new: str) -> Attack:
    """Change the text of the statement of a table, an index or a view."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            changed = connection.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ? AND instr(sql, ?)",
                (old, new, name, old),
            )
            assert changed.rowcount == 1

    return attack


def replace_table_by_endless_view(table: str, columns: str) -> Attack:
    """Replace a table by a view that never ends."""
    view = f"CREATE VIEW {table} AS {_ENDLESS} {columns} FROM n"

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"DROP TABLE {table}")
            connection.execute(view)

    return attack


def share_root_page(table: str, other: str) -> Attack:
    """Make two tables use the same pages."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            query = "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = ?)"
            connection.execute(f"{query} WHERE name = ?", (other, table))

    return attack


def make_tree_cyclic(table: str, *, levels: int = 12) -> Attack:
    """Make each page refer to the page of the next level many times: some 10^25 rows in a few pages."""

    def attack(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            (page,) = connection.execute("PRAGMA page_size").fetchone()
        data = bytearray(path.read_bytes())
        leaf = bytes(data[(root - 1) * page : root * page])
        first_new = len(data) // page + 1
        numbers = [root, *range(first_new, first_new + levels - 1)]
        data += bytes(page * levels)
        for number, child in zip(numbers, [*numbers[1:], first_new + levels - 1], strict=True):
            count = 200
            head = struct.pack(">BHHHBI", 5, 0, count, page - 5 * count, 0, child)
            ends = b"".join(struct.pack(">H", page - 5 * (i + 1)) for i in range(count))
            cells = struct.pack(">IB", child, 1) * count
            data[(number - 1) * page : number * page] = (head + ends).ljust(page - len(cells), b"\0") + cells
        data[-page:] = leaf
        data[28:32] = struct.pack(">I", len(data) // page)
        path.write_bytes(data)

    return attack


def insert_oversized_value(path: Path) -> None:
    """Insert a value whose chain of pages is a loop: 100 MB in a file of a few pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        pages = path.stat().st_size // 4096
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", ("1" * 100_000_000,))
    data = bytearray(path.read_bytes()[: (pages + 8) * 4096])
    for number in range(pages + 1, pages + 9):  # pages of the chain, which may begin at any of them
        at = (number - 1) * 4096
        data[at : at + 4] = struct.pack(">I", number)
    data[28:32] = struct.pack(">I", len(data) // 4096)
    path.write_bytes(data)


def journal_naming(victim: Path) -> Attack:
    """Add a journal that claims a super-journal: SQLite would delete the file that it names."""

    def attack(path: Path) -> None:
        magic = bytes.fromhex("d9d505f920a163d7")
        pages = path.stat().st_size // 4096
        head = (magic + struct.pack(">IIIII", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
        name = str(victim).encode()
        tail = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
        path.with_name(path.name + "-journal").write_bytes(head + tail)

    return attack


#: The attacks on a catalog, by name.
ATTACKS: dict[str, Attack] = {
    "a view that never ends in the place of the shards": replace_table_by_endless_view(
        "shard", "1 AS id, '' AS path, 1 AS size, 1 AS samples, 'ok' AS status, NULL AS removed"
    ),
    "a view that never ends in the place of the facts": replace_table_by_endless_view(
        "meta", "'generation' key, '1' value"
    ),
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
    "two tables in one place": share_root_page("former_split", "excluded_shard"),
    "a tree of shards that holds itself": make_tree_cyclic("shard"),
    "a tree of facts that holds itself": make_tree_cyclic("sample"),
    "a value longer than the file": insert_oversized_value,
}
