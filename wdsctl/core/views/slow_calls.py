"""Finds calls of SQL functions that SQLite itself may make, because their arguments in the query are short.

`Guard` bounds the calls of all others by functions of ours, which take 30 times as long.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from wdsctl.core.views.sql_errors import Query, Token
from wdsctl.core.views.sql_guard import SLOW_FUNCTIONS, Guard, printf_bytes

MAX_CALLS = 500  # of functions for one row: at most 20 s of SQLite's functions of values of MAX_SQL_VALUE_BYTES
_MAX_QUICK_CALLS = 32
_CALLS = frozenset({"Function", "PureFunc", "Concat", "AggStep", "AggInverse", "AggValue"})

# One call takes at most 0.2 s, against a value of MAX_SQL_VALUE_BYTES.
_MAX_PATTERN_CHARS = 32  # after the first wildcard of all patterns of LIKE and GLOB: SQLite compares them at every byte
_MAX_NEEDLE_CHARS = 32  # of the second argument of replace and instr
_MAX_TRIM_CHARS = 4
_MAX_PRINTF_BYTES = 1_000

_WILDCARDS = {"like": re.compile("[%_]"), "glob": re.compile(r"[*?\[]")}
#: What may follow a pattern. Operators may not: those that bind more closely than LIKE make another pattern.
_ENDS = re.compile(r"[),;]|and|or|then|else|when|end|from|as|group|having|order|limit|union", re.IGNORECASE)


def bound_calls(
    query: Query, guard: Guard, connection: sqlite3.Connection, statement: str, arguments: Sequence[int] = ()
) -> None:
    """Bound the time of the calls in the statement of a query by functions of `guard`, where it is not short anyway.

    Raises UsageError WDS332 if SQLite would make too many calls before it looks at the clock.
    """
    names = frozenset(dict(SLOW_FUNCTIONS))
    if query.tokens()[0].text.lower() != "explain":
        # SQLite looks at the clock in loops, and not between the calls for one row. Subqueries multiply their number.
        calls = sum(row[1] in _CALLS for row in connection.execute(f"EXPLAIN {statement}", arguments))
        if calls > MAX_CALLS:
            message = f"SQLite would call functions {calls:,} times per row; the limit is {MAX_CALLS:,}"
            raise query.error(message, "divide the query into several")
        if calls <= _MAX_QUICK_CALLS:
            names = _find_slow_calls(query)
    guard.bound_functions(connection, names)


def _find_slow_calls(query: Query) -> frozenset[str]:
    """The names in `SLOW_FUNCTIONS` of which a query may make calls that take long."""
    tokens = query.tokens()
    quick = dict.fromkeys(dict(SLOW_FUNCTIONS), 0)
    pattern_chars = 0
    for at, token in enumerate(tokens):
        name = token.identifier.lower()
        if name in _WILDCARDS:
            pattern = _pattern(tokens, at)
            if pattern is not None:
                first = _WILDCARDS[name].search(pattern)
                pattern_chars += len(pattern) - first.start() if first else 0
                quick[name] += pattern_chars <= _MAX_PATTERN_CHARS
        elif name in quick:
            quick[name] += at + 1 == len(tokens) or tokens[at + 1].text != "(" or _is_quick(name, tokens, at + 2)
    # A name that SQLite may see, and the tokens do not, counts as a slow call.
    words = re.findall("[a-z]+(?![a-z0-9_$])", query.text.lower())
    return frozenset(name for name, count in quick.items() if words.count(name) != count)


def _pattern(tokens: Sequence[Token], at: int) -> str | None:
    """The pattern behind an operator LIKE or GLOB; None if only SQLite knows it."""
    is_alone = at + 2 >= len(tokens) or _ENDS.fullmatch(tokens[at + 2].text) is not None
    return _text(tokens[at + 1]) if at + 1 < len(tokens) and is_alone else None


def _is_quick(name: str, tokens: Sequence[Token], start: int) -> bool:
    """Whether a call, whose arguments begin at `start`, takes little time whatever its other arguments are."""
    arguments = _arguments(tokens, start)
    if name in ("printf", "format"):
        text = _text(arguments[0][0]) if len(arguments[0]) == 1 else None
        return text is not None and "*" not in text and printf_bytes((text,)) <= _MAX_PRINTF_BYTES
    if len(arguments) < 2:
        return name.endswith("trim")
    text = _text(arguments[1][0]) if len(arguments[1]) == 1 else None
    return text is not None and len(text) <= (_MAX_TRIM_CHARS if name.endswith("trim") else _MAX_NEEDLE_CHARS)


def _arguments(tokens: Sequence[Token], start: int) -> list[list[Token]]:
    """The tokens of each argument of a call, up to the parenthesis that closes it."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start:]:
        if token.text == ")" and depth == 0:
            break
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _text(token: Token) -> str | None:
    """The value of a text in single quotes; None for any other token."""
    is_text = token.kind == "text" and token.text.startswith("'")
    return token.text[1:-1].replace("''", "'") if is_text else None
