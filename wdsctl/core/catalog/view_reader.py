"""Reads views from a ledger by the standard library alone: trainings open them, and SQLAlchemy takes longer to import.

Nothing here is slow where a view is large: what is read is a row a shard.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from wdsctl.core.catalog.database_file import check_database, error_of, open_database
from wdsctl.core.catalog.identity import DAMAGE
from wdsctl.core.catalog.ledger_mark import APPLICATION_ID, VERSION
from wdsctl.core.catalog.own_schema import ledger_schema
from wdsctl.core.catalog.published import reading
from wdsctl.core.errors import CatalogError

_BUSY_TIMEOUT = 10.0  # seconds: another command may be noting its findings
_FACTS = "name, expression, created_at, generation, samples, hash"


class StoredView(NamedTuple):
    """`definition`: how it was made, JSON. `generation`: of the catalog that it was made from."""

    name: str
    definition: str
    created_at: str
    generation: int
    samples: int
    hash: str


class ViewShard(NamedTuple):
    """A view's samples of one shard: all of it where `bits` is None, else those whose bit is set, lowest first."""

    path: str
    layout_hash: str
    samples: int
    bits: bytes | None


class KnownShard(NamedTuple):
    """A shard as the catalog has it now."""

    id: int
    path: str
    layout_hash: str
    samples: int


def stored_views(ledger: str) -> list[StoredView]:
    """All views, by name; none where there is no ledger, or one from before there were views."""
    with _reading(ledger) as connection:
        if connection is None:
            return []
        return [StoredView(*row) for row in connection.execute(f"SELECT {_FACTS} FROM view ORDER BY name")]


def stored_view(ledger: str, name: str) -> tuple[StoredView, list[ViewShard]] | None:
    """A view with its shards, by path; None where there is none of this name."""
    with _reading(ledger) as connection:
        if connection is None:
            return None
        row = connection.execute(f"SELECT {_FACTS} FROM view WHERE name = ?", (name,)).fetchone()
        if row is None:
            return None
        query = "SELECT shard, layout_hash, samples, bits FROM view_shard WHERE view = ? ORDER BY shard"
        return StoredView(*row), [ViewShard(*each) for each in connection.execute(query, (name,))]


def known_shards(catalog: str) -> list[KnownShard]:
    """The shards of the present generation, in id order. Raises CatalogError WDS301, WDS302, WDS303."""
    with reading(catalog) as connection:
        query = "SELECT id, path, layout_hash, samples FROM shard WHERE removed IS NULL ORDER BY id"
        return [KnownShard(*row) for row in connection.execute(query)]


@contextmanager
def _reading(path: str) -> Iterator[sqlite3.Connection | None]:
    """The ledger, in one transaction, or nothing where it has no views.

    Opened for writing, so that what a killed run left half-written is rolled back; where only reading is allowed,
    SQLite opens it so.
    """
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        yield None
        return
    try:
        with closing(open_database(path, None, "rw", timeout_seconds=_BUSY_TIMEOUT)) as connection:
            _check(connection, path)
            check_database(connection, ledger_schema())
            connection.execute("BEGIN")
            query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('view', 'view_shard')"
            yield connection if connection.execute(query).fetchone() == (2,) else None
    except sqlite3.OperationalError as error:
        raise _busy(path, error_of(path, error)) from error
    except DAMAGE as error:
        raise _damaged(path, error_of(path, error)) from error


def _check(connection: sqlite3.Connection, path: str) -> None:
    application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _PRAGMAS)
    if application != APPLICATION_ID:
        raise _damaged(path, "it is a database of something else")
    if version > VERSION:
        raise CatalogError(
            f"the ledger has schema version {version}, this wdsctl knows versions up to {VERSION}",
            where=path,
            hint="upgrade wdsctl (`pip install -U wdsctl`)",
            code="WDS303",
        )


_PRAGMAS = ("application_id", "user_version")


def _busy(path: str, words: str) -> CatalogError:
    if "locked" in words or "busy" in words:
        return CatalogError("the ledger is locked", where=path, hint="wait for the other wdsctl", code="WDS304")
    return _damaged(path, words)


def _damaged(path: str, reason: str) -> CatalogError:
    return CatalogError(
        f"the ledger cannot be read, and views are kept in it: {reason}",
        where=path,
        hint="bring back a copy of it, or make the view again: a damaged ledger is then set aside",
        code="WDS302",
    )
