"""Writes views into the ledger. They are read by `view_reader.py`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import view, view_shard
from wdsctl.core.catalog.view_reader import StoredView, ViewShard

_COLUMNS = tuple(column.name for column in view.columns)


def put_view(ledger: Ledger, stored: StoredView, parts: Sequence[ViewShard], *, replace: bool) -> bool:
    """Keep a view with its shards, in one transaction. Without `replace`, false where there is one of its name."""
    with ledger.transaction() as connection:
        known = connection.execute(select(view.c.name).where(view.c.name == stored.name)).first()
        if known is not None and not replace:
            return False
        connection.execute(delete(view_shard).where(view_shard.c.view == stored.name))
        connection.execute(delete(view).where(view.c.name == stored.name))
        connection.execute(insert(view), [dict(zip(_COLUMNS, stored, strict=True))])
        if parts:
            rows = [
                {
                    "view": stored.name,
                    "shard": part.path,
                    "layout_hash": part.layout_hash,
                    "samples": part.samples,
                    "bits": part.bits,
                }
                for part in parts
            ]
            connection.execute(insert(view_shard), rows)
    return True


def drop_view(ledger: Ledger, name: str) -> bool:
    """Forget a view. False where there was none."""
    with ledger.transaction() as connection:
        connection.execute(delete(view_shard).where(view_shard.c.view == name))
        return connection.execute(delete(view).where(view.c.name == name)).rowcount > 0
