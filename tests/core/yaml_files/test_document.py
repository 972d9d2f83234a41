from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError
from wdsctl.core.yaml_files.document import dump_yaml, format_block, format_scalar, key_line_range, parse_yaml

PRINTABLE = st.text(st.characters(codec="utf-8"))


@given(PRINTABLE)
def test_format_scalar_round_trips_any_text(text: str) -> None:
    assert yaml.safe_load(f"x: {format_scalar(text)}\n") == {"x": text}


@pytest.mark.parametrize("text", ["jpg", "jpg,png", "json[caption]", "json[a][0][b]", "train", "v1.5", "子 x 子"[2:3]])
def test_format_scalar_writes_common_texts_without_quotes(text: str) -> None:
    assert format_scalar(text) == text


@pytest.mark.parametrize("text", ["yes", "null", "1", "1e3", "", "a: b", "a #b", "- a", "{a}", "*a", "12:30:00"])
def test_format_scalar_quotes_texts_that_yaml_would_misread(text: str) -> None:
    assert format_scalar(text).startswith('"')


@given(st.dictionaries(PRINTABLE.filter(bool), PRINTABLE))
def test_format_block_round_trips_entries(entries: dict[str, str]) -> None:
    text = format_block("key", {name: format_scalar(value) for name, value in entries.items()})

    assert yaml.safe_load(text) == {"key": entries}


@pytest.mark.parametrize("text", ["\x85", "a\u2028b", "größe", "\ufeff", "🐶", "a\nb\n"])
def test_dump_yaml_round_trips_special_characters(text: str) -> None:
    assert yaml.safe_load(dump_yaml({"x": {text: [text]}})) == {"x": {text: [text]}}


def test_where_returns_line_of_key_or_nearest_parent() -> None:
    document = parse_yaml("a: 1\nb:\n  c: 2\n\n  d: {e: 3}\n", "x.yaml")

    assert document.where("b", "c") == "x.yaml:3"
    assert document.where("b", "d", "e") == "x.yaml:5"
    assert document.where("b", "nothing") == "x.yaml:2"
    assert document.where("nothing") == "x.yaml"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", ":3", "expected ',' or ']'"),
        ("a: 1\n\tb: 2\n", ":2", "tab|cannot start any token"),
        ("a: 1\na: 2\n", ":2", "duplicate key 'a', first in line 1"),
        ("a:\n  b: 1\n  b: 2\n", ":3", "duplicate key 'b'"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", ":2", "could not determine a constructor"),
        ("a: 1\n---\nb: 2\n", ":2", "another document"),
        ("? [a, b]\n: 1\n", ":1", "a key must be a single value"),
        ("a: 2024-13-45\n", "", "month must be in"),
        ("a: \x00\n", "", "characters"),
        ("a: " + "[" * 5000, ":1", "nested more than 60 levels"),
    ],
)
def test_parse_error_names_line(text: str, line: str, reason: str) -> None:
    with pytest.raises(DatasetError, match=reason) as caught:
        parse_yaml(text, "x.yaml")

    assert caught.value.where == f"x.yaml{line}"
    assert caught.value.code == "WDS220"


def test_aliases_and_merges_are_resolved() -> None:
    data = parse_yaml("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", "x.yaml").data

    assert data == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\nc: 3\n", range(1, 2)),
        ("a: 1\nb:\n  x: 1\n  y: {z: 2}\n# of c\n\nc: 3\n", range(1, 4)),
        ("b:\n  x: 1\n  # remark\n\n", range(2)),
        ("b: {x: 1,\n  y: 2}\nc: 3\n", range(2)),
        ("b:\nc: 3\n", range(1)),
        ("b:\n- 1\n- 2\nc: 3\n", range(3)),
        ("b: |\n  text\n  more\nc: 3\n", range(3)),
        ("a: 1\nb: 2", range(1, 2)),
        ("a: 1\n", range(1, 1)),
        ("a: 1\n...\n", range(1, 1)),
        ("a: 1", range(1, 1)),
        ("{a: 1, b: 2}\n", None),
    ],
)
def test_key_line_range_ends_before_comments_of_next_key(text: str, lines: range | None) -> None:
    assert key_line_range(text, "b") == lines
