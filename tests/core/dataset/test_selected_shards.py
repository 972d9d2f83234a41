from __future__ import annotations

import fnmatch
import itertools
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wdsctl.core.dataset.root_spec import ALL_SHARDS, ShardSelection, glob_to_regex, shard_selection_from_json
from wdsctl.core.errors import UsageError

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
        ("s-[!-b].tar", "s-a.tar", True),
        ("s-[!-b].tar", "s--.tar", False),
        ("s-[!]a].tar", "s-b.tar", True),
        ("s-[!]a].tar", "s-].tar", False),
        ("s[.-0].tar", "s/.tar", False),
    ],
)
def test_single_star_stays_within_folder_and_double_star_does_not(glob: str, path: str, is_match: bool) -> None:
    assert (re.fullmatch(glob_to_regex(glob), path) is not None) is is_match


GLOB_PIECES = ["a", "b", "-", ".", "*", "?", "[", "]", "!", "^", "[!", "[]", "[!]", "[-", "[!-", "[^", "a-b", "[a-b]"]
SHORT_NAMES = ["".join(chars) for length in (1, 2, 3) for chars in itertools.product("ab-.]^", repeat=length)]


@given(st.lists(st.sampled_from(GLOB_PIECES), max_size=6).map("".join))
def test_glob_matches_like_fnmatch_within_folder(glob: str) -> None:
    assume("**" not in glob)
    try:
        actual = {name for name in SHORT_NAMES if ShardSelection(globs=(glob,)).includes(name)}
    except UsageError:  # fnmatch takes a reversed range for an empty one
        assert any(low > high for low, high in re.findall("(?=(.)-(.))", glob))
    else:
        assert actual == set(fnmatch.filter(SHORT_NAMES, glob))


def test_glob_with_reversed_range_is_refused() -> None:
    selection = ShardSelection(globs=("*.tar", "s-[9-0].tar"))

    for use in (lambda: selection.includes("s-1.tar"), lambda: selection.unmatched(["s-1.tar"])):
        with pytest.raises(UsageError, match=r"invalid glob .*s-\[9-0\].tar.*: bad character range"):
            use()
