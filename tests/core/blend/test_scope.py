from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.blend.scope import Scope, Subset, child_scope, combine_multipliers
from wdsctl.core.blend.yaml_tree import from_mapping
from wdsctl.core.errors import DatasetError

MULTIPLIERS = st.none() | st.just(-1) | st.integers(1, 9)
TOP = Scope("/data", "train", 1)


def make_child(parent: Scope, **keys: Any) -> Scope:
    return child_scope(parent, from_mapping(keys, "mapping"))


@given(st.lists(MULTIPLIERS, min_size=1))
def test_combine_multipliers_prefers_none_then_replacement_then_product(levels: list[int | None]) -> None:
    result: int | None = 1
    for level in levels:
        result = combine_multipliers(result, level)

    product = 1
    for level in levels:
        product *= level or 1
    assert result == (None if None in levels else -1 if -1 in levels else product)


def test_child_scope_inherits_unset_values() -> None:
    parent = make_child(TOP, split_part="val", shuffle_over_epochs_multiplier=2)

    assert (make_child(parent).split_part, make_child(parent).multiplier) == ("val", 2)
    assert make_child(parent, shuffle_over_epochs_multiplier=3).multiplier == 6
    assert make_child(parent, shuffle_over_epochs_multiplier=None).multiplier is None


def test_outer_subflavors_override_inner() -> None:
    parent = make_child(make_child(TOP, subflavors={"a": 1, "b": 1}), subflavors={"b": 2, "c": {"d": 2}})

    assert parent.subflavors == {"a": 1, "b": 1, "c": {"d": 2}}


def test_tags_of_energon_8_are_subflavors() -> None:
    parent = make_child(make_child(TOP, subflavors={"a": 1, "b": 1}), tags={"b": 2, "c": 3})

    assert parent.subflavors == {"a": 1, "b": 1, "c": 3}
    with pytest.raises(DatasetError, match="two names of the same key"):
        make_child(TOP, tags={"a": 1}, subflavors={"a": 1})


def test_v1_subflavor_becomes_reserved_subflavor() -> None:
    assert make_child(TOP, subflavor="x", subflavors={"a": 1}).subflavors == {"__subflavor__": "x", "a": 1}


def test_child_scope_lists_inner_subset_first() -> None:
    parent = make_child(make_child(TOP, subset={"range": ["0%", "50%"]}), subset={"range": [0, 5]})

    assert parent.subsets == (Subset(0, 5), Subset(Fraction(0), Fraction(1, 2)))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"split_part": ""}, "split_part: expected text, found ''"),
        ({"split_part": "a\0b"}, "split_part: expected text"),
        ({"split_part": "\ud800"}, "split_part: expected text"),
        ({"split_part": 5}, "split_part: expected text, found 5"),
        ({"subflavors": ["a"]}, "subflavors: expected a mapping, found a list"),
        ({"shuffle_over_epochs_multiplier": 0}, "expected a whole number, found 0"),
        ({"shuffle_over_epochs_multiplier": -2}, "expected a whole number, found -2"),
        ({"shuffle_over_epochs_multiplier": 1.5}, "expected a whole number, found 1.5"),
        ({"shuffle_over_epochs_multiplier": True}, "expected a whole number, found True"),
    ],
)
def test_child_scope_refuses_wrong_types_with_key(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(DatasetError, match=why) as caught:
        make_child(TOP, **keys)

    assert caught.value.where == f"mapping.{next(iter(keys))}"
