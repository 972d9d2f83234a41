from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.query_errors import Query
from wdsctl.core.query_guard import SCALARS, Guard


def told(text: str) -> UsageError:
    """What is said of a query over `v_row (width, ext)`."""
    query = Query(text, "the query", "docs/x.md")
    guard = Guard({"v_row": ("width", "ext")}, SCALARS)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE sample (key)")
        connection.execute("CREATE VIEW v_row AS SELECT 1 AS width, 'jpg' AS ext")
        guard.put_on(connection)
        try:
            query.check_quoted(query.words(), ("width", "ext", "v_row"))
            connection.execute(text).fetchall()
        except UsageError as error:
            return error
        except sqlite3.Error as error:
            return query.explained(error, guard, ("width", "ext"))
    raise AssertionError("nothing is wrong with it")


@pytest.mark.parametrize(
    ("text", "word", "said", "hint"),
    [
        ("SELECT widht FROM v_row", "widht", "there is no column widht", "did you mean width?"),
        ("SELECT t.widht FROM v_row AS t", "widht", "there is no column widht", "did you mean width?"),
        ("SELECT 1 FROM v_rwo", "v_rwo", "there is no view v_rwo", "did you mean v_row?"),
        ("SELECT lenght(ext) FROM v_row", "lenght", "no such function: lenght", "did you mean length?"),
        ("SELECT lower() FROM v_row", "lower", "wrong number of arguments", "docs/x.md"),
        ("SELECT width width FROM v_row nad 1", "1", 'near "1": syntax error', "docs/x.md"),
        ("SELECT 1 FROM v_row WHERE AND width", "AND", 'near "AND": syntax error', "docs/x.md"),
        ("SELECT 1 FROM v_row WHERE (width AND 1) AND AND 2", "AND 2", 'near "AND": syntax error', "docs/x.md"),
        ("SELECT key FROM sample", "sample", "sample cannot be read", "there are v_row"),
        ("SELECT randomblob(9) FROM v_row", "randomblob", "the function randomblob is not allowed", "docs/x.md"),
        ("DELETE FROM v_row", "DELETE", "only reading is allowed", "v_row"),
        ('SELECT 1 FROM v_row WHERE ext = "jpg"', '"jpg"', "there is no column jpg", "'jpg'"),
        ("SELECT 1 FROM v_row WHERE ext = 'jpg", "'jpg", "the quotation mark ' is not closed", "write another '"),
        ("SELECT 1 FROM v_row WHERE width = :n", ":n", ":n is to be filled in", "write the value itself"),
        ("SELECT 1 FROM v_row WHERE (width", "width", "the text ends too early", "docs/x.md"),
    ],
)
def test_an_error_points_at_the_word_and_says_what_was_meant(text: str, word: str, said: str, hint: str) -> None:
    error = told(text)
    place = text.rindex(word) if word not in ("1", "width", "AND") else _place(error)
    message, line, marks = error.message.split("\n")

    assert error.code == "WDS332"
    assert said in message
    assert hint in error.hint
    assert line == text
    assert text[marks.index("^") :].startswith(word.split(maxsplit=1)[0][:1])
    assert error.where == f"the query, character {place + 1}"


def _place(error: UsageError) -> int:
    return error.message.split("\n")[2].index("^")


@pytest.mark.parametrize("text", ["", "  ", "-- nothing", "a\0b"])
def test_a_text_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Query(text, "the query", "docs/x.md").words()
