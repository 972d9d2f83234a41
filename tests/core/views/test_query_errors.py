from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.views.sql_errors import Query
from wdsctl.core.views.sql_guard import SCALAR_FUNCTIONS, Guard


def explain_error(text: str) -> UsageError:
    """The error of a query over `v_row (width, ext)`."""
    query = Query(text, "the query", "docs/x.md")
    guard = Guard({"v_row": ("width", "ext"), "v_key": ("key",)}, SCALAR_FUNCTIONS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE sample (key)")
        connection.execute("CREATE VIEW v_row AS SELECT 1 AS width, 'jpg' AS ext")
        connection.execute("CREATE VIEW v_key AS SELECT key FROM sample")
        guard.install(connection)
        try:
            query.check_quoted_names(query.tokens(), ("width", "ext", "v_row"))
            connection.execute(text).fetchall()
        except UsageError as error:
            return error
        except sqlite3.Error as error:
            return query.explain(error, guard, ("width", "ext"))
    raise AssertionError("nothing is wrong with it")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("SELECT widht FROM v_row", "no such column: widht", "did you mean width?"),
        ("SELECT t.widht FROM v_row AS t", "no such column: t.widht", "did you mean width?"),
        ("SELECT v.WIDTH FROM v_key AS v", "no such column: v.WIDTH", "WIDTH is a column of v_row"),
        ("SELECT 1 FROM v_rwo", "no such table: v_rwo", "did you mean v_row?"),
        ("SELECT lenght(ext) FROM v_row", "no such function: lenght", "did you mean length?"),
        ("SELECT lower() FROM v_row", "wrong number of arguments", "docs/x.md"),
        ("SELECT width width FROM v_row nad 1", 'near "1": syntax error', "docs/x.md"),
        ("SELECT 1 FROM v_row WHERE AND width", 'near "AND": syntax error', "docs/x.md"),
        ("SELECT key FROM sample", "sample cannot be read", "the views are v_row"),
        ("SELECT randomblob(9) FROM v_row", "the function randomblob is not allowed", "docs/x.md"),
        ("DELETE FROM v_row", "only reading is allowed", "v_row"),
        ('SELECT 1 FROM v_row WHERE ext = "jpg"', "no such column: jpg", "'jpg'"),
        ("SELECT 1 FROM v_row WHERE ext = 'jpg", 'unrecognized token: "\'jpg"', "docs/x.md"),
        ("SELECT 1 FROM v_row WHERE width = :n", ":n is a query parameter", "write the value instead"),
        ("SELECT 1 FROM v_row WHERE (width", "incomplete input", "docs/x.md"),
    ],
)
def test_query_error_has_message_of_sqlite_and_suggestion(text: str, message: str, hint: str) -> None:
    error = explain_error(text)
    assert (error.code, error.where) == ("WDS332", "the query")
    assert message in error.message
    assert hint in error.hint


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", "a\0b"])
def test_query_without_statement_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Query(text, "the query", "docs/x.md").tokens()


def test_tokens_match_those_of_sqlite() -> None:
    tokens = Query("a>1.5e3 and [b c]='it''s' -- no\n/* nor */ || x'ff'", "the query", "docs/x.md").tokens()
    assert [(token.kind, token.text) for token in tokens if token.kind != "sign"] == [
        ("name", "a"),
        ("number", "1.5e3"),
        ("name", "and"),
        ("quoted", "[b c]"),
        ("text", "'it''s'"),
        ("text", "x'ff'"),
    ]


@pytest.mark.parametrize(("text", "meaning"), [('"a""b"', 'a"b'), ("`a``b`", "a`b"), ("[a]", "a"), ("a", "a")])
def test_token_identifier_removes_quotes(text: str, meaning: str) -> None:
    assert [token.identifier for token in Query(text, "the query", "docs/x.md").tokens()] == [meaning]
