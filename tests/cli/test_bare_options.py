from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.cli.app import BARE_OPTION_VALUES, fill_bare_options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["index", "X", "--media"], ["index", "X", "--media", "auto"]),
        (["index", "--media", "--json", "X"], ["index", "--media", "auto", "--json", "X"]),
        (["index", "--media", "-q", "X"], ["index", "--media", "auto", "-q", "X"]),
        (["index", "--media", "my/shards"], ["index", "--media", "auto", "my/shards"]),
        (["index", "--media", "s3://bucket/shards"], ["index", "--media", "auto", "s3://bucket/shards"]),
        (["index", "--media", "."], ["index", "--media", "auto", "."]),
        (["index", "X", "--media", "jpg,mp4"], ["index", "X", "--media", "jpg,mp4"]),
        (["index", "X", "--media", "*.seg.png"], ["index", "X", "--media", "*.seg.png"]),
        (["index", "X", "--media=jpg"], ["index", "X", "--media=jpg"]),
        (["convert", "a", "b", "--media"], ["convert", "a", "b", "--media"]),
        (["convert", "a", "b", "--wait"], ["convert", "a", "b", "--wait", "604800"]),
        (["index", "--wait", "shards"], ["index", "--wait", "604800", "shards"]),
        (["index", "--wait", "2.5", "shards"], ["index", "--wait", "2.5", "shards"]),
        (["index", "--", "--media"], ["index", "--", "--media"]),
        ([], []),
    ],
)
def test_fill_bare_options_inserts_default_values(words: list[str], expected: list[str]) -> None:
    assert fill_bare_options(words) == expected


@given(st.lists(st.sampled_from(["--media", "jpg", "a/b", "--json", "--", "index"])))
def test_fill_bare_options_only_adds_values(words: list[str]) -> None:
    filled = fill_bare_options(words)
    added = len(filled) - len(words)
    assert sorted(filled) == sorted([*words, *[BARE_OPTION_VALUES["--media"]] * added])


@given(st.lists(st.sampled_from(["--media", "jpg", "a/b", "--json", "index"])))
def test_fill_bare_options_is_idempotent(words: list[str]) -> None:
    assert fill_bare_options(fill_bare_options(words)) == fill_bare_options(words)
