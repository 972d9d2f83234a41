"""The quarantine: what `validate --quarantine` keeps out of all splits until it is released.

A row names a shard by its path and by the layout that it had: a shard that was written anew is no longer meant by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import delete, inspect, select

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import quarantine


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """One sample of a shard, or all of the shard where `place` is None and `key` empty.

    `place` counts the shard's samples from 0. `code` says what is wrong, `run_id` which run found it.
    """

    shard: str
    layout_hash: str
    place: int | None = None
    key: str = ""
    code: str
    run_id: int


def quarantined(ledger: Ledger) -> list[Quarantined]:
    """All that is in quarantine, by shard and place; nothing in a ledger from before there was one."""
    t = quarantine.c
    columns = (t.shard, t.layout_hash, t.place, t.key, t.code, t.run_id)
    with ledger.transaction() as connection:
        if not inspect(connection).has_table(quarantine.name):
            return []
        rows = connection.execute(select(*columns).order_by(t.shard, t.place, t.code, t.id)).mappings().all()
    return [Quarantined(**row) for row in rows]


def add_to_quarantine(ledger: Ledger, rows: Iterable[Quarantined]) -> int:
    """Put these in; what is in for the same reason already is not put in twice. Returns how many are new."""
    wanted = list(rows)
    known = {_what(row) for row in quarantined(ledger)}
    new = {_what(row): row for row in wanted if _what(row) not in known}
    if new:
        with ledger.transaction() as connection:
            connection.execute(quarantine.insert(), [asdict(row) for row in new.values()])
    return len(new)


def release(ledger: Ledger, *, shards: Collection[str] | None = None) -> int:
    """Take out what is of one of these shards; None means any. Returns how many rows."""
    gone = {row.shard for row in quarantined(ledger) if shards is None or row.shard in shards}
    if not gone:
        return 0
    count = 0
    with ledger.transaction() as connection:
        for shard in sorted(gone):  # one at a time: SQLite binds a limited number of values
            count += connection.execute(delete(quarantine).where(quarantine.c.shard == shard)).rowcount
    return count


def _what(row: Quarantined) -> tuple[str, str, int | None, str, str]:
    return row.shard, row.layout_hash, row.place, row.key, row.code
