"""The statements that make catalogs and ledgers, as text: SQLAlchemy, which made it of the schemas, is slow to import.

`docs/schema_text.py` writes the files. To change them, edit `schema.py` or `ledger_schema.py`, and run `make docs`.
"""

from __future__ import annotations

import os

_HERE = os.path.dirname(__file__)


def catalog_statements() -> list[str]:
    """The tables and views of a catalog of the present version."""
    return _statements("catalog.sql")


def ledger_statements() -> list[str]:
    """The tables of a ledger, each made where it is not there."""
    return _statements("ledger.sql")


def _statements(name: str) -> list[str]:
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        return file.read().split(";\n")[:-1]
