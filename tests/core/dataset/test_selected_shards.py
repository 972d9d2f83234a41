from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection, glob_to_regex, shard_selection_from_json

SELECTION = ShardSelection(globs=("val/**/*.tar",), braces=("a-{0..2}.tar",), names=("odd{1,2}.tar",))


def test_shard_selection_includes_names_ranges_and_globs_only() -> None:
    paths = ["a-1.tar", "a-3.tar", "val/x.tar", "val/deep/er/x.tar", "odd{1,2}.tar", "odd1.tar", "x/val/x.tar"]

    assert [path for path in paths if SELECTION.includes(path)] == ["a-1.tar", *paths[2:5]]
    assert all(ALL_SHARDS.includes(path) for path in paths)
    assert SELECTION.unmatched(["a-1.tar", "odd{1,2}.tar"]) == ["glob:val/**/*.tar", "a-0.tar", "a-2.tar"]


@pytest.mark.parametrize("selection", [SELECTION, ALL_SHARDS, ShardSelection(names=("a\n.tar", "ü.tar"))])
def test_shard_selection_round_trips_through_json(selection: ShardSelection) -> None:
    assert shard_selection_from_json(selection.to_json()) == selection
    assert shard_selection_from_json(None) == ALL_SHARDS


@pytest.mark.parametrize(
    ("glob", "path", "is_match"),
    [
        ("*.tar", "a.tar", True),
        ("*.tar", "b/a.tar", False),
        ("**/*.tar", "a.tar", True),
        ("**/*.tar", "b/c/a.tar", True),
        ("a**", "a/b/c", True),
        ("s-[0-3]?.tar", "s-29.tar", True),
        ("s-[!0-3].tar", "s-2.tar", False),
        ("s-[!0-3].tar", "s-/.tar", False),
        ("s[.tar", "s[.tar", True),
        ("s-[^a].tar", "s-^.tar", True),
    ],
)
def test_single_star_stays_within_folder_and_double_star_does_not(glob: str, path: str, is_match: bool) -> None:
    assert (re.fullmatch(glob_to_regex(glob), path) is not None) is is_match


@given(st.text("ab*?[]!-.", max_size=8), st.text("ab-.]", max_size=5))
def test_glob_matches_like_fnmatch_within_folder(glob: str, name: str) -> None:
    if "**" not in glob:
        try:
            expected = fnmatch.fnmatchcase(name, glob)
        except re.error:
            return
        if "[" not in glob:
            assert (re.fullmatch(glob_to_regex(glob), name) is not None) is expected
