"""Keys that come more than once: refused, told apart by a prefix, or only the first of them taken."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Literal

from wdsctl.core.counted import counted
from wdsctl.core.errors import UsageError
from wdsctl.core.printable import named

OnCollision = Literal["error", "prefix", "keep-first"]

_EXAMPLES = 3
_REPEATED = "SELECT grp, key FROM entry GROUP BY grp, key HAVING count(*) > 1"


def settle_collisions(connection: sqlite3.Connection, how: OnCollision, names: Sequence[str]) -> int:
    """Make the keys of each group unique, in the table `entry`; returns how many samples were left out for it.

    `prefix`: where sources are several, all keys of each get its name before them; a key that comes again within one
    source gets a number before it (`2/KEY`). Raises UsageError WDS340.
    """
    if how == "prefix" and len(names) > 1:
        connection.executemany(
            "UPDATE entry SET key = ? || '/' || key WHERE source = ?", [(name, i) for i, name in enumerate(names)]
        )
    connection.execute("CREATE INDEX by_key ON entry(grp, key)")
    repeated = connection.execute(f"SELECT count(*) FROM ({_REPEATED})").fetchone()[0]
    left_out = 0
    if repeated and how == "error":
        raise _refused(connection, repeated, names)
    if repeated:
        later = (
            "SELECT g, n, key FROM (SELECT g, key, row_number() OVER (PARTITION BY grp, key ORDER BY g) AS n "
            f"FROM entry WHERE (grp, key) IN ({_REPEATED})) WHERE n > 1"
        )
        connection.execute(f"CREATE TEMP TABLE later AS {later}")
        if how == "keep-first":
            left_out = connection.execute("DELETE FROM entry WHERE g IN (SELECT g FROM later)").rowcount
        else:
            connection.execute(
                "UPDATE entry SET key = (SELECT n || '/' || later.key FROM later WHERE later.g = entry.g) "
                "WHERE g IN (SELECT g FROM later)"
            )
            again = connection.execute(f"SELECT count(*) FROM ({_REPEATED})").fetchone()[0]
            if again:
                raise _refused(connection, again, names)
        connection.execute("DROP TABLE later")
    connection.execute("DROP INDEX by_key")
    return left_out


def _refused(connection: sqlite3.Connection, count: int, names: Sequence[str]) -> UsageError:
    keys = [key for _, key in connection.execute(f"{_REPEATED} LIMIT {_EXAMPLES}")]
    shown = ", ".join(map(named, keys)) + (", ..." if count > len(keys) else "")
    where = f" of {len(names)} datasets" if len(names) > 1 else ""
    return UsageError(
        f"{counted(count, 'key')}{where} would come more than once in the destination: {shown}",
        hint="`--on-collision prefix` tells them apart, `--on-collision keep-first` takes the first of each",
        code="WDS340",
    )
