from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.blend.scope import Subset, parse_subset, resolve
from wdsctl.core.blend.yaml_tree import from_mapping, from_yaml
from wdsctl.core.errors import DatasetError

SHARES = st.fractions(0, 1, max_denominator=1000)
RANGES = st.one_of(
    st.tuples(SHARES, st.none() | SHARES),
    st.tuples(st.integers(0, 60), st.none() | st.integers(0, 60)),
).map(lambda bounds: Subset(*bounds))


def parse(bounds: Any) -> Subset:
    node = from_mapping({"range": bounds}, "mapping")
    return parse_subset(node, node.location)


@given(st.lists(RANGES, max_size=4), st.integers(0, 200))
def test_resolve_of_nested_subsets_matches_slices(subsets: list[Subset], n: int) -> None:
    remaining = list(range(n))
    fits = True
    for subset in subsets:
        scale = len(remaining) if isinstance(subset.start, Fraction) else 1
        start, stop = floor(subset.start * scale), subset.stop
        end = len(remaining) if stop is None else floor(stop * (len(remaining) if isinstance(stop, Fraction) else 1))
        outside = isinstance(subset.start, int) and start == len(remaining) > 0
        fits = fits and start <= end <= len(remaining) and not outside
        remaining = remaining[start:end]
    if fits:
        start, stop = resolve(subsets, n)
        assert list(range(n))[start:stop] == remaining
    else:
        with pytest.raises(DatasetError, match="past the end"):
            resolve(subsets, n)


@given(
    st.lists(SHARES, max_size=5), st.integers(0, 10**9), RANGES.filter(lambda each: isinstance(each.start, Fraction))
)
def test_adjacent_shares_cover_every_sample_once(cuts: list[Fraction], n: int, inner: Subset) -> None:
    inner = Subset(Fraction(0), inner.start)
    bounds = [Fraction(0), *sorted(cuts), Fraction(1)]

    pieces = [resolve([inner, Subset(a, b)], n) for a, b in pairwise(bounds)]

    assert [start for start, _ in pieces[1:]] == [stop for _, stop in pieces[:-1]]
    assert (pieces[0][0], pieces[-1][1]) == resolve([inner], n)


@pytest.mark.parametrize(
    ("bounds", "n", "expected"),
    [
        (["0%", "100%"], 7, (0, 7)),
        (["50%", "end"], 7, (3, 7)),
        (["12.5%", "25%"], 1000, (125, 250)),
        ([0, 5], 5, (0, 5)),
        ([50, "end"], 120, (50, 120)),
        (["0%", "1%"], 10, (0, 0)),
        ([0, "end"], 0, (0, 0)),
    ],
)
def test_resolve_returns_bounds_of_range(bounds: list[Any], n: int, expected: tuple[int, int]) -> None:
    assert resolve([parse(bounds)], n) == expected


def test_resolve_without_subsets_returns_all_samples() -> None:
    assert resolve([], 12) == (0, 12)


def test_range_past_end_is_refused_with_line_and_count() -> None:
    node = from_yaml("subset:\n  range: [50, 500]\n", "x.yaml")
    subset = parse_subset(node.value["subset"], node.location_of("subset"))

    with pytest.raises(DatasetError, match=r"\[50, 500\] goes past the end, found 120 samples here") as caught:
        resolve([subset], 120)
    assert (caught.value.code, caught.value.where) == ("WDS603", "x.yaml:2")

    with pytest.raises(DatasetError, match="found 600 of 1,000 samples left by the inner ranges"):
        resolve([parse(["40%", "end"]), parse([600, "end"])], 1000)


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ([0.1, 0.5], "expected a position, percent"),
        (["0%", "101%"], "expected a position, percent"),
        ([-1, 5], "expected a position, percent"),
        ([True, 5], "expected a position, percent"),
        (["end", 5], "expected a position, percent"),
        (["5", "10"], "expected a position, percent"),
        ([0, "50%"], "mix positions and percent"),
        ([5, 5], "is empty"),
        (["50%", "20%"], "is empty"),
        (["100%", "end"], "is empty"),
        ([1], "expected two bounds"),
        ([1, 2, 3], "expected two bounds"),
        ("0%", "expected two bounds"),
    ],
)
def test_parse_subset_refuses_invalid_bounds(bounds: Any, why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        parse(bounds)

    assert (caught.value.code, caught.value.where) == ("WDS603", "mapping.range")


@pytest.mark.parametrize(
    ("subset", "why"),
    [
        ("[0, 5]", r"subset: expected \{range: \[a, b\]\}, found a list"),
        ("{}", "subset: expected"),
        ("{ragne: [0, 5]}", "unknown key 'ragne' at line 1; did you mean 'range'"),
        ("{range: [0, 5], step: 2}", "unknown key 'step' at line 1"),
    ],
)
def test_parse_subset_refuses_other_keys(subset: str, why: str) -> None:
    node = from_yaml(subset, "x.yaml")

    with pytest.raises(DatasetError, match=why):
        parse_subset(node, node.location)
