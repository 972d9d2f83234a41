"""Writes `catalog.sql` and `ledger.sql` into wdsctl/core/catalog/: what SQLAlchemy makes of the schemas, as text.

Who makes a catalog or a ledger takes the statements from there, for importing SQLAlchemy takes longer than making both.
A test compares them with the schemas.
"""  # noqa: INP001 - a script

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from wdsctl.core.catalog import schema
from wdsctl.core.catalog.open_catalog import VIEWS

FOLDER = Path(__file__).resolve().parents[1] / "wdsctl" / "core" / "catalog"


def texts() -> dict[str, str]:
    """File name -> text: the statements to the letter, for SQLite keeps them so, each with `;` behind it."""
    views = [f"CREATE VIEW {name} AS {query}" for name, query in VIEWS.items()]
    return {
        "catalog.sql": _joined([*_tables(schema.catalog_metadata, is_there=False), *views]),
        # A ledger of an older version has some of the tables.
        "ledger.sql": _joined(_tables(schema.ledger_metadata, is_there=True)),
    }


def _tables(metadata: MetaData, *, is_there: bool) -> list[str]:
    """All tables with their indexes; `is_there`: those that may be there are left as they are."""
    found: list[str] = []
    for table in metadata.sorted_tables:
        statements: list[DDLElement] = [CreateTable(table, if_not_exists=is_there)]
        statements += [CreateIndex(index, if_not_exists=is_there) for index in table.indexes]
        found += [str(each.compile(dialect=sqlite.dialect())) for each in statements]
    return found


def _joined(statements: list[str]) -> str:
    return "".join(f"{statement};\n" for statement in statements)


if __name__ == "__main__":
    for file_name, text in texts().items():
        (FOLDER / file_name).write_text(text, encoding="utf-8")
