"""Lets users' SQL read the documented views by harmless functions, and nothing else; records what it denied.

SQLite compiles the text itself, and asks the guard about every table, column and function in it
(https://www.sqlite.org/c3ref/set_authorizer.html). The connection is read-only, too.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Literal, NamedTuple

_SELECT, _READ, _FUNCTION, _RECURSIVE = 21, 20, 31, 33  # of sqlite3.h: Python has names for only some of them

_SCALARS = (
    "-> ->> abs acos acosh asin asinh atan atan2 atanh ceil ceiling char coalesce concat concat_ws cos cosh date "
    "datetime degrees exp floor format glob hex ifnull iif instr json json_array json_array_length json_extract "
    "json_object json_quote json_type json_valid julianday length like likelihood likely ln log log10 log2 lower "
    "ltrim max min mod nullif octet_length pi pow power printf quote radians regexp replace round rtrim sign sin sinh "
    "sqrt strftime substr substring tan tanh time timediff trim trunc typeof unicode unixepoch unlikely upper"
)
_AGGREGATE_NAMES = (
    "avg count cume_dist dense_rank first_value group_concat json_group_array json_group_object lag last_value lead "
    "nth_value ntile percent_rank random rank row_number string_agg sum total"
)
#: Functions of one row, whose results depend on nothing else.
SCALAR_FUNCTIONS = frozenset(_SCALARS.split())
#: Functions of many rows or of none, allowed only in queries.
AGGREGATE_FUNCTIONS = frozenset(_AGGREGATE_NAMES.split())
#: Table-valued functions, which read only their arguments.
TABLE_FUNCTIONS = frozenset({"json_each", "json_tree"})

MAX_REGEXP_SECONDS = 10.0  # of one search of REGEXP: only catastrophic backtracking takes longer
_MIN_REGEXP_SECONDS = 0.001

MAX_REGEXP_CHARS = 10_000  # of a pattern: nothing bounds the time to compile it
_MAX_REGEXP_ITEMS = 1_000_000  # 0.7 s and 300 MB
#: Whitespace is no item: with the flag x, a count applies to what precedes it.
_REGEXP_ITEM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\{[^{}]*\}|\S", re.DOTALL)
_OTHER_SYNTAX = re.compile(r"\(\?(?:#|[a-zA-Z0-9-]*[xV])")  # comments, the flag x, and nested sets of the flag V1
#: SQLite stops a query only between two function calls, so the limits below bound the time of one call to seconds.
MAX_SQL_VALUE_BYTES = 4 << 20  # of one value
_MAX_COMPARISONS = 1 << 28  # of one call of replace, instr or trim: bytes of one text times bytes of the other
_MAX_PRINTF_BYTES = MAX_SQL_VALUE_BYTES  # sum of the widths and precisions in a format
_MAX_INT = (1 << 31) - 1  # SQLite's largest width
_PRINTF_NUMBERS = re.compile(r"%([-+ #!,l*.0-9]+)")

#: Steps of SQLite's virtual machine between two checks of the clock: 5 microseconds, or some 20 calls of functions of
#: the longest values. Fewer steps would make a query that only counts rows a third slower.
STEPS_PER_CHECK = 100

#: SQLite's functions whose time its limits do not bound, with their numbers of arguments. `bound_calls` says
#: which of them a query may leave to SQLite: a call of ours takes 4 microseconds, 30 times as long.
SLOW_FUNCTIONS = (
    ("printf", -1),
    ("format", -1),
    ("like", 2),
    ("like", 3),
    ("glob", 2),
    ("instr", 2),
    ("replace", 3),
    ("trim", 2),
    ("ltrim", 2),
    ("rtrim", 2),
)


class DeniedAccess(NamedTuple):
    """A denied access: to a view, a column or a function, or any other action."""

    kind: Literal["view", "column", "function", "act"]
    name: str


_Access = tuple[int, str | None, str | None]


class Guard:
    """The authorizer of one connection. `views`: the views that users may read, with their columns."""

    def __init__(self, views: Mapping[str, Sequence[str]], functions: Iterable[str]) -> None:
        self.views = views
        self.functions = frozenset(functions)
        self._readable: dict[str, frozenset[str] | None] = dict.fromkeys(TABLE_FUNCTIONS)  # all of their columns
        self._readable |= {name.lower(): frozenset(map(str.lower, columns)) for name, columns in views.items()}
        self._view_accesses: dict[str, set[_Access]] = {name.lower(): set() for name in views}
        self.denied: DeniedAccess | None = None
        self.function_error = ""  # the error of one of our functions
        self.deadline_seconds = float("inf")  # of the query, by time.monotonic()
        self.columns_read: set[str] = set()  # columns that the query reads, in lower case

    def install(self, connection: sqlite3.Connection) -> None:
        """Restrict the connection to what users may do. `bound_functions` is still to be called."""
        for name in TABLE_FUNCTIONS:  # on first use, SQLite adds them to its schema, which the guard would deny
            connection.execute(f"SELECT 1 FROM {name}('[]')").close()
        connection.create_function("regexp", 2, self._regexp, deterministic=True)
        _limit_values(connection)
        connection.set_authorizer(self._record_view_access)
        for name in self._view_accesses:
            connection.execute(f'EXPLAIN SELECT * FROM "{name}"').close()
        connection.set_authorizer(self._authorize)

    def bound_functions(self, connection: sqlite3.Connection, names: Container[str]) -> None:
        """Replace those of `SLOW_FUNCTIONS` that are in `names` by functions of bounded time."""
        for name, count in SLOW_FUNCTIONS:
            if name in names:
                connection.create_function(name, count, self._bounded(name, count), deterministic=True)

    def _record_view_access(
        self, action: int, one: str | None, two: str | None, _: str | None, view: str | None
    ) -> int:
        """Record the accesses inside our views, as SQLite also reports a user's subquery as a view (`WITH v_part AS
        ...`)."""
        if view is not None and view.lower() in self._view_accesses:
            self._view_accesses[view.lower()].add((action, one, two))
        return sqlite3.SQLITE_OK

    def _authorize(self, action: int, one: str | None, two: str | None, _: str | None, view: str | None) -> int:
        if time.monotonic() > self.deadline_seconds:  # nested queries may take exponential time to compile
            return sqlite3.SQLITE_DENY
        if view is not None and (action, one, two) in self._view_accesses.get(view.lower(), ()):
            return sqlite3.SQLITE_OK
        if action in (_SELECT, _RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == _READ and self._may_read((one or "").lower(), (two or "").lower()):
            return sqlite3.SQLITE_OK
        if action == _FUNCTION and (two or "").lower() in self.functions:
            return sqlite3.SQLITE_OK
        if action == _FUNCTION:
            self.denied = DeniedAccess("function", two or "")
        elif action == _READ:
            is_view = (one or "").lower() not in self._readable
            self.denied = DeniedAccess("view", one or "") if is_view else DeniedAccess("column", two or "")
        else:
            self.denied = DeniedAccess("act", one or "")
        return sqlite3.SQLITE_DENY

    def _may_read(self, table: str, column: str) -> bool:
        """Whether users may read a column. Other columns, such as rowid, are SQLite's own. Counting rows reads none."""
        columns = self._readable.get(table)
        if not column or (table in self._readable and (columns is None or column in columns)):
            self.columns_read.add(column)
            return True
        return False

    def _bounded(self, name: str, count: int) -> Callable[..., Any]:
        """SQLite's function, which refuses calls that would take more than seconds."""
        of_text = name in ("printf", "format")
        statement = f"SELECT {name}({', '.join('?' * count)})"
        execute = _unguarded().execute

        def call(*arguments: Any) -> Any:
            # SQLite may make hundreds of calls before it looks at the clock.
            if time.monotonic() > self.deadline_seconds:
                raise TimeoutError
            if of_text and (size := printf_bytes(arguments)) > _MAX_PRINTF_BYTES:
                self.function_error = (
                    f"the format of {name}() has widths and precisions of {size:,} characters; "
                    f"the limit is {_MAX_PRINTF_BYTES:,}"
                )
                raise ValueError(self.function_error)
            if not of_text and (one := _size(arguments[0])) * (other := _size(arguments[1])) > _MAX_COMPARISONS:
                self.function_error = (
                    f"the first two arguments of {name}() have {one:,} and {other:,} characters; "
                    f"the limit of their product is {_MAX_COMPARISONS:,}"
                )
                raise ValueError(self.function_error)
            try:
                if of_text:
                    return execute(f"SELECT printf({', '.join('?' * len(arguments))})", arguments).fetchone()[0]
                return execute(statement, arguments).fetchone()[0]
            except sqlite3.Error as error:  # a result that is too long
                self.function_error = str(error)
                raise

        return call

    def _regexp(self, pattern: object, text: object) -> bool | None:
        """`text REGEXP pattern`: Python's regular expressions, anywhere in the text.

        Uses `regex`, because a search by `re` may take years and cannot be interrupted.
        """
        import regex

        if pattern is None or text is None:
            return None
        if len(str(pattern)) > MAX_REGEXP_CHARS:
            self.function_error = (
                f"the regular expression has {len(str(pattern)):,} characters; the limit is {MAX_REGEXP_CHARS:,}"
            )
            raise ValueError(self.function_error)
        if (items := _regexp_size(str(pattern))) > _MAX_REGEXP_ITEMS:
            self.function_error = (
                f"the counts in braces make the regular expression {items:,} items long; "
                f"the limit is {_MAX_REGEXP_ITEMS:,}"
            )
            raise ValueError(self.function_error)
        left = max(_MIN_REGEXP_SECONDS, min(MAX_REGEXP_SECONDS, self.deadline_seconds - time.monotonic()))
        try:
            return regex.search(str(pattern), str(text), timeout=left) is not None
        except TimeoutError:
            self.function_error = (
                f"matching {str(pattern)!r:.60} against one value takes longer than {MAX_REGEXP_SECONDS:g} s"
            )
            raise
        except (regex.error, RecursionError, OverflowError) as error:
            self.function_error = f"{pattern!r} is not a regular expression: {error}"
            raise


def _regexp_size(pattern: str) -> int:
    """The items of a regular expression, each as often as the counts around it say: `regex` compiles each repeat."""
    items = _REGEXP_ITEM.findall(pattern)
    if _OTHER_SYNTAX.search(pattern):
        return prod(map(_count, items))
    sizes, last = [0], 0  # items of each open group, and of the last item
    for item in items:
        if item == "(":
            sizes.append(0)
        elif item == ")":
            last = sizes.pop()
            sizes = sizes or [0]
            sizes[-1] += last
        elif item.startswith("{"):
            sizes[-1] += last * (_count(item) - 1)
            last *= _count(item)
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def _count(item: str) -> int:
    """The largest count in braces; 1 for other items."""
    digits = re.findall("[0-9]+", item) if item.startswith("{") else []
    return max((int(each[:9]) for each in digits), default=1) or 1


def _limit_values(connection: sqlite3.Connection) -> None:
    if hasattr(connection, "setlimit"):  # Python 3.11
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_SQL_VALUE_BYTES)


@cache
def _unguarded() -> sqlite3.Connection:
    """An empty database whose functions are SQLite's own."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _limit_values(connection)
    return connection


def _size(value: object) -> int:
    """Characters or bytes of a value; a number has few."""
    return len(value) if isinstance(value, str | bytes) else 1


def printf_bytes(arguments: Sequence[Any]) -> int:
    """The sum of the widths and precisions in a format, which SQLite writes one by one even past its limit."""
    if not arguments or not isinstance(arguments[0], str | bytes):
        return 0
    text = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode("utf-8", "replace")
    numbers = "".join(f"{found[1]} " for found in _PRINTF_NUMBERS.finditer(text))
    lengths = (digits.lstrip("0") for digits in re.findall("[0-9]+", numbers))
    size = sum(int(digits or 0) if len(digits) < 10 else _MAX_INT for digits in lengths)
    if "*" in numbers:  # an argument is the number, as SQLite converts it
        convert = "SELECT CAST(? AS INTEGER)"
        largest = max(
            (abs(_unguarded().execute(convert, (each,)).fetchone()[0] or 0) for each in arguments[1:]), default=0
        )
        size += numbers.count("*") * largest
    return size
