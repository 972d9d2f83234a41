from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.sql_text import pointed, tokens


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokens(text)]


def test_words_are_told_apart_as_sqlite_does() -> None:
    assert kinds("a>=1.5e3 and [b c]='it''s' -- no\n/* nor */ || x'ff' ->> ?1") == [
        ("name", "a"),
        ("sign", ">="),
        ("number", "1.5e3"),
        ("name", "and"),
        ("quoted", "[b c]"),
        ("sign", "="),
        ("text", "'it''s'"),
        ("sign", "||"),
        ("text", "x'ff'"),
        ("sign", "->>"),
        ("parameter", "?1"),
    ]


@pytest.mark.parametrize(("text", "meaning"), [('"a""b"', 'a"b'), ("`a``b`", "a`b"), ("[a]", "a"), ("a", "a")])
def test_a_name_means_what_stands_in_its_quotes(text: str, meaning: str) -> None:
    assert [token.meaning for token in tokens(text)] == [meaning]


@pytest.mark.parametrize("text", ["'a", 'b = "c', "[d", "`"])
def test_a_quotation_that_is_not_closed_is_seen(text: str) -> None:
    assert "open" in {token.kind for token in tokens(text)}


@given(st.text(alphabet="ab1'\"[]`-/*\n ();=.é$?:", max_size=30))
def test_every_character_is_in_a_word_or_in_a_blank(text: str) -> None:
    found = tokens(text)
    assert all(token.text == text[token.at : token.end] for token in found)
    assert all(before.end <= token.at for before, token in pairwise(found))


def test_marks_stand_below_the_word() -> None:
    assert pointed("width = 1\nand hight = 2", 14, 5) == "and hight = 2\n    ^^^^^"


@given(st.integers(0, 999), st.integers(1, 20), st.integers(20, 80))
def test_a_long_line_is_cut_around_the_word(at: int, length: int, width: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    line, marks = pointed(text, at, length, width=width).split("\n")
    assert len(line) <= width
    assert len(marks) <= len(line)
    assert line[marks.index("^")] == text[at]
