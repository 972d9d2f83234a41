"""Which samples of which sources an arm reads, and what that is called."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from wdsctl.core.blend import BlendComponent, Leaf, RepeatedLeaf
from wdsctl.core.errors import InputError
from wdsctl.loader.plan.components import SourceRange, component_data_digest, component_digest, open_source_ranges


def an_arm(**repetitions: str) -> BlendComponent:
    stretches = tuple(
        RepeatedLeaf(Leaf(path=path, split_part="train"), Fraction(times)) for path, times in repetitions.items()
    )
    return BlendComponent(Fraction(1), stretches, 1)


def opened(leaf: Leaf) -> Any:
    """A source of ten samples a letter of its name."""
    return SimpleNamespace(n=10 * len(leaf.path), digest=leaf.path)


def test_a_stretch_comes_as_often_as_its_repetitions_say_the_last_time_in_part() -> None:
    pieces = open_source_ranges(an_arm(a="1", bb="3/2"), opened)

    assert [(piece.first_position, piece.positions, piece.samples) for piece in pieces] == [(0, 10, 10), (0, 20, 30)]


def test_what_never_comes_is_not_opened() -> None:
    names: list[str] = []

    def noted(leaf: Leaf) -> Any:
        names.append(leaf.path)
        return opened(leaf)

    open_source_ranges(an_arm(a="0", b="1"), noted)

    assert names == ["b"]


def test_an_arm_without_samples_is_refused_by_what_it_was_to_read() -> None:
    with pytest.raises(InputError, match="no samples") as raised:
        open_source_ranges(an_arm(a="0", b="1/100"), opened)

    assert (raised.value.code, raised.value.where) == ("WDS211", "a, b")


def test_data_has_one_name_wherever_it_stands_and_an_arm_another_one_at_each_place() -> None:
    source = opened(Leaf(path="a", split_part="train"))
    pieces, fewer = [SourceRange(source, 0, 10, 10)], [SourceRange(source, 0, 9, 9)]

    # Golden: states have these, and seeds are made of the first.
    assert component_data_digest(pieces) == "0b567a1c01b9f8b6ab9011249eb494aa"
    assert component_digest(pieces, 0) == "4ad9b43d"
    assert len({component_digest(pieces, 0), component_digest(pieces, 1), component_digest(fewer, 0)}) == 3
    assert component_data_digest(pieces) != component_data_digest(fewer)
