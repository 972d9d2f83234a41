"""What `wdsctl sql` can read: the views of the catalog, and those of the ledger beside it. Read-only, with a guard."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from wdsctl.core.catalog.database_file import error_of
from wdsctl.core.catalog.identity import DAMAGE, damaged
from wdsctl.core.catalog.line_rows import with_rows
from wdsctl.core.catalog.published import connect
from wdsctl.core.catalog.row_view import MASK
from wdsctl.core.catalog.schema import VIEWS
from wdsctl.core.catalog.view_reader import stored_views
from wdsctl.core.errors import CatalogError
from wdsctl.core.place import Place
from wdsctl.core.query_guard import OTHERS, SCALARS, Guard
from wdsctl.core.sample_id import INDEX_BITS
from wdsctl.core.splitting import SplitShard

#: Views beside those of the catalog: what they read, the table that they need, and their columns.
MORE_VIEWS: dict[str, tuple[str, str]] = {
    "v_excluded": (
        "main.excluded_shard",
        "SELECT path AS shard, e.samples FROM main.excluded_shard AS e JOIN main.shard AS s ON s.id = e.shard",
    ),
    "v_run": (
        "ledger.run",
        "SELECT id, command, argv, version, started_at, finished_at, status, details FROM ledger.run",
    ),
    "v_finding": (
        "ledger.finding",
        "SELECT run_id, code, severity, shard, key, part, byte_offset AS offset, count, message FROM ledger.finding",
    ),
    "v_view": (
        "ledger.view",
        "SELECT name, expression AS definition, created_at, generation, samples, hash FROM ledger.view",
    ),
    "v_quarantine": (
        "ledger.quarantine",
        "SELECT shard, place AS position, key, code, run_id FROM ledger.quarantine",
    ),
}
#: Their columns: where a table is not there, a view without rows has them.
MORE_COLUMNS: dict[str, tuple[str, ...]] = {
    "v_excluded": ("shard", "samples"),
    "v_run": ("id", "command", "argv", "version", "started_at", "finished_at", "status", "details"),
    "v_finding": ("run_id", "code", "severity", "shard", "key", "part", "offset", "count", "message"),
    "v_view": ("name", "definition", "created_at", "generation", "samples", "hash"),
    "v_quarantine": ("shard", "position", "key", "code", "run_id"),
}
#: Those that have a row a sample or part, which a view of the dataset narrows.
NARROWED = ("v_sample", "v_part", "v_media")


@dataclass(frozen=True, slots=True)
class Readable:
    """A connection that reads the documented views and nothing else.

    `lacks_rows`: there are samples without rows. `note`: what cannot be read, and why.
    """

    connection: sqlite3.Connection
    guard: Guard
    lacks_rows: bool
    note: str = ""


def open_readable(
    place: Place,
    chosen: Mapping[int, SplitShard] | None = None,
    *,
    needs_rows: bool = True,
    look: Callable[[], None] | None = None,
) -> Readable:
    """The catalog and ledger of a dataset, for users' SQL. `chosen`: the samples that there are to be, if not all.

    `needs_rows`: whether anything is asked of single samples, for which those of lines get their rows. `look`: called
    now and then meanwhile; what it raises ends it. Raises CatalogError WDS301, WDS302, WDS303 for the catalog,
    StorageError WDS401 where there is no room for rows; a ledger that cannot be read is a note.
    """
    connection = connect(place.catalog)
    try:
        if needs_rows:
            connection = with_rows(connection, place.catalog, look)
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        note = _attach(connection, place.ledger)
        for name, (table, query) in MORE_VIEWS.items():
            connection.execute(f"CREATE TEMP VIEW {name} AS {query if _has(connection, table) else _nothing(name)}")
        if chosen is not None:
            _narrow(connection, chosen)
        there = {row[0] for row in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'view'")}
        query = (
            "SELECT (SELECT total(samples) FROM shard WHERE removed IS NULL) > 0 AND NOT EXISTS (SELECT 1 FROM sample)"
        )
        lacks_rows = bool(connection.execute(query).fetchone()[0])
        names = [*(name for name in VIEWS if name in there), *MORE_VIEWS]
        guard = Guard({name: _columns(connection, name) for name in names}, SCALARS | OTHERS)
        guard.put_on(connection)
    except DAMAGE as error:
        connection.close()
        raise damaged(place.catalog, error_of(place.catalog, error)) from error
    except BaseException:  # Ctrl-C too: nobody else has the connection yet
        connection.close()
        raise
    return Readable(connection, guard, lacks_rows, note)


def _attach(connection: sqlite3.Connection, ledger: str) -> str:
    """The ledger as `ledger`. Where it cannot be read, an empty one, and why."""
    note = ""
    try:
        stored_views(ledger)  # checks it, and has what a killed run left half-written rolled back
        is_there = os.path.exists(ledger) and os.path.getsize(ledger) > 0
    except CatalogError as error:
        note, is_there = f"{error.message}: the views of the ledger are empty ({error.where})", False
    path = f"file:{quote(os.fsencode(ledger))}?mode=ro" if is_there else ":memory:"
    connection.execute("ATTACH ? AS ledger", (path,))
    return note


def _has(connection: sqlite3.Connection, table: str) -> bool:
    database, _, name = table.partition(".")
    query = f"SELECT 1 FROM {database}.sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _nothing(name: str) -> str:
    return f"SELECT {', '.join(f'NULL AS {column}' for column in MORE_COLUMNS[name])} WHERE 0"


def _narrow(connection: sqlite3.Connection, chosen: Mapping[int, SplitShard]) -> None:
    """Views of the same names, over the chosen samples alone."""

    def is_in(sample: int) -> bool:
        part = chosen.get(sample >> INDEX_BITS)
        if part is None or part.bits is None:
            return part is not None
        place = sample & MASK
        return bool(part.bits[place >> 3] >> (place & 7) & 1)

    connection.create_function("wds_is_in", 1, is_in, deterministic=True)
    for name in NARROWED:
        if _has_view(connection, name):
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} WHERE wds_is_in(id)")


def _has_view(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM main.sqlite_master WHERE type = 'view' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _columns(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    return tuple(column[0] for column in connection.execute(f"SELECT * FROM {name} LIMIT 0").description)
