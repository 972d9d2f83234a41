"""The runs that a ledger has, the last ones first. Where there is no ledger yet, there are none."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import run
from wdsctl.core.json_text import read_json


def count_runs(ledger: Ledger) -> int:
    with ledger.transaction() as connection:
        query = select(func.count()).select_from(run)
        return int(connection.execute(query).scalar_one())


def last_runs(ledger: Ledger, limit: int = 0, only: int | None = None) -> list[dict[str, Any]]:
    """At most `limit` of them (0: all), or the one with this number; `argv` and `details` as values."""
    query = select(run).order_by(run.c.id.desc())
    if only is not None:
        query = query.where(run.c.id == only)
    if limit:
        query = query.limit(limit)
    with ledger.transaction() as connection:
        rows = connection.execute(query).mappings().all()
    return [{**row, "argv": _parsed(row["argv"], []), "details": _parsed(row["details"], {})} for row in rows]


def _parsed(text: str | None, empty: Any) -> Any:
    """A ledger is a journal: one odd line in it hides no other."""
    try:
        value = read_json(text or "null")
    except ValueError:
        return empty
    return value if isinstance(value, type(empty)) else empty
