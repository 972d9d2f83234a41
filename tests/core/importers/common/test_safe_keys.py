"""Keys derived from arbitrary names of rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.samples.naming import MAX_KEY_BYTES, safe_key, split_name, strip_extension


@given(st.text(max_size=400))
def test_safe_key_is_valid_for_any_text(text: str) -> None:
    key = safe_key(text)

    if key:
        assert split_name(f"{key}.jpg") == (key, "jpg")
        assert not key.startswith("/")
        assert not {"..", ".", ""} & set(key.split("/"))
        assert len(key.encode()) <= MAX_KEY_BYTES
        assert key == safe_key(key)


@given(st.text(st.sampled_from("abc/_-1 é"), max_size=30).filter(lambda text: text.strip("/") == text != ""))
def test_safe_key_keeps_valid_keys(text: str) -> None:
    if "//" not in text and not text.startswith("__"):
        assert safe_key(text) == text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a/b.c.jpg", "a/b_c_jpg"),
        ("../../etc/passwd", "_/__/etc/passwd"),
        ("/abs/x", "abs/x"),
        ("a.b/c", "a.b/c"),
        ("x\ny\0", "x_y_"),
        ("__meta__", "_meta__"),
        ("", ""),
        ("///", ""),
    ],
)
def test_safe_key_replaces_invalid_characters(text: str, key: str) -> None:
    assert safe_key(text) == key


def test_safe_key_shortens_long_text_to_most_bytes_of_a_key() -> None:
    assert [len(safe_key("a" * size)) for size in (MAX_KEY_BYTES, MAX_KEY_BYTES + 1)] == [MAX_KEY_BYTES] * 2


def test_safe_key_distinguishes_long_names_by_hash() -> None:
    first, second = safe_key("é" * 500 + "a"), safe_key("é" * 500 + "b")

    assert first != second
    assert first.startswith("é" * 50)


def test_strip_extension_removes_last_extension() -> None:
    assert [strip_extension(path) for path in ("a/b.c.jpg", "a.b/c", ".x", "x.")] == ["a/b.c", "a.b/c", ".x", "x"]
