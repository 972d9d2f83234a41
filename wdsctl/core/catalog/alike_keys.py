"""Keys that differ only in case or in Unicode form, and are one name on systems that take such names for the same."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from wdsctl.core.temporary_space import in_temporary_space

MOST_NAMES = 8  # of one set that are named

#: Keys with a letter that has other forms: a capital one, or one that is not ASCII.
_FIND = (
    "CREATE TEMP TABLE alike AS SELECT form_of(key) AS form, key FROM (SELECT DISTINCT key FROM sample "
    "WHERE key <> lower(key) OR length(key) <> length(CAST(key AS BLOB))) WHERE form_of(key) <> key"
)
_FORMS = (
    "SELECT form FROM temp.alike GROUP BY form HAVING min(key) < max(key) "
    "UNION SELECT form FROM temp.alike WHERE EXISTS (SELECT 1 FROM sample WHERE key = form) ORDER BY form"
)
_KEYS = (
    "SELECT key FROM temp.alike WHERE form = ?1 UNION SELECT key FROM sample WHERE key = ?1 "
    f"ORDER BY key LIMIT {MOST_NAMES}"
)
_SHARD = "SELECT path FROM shard WHERE id = (SELECT min(id >> 28) FROM sample WHERE key = ?)"


@dataclass(frozen=True, slots=True)
class AlikeKeys:
    """Keys that are one name to other systems, and the shard of the first of them."""

    keys: tuple[str, ...]
    shard: str


def form_of(name: str) -> str:
    """What all names are that match one another without regard to case. Source: Unicode, 3.13, canonical matching."""
    return name.lower() if name.isascii() else _decomposed(_decomposed(name).casefold())


def alike_keys(connection: sqlite3.Connection, limit: int) -> tuple[int, list[AlikeKeys]]:
    """How many sets of such keys there are, and the first `limit` of them.

    Cost: a pass over the key index, 0.3 s a million; 6 s a million of keys that are not ASCII in lower case, with twice
    their size in temporary files, and not in memory. Raises StorageError WDS401 where there is no room.
    """
    with in_temporary_space("keys cannot be compared"):
        connection.create_function("form_of", 1, form_of, deterministic=True)
        connection.execute(_FIND)
        try:
            connection.execute("CREATE INDEX temp.alike_form ON alike (form, key)")
            forms: list[str] = []
            count = 0
            for count, (form,) in enumerate(connection.execute(_FORMS), 1):
                if count <= limit:
                    forms.append(form)
            return count, [_set_of(connection, form) for form in forms]
        finally:
            connection.execute("DROP TABLE temp.alike")


def _set_of(connection: sqlite3.Connection, form: str) -> AlikeKeys:
    keys = tuple(row[0] for row in connection.execute(_KEYS, (form,)))
    return AlikeKeys(keys, connection.execute(_SHARD, keys[:1]).fetchone()[0])


def alike(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The sets of these names that are one to other systems, in the order of their first names."""
    sets: dict[str, dict[str, None]] = {}
    for name in names:
        sets.setdefault(form_of(name), {})[name] = None
    return [tuple(each) for each in sets.values() if len(each) > 1]


def differ_in(names: Iterable[str]) -> str:
    """What tells these names apart: "case", "Unicode form", or both."""
    names = list(names)
    letters = {unicodedata.normalize("NFC", name) for name in names}
    if len(letters) == 1:
        return "Unicode form"
    return "case" if len(letters) == len(names) else "case and Unicode form"


def _decomposed(name: str) -> str:
    return unicodedata.normalize("NFD", name)
