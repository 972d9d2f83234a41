"""Rows whose values are of the kinds that they are to be: SQLite keeps anything in any column.

Some 0.3 us a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from wdsctl.core.sample_id import INDEX_BITS

#: "count": a whole number of things or bytes, from 0. "shard": the number of a shard. "name": a text of one line.
#: With "?" it may be missing.
Kind = Literal["int", "count", "shard", "text", "name", "blob", "number", "int?", "count?", "text?", "blob?", "number?"]

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "count": (int,),
    "shard": (int,),
    "text": (str,),
    "name": (str,),
    "blob": (bytes,),
    "number": (int, float),
}
_LAST_SHARD = (1 << 63 - INDEX_BITS) - 1  # ids of samples have 64 bits, with a sign


def typed(rows: Iterable[tuple[Any, ...]], *kinds: Kind) -> Iterator[tuple[Any, ...]]:
    """The rows, whose columns are of these kinds. Raises sqlite3.DatabaseError where one is not."""
    counts = [i for i, kind in enumerate(kinds) if kind.rstrip("?") in ("count", "shard")]
    shards = [i for i, kind in enumerate(kinds) if kind == "shard"]
    names = [i for i, kind in enumerate(kinds) if kind == "name"]
    good: set[tuple[type, ...]] = set()
    for row in rows:
        shape = tuple(map(type, row))
        if shape not in good:
            _check_shape(shape, kinds)
            good.add(shape)
        for i in counts:
            if row[i] is not None and row[i] < 0:
                raise sqlite3.DatabaseError(f"a count is {row[i]}")
        for i in shards:
            if row[i] > _LAST_SHARD:
                raise sqlite3.DatabaseError(f"a shard has the number {row[i]}")
        for i in names:
            if not is_one_line(row[i]):
                raise sqlite3.DatabaseError(f"a name is {row[i]!r:.60}")
        yield row


def is_one_line(name: str) -> bool:
    """Whether a name has no control characters, which would be drawn on a terminal or end a name early."""
    return name.isprintable() or not any(character < " " or character == "\x7f" for character in name)


def _check_shape(shape: tuple[type, ...], kinds: tuple[Kind, ...]) -> None:
    for found, kind in zip(shape, kinds, strict=True):
        if found is type(None):
            if not kind.endswith("?"):
                raise sqlite3.DatabaseError("a value is missing")
        elif found not in _TYPES[kind.rstrip("?")]:
            raise sqlite3.DatabaseError(f"a value is of type {found.__name__}, where {kind.rstrip('?')} is to be")
