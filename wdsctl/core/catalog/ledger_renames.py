"""Shards with another name, in what the ledger says of shards by their paths: views, checks, the quarantine."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, delete, select

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import known, quarantine, renamed, view_shard

_BETWEEN = "\0"  # begins no path: two shards may have changed names with one another


def rename_shards(ledger: Ledger, names: Mapping[str, str], mark: bytes) -> None:
    """`names`: path as it was -> path as it is. `mark` names this renaming: one that was done is not done again, or a
    name that one shard left to another would go on to the next. Findings of runs stay as they were said.
    """
    if not names:
        return
    first = [{"old": old, "new": _BETWEEN + new} for old, new in names.items()]
    second = [{"old": _BETWEEN + new, "new": new} for new in names.values()]
    with ledger.transaction() as connection:
        if connection.execute(select(renamed.c.mark)).scalar() == mark:
            return
        connection.execute(delete(renamed))
        connection.execute(renamed.insert(), {"mark": mark})
        for table in (view_shard, known, quarantine):
            moved = table.update().prefix_with("OR REPLACE").where(table.c.shard == bindparam("old"))
            moved = moved.values(shard=bindparam("new"))
            connection.execute(moved, first)
            if table is known:  # what is known of a shard that had the name and is gone is not of this one
                connection.execute(delete(known).where(known.c.shard == bindparam("new")), second)
            connection.execute(moved, second)
