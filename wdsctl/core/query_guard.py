"""Lets users' SQL read the documented views by functions that do no harm, and nothing else; says what it denied.

SQLite compiles the text itself and asks the guard about every table, column and function in it
(https://www.sqlite.org/c3ref/set_authorizer.html). The connection is read-only besides.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

_SELECT, _READ, _FUNCTION, _RECURSIVE = 21, 20, 31, 33  # of sqlite3.h: Python has names for only some of them

_SCALARS = (
    "-> ->> abs acos acosh asin asinh atan atan2 atanh ceil ceiling char coalesce concat concat_ws cos cosh date "
    "datetime degrees exp floor format glob hex ifnull iif instr json json_array json_array_length json_extract "
    "json_object json_quote json_type json_valid julianday length like likelihood likely ln log log10 log2 lower "
    "ltrim max min mod nullif octet_length pi pow power printf quote radians regexp replace round rtrim sign sin sinh "
    "sqrt strftime substr substring tan tanh time timediff trim trunc typeof unicode unixepoch unlikely upper"
)
_OTHERS = (
    "avg count cume_dist dense_rank first_value group_concat json_group_array json_group_object lag last_value lead "
    "nth_value ntile percent_rank random rank row_number string_agg sum total"
)
#: Of one row; what they give depends on nothing else.
SCALARS = frozenset(_SCALARS.split())
#: Of many rows, or of none; only in queries.
OTHERS = frozenset(_OTHERS.split())
#: Tables that are functions: they read their arguments.
TABLES = frozenset({"json_each", "json_tree"})

MATCH_SECONDS = 10.0  # of one search of REGEXP: more than any that does not try all ways there are
_LEAST_SECONDS = 0.001

LONGEST = 64 << 20  # bytes of one value: more can only be asked for by mistake, or to fill the memory


class Denied(NamedTuple):
    """What was asked for and is not allowed: to read a view or a column, to call a function, or to do anything else."""

    kind: Literal["view", "column", "function", "act"]
    name: str


_Act = tuple[int, str | None, str | None]


class Guard:
    """The judge of one connection. `views`: the views that users may read, with their columns."""

    def __init__(self, views: Mapping[str, Sequence[str]], functions: Iterable[str]) -> None:
        self.views = views
        self.functions = frozenset(functions)
        self._readable: dict[str, frozenset[str] | None] = dict.fromkeys(TABLES)  # all of their columns
        self._readable |= {name.lower(): frozenset(map(str.lower, columns)) for name, columns in views.items()}
        self._insides: dict[str, set[_Act]] = {name.lower(): set() for name in views}
        self.denied: Denied | None = None
        self.problem = ""  # of a function of ours
        self.end = float("inf")  # of the time that a query may take, by time.monotonic()
        self.read: set[str] = set()  # columns that were asked for, in lower case

    def put_on(self, connection: sqlite3.Connection) -> None:
        """From here on, the connection does what users may, and no more."""
        for name in TABLES:  # at their first use SQLite notes them in its schema, which would be denied
            connection.execute(f"SELECT 1 FROM {name}('[]')").close()
        connection.create_function("regexp", 2, self._regexp, deterministic=True)
        if hasattr(connection, "setlimit"):  # Python 3.11
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.set_authorizer(self._note)
        for name in self._insides:
            connection.execute(f'EXPLAIN SELECT * FROM "{name}"').close()
        connection.set_authorizer(self._judge)

    def _note(self, action: int, one: str | None, two: str | None, _: str | None, inside: str | None) -> int:
        """What our views do inside: SQLite names a user's subquery, too, as if it were one (`WITH v_part AS ...`)."""
        if inside is not None and inside.lower() in self._insides:
            self._insides[inside.lower()].add((action, one, two))
        return sqlite3.SQLITE_OK

    def _judge(self, action: int, one: str | None, two: str | None, _: str | None, inside: str | None) -> int:
        if inside is not None and (action, one, two) in self._insides.get(inside.lower(), ()):
            return sqlite3.SQLITE_OK
        if action in (_SELECT, _RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == _READ and self._may_read((one or "").lower(), (two or "").lower()):
            return sqlite3.SQLITE_OK
        if action == _FUNCTION and (two or "").lower() in self.functions:
            return sqlite3.SQLITE_OK
        if action == _FUNCTION:
            self.denied = Denied("function", two or "")
        elif action == _READ:
            is_view = (one or "").lower() not in self._readable
            self.denied = Denied("view", one or "") if is_view else Denied("column", two or "")
        else:
            self.denied = Denied("act", one or "")
        return sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str) -> bool:
        """Columns that no view lists are SQLite's own, such as rowid; none is named where rows are counted."""
        columns = self._readable.get(table)
        if not column or (table in self._readable and (columns is None or column in columns)):
            self.read.add(column)
            return True
        return False

    def _regexp(self, pattern: object, text: object) -> bool | None:
        """`text REGEXP pattern`: Python's expressions, anywhere in the text.

        Not by `re`, which may try for years, and ends for nobody.
        """
        import regex

        if pattern is None or text is None:
            return None
        left = max(_LEAST_SECONDS, min(MATCH_SECONDS, self.end - time.monotonic()))
        try:
            return regex.search(str(pattern), str(text), timeout=left) is not None
        except TimeoutError:
            self.problem = f"{str(pattern)!r:.60} takes longer than {MATCH_SECONDS:g} s to be looked for in one value"
            raise
        except (regex.error, RecursionError, OverflowError) as error:
            self.problem = f"{pattern!r} is no regular expression: {error}"
            raise
