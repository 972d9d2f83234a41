"""What tells, by the standard library alone, whether there is more to do than shards: facts, splits, a quarantine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from wdsctl.core.catalog.database_file import open_database
from wdsctl.core.catalog.fact_names import OF_SPLITS
from wdsctl.core.catalog.identity import DAMAGE
from wdsctl.core.catalog.own_schema import ledger_schema
from wdsctl.core.catalog.published import reading

_BUSY_TIMEOUT = 10.0  # seconds: another command may be noting its findings


def facts(path: str) -> dict[str, str]:
    """The facts of the catalog at `path`, by name. Raises CatalogError WDS301, WDS302, WDS303."""
    with reading(path) as connection:
        return _facts(connection)


def has_splits(path: str) -> bool:
    """Whether the catalog at `path` has splits, or rules of any."""
    with reading(path) as connection:
        is_told = not _facts(connection).keys().isdisjoint(OF_SPLITS)
        return is_told or connection.execute("SELECT 1 FROM split LIMIT 1").fetchone() is not None


def has_quarantine(ledger: str) -> bool:
    """Whether anything is in quarantine; also where that cannot be told, for whoever reads it then says why."""
    if not os.path.exists(ledger):
        return False
    try:
        # For writing: what a killed run left half-written is rolled back.
        with closing(open_database(ledger, ledger_schema(), "rw", timeout_seconds=_BUSY_TIMEOUT)) as connection:
            return connection.execute("SELECT 1 FROM quarantine LIMIT 1").fetchone() is not None
    except DAMAGE:
        return True


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM meta ORDER BY key"))
