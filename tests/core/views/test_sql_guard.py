from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from wdsctl.core.views.sql_guard import AGGREGATE_FUNCTIONS, SCALAR_FUNCTIONS, SLOW_FUNCTIONS, Guard


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute("CREATE TABLE secret (a, parts)")
        database.execute("INSERT INTO secret VALUES (1, '[1, 2]')")
        database.execute("CREATE VIEW v_open AS SELECT a, upper(a) AS b, value FROM secret JOIN json_each(parts)")
        yield database


def install_guard(connection: sqlite3.Connection) -> Guard:
    guard = Guard({"v_open": ("a", "b", "value")}, SCALAR_FUNCTIONS | AGGREGATE_FUNCTIONS)
    guard.install(connection)
    guard.bound_functions(connection, dict(SLOW_FUNCTIONS))
    return guard


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM v_open",
        "SELECT count(*), max(a), group_concat(b) FROM v_open GROUP BY value HAVING count(*) > 0",
        "WITH t AS (SELECT a FROM v_open) SELECT * FROM t JOIN v_open USING (a)",
        "WITH v_open AS (SELECT 1 AS a) SELECT a FROM v_open",
        "SELECT row_number() OVER (ORDER BY value) FROM v_open WHERE b LIKE '1' AND b REGEXP '^1' AND b GLOB '*'",
        "SELECT value FROM json_each('[1]') UNION SELECT json_extract('[1]', '$[0]') + abs(random()) % 1",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 5) SELECT sum(n) FROM r",
    ],
)
def test_reading_views_is_allowed(connection: sqlite3.Connection, query: str) -> None:
    guard = install_guard(connection)
    assert connection.execute(query).fetchall()
    assert guard.denied is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM secret",
        "SELECT name FROM sqlite_master",
        "SELECT * FROM pragma_table_info('secret')",
        "SELECT * FROM v_open WHERE a IN (SELECT a FROM secret)",
        "WITH v_open AS (SELECT name FROM sqlite_master) SELECT * FROM v_open",
        "WITH V_Open(a) AS (SELECT randomblob(10)) SELECT a FROM v_open",
        "INSERT INTO secret VALUES (2, '[]')",
        "DELETE FROM secret",
        "DROP VIEW v_open",
        "CREATE TABLE t (a)",
        "CREATE TEMP TABLE t (a)",
        "PRAGMA user_version",
        "PRAGMA writable_schema = 1",
        "ATTACH 'x' AS x",
        "VACUUM INTO 'x'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT randomblob(10)",
        "SELECT zeroblob(10)",
        "SELECT fts3_tokenizer('x')",
    ],
)
def test_all_other_access_is_denied(connection: sqlite3.Connection, query: str) -> None:
    guard = install_guard(connection)
    with pytest.raises(sqlite3.DatabaseError):
        connection.execute(query).fetchall()
    assert guard.denied is not None or "no such function" in query or "fts3" in query
    connection.set_authorizer(None)
    assert connection.execute("SELECT * FROM secret").fetchall() == [(1, "[1, 2]")]


def test_guard_records_columns_that_were_read(connection: sqlite3.Connection) -> None:
    guard = install_guard(connection)
    connection.execute('SELECT A FROM v_open WHERE "Value" = 1')
    assert guard.columns_read == {"a", "value"}


def test_invalid_regular_expression_is_reported(connection: sqlite3.Connection) -> None:
    guard = install_guard(connection)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute("SELECT b REGEXP '(' FROM v_open").fetchall()
    assert "'(' is not a regular expression" in guard.function_error
    assert connection.execute("SELECT NULL REGEXP 'a', 'a' REGEXP NULL").fetchall() == [(None, None)]


@pytest.mark.timeout(60)
def test_slow_regular_expression_ends_at_query_deadline() -> None:
    guard = Guard({}, ("regexp",))
    guard.deadline_seconds = time.monotonic() + 0.2
    with closing(sqlite3.connect(":memory:")) as connection:
        guard.install(connection)
        with pytest.raises(sqlite3.OperationalError):
            connection.execute(f"SELECT '{'a' * 60}' REGEXP '(a|aa)+$b'").fetchall()
    assert time.monotonic() - guard.deadline_seconds < 5
    assert "takes longer than" in guard.function_error


@pytest.mark.parametrize("pattern", ["a{2}b{3}", "[0-9]{500}_[0-9]{500}", "(a{500}|b{500}){500}", "a{0}"])
def test_neighboring_counts_of_regular_expression_are_added(connection: sqlite3.Connection, pattern: str) -> None:
    install_guard(connection)
    assert connection.execute(f"SELECT '' REGEXP '{pattern}'").fetchone()


@pytest.mark.parametrize(
    "pattern",
    [
        "((a{1000}){1000}){1000}",
        r"(\)a{2000}){2000}",
        "([)]a{2000}){2000}",
        "([]})]a{2000}){2000}",
        "(?x)(a{2000}) #x\n {2000}",
        "(?V1)([[a])]{2000}){2000}",
    ],
)
def test_nested_counts_of_regular_expression_are_multiplied(connection: sqlite3.Connection, pattern: str) -> None:
    guard = install_guard(connection)
    with pytest.raises(sqlite3.OperationalError):
        connection.execute(f"SELECT '' REGEXP '{pattern}'").fetchone()
    assert "items" in guard.function_error


@pytest.mark.parametrize(
    "call",
    [
        "printf('%05.1f %s %%', 2.25, NULL)",
        "printf('%-*d|%.*s', 4, 7, 2, 'abc')",
        "printf(NULL)",
        "printf()",
        "'aBc' LIKE 'a_C%'",
        "'a%' LIKE 'a!%' ESCAPE '!'",
        "'aB' GLOB '[a]?'",
        "NULL LIKE 'a'",
        "12 LIKE '1%'",
        "instr('abc', 'c')",
        "instr(x'0102', x'02')",
        "instr(NULL, 'a')",
        "replace(12.5, 2, 'x')",
        "trim('xxaxx', 'x')",
        "ltrim('  a ')",
        "rtrim('ab', 'b')",
    ],
)
def test_bounded_functions_return_what_sqlite_returns(connection: sqlite3.Connection, call: str) -> None:
    expected = connection.execute(f"SELECT {call}").fetchone()
    install_guard(connection)
    assert connection.execute(f"SELECT {call}").fetchone() == expected


def test_guard_ends_compilation_at_deadline(connection: sqlite3.Connection) -> None:
    install_guard(connection).deadline_seconds = time.monotonic()
    with pytest.raises(sqlite3.DatabaseError):
        connection.execute("EXPLAIN SELECT a FROM v_open")


def test_calls_of_bounded_functions_end_at_deadline(connection: sqlite3.Connection) -> None:
    guard, query = install_guard(connection), "SELECT b LIKE '1' FROM v_open"
    assert connection.execute(query).fetchall() == [(1,), (1,)]
    guard.deadline_seconds = 0
    with pytest.raises(sqlite3.OperationalError):
        connection.execute(query).fetchall()
