"""Whether a SQLite file has the tables, indexes and views that we make, and nothing else.

A file that came from somewhere may have anything in its schema: a trigger that changes what is written, a view that
never ends in the place of a table, a virtual table, a column that is worked out by an expression. So each statement of
the schema is compared, as text, with those that we ever wrote. Standard library only.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from wdsctl.core.catalog.identity import VERSION as CATALOG_VERSION
from wdsctl.core.catalog.schema_text import catalog_statements, ledger_statements

#: What catalogs of schema version 1 and 2 have in other words, and the index that a draft makes last.
_FURTHER = (
    "CREATE INDEX sample_key ON sample (key)",
    (
        "CREATE TABLE shard (id INTEGER NOT NULL, path TEXT NOT NULL, size BIGINT NOT NULL, mtime_ns BIGINT NOT NULL, "
        "samples INTEGER NOT NULL, parts INTEGER NOT NULL, status TEXT NOT NULL, code TEXT, layout_hash TEXT NOT NULL, "
        "added INTEGER NOT NULL, removed INTEGER, PRIMARY KEY (id))"
    ),
    "CREATE VIEW v_shard AS SELECT id, path, size, samples, parts, status FROM shard WHERE removed IS NULL",
)
_BLANKS = re.compile(r'[\s"]+')
_AROUND = re.compile(r" ?([(),]) ?")
_CREATED = re.compile(r'CREATE (TABLE|INDEX|VIEW) (?:IF NOT EXISTS )?("?\w+"?)(?: ON (\w+))?')

#: Type, name, the table that it is of, statement.
_Entry = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnSchema:
    """All that such a file may have, and what it must have where it is of the present version (0: of any)."""

    allowed: frozenset[_Entry]  # as SQLite keeps them where it runs our statements
    needed: frozenset[str] = frozenset()  # names
    version: int = 0


@cache
def catalog_schema() -> OwnSchema:
    present = schema_of(catalog_statements()).allowed
    further = schema_of(_FURTHER).allowed
    return OwnSchema(present | further, frozenset(name for _, name, _, _ in present), CATALOG_VERSION)


@cache
def ledger_schema() -> OwnSchema:
    return schema_of(ledger_statements())


def schema_of(statements: Iterable[str]) -> OwnSchema:
    """The schema that these statements make."""
    return OwnSchema(frozenset(_entry(statement.strip()) for statement in statements if statement.strip()))


def foreign_entry(connection: sqlite3.Connection, schema: OwnSchema) -> str:
    """What is in the schema of a file and not in ours, or is missing there, in words; empty where all is well."""
    found = connection.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master").fetchall()
    for kind, name, table, statement, _ in found:
        # Of a PRIMARY KEY or UNIQUE: SQLite itself refuses one that its table does not have.
        is_automatic = statement is None and kind == "index" and str(name).startswith("sqlite_autoindex_")
        entry = (kind, name, table, str(statement).rstrip())
        if not (is_automatic or entry in schema.allowed or _laid_out(entry) in _all_laid_out(schema)):
            return f"it has the {kind} {name!r:.60}, which is none of ours"
    roots = [page for *_, page in found if page]
    if len(set(roots)) != len(roots):
        return "two of its tables are in one place"
    missing = schema.needed.difference(entry[1] for entry in found)
    if missing and connection.execute("PRAGMA user_version").fetchone() == (schema.version,):
        return f"{min(missing)} is missing"
    return ""


def _entry(statement: str) -> _Entry:
    made = _CREATED.match(statement)
    if made is None:
        raise ValueError(statement)
    kind, name, table = made.groups()
    name = name.strip('"')
    return kind.lower(), name, table or name, statement.replace("IF NOT EXISTS ", "", 1)


@cache
def _all_laid_out(schema: OwnSchema) -> frozenset[_Entry]:
    return frozenset(map(_laid_out, schema.allowed))


def _laid_out(entry: _Entry) -> _Entry:
    """The same whoever laid it out, such as a dump or a migration: blanks and quotation marks say nothing here."""
    return *entry[:3], _AROUND.sub(r"\1", _BLANKS.sub(" ", str(entry[3]))).strip()
