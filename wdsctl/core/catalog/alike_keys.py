"""Keys that differ only in case or in Unicode form, and are one name on systems that take such names for the same."""

from __future__ import annotations

import sqlite3
import unicodedata

from wdsctl.core.temporary_space import in_temporary_space

#: Keys with a letter that has other forms: a capital one, or one that is not ASCII.
_FIND = (
    "CREATE TEMP TABLE alike AS SELECT form_of(key) AS form, key FROM (SELECT DISTINCT key FROM sample "
    "WHERE key <> lower(key) OR length(key) <> length(CAST(key AS BLOB))) WHERE form_of(key) <> key"
)
_FORMS = (
    "SELECT form FROM temp.alike GROUP BY form HAVING min(key) < max(key) "
    "UNION SELECT form FROM temp.alike WHERE EXISTS (SELECT 1 FROM sample WHERE key = form) ORDER BY form"
)
_KEYS = "SELECT key FROM temp.alike WHERE form = ?1 UNION SELECT key FROM sample WHERE key = ?1 ORDER BY key LIMIT 2"
_SHARD = "SELECT path FROM shard WHERE id = (SELECT min(id >> 28) FROM sample WHERE key = ?)"


def form_of(name: str) -> str:
    """What all names are that match one another without regard to case. Source: Unicode, 3.13, canonical matching."""
    return name.lower() if name.isascii() else _decomposed(_decomposed(name).casefold())


def alike_keys(connection: sqlite3.Connection) -> tuple[int, tuple[str, str, str] | None]:
    """How many sets of such keys there are; of the first one two keys, and the shard of the first of them.

    Cost: a pass over the key index, 0.3 s a million; 6 s a million of keys that are not ASCII in lower case, with twice
    their size in temporary files, and not in memory. Raises StorageError WDS401 where there is no room.
    """
    with in_temporary_space("keys cannot be compared"):
        connection.create_function("form_of", 1, form_of, deterministic=True)
        connection.execute(_FIND)
        try:
            count, first = 0, ""
            for count, (form,) in enumerate(connection.execute(_FORMS), 1):
                first = first if count > 1 else form
            if not count:
                return 0, None
            one, other = (row[0] for row in connection.execute(_KEYS, (first,)))
            return count, (one, other, connection.execute(_SHARD, (one,)).fetchone()[0])
        finally:
            connection.execute("DROP TABLE temp.alike")


def alike(names: list[str]) -> tuple[str, str] | None:
    """The first two of these names that are one to other systems; None where there are none."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(form_of(name), name)
        if other != name:
            return other, name
    return None


def differ_in(one: str, other: str) -> str:
    return "case" if unicodedata.normalize("NFC", one) != unicodedata.normalize("NFC", other) else "Unicode form"


def _decomposed(name: str) -> str:
    return unicodedata.normalize("NFD", name)
