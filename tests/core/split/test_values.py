from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.split.values import parse_value_spec


@pytest.mark.parametrize(
    ("spec", "data", "value"),
    [
        ("json:a", b'{"a": "x"}', "x"),
        ("json:a", b'{"a": 1}', "1"),
        ("json:a", b'{"a": "1"}', "1"),
        ("json:a", b'{"a": true}', "true"),
        ("json:a", b'{"a": [1, {"b": 2}]}', '[1, {"b": 2}]'),
        ("json:a.b", b'\xef\xbb\xbf{"a": {"b": "\xc3\xa9"}}', "é"),
        ("part:meta.json[a][0]", b'{"a": ["x"]}', "x"),
        ("part:json[0]", b"[5]", "5"),
        ("part:cls", b" 12\n", "12"),
        ("json:a", b'{"a": null}', None),
        ("json:a", b'{"b": 1}', None),
        ("json:a", b"[1]", None),
        ("json:a.b", b'{"a": "x"}', None),
        ("json:a", b"{", None),
        ("json:a", b"\xff", None),
        ("part:cls", b"  ", None),
        ("part:jpg,cls", b"7", "7"),
        ("json:a", b"[" * 100_000, None),
    ],
)
def test_value_from_part_returns_value_or_none(spec: str, data: bytes, value: str | None) -> None:
    parsed = parse_value_spec(spec)
    assert parsed.value_from_part(list(parsed.steps_by_part)[-1], data) == value


def test_value_of_part_that_is_no_text_is_hash_of_its_bytes() -> None:
    spec = parse_value_spec("part:jpg")
    values = [spec.value_from_part("jpg", data) for data in (b"\xff\xd8 1", b"\xff\xd8 2", b"\xff\xd8 1")]
    assert values[0] == values[2] != values[1]


@pytest.mark.parametrize(
    ("spec", "key", "value"),
    [
        ("key:^([^/]+)/", "film1/003", "film1"),
        ("key:^[^/]+", "film1/003", "film1"),
        ("key:(a)|b", "b", None),
        ("key:x", "film1/003", None),
    ],
)
def test_value_from_key_returns_value_or_none(spec: str, key: str, value: str | None) -> None:
    assert parse_value_spec(spec).value_from_key(key) == value


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "json",
        "json:",
        "json:a..b",
        "json:a[b]",
        "part:a,",
        "part:a,a",
        "part:a[",
        "part:*.json",
        "part:json[a][*]",
        "key:(",
        "x:y",
    ],
)
def test_parse_value_spec_refuses_invalid_spec(spec: str) -> None:
    with pytest.raises(UsageError):
        parse_value_spec(spec)
