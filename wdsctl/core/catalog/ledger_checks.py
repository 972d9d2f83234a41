"""What is known of shards: nothing is read again that has not changed since, and what was found stays found.

A row is of one shard and one level. What was found when all samples were looked at stays until all are looked at again:
a look at some of them has a row of its own, which adds to that, and so has a shard that could not be read. `mark` names
everything that the result depends on (the file by size and time, the rules, the samples), and is empty where that
cannot be told: another mark, another look. `layout_hash` says in which shard findings mean the samples that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sqlalchemy import bindparam, delete, inspect, or_, select, update

from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_schema import known

#: How many samples were looked at; none, where the shard could not be read.
Reach = Literal["all", "some", "none"]


class Check(NamedTuple):
    shard: str  # its path; empty for what is found over all shards
    level: str
    reach: Reach
    layout_hash: str
    mark: bytes
    findings: str  # JSON


Checks = dict[tuple[str, str, Reach], Check]


def checks(ledger: Ledger) -> Checks:
    """All that is known, by shard, level and reach; nothing in a ledger from before there was such a table."""
    with ledger.transaction() as connection:
        if not inspect(connection).has_table(known.name):
            return {}
        rows = connection.execute(select(*(known.c[name] for name in Check._fields))).all()
    return {(row.shard, row.level, row.reach): Check(*row) for row in rows}


def note_checks(ledger: Ledger, rows: Sequence[Check]) -> None:
    """Put these in the place of what was known by the same shard, level and reach, in one transaction.

    Where all samples were looked at, in the place of all that was known by shard and level.
    """
    if not rows:
        return
    t = known.c
    old = delete(known).where(
        t.shard == bindparam("of_shard"),
        t.level == bindparam("of_level"),
        or_(t.reach == bindparam("of_reach"), bindparam("of_reach") == "all"),
    )
    with ledger.transaction() as connection:
        connection.execute(old, [{"of_shard": row[0], "of_level": row[1], "of_reach": row[2]} for row in rows])
        connection.execute(known.insert(), [row._asdict() for row in rows])


def expire_checks(ledger: Ledger, level: str, shards: Iterable[str]) -> None:
    """What was found on a level in these shards stays known, and is looked for again, in one transaction."""
    t = known.c
    marked = update(known).where(t.shard == bindparam("of_shard"), t.level == level).values(mark=b"")
    values = [{"of_shard": shard} for shard in shards]
    if values:
        with ledger.transaction() as connection:
            connection.execute(marked, values)
