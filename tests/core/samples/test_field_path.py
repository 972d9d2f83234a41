from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import DatasetError
from wdsctl.core.samples.field_path import EVERY_ITEM, FieldPath, PartAccess, parse_field_path

STEPS = st.one_of(
    st.just(EVERY_ITEM),
    st.integers(-(10**17), 10**17),
    st.text(min_size=1),
    st.from_regex(r"-?[0-9]{1,4}", fullmatch=True),
)
PATTERNS = st.from_regex(r"[a-z0-9.]*\*[a-z0-9.*]*", fullmatch=True)
ACCESSES = st.one_of(
    st.builds(PartAccess, st.text(min_size=1), st.lists(STEPS, max_size=3).map(tuple), st.just(value=False)),
    st.builds(PartAccess, PATTERNS, st.just(()), st.just(value=True)),
)
PATHS = st.builds(FieldPath, st.lists(ACCESSES, min_size=1, max_size=3).map(tuple))


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("jpg", [PartAccess("jpg")]),
        ("seg.png", [PartAccess("seg.png")]),
        ("jpg,png", [PartAccess("jpg"), PartAccess("png")]),
        (" jpg , png ", [PartAccess("jpg"), PartAccess("png")]),
        ("json[caption]", [PartAccess("json", ("caption",))]),
        ("json[a][0][b]", [PartAccess("json", ("a", 0, "b"))]),
        ("json[a][-1]", [PartAccess("json", ("a", -1))]),
        ("detail.json[x],txt", [PartAccess("detail.json", ("x",)), PartAccess("txt")]),
        ('json["0"]', [PartAccess("json", ("0",))]),
        ('json["a]\\"b"]', [PartAccess("json", ('a]"b',))]),
        ("json[007]", [PartAccess("json", ("007",))]),
        ("json[with a blank, and a comma]", [PartAccess("json", ("with a blank, and a comma",))]),
        ('"odd,part[1]"[x]', [PartAccess("odd,part[1]", ("x",))]),
        ("json[a][*][b]", [PartAccess("json", ("a", EVERY_ITEM, "b"))]),
        ("json[*]", [PartAccess("json", (EVERY_ITEM,))]),
        ('json["*"]', [PartAccess("json", ("*",))]),
        ("json[a*]", [PartAccess("json", ("a*",))]),
        ("*.jpg,png", [PartAccess("*.jpg", (), is_pattern=True), PartAccess("png")]),
        ("*", [PartAccess("*", (), is_pattern=True)]),
        ('"odd*part"', [PartAccess("odd*part")]),
        ("子犬[größe]", [PartAccess("子犬", ("größe",))]),
    ],
)
def test_parse_field_path_reads_alternatives_and_steps(text: str, alternatives: list[PartAccess]) -> None:
    assert parse_field_path(text) == FieldPath(tuple(alternatives))


@given(PATHS)
def test_field_path_round_trips_through_text(path: FieldPath) -> None:
    assert parse_field_path(str(path)) == path


@pytest.mark.parametrize(
    "text", ["jpg", "jpg,png", "json[caption]", "json[a][0][b]", "json[a][*][b]", "*.jpg,*.png", "detail.json[x]"]
)
def test_common_field_paths_keep_their_spelling(text: str) -> None:
    assert str(parse_field_path(text)) == text


@pytest.mark.parametrize(
    ("text", "expected", "column", "found"),
    [
        ("", "a part", 1, "the end"),
        ("jpg,", "a part", 5, "the end"),
        (",jpg", "a part", 1, "','"),
        ("[a]", "a part", 1, "'['"),
        ("json[caption", "']'", 13, "the end"),
        ("json[]", "a key", 6, "']'"),
        ("json[a]b", "',' or '['", 8, "'b'"),
        ("json[a]]", "',' or '['", 8, "']'"),
        ("json[a[b]]", "']'", 7, "'['"),
        ('json["a]', "a key", 6, "'\"'"),
        ('json["\\x"]', "a JSON string", 6, "'\"'"),
        ("*.json[caption]", "',', since a pattern takes whole parts", 7, "'['"),
    ],
)
def test_parse_error_has_column_and_expected_token(text: str, expected: str, column: int, found: str) -> None:
    with pytest.raises(DatasetError) as caught:
        parse_field_path(text, where="dataset.yaml")

    assert caught.value.code == "WDS220"
    assert caught.value.where == "dataset.yaml"
    assert f"expected {expected}" in caught.value.message
    assert caught.value.message.endswith(f"at column {column}, found {found}")


@given(st.text(max_size=30))
def test_any_text_is_refused_or_round_trips(text: str) -> None:
    try:
        path = parse_field_path(text)
    except DatasetError:
        return
    assert parse_field_path(str(path)) == path
