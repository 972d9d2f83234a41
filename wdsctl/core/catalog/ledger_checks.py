"""What was validated already, and with what result: nothing is read again that has not changed since.

A row is of one shard and one level. Its `mark` names everything that the result depends on: the file by size and time,
the rules, the samples that were looked at. Another mark, another look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, inspect, select

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import checked


class Check(NamedTuple):
    shard: str  # its path; empty for what is found over all shards
    level: str
    mark: bytes
    findings: str  # JSON


def checks(ledger: Ledger) -> dict[tuple[str, str], Check]:
    """All that is known, by shard and level; nothing in a ledger from before there was such a table."""
    t = checked.c
    with ledger.transaction() as connection:
        if not inspect(connection).has_table(checked.name):
            return {}
        rows = connection.execute(select(t.shard, t.level, t.mark, t.findings)).all()
    return {(row.shard, row.level): Check(*row) for row in rows}


def note_checks(ledger: Ledger, rows: Sequence[Check]) -> None:
    """Put these in the place of what was known of the same shards and levels, in one transaction."""
    if not rows:
        return
    t = checked.c
    with ledger.transaction() as connection:
        for row in rows:
            connection.execute(delete(checked).where(t.shard == row.shard, t.level == row.level))
        connection.execute(checked.insert(), [row._asdict() for row in rows])


def forget_checks(ledger: Ledger, shards: Sequence[str]) -> None:
    """Forget all that was known of shards that are no longer there."""
    with ledger.transaction() as connection:
        for shard in shards:
            connection.execute(delete(checked).where(checked.c.shard == shard))
