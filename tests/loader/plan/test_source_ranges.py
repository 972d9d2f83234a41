"""The source ranges of a component, and their digests."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from wdsctl.core.blend import BlendComponent, Leaf, RepeatedLeaf
from wdsctl.core.errors import InputError
from wdsctl.loader.plan.components import SourceRange, component_data_digest, component_digest, open_source_ranges


def make_component(**repetitions: str) -> BlendComponent:
    leaves = tuple(
        RepeatedLeaf(Leaf(path=path, split_part="train"), Fraction(times)) for path, times in repetitions.items()
    )
    return BlendComponent(Fraction(1), leaves, 1)


def open_source(leaf: Leaf) -> Any:
    """A source with ten samples per letter of its path."""
    return SimpleNamespace(n=10 * len(leaf.path), digest=leaf.path)


def test_source_ranges_repeat_leaf_by_whole_and_partial_times() -> None:
    pieces = open_source_ranges(make_component(a="1", bb="3/2"), open_source)

    assert [(piece.first_position, piece.positions, piece.samples) for piece in pieces] == [(0, 10, 10), (0, 20, 30)]


def test_leaf_with_zero_repetitions_is_not_opened() -> None:
    names: list[str] = []

    def record_open(leaf: Leaf) -> Any:
        names.append(leaf.path)
        return open_source(leaf)

    open_source_ranges(make_component(a="0", b="1"), record_open)

    assert names == ["b"]


def test_component_without_samples_is_refused_with_paths() -> None:
    with pytest.raises(InputError, match="no samples") as raised:
        open_source_ranges(make_component(a="0", b="1/100"), open_source)

    assert (raised.value.code, raised.value.where) == ("WDS211", "a, b")


def test_component_digest_depends_on_position_and_data_digest_does_not() -> None:
    source = open_source(Leaf(path="a", split_part="train"))
    pieces, fewer = [SourceRange(source, 0, 10, 10)], [SourceRange(source, 0, 9, 9)]

    # Golden values: states contain both, and seeds derive from the first.
    assert component_data_digest(pieces) == "0b567a1c01b9f8b6ab9011249eb494aa"
    assert component_digest(pieces, 0) == "4ad9b43d"
    assert len({component_digest(pieces, 0), component_digest(pieces, 1), component_digest(fewer, 0)}) == 3
    assert component_data_digest(pieces) != component_data_digest(fewer)
