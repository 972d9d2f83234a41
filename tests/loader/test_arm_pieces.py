"""Which samples of which sources an arm reads, and what that is called."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from wdsctl.core.blend_file import Arm, Leaf, Stretch
from wdsctl.core.errors import InputError
from wdsctl.loader.arm_pieces import arm_digest, data_digest, pieces_of
from wdsctl.loader.arms import Piece


def an_arm(**repetitions: str) -> Arm:
    stretches = tuple(
        Stretch(Leaf(path=path, split_part="train"), Fraction(times)) for path, times in repetitions.items()
    )
    return Arm(Fraction(1), stretches, 1)


def opened(leaf: Leaf) -> Any:
    """A source of ten samples a letter of its name."""
    return SimpleNamespace(n=10 * len(leaf.path), digest=leaf.path)


def test_a_stretch_comes_as_often_as_its_repetitions_say_the_last_time_in_part() -> None:
    pieces = pieces_of(an_arm(a="1", bb="3/2"), opened)

    assert [(piece.first, piece.n, piece.samples) for piece in pieces] == [(0, 10, 10), (0, 20, 30)]


def test_what_never_comes_is_not_opened() -> None:
    names: list[str] = []

    def noted(leaf: Leaf) -> Any:
        names.append(leaf.path)
        return opened(leaf)

    pieces_of(an_arm(a="0", b="1"), noted)

    assert names == ["b"]


def test_an_arm_without_samples_is_refused_by_what_it_was_to_read() -> None:
    with pytest.raises(InputError, match="no samples") as raised:
        pieces_of(an_arm(a="0", b="1/100"), opened)

    assert (raised.value.code, raised.value.where) == ("WDS211", "a, b")


def test_data_has_one_name_wherever_it_stands_and_an_arm_another_one_at_each_place() -> None:
    source = opened(Leaf(path="a", split_part="train"))
    pieces, fewer = [Piece(source, 0, 10, 10)], [Piece(source, 0, 9, 9)]

    # Golden: states have these, and seeds are made of the first.
    assert data_digest(pieces) == "0b567a1c01b9f8b6ab9011249eb494aa"
    assert arm_digest(pieces, 0) == "4ad9b43d"
    assert len({arm_digest(pieces, 0), arm_digest(pieces, 1), arm_digest(fewer, 0)}) == 3
    assert data_digest(pieces) != data_digest(fewer)
