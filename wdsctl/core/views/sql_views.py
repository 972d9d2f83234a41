"""What `wdsctl sql` can read: the views of the catalog and of the ledger, read-only, behind a guard."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from wdsctl.core.catalog.database_file import DATABASE_ERRORS, error_text
from wdsctl.core.catalog.open_catalog import VIEWS, connect_catalog, damaged_catalog_error
from wdsctl.core.catalog.rows import copy_with_implied_rows
from wdsctl.core.catalog.splits import SplitShard
from wdsctl.core.errors import CatalogError
from wdsctl.core.opened.handle import OpenDataset
from wdsctl.core.samples.naming import INDEX_BITS
from wdsctl.core.views.sql_guard import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, Guard
from wdsctl.core.views.where import POSITION_MASK

#: Views besides those of the catalog file.
EXTRA_VIEWS: dict[str, str] = {
    "v_excluded": (
        "SELECT path AS shard, e.samples FROM main.excluded_shard AS e JOIN main.shard AS s ON s.id = e.shard"
    ),
    # The bits of a shard's samples, lowest first: the hexadecimal digit of four samples, and the bit of one of them.
    "v_sample_split": (
        "SELECT sample.id, sample.key, sample.shard, split.name AS split FROM v_sample AS sample "
        "JOIN main.split_shard AS part ON part.shard = sample.id >> 28 "
        "JOIN main.split AS split ON split.id = part.split "
        "WHERE part.bits IS NULL OR (instr('0123456789ABCDEF', substr(hex(substr(part.bits, "
        "(sample.position >> 3) + 1, 1)), 2 - (sample.position >> 2 & 1), 1)) - 1) >> (sample.position & 3) & 1"
    ),
    "v_run": ("SELECT id, command, argv, version, started_at, finished_at, status, details FROM ledger.run"),
    "v_finding": (
        "SELECT run_id, code, severity, shard, key, part, byte_offset AS offset, count, message FROM ledger.finding"
    ),
    "v_view": ("SELECT name, expression AS definition, created_at, generation, samples, hash FROM ledger.view"),
    "v_quarantine": ("SELECT shard, place AS position, key, code, run_id FROM ledger.quarantine"),
}
#: The columns of these views, which exist even without a ledger.
EXTRA_VIEW_COLUMNS: dict[str, tuple[str, ...]] = {
    "v_excluded": ("shard", "samples"),
    "v_sample_split": ("id", "key", "shard", "split"),
    "v_run": ("id", "command", "argv", "version", "started_at", "finished_at", "status", "details"),
    "v_finding": ("run_id", "code", "severity", "shard", "key", "part", "offset", "count", "message"),
    "v_view": ("name", "definition", "created_at", "generation", "samples", "hash"),
    "v_quarantine": ("shard", "position", "key", "code", "run_id"),
}
#: Views with a row per sample or part, which `ROOT@VIEW` restricts.
PER_SAMPLE_VIEWS = ("v_sample", "v_part", "v_media", "v_sample_split")


@dataclass(frozen=True, slots=True)
class QueryConnection:
    """A connection that reads the documented views and nothing else.

    `lacks_rows`: there are samples without rows. `note`: what cannot be read, and why.
    """

    connection: sqlite3.Connection
    guard: Guard
    lacks_rows: bool
    note: str = ""


def open_query_connection(
    dataset: OpenDataset,
    selection: Mapping[int, SplitShard] | None = None,
    *,
    needs_rows: bool = True,
    on_progress: Callable[[], None] | None = None,
) -> QueryConnection:
    """Catalog and ledger of a dataset, for users' SQL. `selection`: restricts the samples; None for all.

    `needs_rows`: whether the query reads single samples, for which JSONL samples get their rows. `on_progress`: called
    now and then meanwhile; its errors end the opening. Raises CatalogError WDS301, WDS302, WDS303 for the catalog,
    StorageError WDS401 if there is no space for rows. A ledger that cannot be read is a note.
    """
    catalog_path = dataset.location.catalog_path
    connection = connect_catalog(catalog_path)
    try:
        if needs_rows:
            connection = copy_with_implied_rows(connection, catalog_path, on_progress)
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        note, has_ledger = _attach_ledger(connection, dataset)
        for name, query in EXTRA_VIEWS.items():
            nulls = ", ".join(f"NULL AS {column}" for column in EXTRA_VIEW_COLUMNS[name])
            is_readable = has_ledger or " FROM ledger." not in query
            connection.execute(f"CREATE TEMP VIEW {name} AS {query if is_readable else f'SELECT {nulls} WHERE 0'}")
        if selection is not None:
            _restrict_views(connection, selection)
        query = (
            "SELECT (SELECT total(samples) FROM shard WHERE removed IS NULL) > 0 AND NOT EXISTS (SELECT 1 FROM sample)"
        )
        lacks_rows = bool(connection.execute(query).fetchone()[0])
        columns = {
            name: tuple(column[0] for column in connection.execute(f"SELECT * FROM {name} LIMIT 0").description)
            for name in (*VIEWS, *EXTRA_VIEWS)
        }
        guard = Guard(columns, SCALAR_FUNCTIONS | AGGREGATE_FUNCTIONS)
        guard.install(connection)
    except DATABASE_ERRORS as error:
        connection.close()
        raise damaged_catalog_error(catalog_path, error_text(catalog_path, error)) from error
    except BaseException:  # Ctrl-C too: no caller has the connection yet
        connection.close()
        raise
    return QueryConnection(connection, guard, lacks_rows, note)


def _attach_ledger(connection: sqlite3.Connection, dataset: OpenDataset) -> tuple[str, bool]:
    """Attach the ledger as `ledger`, or an empty database. Returns (why it cannot be read, whether it is attached)."""
    note, ledger = "", dataset.location.ledger_path
    try:
        dataset.ledger.views()  # checks the ledger, and rolls back the unfinished transaction of a killed run
        is_there = os.path.exists(ledger) and os.path.getsize(ledger) > 0
    except CatalogError as error:
        note, is_there = f"{error.message}: the query sees no rows in the views of the ledger ({error.where})", False
    path = f"file:{quote(os.fsencode(ledger))}?mode=ro" if is_there else ":memory:"
    connection.execute("ATTACH ? AS ledger", (path,))
    return note, is_there


def _restrict_views(connection: sqlite3.Connection, selection: Mapping[int, SplitShard]) -> None:
    """Hide the views by temporary views of the same names over the selected samples."""

    def is_in(sample: int) -> bool:
        part = selection.get(sample >> INDEX_BITS)
        if part is None or part.bits is None:
            return part is not None
        position = sample & POSITION_MASK
        return bool(part.bits[position >> 3] >> (position & 7) & 1)

    connection.create_function("wds_is_in", 1, is_in, deterministic=True)
    for name in PER_SAMPLE_VIEWS:
        if name in EXTRA_VIEWS:
            continue  # reads v_sample, which is restricted
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM main.{name} WHERE wds_is_in(id)")
