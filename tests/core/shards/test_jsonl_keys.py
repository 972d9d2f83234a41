from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.shards.jsonl_keys import JsonlKeyRule, build_numbered_keys, read_key_field


@given(st.integers(0, 30_000), st.sampled_from([b"", b"a/b/"]))
def test_build_numbered_keys_formats_numbers_like_str(count: int, prefix: bytes) -> None:
    blob, sizes = build_numbered_keys(prefix, count)
    expected = [prefix + str(i).encode() for i in range(count)]
    assert blob == b"".join(expected)
    assert sizes.tolist() == [len(key) for key in expected]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"id": "a/1"}', "a/1"),
        (b'{"id": 12}', "12"),
        (b'{"id": "\xc3\xa9"}', "é"),
        (b'{"id": 1.5}', None),
        (b'{"id": false}', None),
        (b'{"id": {}}', None),
        (b'{"id": "a\\u0000b"}', None),
        (b"[1]", None),
        (b'{"id": "a\xff"}', None),
        (b"[" * 100_000, None),
    ],
)
def test_read_key_field_accepts_text_and_integers(line: bytes, key: str | None) -> None:
    assert read_key_field(line, "id") == key


def test_key_prefix_is_path_without_extension() -> None:
    assert JsonlKeyRule().prefix("a/b.v2.jsonl") == "a/b.v2/"
    assert JsonlKeyRule(is_single_file=True).prefix("b.jsonl") == ""
