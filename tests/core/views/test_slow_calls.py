from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.views.slow_calls import MAX_CALLS, bound_calls
from wdsctl.core.views.sql_errors import Query
from wdsctl.core.views.sql_guard import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, Guard


class _NotedNames(Guard):
    """A guard that notes which functions it is to bound."""

    def bound_functions(self, connection: sqlite3.Connection, names: object) -> None:
        self.names = names


def find_bounded(text: str) -> object:
    """The names of the functions that the guard bounds for a query."""
    guard = _NotedNames({}, SCALAR_FUNCTIONS | AGGREGATE_FUNCTIONS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE v (key, size, format)")
        bound_calls(Query(text, "the query", "docs/x.md"), guard, connection, text)
    return guard.names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM v WHERE key LIKE '%/train/%.jpg' AND key NOT GLOB '*.png'",
        "SELECT key LIKE 'a/long/prefix/has/a/length/that/does/not/matter/%' AS a FROM v",
        "SELECT CASE WHEN key LIKE '%a' THEN 1 END FROM v WHERE (key LIKE 'it''s %')",
        "SELECT replace(key, '/', key), instr(key, 'train'), trim(key), ltrim(key, ' /'), rtrim(key, '.') FROM v",
        "SELECT printf('%05d %s', size, key), format('%-10s', (key)) FROM v -- no comment",
        "SELECT format FROM v",
    ],
)
def test_calls_with_short_texts_are_left_to_sqlite(text: str) -> None:
    assert find_bounded(text) == frozenset()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT key LIKE '%' || key FROM v", "like"),
        ("SELECT key LIKE '%' -> key FROM v", "like"),
        ("SELECT key LIKE size FROM v", "like"),
        ("SELECT key LIKE ('%a') FROM v", "like"),
        ("SELECT like(key, 'a') FROM v", "like"),
        ("SELECT `like`(key, 'a') FROM v", "like"),
        ("SELECT key LIKE '!%' ESCAPE '!' FROM v", "like"),
        ("SELECT key \ufeffLIKE key FROM v", "like"),
        ("SELECT key LIKE '%aaaaaaaaaaaaaaaaaaaaa' AND key LIKE '%bbbbbbbbbbbb' FROM v", "like"),
        ("SELECT key GLOB '*[abcdefghijklmnopqrstuvwxyz0123456789]' FROM v", "glob"),
        ("SELECT replace(key, key, '') FROM v", "replace"),
        ("SELECT replace(key, 'a' || key, '') FROM v", "replace"),
        ("SELECT replace((SELECT max(key, 'a')), size, '') FROM v", "replace"),
        (f"SELECT instr(key, '{'a' * 100}') FROM v", "instr"),
        ("SELECT trim(key, 'abcdefgh') FROM v", "trim"),
        ("SELECT printf('%.*c', size, 'x') FROM v", "printf"),
        ("SELECT printf('%9999s', key) FROM v", "printf"),
        ("SELECT printf(key, size) FROM v", "printf"),
        ("SELECT size \ufeff, printf /* */ (key) FROM v", "printf"),
    ],
)
def test_calls_that_may_take_long_are_bounded(text: str, name: str) -> None:
    assert find_bounded(text) == frozenset({name})


def test_expression_that_subqueries_multiply_is_bounded() -> None:
    text = "SELECT {} FROM (SELECT key LIKE '%a' AS x FROM v)"
    assert find_bounded(text.format("x + x")) == frozenset()
    assert "like" in find_bounded(text.format(" + ".join("x" * 40)))  # type: ignore[operator]


def test_query_of_too_many_calls_for_one_row_is_refused() -> None:
    """SQLite looks at the clock only in loops, so nothing could end the calls for one row."""
    text = f"SELECT {' + '.join(['length(hex(key || size))'] * (MAX_CALLS // 3 + 1))} FROM v"
    with pytest.raises(UsageError, match="functions 501 times per row") as caught:
        find_bounded(text)
    assert caught.value.code == "WDS332"
