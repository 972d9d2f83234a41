"""What the loader needs of a catalog at start-up, by the standard library alone: SQLAlchemy takes longer to import."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from wdsctl.core.catalog.identity import DAMAGE, check, damaged
from wdsctl.core.command_line import command_beside
from wdsctl.core.errors import InputError
from wdsctl.core.splitting import SplitShard


def current_generation(path: str) -> int:
    """The generation that the catalog at `path` describes."""
    with _reading(path) as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
    if row is None or not str(row[0]).isdecimal():
        raise damaged(path, "it does not say which generation it is")
    return int(row[0])


def read_split(path: str, name: str) -> list[SplitShard]:
    """The shards of a split, in id order, with the samples it has of each: none where it is empty.

    Raises InputError WDS211 where there is no such split, or where the dataset has no samples at all.
    """
    query = (
        "SELECT shard, split_shard.samples, bits FROM split_shard JOIN split ON split.id = split_shard.split "
        "WHERE split.name = ? ORDER BY shard"
    )
    with _reading(path) as connection:
        rows = connection.execute(query, (name,)).fetchall()
        names = [row[0] for row in connection.execute("SELECT name FROM split ORDER BY id")]
        filled = connection.execute("SELECT 1 FROM shard WHERE removed IS NULL AND samples > 0 LIMIT 1").fetchone()
    if filled is None:
        raise _no_samples(path)
    if name not in names:
        raise _no_such_split(path, name, names)
    return [SplitShard(*row) for row in rows]


def _no_samples(path: str) -> InputError:
    return InputError(
        "the dataset has no samples, and so no split to train on",
        where=path,
        hint=f"{command_beside(path, 'validate')} tells why",
        code="WDS211",
    )


def _no_such_split(path: str, name: str, names: list[str]) -> InputError:
    return InputError(
        f"the dataset has no split {name!r}; it has {', '.join(names) if names else 'none yet'}",
        where=path,
        hint=f"{command_beside(path, 'split', 'train=8,val=1,test=1')} makes splits; split_part= chooses one",
        code="WDS211",
    )


@contextmanager
def _reading(path: str) -> Iterator[sqlite3.Connection]:
    check(path)
    try:
        with closing(sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", uri=True)) as connection:
            yield connection
    except DAMAGE as error:
        raise damaged(path, str(error)) from error
