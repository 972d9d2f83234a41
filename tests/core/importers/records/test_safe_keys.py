"""Keys from whatever names rows have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.importers.records.samples import strip_extension
from wdsctl.core.samples.naming import MAX_KEY_BYTES, safe_key, split_name


@given(st.text(max_size=400))
def test_a_key_is_a_key_whatever_it_is_made_of(text: str) -> None:
    key = safe_key(text)

    if key:
        assert split_name(f"{key}.jpg") == (key, "jpg")
        assert not key.startswith("/")
        assert not {"..", ".", ""} & set(key.split("/"))
        assert len(key.encode()) <= MAX_KEY_BYTES
        assert key == safe_key(key)


@given(st.text(st.sampled_from("abc/_-1 é"), max_size=30).filter(lambda text: text.strip("/") == text != ""))
def test_a_key_that_is_fine_stays_as_it_is(text: str) -> None:
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
def test_odd_names_become_keys(text: str, key: str) -> None:
    assert safe_key(text) == key


def test_long_names_are_told_apart_by_a_hash() -> None:
    first, second = safe_key("é" * 500 + "a"), safe_key("é" * 500 + "b")

    assert first != second
    assert first.startswith("é" * 50)


def test_a_stem_is_the_path_without_its_ending() -> None:
    assert [strip_extension(path) for path in ("a/b.c.jpg", "a.b/c", ".x", "x.")] == ["a/b.c", "a.b/c", ".x", "x"]
