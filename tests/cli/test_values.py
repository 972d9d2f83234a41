from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.cli import options
from wdsctl.core.errors import UsageError
from wdsctl.core.invocation import parse_part_names
from wdsctl.core.prepare.request import parse_field_map
from wdsctl.core.samples.field_map import format_field_map_text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1GiB", 1 << 30),
        ("1gib", 1 << 30),
        ("500MB", 500_000_000),
        ("64k", 64 << 10),
        ("64 KiB", 64 << 10),
        ("64kB", 64_000),
        ("1.5G", 3 << 29),
        ("1073741824", 1 << 30),
        ("10B", 10),
        ("9007199254740993", 9_007_199_254_740_993),
    ],
)
def test_parse_size_option_uses_units_of_gnu_tools(text: str, size_bytes: int) -> None:
    assert options.parse_size_option(text) == size_bytes


@pytest.mark.parametrize("text", ["", "big", "-1", "0", "0.1B", "1XB", "1iB", "1 2", "GiB", "1e9"])
def test_parse_size_option_refuses_invalid_sizes(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        options.parse_size_option(text)


def test_parse_part_names_accepts_leading_dot() -> None:
    assert parse_part_names("jpg, .seg.png") == ("jpg", "seg.png")
    assert parse_part_names("") == ()
    with pytest.raises(UsageError):
        parse_part_names("jpg,,txt")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("image=jpg,caption=txt", {"image": "jpg", "caption": "txt"}),
        ("image=jpg,png,caption=json[caption]", {"image": "jpg,png", "caption": "json[caption]"}),
        (' {"image": "jpg", "caption": "json[a=b]"}', {"image": "jpg", "caption": "json[a=b]"}),
    ],
)
def test_parse_field_map_accepts_pairs_and_json(text: str, fields: dict[str, str]) -> None:
    assert parse_field_map(text) == fields


@pytest.mark.parametrize(
    "text", ["jpg", "=jpg", "image=", "image=jpg,image=png", "image=jpg,,", "{", '{"a": 1}', "{}x"]
)
def test_parse_field_map_refuses_invalid_text(text: str) -> None:
    with pytest.raises(UsageError):
        parse_field_map(text)


PATHS = ["jpg", "jpg,png", "json[caption]", "json[a][0],txt", '"a,b"[x]', 'json["a=b"]']


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.sampled_from(PATHS)))
def test_format_field_map_text_round_trips(fields: dict[str, str]) -> None:
    assert parse_field_map(format_field_map_text(fields)) == fields
